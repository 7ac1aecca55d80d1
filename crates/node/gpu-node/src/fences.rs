//! Limits of jobs' control groups for GPU memory that are not in force.

use std::fs;

use geometry::size::display_gb;
use node_jobs::Settings;
use node_jobs::fence::{MAX, missing};
use node_journal::{Entry, RegionLimit};

/// Returns where a running job's control group lets it take more than is counted for it, for whoever looks.
pub(crate) fn disagreements(settings: &Settings, entry: &Entry) -> Vec<String> {
    let Some(fence) = &entry.fence else { return Vec::new() };
    // Slurm has not made the group, or has removed it: no process of the job is in it.
    let max = fence.dir.as_ref().map(|dir| settings.node.cgroup_root.join(dir).join(MAX));
    let Some(now) = max.and_then(|max| fs::read_to_string(max).ok()) else { return Vec::new() };
    let gb = |bytes: u64| display_gb(bytes >> 20);
    let say = |(limit, now): (&RegionLimit, Option<u64>)| {
        let (region, is) = (&limit.region, gb(limit.max_bytes));
        let may = now.map_or_else(|| "all".to_owned(), gb);
        format!(
            "its control group may take {may} of {region}, and {is} is counted for it: the kernel does not hold it"
        )
    };
    missing(fence, &now).into_iter().map(say).collect()
}
