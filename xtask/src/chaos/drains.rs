//! Whose a drained node is: ours, Slurm's own, or nobody's. Nobody's is a violation.

use std::collections::BTreeSet;

use super::plan::{Daemon, Driver, Fault, Work};
use super::seen::SeenNode;

/// Reasons for which Slurm drains nodes without us (docs/troubleshooting.md, "After slurmctld was killed").
const STOCK: [&str; 3] = ["Duplicate jobid", "Kill task failed", "Not responding"];

/// The second slurmctld forgets which GPUs the shards are on (docs/slurm-quirks.md, "A second slurmctld").
const SHARDS_FORGOTTEN: &str = "reported but not configured";

/// The line of slurmd's log that says that Slurm itself lost a prolog's end.
const PROLOG_LOST: &str = "REQUEST_LAUNCH_PROLOG notification failed";

/// Why a node is drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drain {
    /// We did it, to hurt.
    Asked,
    /// Slurm does this with or without Tessera.
    Stock,
    /// The fault leaves the node unfit for any job.
    Unfit,
    /// There is no reason for it.
    Unexplained,
}

/// The reason that this run gives when it drains a node.
pub(super) const OUR_REASON: &str = "chaos";

/// The drains that have been judged: node, Slurm's reason, and since when it has it.
#[derive(Debug, Default)]
pub(super) struct Judged(BTreeSet<(String, String, String)>);

impl Judged {
    /// True if this drain has been judged before, and is there again only because a slurmctld was killed before it had saved
    /// that the node was resumed. A new drain has a time of its own. The node's drain counts as judged from now on.
    pub(super) fn is_back<'a>(
        &mut self,
        node: &SeenNode,
        mut faults: impl Iterator<Item = &'a Fault>,
        second_led: bool,
    ) -> bool {
        let is_new = self.0.insert((node.name.clone(), node.reason.clone(), node.reason_since.clone()));
        !is_new && (second_led || faults.any(forgets))
    }
}

/// True if slurmctld may have forgotten what it had not saved (docs/slurm-quirks.md, "A slurmctld that was killed").
fn forgets(fault: &Fault) -> bool {
    matches!(fault, Fault::Kill(Daemon::Slurmctld) | Fault::Takeover { .. })
}

/// Judges a drained node by Slurm's reason, what slurmd has logged since the last look, the faults in force, and whether the
/// second slurmctld was in charge of late.
pub(super) fn judge<'a>(
    node: &str,
    reason: &str,
    log: &str,
    mut faults: impl Iterator<Item = &'a Fault> + Clone,
    second_led: bool,
) -> Drain {
    if reason.contains(OUR_REASON) {
        return Drain::Asked;
    }
    if STOCK.iter().any(|stock| reason.contains(stock)) {
        return Drain::Stock;
    }
    let taken_over = |fault: &Fault| matches!(fault, Fault::Takeover { .. });
    if reason.contains(SHARDS_FORGOTTEN) && (second_led || faults.clone().any(taken_over)) {
        return Drain::Stock;
    }
    let is_scripts = reason.contains("Prolog error") || reason.contains("Epilog error");
    if is_scripts && log.contains(PROLOG_LOST) {
        return Drain::Stock;
    }
    if is_scripts && faults.any(|fault| makes_unfit(fault, node)) {
        return Drain::Unfit;
    }
    Drain::Unexplained
}

/// True if a prolog or epilog on this node has to fail, or is killed.
fn makes_unfit(fault: &Fault, node: &str) -> bool {
    match fault {
        Fault::KillWork(at, Work::Prolog | Work::Epilog) => at.name() == node,
        Fault::Driver(
            at,
            _,
            Driver::Refusing | Driver::Lost | Driver::ListTimeout | Driver::OutOfResources,
        ) => at.name() == node,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::plan::Node as At;

    #[test]
    fn a_drain_has_to_have_a_reason() {
        let kill = Fault::KillWork(At(0), Work::Prolog);
        let busy = Fault::Driver(At(0), None, Driver::Busy);
        let lost = Fault::Driver(At(0), None, Driver::Lost);
        assert_eq!(judge("n1", "Prolog error", "", [&kill].into_iter(), false), Drain::Unfit);
        assert_eq!(judge("n2", "Prolog error", "", [&kill].into_iter(), false), Drain::Unexplained);
        assert_eq!(judge("n1", "Prolog error", "", [&lost].into_iter(), false), Drain::Unfit);
        assert_eq!(judge("n1", "Prolog error", "", [&busy].into_iter(), false), Drain::Unexplained);
        let full = Fault::DiskFull(At(0));
        assert_eq!(judge("n1", "Prolog error", "", [&full].into_iter(), false), Drain::Unexplained);
        assert_eq!(judge("n1", "Epilog error", "", [].into_iter(), false), Drain::Unexplained);
        assert_eq!(judge("n1", "Prolog error", PROLOG_LOST, [].into_iter(), false), Drain::Stock);
        assert_eq!(judge("n1", "Duplicate jobid", "", [].into_iter(), false), Drain::Stock);
        let shards = "gres/shard type (a100) reported but not configured";
        let takeover = Fault::Takeover { killed: true };
        assert_eq!(judge("n1", shards, "", [&takeover].into_iter(), false), Drain::Stock);
        assert_eq!(judge("n1", shards, "", [].into_iter(), false), Drain::Unexplained);
        assert_eq!(judge("n1", shards, "", [].into_iter(), true), Drain::Stock);
        assert_eq!(judge("n1", "chaos", "", [].into_iter(), false), Drain::Asked);
        assert_eq!(
            judge("n1", "gres/gpu count reported lower", "", [&kill].into_iter(), false),
            Drain::Unexplained
        );
    }

    fn drained(reason: &str, reason_since: &str) -> SeenNode {
        let text = str::to_owned;
        SeenNode {
            name: text("n1"),
            reason: text(reason),
            reason_since: text(reason_since),
            ..SeenNode::default()
        }
    }

    #[test]
    fn a_drain_that_was_judged_comes_back_with_its_time_after_slurmctld_was_killed() {
        let (killed, busy) = (Fault::Takeover { killed: true }, Fault::Driver(At(0), None, Driver::Busy));
        let old = drained("Prolog error", "2026-11-23T14:48:03");
        let mut judged = Judged::default();
        assert!(!judged.is_back(&old, [&killed].into_iter(), true), "nobody has judged it");
        assert!(judged.is_back(&old, [&killed].into_iter(), false));
        assert!(judged.is_back(&old, [&Fault::Kill(Daemon::Slurmctld)].into_iter(), false));
        assert!(judged.is_back(&old, [].into_iter(), true));
        assert!(!judged.is_back(&old, [&busy].into_iter(), false), "nothing was forgotten");
    }

    #[test]
    fn a_new_drain_is_judged_whatever_was_judged_before() {
        let killed = Fault::Takeover { killed: true };
        let mut judged = Judged::default();
        judged.is_back(&drained("Prolog error", "2026-11-23T14:48:03"), [].into_iter(), false);
        let later = drained("Prolog error", "2026-11-23T14:49:10");
        let other = drained("Epilog error", "2026-11-23T14:48:03");
        let elsewhere = SeenNode { name: "n2".to_owned(), ..drained("Prolog error", "2026-11-23T14:48:03") };
        for node in [&later, &other, &elsewhere] {
            assert!(!judged.is_back(node, [&killed].into_iter(), true), "{node:?}");
        }
        assert_eq!(judge("n1", "Prolog error", "", [&killed].into_iter(), true), Drain::Unexplained);
    }
}
