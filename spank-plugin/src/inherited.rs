//! Variables that a task inherits and that do not hold where it runs: `srun` hands a batch script's environment, which
//! is that of its own node, to the tasks on all nodes, and a job submitted from within a job inherits that one's.

/// What only some entries set, see `gpu_node::task_environment`.
const SOMETIMES: [&str; 6] = [
    "TESSERA_INSTANCES",
    "TESSERA_GPU_MEM_MIB",
    "TESSERA_GPUS",
    "TESSERA_GPU_SET",
    "TESSERA_GPU_MATCH",
    "TESSERA_GPU_BANDWIDTH_GBPS",
];

/// What a share sets. They may be the user's own where a job runs an MPS daemon on GPUs that it has alone.
const SHARES: [&str; 4] = [
    "CUDA_MPS_PIPE_DIRECTORY",
    "CUDA_MPS_LOG_DIRECTORY",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
];

/// The variables to take away from a task that gets `set`, where it inherits `TESSERA_ISOLATION` as `isolation`.
pub(crate) fn stale(set: &[(String, String)], isolation: Option<&str>) -> Vec<&'static str> {
    let shares = if isolation == Some("mps") { &SHARES[..] } else { &[] };
    let absent = |name: &&&str| !set.iter().any(|(own, _)| own == **name);
    SOMETIMES.iter().chain(shares).filter(absent).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vars(names: &[&str]) -> Vec<(String, String)> {
        names.iter().map(|name| ((*name).to_owned(), "x".to_owned())).collect()
    }

    #[test]
    fn what_is_not_set_here_is_taken_away() {
        let whole = vars(&["TESSERA_ISOLATION", "TESSERA_GPUS", "TESSERA_GPU_SET"]);
        let rest =
            ["TESSERA_INSTANCES", "TESSERA_GPU_MEM_MIB", "TESSERA_GPU_MATCH", "TESSERA_GPU_BANDWIDTH_GBPS"];
        assert_eq!(stale(&whole, None), rest);
        assert_eq!(stale(&whole, Some("whole")), rest, "the user's own MPS daemon stays reachable");
        assert_eq!(stale(&whole, Some("mps")), [&rest[..], &SHARES[..]].concat());
    }

    #[test]
    fn a_share_keeps_what_it_has() {
        let share = vars(&[&["TESSERA_GPU_MEM_MIB"], &SHARES[..3]].concat());
        let gone = stale(&share, Some("mps"));
        assert!(gone.contains(&SHARES[3]), "a limit that this share does not have");
        assert!(!gone.iter().any(|name| share.iter().any(|(own, _)| own == name)), "{gone:?}");
    }
}
