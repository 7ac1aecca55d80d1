//! Limits of a job's GPU memory, and the level that enforces them.

use geometry::counted;
use geometry::size::display_gb;
use node_jobs::MemoryLevel;
use node_jobs::memory_level::of_each_process;
use protocol::{Grant, Isolation, Request, TaskDevices};
use site_config::{MemoryLimit, SiteConfig};

/// The level on some nodes, and what each process may take there.
pub(super) struct ExplainedMemory {
    pub(super) level: MemoryLevel,
    /// `None` for an instance or a whole GPU of the job's own: its memory ends by itself.
    what: Option<String>,
}

impl ExplainedMemory {
    /// Returns what holds a job with this grant to its memory. `tasks` is the number of tasks on a node, if the user names it;
    /// `by_kernel`: the site says that the nodes' kernel can.
    pub(super) fn of(
        grant: &Grant,
        request: &Request,
        limit: MemoryLimit,
        by_kernel: bool,
        tasks: Option<u32>,
    ) -> Self {
        match grant {
            Grant::Mps { mem_mib, threads, .. } => {
                let held = limit == MemoryLimit::Mps;
                let each = |n: u32| {
                    let each = display_gb(of_each_process(*mem_mib, u64::from(n)));
                    let sms =
                        if n > 1 { format!(", and {threads} % of the SMs for each") } else { String::new() };
                    format!("{each} for each of {} on a node{sms}", counted(n, "task"))
                };
                let equal = || "equal parts for the job's tasks on a node".to_owned();
                let what = tasks.filter(|n| *n > 0).map_or_else(equal, each);
                Self { level: MemoryLevel::of_share(held).fenced(by_kernel && held), what: Some(what) }
            }
            Grant::Compute { mem_mib, .. } => {
                let what = format!("{} of the instance's memory", display_gb(*mem_mib));
                Self { level: MemoryLevel::Counted.fenced(by_kernel), what: Some(what) }
            }
            Grant::Tasks(tasks) => {
                let preloaded = !matches!(request.isolation, Isolation::Tasks { probes: true });
                let what = request.mem_mib.map(|mib| format!("{} for each process", display_gb(mib)));
                let fenced = by_kernel && preloaded && what.is_some() && on_one_shared_gpu(&tasks.on);
                Self { level: MemoryLevel::of_tasks(preloaded).fenced(fenced), what }
            }
            Grant::Mig(_) | Grant::Whole(_) => Self { level: MemoryLevel::Hardware, what: None },
        }
    }

    /// Returns the line for the terminal, in the words of the job's log.
    pub(super) fn line(&self) -> Option<String> {
        let Self { level, what } = self;
        what.as_ref().map(|what| format!("memory: {what} ({level})"))
    }
}

/// Tells whether the tasks share one GPU. Their job can take as much of each of several.
fn on_one_shared_gpu(devices: &TaskDevices) -> bool {
    let TaskDevices::Pool(places) = devices else { return false };
    places.windows(2).all(|two| two[0].on.gpu() == two[1].on.gpu())
}

/// Tells whether the site says of all these nodes that their kernel can hold shares to their memory.
pub(super) fn has_fence(config: &SiteConfig, names: &[String]) -> bool {
    names.iter().all(|name| config.node(name).is_some_and(|spec| spec.memory_fence))
}

#[cfg(test)]
mod tests {
    use geometry::GpuIndex;
    use protocol::wire::parse_request;
    use protocol::{PoolSeats, ShareOn, TaskGrant};

    use super::*;

    fn level(grant: &Grant, request: &str, limit: MemoryLimit, by_kernel: bool) -> String {
        ExplainedMemory::of(grant, &parse_request(request).unwrap(), limit, by_kernel, None).level.to_string()
    }

    #[test]
    fn the_kernel_holds_shares_where_the_site_says_so() {
        let share = Grant::Mps { on: ShareOn::Gpu(GpuIndex(0)), mem_mib: 2862, threads: 25 };
        let of = |limit, by_kernel| level(&share, "v1 iso=mps mem=2862", limit, by_kernel);
        assert_eq!(of(MemoryLimit::Mps, true), "kernel");
        assert_eq!(of(MemoryLimit::Mps, false), "MPS, cooperative");
        assert_eq!(of(MemoryLimit::Advisory, true), "counted", "the site wants no limit");
        let seats = |gpu| PoolSeats { on: ShareOn::Gpu(GpuIndex(gpu)), seats: 2 };
        let tasks = |gpus: &[u16], probes| {
            let on = TaskDevices::Pool(gpus.iter().copied().map(seats).collect());
            Grant::Tasks(TaskGrant { on, mem_mib: Some(2862), probes })
        };
        let of = |grant: &Grant, request: &str| level(grant, request, MemoryLimit::Mps, true);
        assert_eq!(of(&tasks(&[0], false), "v1 iso=tasks mem=2862"), "kernel");
        assert_eq!(of(&tasks(&[0, 1], false), "v1 iso=tasks mem=2862"), "library, cooperative");
        assert_eq!(of(&tasks(&[0], true), "v1 iso=tasks:probes mem=2862"), "counted");
        assert_eq!(of(&Grant::Whole(vec![GpuIndex(0)]), "v1 iso=whole"), "hardware");
    }
}
