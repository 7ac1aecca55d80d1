//! Tells users of salloc that its shell runs where the job's GPUs are not.

use node_slurm::slurm_conf;

/// A flag of `LaunchParameters` with which salloc starts its shell on the job's first node.
const ON_THE_NODE: &str = "use_interactive_step";

const HINT: &str = "salloc's shell runs on this machine and sees no GPU of the job: start programs with srun, or a shell on the \
                    node with `srun --pty bash` (with LaunchParameters=use_interactive_step in slurm.conf, salloc does that)";

/// Gives the hint for the user of this process, if it is a salloc whose shell sees no GPU.
pub(crate) fn hint(env: &dyn Fn(&str) -> Option<String>) -> Option<&'static str> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    if read("/proc/self/comm").trim() != "salloc" {
        return None;
    }
    let conf = slurm_conf::read(&slurm_conf::path(env))?;
    let launch = slurm_conf::value(&conf, "LaunchParameters").unwrap_or_default();
    let line = read("/proc/self/cmdline");
    needs_hint(line.split('\0'), launch).then_some(HINT)
}

/// Tells whether a user gets a shell without GPUs: not where salloc is quiet, starts nothing, or starts srun.
fn needs_hint<'a>(mut words: impl Iterator<Item = &'a str>, launch: &str) -> bool {
    let is_other = |word: &str| {
        ["-Q", "--quiet", "--no-shell"].contains(&word) || word.rsplit('/').next() == Some("srun")
    };
    let on_the_node = launch.split(',').any(|flag| flag.trim().eq_ignore_ascii_case(ON_THE_NODE));
    !on_the_node && !words.any(is_other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_without_gpus_is_told() {
        let needs = |line: &str, launch| needs_hint(line.split(' '), launch);
        assert!(needs("salloc --gpu-mem=10G", ""));
        assert!(needs("salloc --gpu-mem=10G bash", "lustre_no_flush"));
        assert!(!needs("salloc --gpu-mem=10G", "lustre_no_flush,Use_Interactive_Step"));
        for other in ["--gpu-mem=10G -Q", "--no-shell --gpu-mem=10G", "--gpu-mem=10G /usr/bin/srun hostname"]
        {
            assert!(!needs(&format!("salloc {other}"), ""), "{other}");
        }
    }

    #[test]
    fn other_commands_are_not_told() {
        assert_eq!(hint(&|_| None), None);
    }
}
