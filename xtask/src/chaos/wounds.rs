//! What a fault may lead to without anything being wrong.

use std::time::Duration;

use super::plan::{Daemon, Driver, Fault, File, Node};

/// Whether the driver of this node may not answer a job's `nvidia-smi`.
pub(super) fn silences_driver(fault: &Fault, node: &str) -> bool {
    matches!(fault, Fault::Driver(at, _, Driver::Lost | Driver::ListTimeout) if at.name() == node)
}

/// Whether a job with these nodes may fail without anybody being at fault but the fault.
pub(super) fn may_fail_job(fault: &Fault, nodes: &[String]) -> bool {
    let had = |node: &Node| nodes.iter().any(|name| name == node.name());
    match fault {
        Fault::Driver(_, _, Driver::Slow) => false,
        Fault::Driver(node, ..)
        | Fault::Down(node)
        | Fault::Kill(Daemon::Slurmd(node))
        | Fault::KillStep(node, _)
        | Fault::KillWork(node, _)
        | Fault::KillMps(node, _)
        | Fault::DiskFull(node) => had(node),
        Fault::Kill(Daemon::Slurmctld) | Fault::Takeover { killed: true } => true,
        _ => false,
    }
}

/// Whether GPU tasks on this node may fail, or ask for what they do not get. That their broker was killed is no reason.
pub(super) fn spoils_work(fault: &Fault, node: &str) -> bool {
    match fault {
        Fault::Driver(_, _, Driver::Slow) => false,
        Fault::Driver(at, ..) | Fault::KillMps(at, _) | Fault::KillStep(at, _) => at.name() == node,
        _ => false,
    }
}

/// Whether slurmctld's clock shows an earlier time than it did once, so long after the fault was mended (`None`: not yet). Until it has
/// caught up, slurmd refuses jobs that were requeued before (docs/slurm-quirks.md, "A clock that is set back").
pub(super) fn clock_is_behind(fault: &Fault, mended: Option<Duration>) -> bool {
    match (fault, mended) {
        (Fault::Clock(None, seconds), None) => *seconds < 0,
        (Fault::Clock(None, seconds), Some(since)) => {
            u64::try_from(*seconds).is_ok_and(|s| since.as_secs() <= s)
        }
        _ => false,
    }
}

/// What sbatch says of a job that no nodes could ever serve.
const IMPOSSIBLE: &str = "Requested node configuration is not available";

/// Whether a submission may be refused with these words.
pub(super) fn may_refuse(fault: &Fault, words: &str) -> bool {
    match fault {
        // docs/slurm-quirks.md, "A second slurmctld"; some jobs need the node that is missing in the file.
        Fault::Takeover { .. } | Fault::Reconfigure(File::Shrunken) => true,
        // slurmctld is away for a moment; 24.11 replaces itself to read its files.
        Fault::Kill(Daemon::Slurmctld) | Fault::Restart(Daemon::Slurmctld) | Fault::Reconfigure(_) => {
            !words.contains(IMPOSSIBLE)
        }
        _ => false,
    }
}

/// Whether Slurm may afterwards take jobs for running that are over, until somebody tells it. On 24.11 a first slurmctld that comes
/// back reads what the second one has saved before that one has saved the last (docs/slurm-quirks.md, "A second slurmctld").
pub(super) fn leaves_phantoms(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::Kill(Daemon::Slurmctld | Daemon::Slurmd(_))
            | Fault::Takeover { .. }
            | Fault::KillStep(..)
            | Fault::KillWork(..)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::plan::Pick;

    #[test]
    fn a_fault_excuses_failures_on_its_own_node_only() {
        let kill = Fault::Kill(Daemon::Slurmd(Node(0)));
        let on = |name: &str| vec![name.to_owned()];
        assert!(may_fail_job(&kill, &on("n1")));
        assert!(!may_fail_job(&kill, &on("n2")));
        assert!(may_fail_job(&Fault::Kill(Daemon::Slurmctld), &on("n2")));
        assert!(!may_fail_job(&Fault::Driver(Node(1), None, Driver::Slow), &on("n2")));
        assert!(!may_fail_job(&Fault::Clock(None, 60), &on("n2")));
    }

    #[test]
    fn a_clock_is_behind_until_it_has_caught_up() {
        let since = |seconds| Some(Duration::from_secs(seconds));
        let (ahead, back) = (Fault::Clock(None, 100), Fault::Clock(None, -100));
        assert!(!clock_is_behind(&ahead, None) && clock_is_behind(&ahead, since(95)));
        assert!(!clock_is_behind(&ahead, since(101)));
        assert!(clock_is_behind(&back, None) && !clock_is_behind(&back, since(5)));
        assert!(!clock_is_behind(&Fault::Clock(Some(Node(0)), 100), since(5)), "slurmctld's is right");
    }

    #[test]
    fn gpu_tasks_outlive_their_broker() {
        let both = Fault::KillBroker(Node(0), crate::chaos::plan::Broker::Both);
        assert!(!spoils_work(&both, "n1") && !may_fail_job(&both, &["n1".to_owned()]));
        assert!(spoils_work(&Fault::KillMps(Node(0), Pick(0)), "n1"));
        assert!(!spoils_work(&Fault::KillMps(Node(0), Pick(0)), "n2"));
    }

    #[test]
    fn a_refusal_has_to_have_a_reason() {
        let kill = Fault::Kill(Daemon::Slurmctld);
        assert!(may_refuse(&kill, "sbatch: error: Batch job submission failed: Connection reset by peer"));
        assert!(!may_refuse(&kill, &format!("sbatch: error: Batch job submission failed: {IMPOSSIBLE}")));
        assert!(may_refuse(&Fault::Takeover { killed: false }, IMPOSSIBLE));
        assert!(!may_refuse(&Fault::Drain(Node(0)), IMPOSSIBLE));
    }
}
