//! The record that the prolog of this very start of a job has left in the journal.

use node_journal::{Entry, Phase};

/// Facts about a step in slurmctld's credential.
pub(crate) struct StepCredential {
    pub(crate) job: u32,
    pub(crate) uid: u32,
    /// 0 in steps that are not told, all but batch scripts.
    pub(crate) restart: u32,
    /// A batch script: it begins once per start of its job.
    pub(crate) batch: bool,
    /// Slurm gave the step GPUs.
    pub(crate) has_gpus: bool,
}

/// Result that the prolog of a start of the job has left.
#[derive(Debug)]
pub(crate) enum Left {
    /// Has not run.
    Nothing,
    Ready(Box<Entry>),
    Failed(String),
}

/// Finds the result of the prolog of this very start.
pub(crate) fn prologs(
    step: &StepCredential,
    entry: Option<Entry>,
    boot: &str,
    agree: impl Fn(&Entry) -> bool,
) -> Left {
    let Some(entry) = entry else { return Left::Nothing };
    let other = entry.uid != step.uid || entry.restart < step.restart || entry.boot != boot;
    // What an earlier start of the same job left behind, slurmctld's memory of which was lost.
    let earlier = step.batch && entry.begun;
    if other || earlier {
        return Left::Nothing;
    }
    match &entry.phase {
        Phase::Failed(why) => Left::Failed(why.clone()),
        Phase::Intent => Left::Failed("the prolog did not finish".to_owned()),
        Phase::Ready if step.has_gpus && !agree(&entry) => Left::Nothing,
        Phase::Ready => Left::Ready(Box::new(entry)),
    }
}

#[cfg(test)]
mod tests {
    use geometry::GpuIndex;
    use node_driver::{GpuMinor, NvmlIndex};
    use node_journal::{GpuRecord, GrantKind, VERSION};

    use super::*;

    const BOOT: &str = "this-boot";

    fn entry(phase: Phase) -> Entry {
        Entry {
            version: VERSION,
            boot: BOOT.to_owned(),
            job: 12,
            uid: 1001,
            gid: 1001,
            restart: 1,
            decision: String::new(),
            phase,
            kind: GrantKind::Whole,
            gpus: vec![GpuRecord {
                index: NvmlIndex(3),
                minor: GpuMinor(3),
                uuid: "GPU-3".to_owned(),
                number: GpuIndex(3),
            }],
            instances: Vec::new(),
            share: None,
            tasks: None,
            device_nodes: Vec::new(),
            matched: None,
            plain: false,
            cap_w: None,
            cap_problem: None,
            group: None,
            fence: None,
            begun: false,
        }
    }

    fn batch() -> StepCredential {
        StepCredential { job: 12, uid: 1001, restart: 1, batch: true, has_gpus: true }
    }

    /// Summarises the reading of a journal's entry: `ready`, `unknown`, or why not.
    fn of(step: &StepCredential, entry: Option<Entry>) -> String {
        match prologs(step, entry, BOOT, |e| e.gpus[0].index == NvmlIndex(3)) {
            Left::Ready(_) => "ready".to_owned(),
            Left::Nothing => "unknown".to_owned(),
            Left::Failed(why) => why,
        }
    }

    #[test]
    fn the_prolog_of_this_very_start_counts() {
        let ready = || entry(Phase::Ready);
        let step = || StepCredential { batch: false, restart: 0, ..batch() };
        assert_eq!(of(&batch(), Some(ready())), "ready");
        assert_eq!(
            of(&step(), Some(Entry { begun: true, ..ready() })),
            "ready",
            "of the script that has begun"
        );
        assert_eq!(of(&batch(), Some(entry(Phase::Failed("why".to_owned())))), "why");
        assert_eq!(of(&batch(), Some(entry(Phase::Intent))), "the prolog did not finish");
    }

    #[test]
    fn what_an_earlier_start_left_does_not_count() {
        let ready = || entry(Phase::Ready);
        let mut elsewhere = ready();
        elsewhere.gpus[0].index = NvmlIndex(4);
        for (what, entry) in [
            ("nothing", None),
            ("another user's", Some(Entry { uid: 1002, ..ready() })),
            ("before a requeue", Some(Entry { restart: 0, ..ready() })),
            ("before a boot", Some(Entry { boot: "earlier".to_owned(), ..ready() })),
            ("a script has begun after it", Some(Entry { begun: true, ..ready() })),
            (
                "the same for one that failed",
                Some(Entry { begun: true, ..entry(Phase::Failed(String::new())) }),
            ),
            ("other GPUs", Some(elsewhere)),
        ] {
            assert_eq!(of(&batch(), entry), "unknown", "{what}");
        }
    }
}
