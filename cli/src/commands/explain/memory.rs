//! What holds a job to its GPU memory.

use geometry::counted;
use geometry::size::display_gb;
use protocol::memory_level::of_each_process;
use protocol::{Grant, Isolation, MemoryLevel, Request};
use site_config::MemoryLimit;

/// Returns the line on what holds the job to its memory, in the words of its log. `tasks` is the number of tasks on a node, where
/// the user names it. An instance or a whole GPU of the job's own has no line: its memory ends by itself.
pub(super) fn line(
    grant: Option<&Grant>,
    request: &Request,
    limit: MemoryLimit,
    tasks: Option<u32>,
) -> Option<String> {
    let (level, what) = match grant? {
        Grant::Mps { mem_mib, .. } => {
            let level = MemoryLevel::of_share(limit == MemoryLimit::Mps);
            let each = |n: u32| {
                let each = display_gb(of_each_process(*mem_mib, u64::from(n)));
                format!("{each} for each of {} on a node", counted(n, "task"))
            };
            let equal = || "equal parts for the job's tasks on a node".to_owned();
            (level, tasks.filter(|n| *n > 0).map_or_else(equal, each))
        }
        Grant::Compute { mem_mib, .. } => {
            (MemoryLevel::Counted, format!("{} of the instance's memory", display_gb(*mem_mib)))
        }
        Grant::Tasks(_) => {
            let preloaded = !matches!(request.isolation, Isolation::Tasks { probes: true });
            let each = request.mem_mib.map(|mib| format!("{} for each process", display_gb(mib)));
            (MemoryLevel::of_tasks(preloaded), each?)
        }
        Grant::Mig(_) | Grant::Whole(_) => return None,
    };
    Some(format!("memory: {what} ({level})"))
}
