//! `--gpu-power=auto`: the cap of a job that has its GPUs alone (Problem 2), from the node's power model and the counters of the
//! application that the job names.

use power_cap::choose_alone;
use site_config::SiteConfig;

use crate::view::CapOf;

/// A cap and why, or why there is none: for the job's user.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AutoCap {
    /// W; `None`: the job runs without a cap of its own.
    pub(crate) cap_w: Option<u16>,
    /// The end of a sentence about the job's place.
    pub(crate) why: String,
}

/// The cap of a request on nodes of one set; `None`: it asks for none.
pub(super) fn of_request(of: CapOf<'_>, spec: usize, config: &SiteConfig) -> Option<AutoCap> {
    if !of.request.auto_cap {
        return None;
    }
    let chosen = choose(of, spec, config);
    let none = |why| AutoCap { cap_w: None, why: format!("without a power cap: {why}") };
    Some(chosen.unwrap_or_else(none))
}

fn choose(of: CapOf<'_>, spec: usize, config: &SiteConfig) -> Result<AutoCap, String> {
    let request = of.request;
    let app = request.job_profile.as_deref().ok_or("--gpu-app names no application")?;
    let spec = config.nodes.get(spec).ok_or("the node is not known")?;
    let model = spec.power.model.as_deref().ok_or("the node has no power model")?;
    let features = config.power.features(model.inputs(), app, &request.counters)?;
    let slices = spec.gpus.first().map_or(1, |gpu| gpu.compute_slices);
    let keeps = site_limits::alpha(config, of.partition).max(config.power.auto_keeps);
    let alone = choose_alone(model, slices, &features, keeps, config.power.guard)
        .map_err(|e| format!("{app}: {e}"))?;
    let cap_w = u16::try_from(alone.cap.watts()).map_err(|e| e.to_string())?;
    let percent = (alone.rperf * 100.0).round();
    Ok(AutoCap {
        cap_w: Some(cap_w),
        why: format!("{app} is predicted to keep {percent:.0} % of its speed at {cap_w} W"),
    })
}
