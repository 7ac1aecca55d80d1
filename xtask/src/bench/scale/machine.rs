//! Needs of a run, and whether the machine has it.

use super::Size;
use crate::command::TaskError;

/// Cores that a round needs: one for slurmctld, and one for the slurmds and what submits.
const CORES: usize = 2;
/// Memory of a slurmd, kiB. It has 7 MiB and shares most of them with the others; its threads need more for moments.
const SLURMD_KIB: usize = 5 * 1024;
/// Memory of slurmctld for each node and each job, kiB.
const CONTROLLER_KIB: usize = 20;
/// Files of a waiting job in slurmctld's state, which lies in memory, kiB.
const STATE_KIB: usize = 15;
/// Memory for all else, kiB.
const REST_KIB: usize = 512 * 1024;
/// Ports between those of other clusters and those that the kernel gives to clients.
pub(super) const MOST_NODES: usize = 8000;
/// Most waiting jobs.
pub(super) const MOST_PENDING: usize = 100_000;

const KIB_PER_GIB: f64 = 1024.0 * 1024.0;

/// Memory that a run takes, kiB.
fn needed_kib(size: Size) -> usize {
    // Four jobs a node run.
    let jobs = size.pending + 4 * size.nodes;
    size.nodes * SLURMD_KIB + (size.nodes + jobs) * CONTROLLER_KIB + size.pending * STATE_KIB + REST_KIB
}

/// Says what a run takes.
///
/// # Errors
///
/// The machine has too little.
pub(super) fn check(size: Size) -> Result<(), TaskError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = available_kib(&text).unwrap_or(0);
    let said = judge(size, cores, available).map_err(TaskError::Other)?;
    eprintln!("scale: {said}");
    Ok(())
}

fn judge(size: Size, cores: usize, available_kib: usize) -> Result<String, String> {
    let needed = needed_kib(size);
    let gib = |kib: usize| kib as f64 / KIB_PER_GIB;
    let takes = format!(
        "{} nodes and {} waiting jobs take {CORES} cores and {:.1} GiB of memory; this machine has {cores} and {:.1} GiB free",
        size.nodes,
        size.pending,
        gib(needed),
        gib(available_kib)
    );
    if cores >= CORES && available_kib >= needed {
        return Ok(takes);
    }
    let advice = if cores < CORES { "" } else { "; take fewer --nodes" };
    Err(format!("{takes}{advice}"))
}

fn available_kib(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: Size = Size { nodes: 1000, pending: 10_000 };

    #[test]
    fn a_machine_with_too_little_is_told_how_much_it_takes() {
        let gib = 1024 * 1024;
        let small = judge(LARGE, 2, 4 * gib).unwrap_err();
        assert_eq!(
            small,
            "1000 nodes and 10000 waiting jobs take 2 cores and 5.8 GiB of memory; this machine has 2 and 4.0 GiB free; \
             take fewer --nodes"
        );
        assert!(judge(LARGE, 1, 64 * gib).unwrap_err().ends_with("this machine has 1 and 64.0 GiB free"));
        assert!(judge(LARGE, 2, 6 * gib).is_ok());
        assert!(judge(Size { nodes: 20, pending: 100 }, 2, gib).is_ok());
    }

    #[test]
    fn free_memory_is_what_the_kernel_could_give() {
        let text = "MemTotal:       24683608 kB\nMemFree:  19081716 kB\nMemAvailable:   23970016 kB\n";
        assert_eq!(available_kib(text), Some(23_970_016));
        assert_eq!(available_kib(""), None);
    }
}
