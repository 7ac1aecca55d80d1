//! The kernel's limits for shares, looked at without any code of the node's side: only the texts of the files count.

use geometry::JobId;

/// A job whose GPU memory is counted in MiB, and what its control group says.
#[derive(Clone, Debug)]
pub struct CountedJob<'a> {
    /// The job.
    pub job: JobId,
    /// The PCI address of its GPU as the kernel writes it, without the function: `0000:07:00`.
    pub gpu: &'a str,
    /// Memory that is counted for the job, MiB.
    pub mem_mib: u64,
    /// The text of its `dmem.max`.
    pub max: &'a str,
}

/// Returns what is wrong with the limits of a running job. `capacity` is the text of the node's `dmem.capacity`. A GPU without
/// a region has no limit that could be wrong.
#[must_use]
pub fn audit_fence(capacity: &str, job: &CountedJob<'_>) -> Vec<String> {
    let CountedJob { job, gpu, mem_mib, max } = *job;
    let mut wrong = Vec::new();
    for line in capacity.lines().filter(|line| line.contains(gpu)) {
        let region = line.split(' ').next().unwrap_or_default();
        let own = max.lines().find(|line| line.split(' ').next() == Some(region));
        match own.map(|line| line.replacen(region, "", 1).trim().parse::<u64>()) {
            Some(Ok(bytes)) if bytes <= mem_mib * 1024 * 1024 => {}
            other => {
                wrong.push(format!("job {job} has {mem_mib} MiB of {region}, and its limit is {other:?}"))
            }
        }
    }
    wrong
}

/// Returns the lines of a control group's `dmem.max` that limit anything. An ended job has left none.
#[must_use]
pub fn left_limits(max: &str) -> Vec<&str> {
    max.lines().filter(|line| !line.trim().is_empty() && !line.trim_end().ends_with(" max")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_may_take_more_than_is_counted_is_found() {
        let capacity = "nvidia/0000:07:00/vidmem 85520809984\nnvidia/0000:0b:00/vidmem 85520809984\n";
        let wrong =
            |gpu, max| audit_fence(capacity, &CountedJob { job: JobId(7), gpu, mem_mib: 3, max }).len();
        assert_eq!(wrong("0000:07:00", "nvidia/0000:07:00/vidmem 3145728\n"), 0);
        assert_eq!(wrong("0000:07:00", "nvidia/0000:07:00/vidmem 3145729\n"), 1);
        assert_eq!(wrong("0000:07:00", "nvidia/0000:07:00/vidmem max\n"), 1);
        assert_eq!(wrong("0000:07:00", "nvidia/0000:0b:00/vidmem 3\n"), 1, "another GPU's");
        assert_eq!(wrong("0000:0c:00", ""), 0, "no region");
        assert_eq!(left_limits("a/b max\na/c 7\n\n"), ["a/c 7"]);
    }
}
