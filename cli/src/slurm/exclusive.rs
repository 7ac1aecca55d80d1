//! How Slurm's commands show that a job has its nodes to itself.

use std::sync::OnceLock;

use super::command::run;

/// Tells whether Slurm's commands have a field of its own for it. Before 26.05 the field for sharing says it too: `NO` of a job,
/// `EXCLUSIVE` of a partition. From then on, that field says `NO` of nearly every job.
pub(crate) fn has_its_field() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| run("squeue", &["--version"]).is_ok_and(|said| since_26_05(&said)))
}

/// Reads what a command of Slurm's says of its version: `slurm 24.11.7`, or `slurm-wlm 22.05.8` for Debian's.
fn since_26_05(said: &str) -> bool {
    let mut parts = said.split_whitespace().nth(1).unwrap_or_default().split('.').map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next()) else { return false };
    (major, minor) >= (26, 5)
}

/// Tells whether a value of that field says that nodes are given as a whole. Others are `NO`, `USER` and `MCS`.
pub(crate) fn is_whole(value: &str) -> bool {
    ["NODE", "TOPO"].contains(&value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_is_there_from_26_05_on() {
        for new in ["slurm-wlm 26.05.5\n", "slurm 26.05.0-0rc1", "slurm 26.11.0", "slurm 27.05.1"] {
            assert!(since_26_05(new), "{new}");
        }
        for old in ["slurm-wlm 22.05.8\n", "slurm 25.11.7", "", "slurm", "slurm x.05"] {
            assert!(!since_26_05(old), "{old}");
        }
    }
}
