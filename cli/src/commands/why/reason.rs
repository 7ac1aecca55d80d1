//! Slurm's reasons, in words.

use crate::slurm::squeue::is_limit;

const FAILED_STARTS: &str = "Slurm holds it after failed starts: scontrol release ID";

/// Meaning of a pending job's reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// The job waits for its turn or for room: what the nodes say matters.
    Room(&'static str),
    /// Something else keeps it: with room it would still wait.
    Other(&'static str),
}

const RESERVATION_GONE: &str = "Slurm holds it because its reservation is gone: give it another or none (scontrol update), then scontrol \
                                release ID";

/// A reason as squeue prints it; `None`: one that Slurm's manual explains (`man squeue`, "JOB REASON CODES").
pub(super) fn reason(text: &str) -> Option<Reason> {
    use Reason::{Other, Room};
    Some(match text {
        "None" | "" => Room("Slurm has not looked at it yet"),
        "Priority" => Room("jobs of higher priority come first"),
        "Resources" => Room("no node has room for it now"),
        // A column of squeue cuts it.
        _ if text.starts_with("Nodes required for job are DOWN") => {
            Room("the nodes it may use are taken, drained, reserved or kept for other jobs")
        }
        "Reservation" => Other("its reservation has not begun"),
        "BeginTime" => Other("its begin time has not come, or it was requeued a moment ago"),
        "Dependency" => Other("it depends on other jobs"),
        "DependencyNeverSatisfied" => Other("it depends on a job that failed: it never starts; cancel it"),
        "JobHeldUser" => Other("its user holds it: scontrol release ID"),
        "JobHeldAdmin" => Other("an administrator holds it"),
        "job requeued in held state" | "job requeued in special exit state" => {
            Other("Slurm holds it after a requeue: scontrol release ID")
        }
        "ReservationDeleted" | "ReservationInvalid" => Other(RESERVATION_GONE),
        // `Reservation NAME was deleted`, which a column of squeue may cut.
        _ if text.starts_with("Reservation ") => Other(RESERVATION_GONE),
        "JobHoldMaxRequeue" => Other(FAILED_STARTS),
        // `launch failed requeued held`, and from 24.11 on `launch failure limit exceeded requeued held`, which a column cuts.
        _ if text.starts_with("launch fail") => Other(FAILED_STARTS),
        "PartitionDown" | "PartitionInactive" => Other("its partition starts no jobs now"),
        "PartitionTimeLimit" => Other("its time limit is above the partition's: lower it"),
        "PartitionNodeLimit" => Other("it asks for more nodes than the partition gives"),
        "JobArrayTaskLimit" => Other("its array runs as many tasks at once as it allows (--array=…%N)"),
        "Licenses" => Other("it waits for a license"),
        "Prolog" => Other("its prolog is running"),
        "BadConstraints" => Other("no node has what it asks for"),
        "AssociationJobLimit" | "QOSJobLimit" => Other("the account or QOS runs as many jobs as it may"),
        // Slurm adds which nodes, or `May be reserved for other job`.
        _ if text.starts_with("ReqNodeNotAvail") => {
            Room("the nodes it may use are taken, drained, reserved or kept for other jobs")
        }
        _ if text.starts_with("QOSMin") => {
            Other("its QOS is for jobs that ask for more (MinTRES): ask for more, or take another QOS")
        }
        _ if text.starts_with("QOS") => Other("a limit of its QOS keeps it waiting"),
        _ if is_limit(text) => Other("a limit of its account or user keeps it waiting"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_told_from_room() {
        assert!(matches!(reason("Resources"), Some(Reason::Room(_))));
        for limit in [
            "QOSMaxGRESPerUser",
            "QOSGrpGRES",
            "AssocGrpGRESMinutes",
            "AssocMaxJobsLimit",
            "MaxGRESPerAccount",
            "MaxLicensePerAccount",
            "MaxJobsPerAccount",
            "MaxLicenseRunMinsPerUser",
        ] {
            assert!(matches!(reason(limit), Some(Reason::Other(_))) && is_limit(limit), "{limit}");
        }
        for held in [
            "job requeued in held state",
            "launch failed requeued held",
            "Reservation maint was deleted",
            "ReservationDeleted",
        ] {
            assert!(matches!(reason(held), Some(Reason::Other(text)) if text.contains("release")), "{held}");
        }
        assert!(!is_limit("JobHoldMaxRequeue") && !is_limit("MaxPoweredUpNodes"));
        assert!(matches!(reason("QOSMinGRES"), Some(Reason::Other(text)) if text.contains("another QOS")));
        assert!(matches!(reason("JobArrayTaskLimit"), Some(Reason::Other(_))));
        for room in ["ReqNodeNotAvail", "ReqNodeNotAvail, May be reserved for oth"] {
            assert!(matches!(reason(room), Some(Reason::Room(_))), "{room}");
        }
        let cut = "Nodes required for job are DOWN, DRAINED";
        assert!(matches!(reason(cut), Some(Reason::Room(_))));
        assert_eq!(reason("SomethingNew"), None);
    }
}
