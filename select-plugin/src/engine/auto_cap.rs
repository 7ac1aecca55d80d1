//! `--gpu-power=auto`: the cap of a job that has its GPUs alone (Problem 2), from the node's power model and the counters of the
//! application that the job names.

use power::{CounterTable, Features, Model, choose_alone};
use protocol::{AppCounters, Request};
use site_config::SiteConfig;

/// A cap and why, or why there is none: for the job's user.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AutoCap {
    /// W; `None`: the job runs without a cap of its own.
    pub(crate) cap_w: Option<u16>,
    /// The end of a sentence about the job's place.
    pub(crate) why: String,
}

/// The cap of a request on nodes of one set; `None`: it asks for none.
pub(super) fn of_request(request: &Request, spec: usize, config: &SiteConfig) -> Option<AutoCap> {
    if !request.auto_cap {
        return None;
    }
    let chosen = choose(request, spec, config);
    let none = |why| AutoCap { cap_w: None, why: format!("without a power cap: {why}") };
    Some(chosen.unwrap_or_else(none))
}

fn choose(request: &Request, spec: usize, config: &SiteConfig) -> Result<AutoCap, String> {
    let app = request.job_profile.as_deref().ok_or("--gpu-profile names no application")?;
    let spec = config.nodes.get(spec).ok_or("the node is not known")?;
    let model = spec.power.model.as_deref().ok_or("the node has no power model")?;
    let features = features(model, app, config.power.counters.as_deref(), &request.counters)?;
    let slices = spec.gpus.first().map_or(1, |gpu| gpu.compute_slices);
    let alone = choose_alone(model, slices, &features, config.power.alpha, config.power.guard)
        .map_err(|e| format!("{app}: {e}"))?;
    let cap_w = u16::try_from(alone.cap.watts()).map_err(|e| e.to_string())?;
    let percent = (alone.rperf * 100.0).round();
    Ok(AutoCap {
        cap_w: Some(cap_w),
        why: format!("{app} is predicted to keep {percent:.0} % of its speed at {cap_w} W"),
    })
}

/// F1 to F8 of an application: the site's, else the user's.
fn features(
    model: &Model,
    app: &str,
    site: Option<&CounterTable>,
    user: &[AppCounters],
) -> Result<Features, String> {
    let none = || CounterTable::default().features(model.gpu(), model.source(), app, model.basis());
    let known = site.map_or_else(none, |site| site.features(model.gpu(), model.source(), app, model.basis()));
    let why = match known {
        Ok(features) => return Ok(features),
        Err(why) => why.to_string(),
    };
    let own = user.iter().find(|one| one.gpu() == model.gpu() && one.source() == model.source());
    let Some(own) = own else { return Err(why) };
    let mut features = [0.0; 8];
    for (at, (to, from)) in features.iter_mut().zip(own.percent()).enumerate() {
        match from {
            Some(value) => *to = value,
            None if model.basis().needs(at) => {
                return Err(format!("your counters of {app} have no f{}", at + 1));
            }
            None => {}
        }
    }
    Ok(features)
}
