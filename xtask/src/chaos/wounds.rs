//! Consequences that a fault may have without anything being wrong.

use std::time::Duration;

use super::plan::{Daemon, Driver, Fault, FileChange, Node, OrderKind, Promise};

/// Whom a fault may have hit: a job, or what one of its tasks has on its node.
#[derive(Clone, Debug, Default)]
pub(super) struct Victim {
    pub(super) nodes: Vec<String>,
    /// Index of the user, 0 or 1.
    pub(super) user: u32,
    /// True if it may have an MPS daemon of its user.
    pub(super) has_daemon: bool,
    /// Nodes and numbers of the GPUs that it is known to have something of.
    pub(super) gpus: Vec<(String, u32)>,
}

impl Victim {
    fn is_on(&self, node: &Node) -> bool {
        self.nodes.iter().any(|name| name == node.name())
    }

    fn has(&self, node: &Node, gpu: u32) -> bool {
        self.gpus.iter().any(|(name, number)| name == node.name() && *number == gpu)
    }
}

/// True if a job of this kind has an MPS daemon, or may get one under `auto`.
pub(super) fn needs_daemon(kind: &OrderKind) -> bool {
    [Some(kind.promise), kind.step]
        .into_iter()
        .flatten()
        .any(|promise| matches!(promise, Promise::Share { .. } | Promise::Seats { .. } | Promise::Memory(_)))
}

/// True if the driver may not answer when this task asks for its GPUs.
pub(super) fn silences_driver(fault: &Fault, task: &Victim) -> bool {
    match fault {
        Fault::Driver(at, _, Driver::Lost | Driver::ListTimeout) => task.is_on(at),
        Fault::GpuShifted(at, gpu) => task.has(at, *gpu),
        _ => false,
    }
}

/// True if a job may fail and only the fault is to blame.
pub(super) fn may_fail_job(fault: &Fault, job: &Victim) -> bool {
    let had = |node: &Node| job.is_on(node);
    match fault {
        Fault::Driver(_, _, Driver::Slow) => false,
        Fault::Driver(node, ..)
        | Fault::Down(node)
        | Fault::Kill(Daemon::Slurmd(node))
        | Fault::KillStep(node, _)
        | Fault::KillWork(node, _)
        | Fault::KillMps(node, _)
        | Fault::DiskFull(node) => had(node),
        // His job's own processes have the limit that he submitted it with.
        Fault::ForkStorm(node, user) => had(node) && job.has_daemon && job.user == *user,
        Fault::GpuShifted(node, gpu) => job.has(node, *gpu),
        Fault::Kill(Daemon::Slurmctld) | Fault::Takeover { killed: true } => true,
        _ => false,
    }
}

/// True if a task's GPU tasks may fail, or ask for what they do not get. That their broker was killed is no reason.
pub(super) fn spoils_work(fault: &Fault, task: &Victim) -> bool {
    match fault {
        Fault::Driver(_, _, Driver::Slow) => false,
        Fault::Driver(at, ..) | Fault::KillMps(at, _) | Fault::KillStep(at, _) => task.is_on(at),
        Fault::ForkStorm(at, user) => task.is_on(at) && task.user == *user,
        Fault::GpuShifted(at, gpu) => task.has(at, *gpu),
        _ => false,
    }
}

/// True if slurmctld's clock shows an earlier time than it did once, so long after the fault was mended (`None`: not yet). Until it has
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

/// Message of sbatch about a job that no nodes could ever serve.
const IMPOSSIBLE: &str = "Requested node configuration is not available";

/// True if a submission may be refused with these words.
pub(super) fn may_refuse(fault: &Fault, words: &str) -> bool {
    match fault {
        // docs/slurm-quirks.md, "A second slurmctld"; some jobs need the node that is missing in the file.
        Fault::Takeover { .. } | Fault::Reconfigure(FileChange::Shrunken) => true,
        // slurmctld is away for a moment; 24.11 replaces itself to read its files.
        Fault::Kill(Daemon::Slurmctld) | Fault::Restart(Daemon::Slurmctld) | Fault::Reconfigure(_) => {
            !words.contains(IMPOSSIBLE)
        }
        _ => false,
    }
}

/// True if Slurm may afterwards take jobs for running that are over, until somebody tells it. On 24.11 a first slurmctld that comes
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
    use crate::chaos::plan::{FullOf, KINDS, Pick};

    fn on(node: &str) -> Victim {
        Victim { nodes: vec![node.to_owned()], ..Victim::default() }
    }

    #[test]
    fn a_hostile_user_excuses_only_what_he_can_cause() {
        let plain = on("n1");
        let shared = Victim { has_daemon: true, ..on("n1") };
        let others = Victim { user: 1, ..shared.clone() };
        let full = Fault::FullRunDir(Node(0), FullOf::Inodes);
        assert!(!may_fail_job(&full, &shared), "root keeps room for daemons");
        assert!(!spoils_work(&full, &shared));
        let storm = Fault::ForkStorm(Node(0), 0);
        assert!(may_fail_job(&storm, &shared) && spoils_work(&storm, &shared));
        assert!(!may_fail_job(&storm, &plain));
        assert!(!may_fail_job(&storm, &others) && !spoils_work(&storm, &others));
    }

    #[test]
    fn a_gpu_that_is_gone_excuses_only_its_own_jobs() {
        let gone = Fault::GpuShifted(Node(0), 2);
        let with = |gpu| Victim { gpus: vec![("n1".to_owned(), gpu)], ..on("n1") };
        for excuses in [may_fail_job, spoils_work, silences_driver] {
            assert!(excuses(&gone, &with(2)));
            assert!(!excuses(&gone, &with(3)) && !excuses(&gone, &on("n1")));
        }
    }

    #[test]
    fn shares_seats_and_memory_may_need_a_daemon() {
        let names: Vec<&str> =
            KINDS.iter().filter(|kind| !needs_daemon(kind)).map(|kind| kind.name).collect();
        assert!(names.contains(&"mig:1g.5gb") && names.contains(&"--exclusive"), "{names:?}");
        for name in ["mps of 3 GB on two nodes", "tasks:probes", "auto of 10 GB"] {
            assert!(!names.contains(&name), "{name}");
        }
    }

    #[test]
    fn a_fault_excuses_failures_on_its_own_node_only() {
        let kill = Fault::Kill(Daemon::Slurmd(Node(0)));
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
        assert!(!spoils_work(&both, &on("n1")) && !may_fail_job(&both, &on("n1")));
        assert!(spoils_work(&Fault::KillMps(Node(0), Pick(0)), &on("n1")));
        assert!(!spoils_work(&Fault::KillMps(Node(0), Pick(0)), &on("n2")));
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
