//! `scontrol show reservations`: which nodes Slurm keeps for the jobs of a reservation, and when.

use site_config::hostlist;

use super::command::prepare;
use super::squeue::NO_LIMIT_S;
use crate::outcome::Failure;

/// A reservation of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reservation {
    pub(crate) name: String,
    /// Seconds since the epoch.
    pub(crate) start: u64,
    /// Seconds since the epoch.
    pub(crate) end: u64,
    nodes: Vec<String>,
    /// Nodes of which it has some cores only: other jobs may have the others.
    partly: Vec<String>,
    flags: Vec<String>,
}

impl Reservation {
    pub(crate) fn is_active(&self, now: u64) -> bool {
        (self.start..=self.end).contains(&now)
    }

    /// Seconds that are left of it; `None`: it has no end to speak of.
    pub(crate) fn left(&self, now: u64) -> Option<u64> {
        Some(self.end.saturating_sub(now)).filter(|left| *left < NO_LIMIT_S)
    }

    /// True if its jobs may run on this node.
    pub(crate) fn admits(&self, node: &str) -> bool {
        self.has("FLEX") || self.has("ANY_NODES") || self.nodes.iter().any(|name| name == node)
    }

    /// True if it keeps jobs away from this node that are not its own: jobs of no reservation, or of `theirs`. Slurm's
    /// `job_test_resv` has the rule, the same in 22.05 and 24.11.
    pub(crate) fn keeps(&self, node: &str, theirs: Option<&Self>) -> bool {
        let passes = |own: &Self| {
            own.name == self.name || own.has("MAINT") || own.has("OVERLAP") && !self.has("MAINT")
        };
        let whole =
            self.nodes.iter().any(|name| name == node) && !self.partly.iter().any(|name| name == node);
        whole && !theirs.is_some_and(passes)
    }

    fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|known| known == flag)
    }
}

/// All reservations that Slurm shows the caller.
pub(crate) fn reservations() -> Result<Vec<Reservation>, Failure> {
    let arguments = ["-o", "show", "reservations"];
    let out =
        prepare("scontrol").args(arguments).env("SLURM_TIME_FORMAT", "%s").output().map_err(|e| {
            Failure::new(format!("cannot run scontrol: {e}")).hint("is Slurm installed here?")
        })?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        return Err(Failure::new(format!("`scontrol {}` failed: {}", arguments.join(" "), said.trim())));
    }
    Ok(String::from_utf8_lossy(&out.stdout).lines().filter_map(reservation).collect())
}

/// A line of `scontrol -o show reservations`.
fn reservation(line: &str) -> Option<Reservation> {
    // What administrators write comes last.
    let fields = line.split(" Comment=").next().unwrap_or_default();
    let pairs = || fields.split_whitespace().filter_map(|word| word.split_once('='));
    let value = |key: &str| pairs().find(|(name, _)| *name == key).map(|(_, value)| value);
    let partly = pairs().filter(|(name, _)| *name == "NodeName").map(|(_, node)| node.to_owned()).collect();
    let nodes = value("Nodes").filter(|list| *list != "(null)").unwrap_or_default();
    Some(Reservation {
        name: value("ReservationName").filter(|_| line.starts_with("ReservationName="))?.to_owned(),
        start: value("StartTime")?.parse().ok()?,
        end: value("EndTime")?.parse().ok()?,
        nodes: hostlist::expand(nodes).unwrap_or_default(),
        partly,
        flags: value("Flags").unwrap_or_default().split(',').map(str::to_owned).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, flags: &str, rest: &str) -> Reservation {
        let line = format!(
            "ReservationName={name} StartTime=1000 EndTime=4600 Duration=01:00:00 Nodes=n[1-2] NodeCnt=2 CoreCnt=8 \
             Features=(null) PartitionName=(null) Flags={flags} {rest}TRES=cpu=8 Users=root Groups=(null) \
             Accounts=(null) Licenses=(null) State=ACTIVE BurstBuffer=(null) MaxStartDelay=(null) \
             Comment=Nodes=n9 EndTime=1"
        );
        reservation(&line).unwrap()
    }

    #[test]
    fn a_reservation_has_nodes_and_an_end() {
        let maint = of("maint", "MAINT,SPEC_NODES", "");
        assert_eq!((maint.name.as_str(), maint.start, maint.end), ("maint", 1000, 4600));
        assert!(maint.is_active(1000) && maint.is_active(4600) && !maint.is_active(999));
        assert_eq!((maint.left(4000), maint.left(5000)), (Some(600), Some(0)));
        let endless = Reservation { end: 1000 + 365 * 86_400, ..maint };
        assert_eq!(endless.left(1000), None);
        assert_eq!(reservation("No reservations in the system"), None);
        assert_eq!(reservation("NodeName=n1 Nodes=n1 StartTime=1 EndTime=2"), None);
    }

    #[test]
    fn whom_a_reservation_keeps_away() {
        let (maint, plain) = (of("maint", "MAINT,SPEC_NODES", ""), of("class", "SPEC_NODES", ""));
        let over = of("over", "OVERLAP,SPEC_NODES", "");
        assert!(plain.keeps("n1", None) && !plain.keeps("n3", None));
        assert!(!plain.keeps("n1", Some(&plain)) && plain.admits("n2") && !plain.admits("n3"));
        assert!(!plain.keeps("n1", Some(&maint)) && maint.keeps("n1", Some(&plain)));
        assert!(!plain.keeps("n1", Some(&over)) && maint.keeps("n1", Some(&over)));
        assert!(of("flex", "FLEX,SPEC_NODES", "").admits("n3"));
        let partly = of("cores", "SPEC_NODES", "  NodeName=n1 CoreIDs=0-1 ");
        assert!(!partly.keeps("n1", None) && partly.keeps("n2", None) && partly.admits("n1"));
    }
}
