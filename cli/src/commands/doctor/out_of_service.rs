//! Nodes that Slurm keeps from jobs by itself, with its reason and the way back.

use super::answers::SlurmAnswers;
use super::findings::Findings;

/// Flags of a node's state with which no job starts there.
const AWAY: [&str; 5] = ["DRAIN", "DOWN", "FAIL", "ERROR", "INVALID_REG"];

/// The flag of a node without an answering slurmd. One that is only `UNKNOWN` has not been heard since slurmctld started a moment ago.
const SILENT: [&str; 1] = ["NOT_RESPONDING"];

/// Flags of a node that is off, starts or stops because Slurm wants it so.
const SWITCHED: [&str; 6] =
    ["POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN", "REBOOT_ISSUED", "FUTURE"];

/// Reports such a node. A node that an administrator has drained is no disagreement: the line says so, and `skip`.
pub(super) fn check(slurm: &SlurmAnswers, name: &str, findings: &mut Findings) {
    let Some(state) = slurm.states.get(name) else { return };
    if is_silent(state) {
        findings.bad(format!(
            "{name}: its slurmd does not answer slurmctld ({state}), so no job starts there: start slurmd, or read the end of its log"
        ));
        return;
    }
    let Some(state) = away(state) else { return };
    let reason = slurm.reasons.get(name).map_or("", |reason| bare(reason));
    match fix(reason) {
        Some(fix) => findings.bad(format!(
            "{name}: Slurm keeps it from jobs ({state}): {reason}: {fix}, then `scontrol update nodename={name} state=resume`"
        )),
        None if reason.is_empty() => {
            findings.bad(format!("{name}: Slurm keeps it from jobs ({state}) and gives no reason: is its slurmd running?"));
        }
        None => findings.skipped(format!("{name}: takes no jobs ({state}): {reason}")),
    }
}

/// The state, if no job starts in it: `IDLE+DRAIN`.
fn away(state: &str) -> Option<&str> {
    has(state, &AWAY).then_some(state)
}

/// Tells whether slurmd should answer and does not, and Slurm has not set the node DOWN for it yet: it gives a reason then.
fn is_silent(state: &str) -> bool {
    // Slurm's commands write a star for the flag.
    let is_marked = has(state, &SILENT) || state.ends_with('*');
    is_marked && !has(state, &SWITCHED) && away(state).is_none()
}

fn has(state: &str, flags: &[&str]) -> bool {
    state.trim_end_matches('*').split('+').any(|flag| flags.contains(&flag))
}

/// Slurm's reason without who gave it and when, `[slurm@2026-11-26T13:21:24]`.
fn bare(reason: &str) -> &str {
    reason.rsplit_once(" [").filter(|(_, end)| end.ends_with(']')).map_or(reason, |(reason, _)| reason).trim()
}

/// Says what to do about a reason that Slurm's daemons write, 22.05 to 24.11; `None`: an administrator's, or a program's.
fn fix(reason: &str) -> Option<&'static str> {
    let counts = "make Gres= in slurm.conf, gres.conf and tessera.toml agree (`tessera discover --format all` prints all three), \
                  restart slurmctld and that slurmd";
    let hardware =
        "correct the node's line in slurm.conf by what `slurmd -C` prints there, or repair the node";
    let log = "read the line in its slurmd's log that begins with `tessera:`, and run `tessera doctor` there";
    let known = [
        ("gres/", counts),
        ("Low ", hardware),
        ("Not responding", "start slurmd there, or read the end of its log"),
        ("Node unexpectedly rebooted", "find out why it rebooted"),
        ("Prolog error", log),
        ("Epilog error", log),
        ("prolog error", log),
        ("batch job complete failure", log),
        ("Kill task failed", "end the processes of the job that its slurmd's log names"),
        ("Duplicate jobid", "restart that slurmd: it still has a job that slurmctld has forgotten"),
        ("slurmd is too old", "upgrade Slurm there"),
    ];
    known.iter().find(|(begin, _)| reason.starts_with(begin)).map(|(_, fix)| *fix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_without_jobs_are_known() {
        for state in ["IDLE+DRAIN+INVALID_REG", "DOWN", "DOWN*", "MIXED+DRAIN", "DOWN+NOT_RESPONDING"] {
            assert_eq!(away(state), Some(state));
        }
        for state in ["IDLE", "IDLE+NOT_RESPONDING", "ALLOCATED+COMPLETING", "IDLE+PLANNED", "IDLE+RESERVED"]
        {
            assert_eq!(away(state), None, "{state}");
        }
    }

    #[test]
    fn a_dead_slurmd_is_named_before_the_node_is_down() {
        for state in ["UNKNOWN+NOT_RESPONDING", "UNKNOWN*", "IDLE+NOT_RESPONDING", "ALLOCATED+NOT_RESPONDING"]
        {
            assert!(is_silent(state), "{state}");
        }
        for state in [
            "IDLE",
            "UNKNOWN",
            "DOWN+NOT_RESPONDING",
            "IDLE+DRAIN+NOT_RESPONDING",
            "IDLE+CLOUD+POWERED_DOWN+NOT_RESPONDING",
        ] {
            assert!(!is_silent(state), "{state}");
        }
    }

    #[test]
    fn slurms_reasons_have_a_fix_and_an_administrators_have_none() {
        let shards = "gres/shard count reported lower than configured (80 < 320) [slurm@2026-11-26T13:21:24]";
        assert_eq!(bare(shards), "gres/shard count reported lower than configured (80 < 320)");
        assert!(fix(bare(shards)).is_some_and(|fix| fix.contains("tessera discover")));
        assert!(fix("Prolog error").is_some() && fix("Low RealMemory (reported:1 < 2)").is_some());
        assert_eq!(fix(bare("disk [2] fails [root@2026-11-26T13:21:24]")), None);
        assert_eq!(bare("disk [2] fails"), "disk [2] fails");
    }
}
