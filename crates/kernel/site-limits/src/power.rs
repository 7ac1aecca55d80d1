//! The site's power budgets.

use placement::Budgets;
use site_config::SiteConfig;
use topology::GpuSet;

/// The site's budgets without jobs.
#[must_use]
pub fn budgets_of(config: &SiteConfig) -> Budgets {
    let nodes = config.nodes.iter().filter_map(|spec| Some((spec, spec.power.range()?)));
    let named = nodes.flat_map(|(spec, range)| {
        let unseen: GpuSet = spec.left_to_slurm().into_iter().collect();
        spec.names.iter().map(move |name| (name.as_str(), spec.gpus.len(), unseen, range))
    });
    Budgets::new(&config.power_budgets, named)
}
