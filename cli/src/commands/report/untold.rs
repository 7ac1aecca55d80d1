//! Why nothing is known of how busy a job kept its GPUs.

use protocol::wire::parse_grant;
use protocol::{Grant, TaskDevices};
use site_config::{NodeSpec, SiteConfig};

use super::record::Record;

/// A reason that lies in what the job got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Untold {
    /// Instances of GPUs whose driver does not count for them.
    Instances,
    /// Other jobs could compute on the same device.
    Shared,
}

impl Untold {
    /// As the report says it.
    pub(super) fn why(self) -> &'static str {
        match self {
            Self::Instances => "not known: before the H100, the driver does not report it for instances",
            Self::Shared => "not known: the driver does not report one job's part of a shared device",
        }
    }
}

/// The reason, for a job whose memory was sampled and whose utilisation was not; `None` where there is none, or what the job got
/// cannot be read.
pub(super) fn untold(job: &Record, config: Option<&SiteConfig>) -> Option<Untold> {
    if job.busy_percent.is_some() || job.memory_mib.is_none() {
        return None;
    }
    let reason = |(node, grant): (&str, &str)| of(grant, config?.node(node)?);
    job.started.as_ref()?.parts().find_map(reason)
}

fn of(grant: &str, spec: &NodeSpec) -> Option<Untold> {
    let model = |gpu: geometry::GpuIndex| spec.gpus.get(usize::from(gpu.0)).copied();
    let grant = parse_grant(grant, &model).ok()?.grant;
    let counts = |gpu| model(gpu)?.counts_for_instances();
    match grant {
        Grant::Whole(_) => None,
        Grant::Tasks(tasks) if matches!(tasks.on, TaskDevices::Own { .. }) => None,
        Grant::Mig(_) => {
            grant.gpus().into_iter().any(|gpu| counts(gpu) == Some(false)).then_some(Untold::Instances)
        }
        Grant::Compute { .. } | Grant::Mps { .. } | Grant::Tasks(_) => Some(Untold::Shared),
    }
}
