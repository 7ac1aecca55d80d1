//! Whether the site's power budgets could ever leave what a job needs.

use placement::Need;
use protocol::Request;
use site_config::{NodeSpec, SiteConfig};
use site_limits::{Submission, budgets_of};

/// Why no node of these sets could ever give a job so many whole GPUs within its power budgets; `None`: one could.
pub(crate) fn never(
    request: &Request,
    gpus: u32,
    job: &Submission,
    specs: &[&NodeSpec],
    config: &SiteConfig,
) -> Option<String> {
    // The most efficient cap of a job depends on its node.
    if config.power_budgets.is_empty() || request.auto_cap {
        return None;
    }
    let budgets = budgets_of(config);
    let gpus = usize::try_from(gpus).unwrap_or(usize::MAX);
    let need = Need { gpus, whole: true, asked_w: request.cap_w, fixed: false };
    let mut why = None;
    for name in specs.iter().flat_map(|spec| &spec.names).filter(|name| job.reaches(name)) {
        match budgets.has_room(name, need) {
            Ok(()) => return None,
            Err(short) => why = why.or(Some(short)),
        }
    }
    why.map(|short| format!("{short}, even without other jobs"))
}
