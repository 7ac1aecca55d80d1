//! The site's power budgets.

use geometry::GpuIndex;
use placement::Budgets;
use site_config::{GpuUse, SiteConfig};
use topology::GpuSet;

/// The site's budgets without jobs.
#[must_use]
pub fn budgets_of(config: &SiteConfig) -> Budgets {
    let nodes = config.nodes.iter().filter_map(|spec| Some((spec, spec.power.range()?)));
    let named = nodes.flat_map(|(spec, range)| {
        let numbered = (0_u16..).map(GpuIndex).zip(&spec.uses);
        let unseen: GpuSet =
            numbered.filter(|(_, of)| **of == GpuUse::Slurm).map(|(number, _)| number).collect();
        spec.names.iter().map(move |name| (name.as_str(), spec.gpus.len(), unseen, range))
    });
    Budgets::new(&config.power_budgets, named)
}
