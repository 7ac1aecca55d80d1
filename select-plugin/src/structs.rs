//! Checks that Slurm's structs are those of its release.
//!
//! The first job's record and the node table decide for all. After that, an odd record concerns its own job alone: nothing that a user
//! submits can turn placement off.

/// Knowledge of the structs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Structs {
    #[default]
    NotChecked,
    Fit,
    /// Different.
    Other {
        /// Nodes of ours that have yet to show it.
        unshown: Vec<String>,
        /// The first thing that was found.
        why: String,
    },
}

/// Result of a look at a job's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The record can be used.
    Usable,
    /// The record is not used.
    NotUsable,
    /// Just found: the structs differ, and nothing is placed any more.
    Differ,
}

impl Structs {
    /// Judges a job's record. `is_marked`: a look at the record once it is known what records look like. `carefully`: the look before
    /// that, at this record and those of nodes, with what is wrong; false: this record tells nothing. `ours`: the nodes that have to show it if nothing is placed any
    /// more.
    pub(crate) fn judge(
        &mut self,
        is_marked: impl FnOnce() -> bool,
        carefully: impl FnOnce() -> Result<bool, String>,
        ours: impl FnOnce() -> Vec<String>,
    ) -> Verdict {
        match self {
            Self::Fit if is_marked() => Verdict::Usable,
            Self::Fit | Self::Other { .. } => Verdict::NotUsable,
            Self::NotChecked => match carefully() {
                Ok(false) => Verdict::NotUsable,
                Ok(true) => {
                    *self = Self::Fit;
                    Verdict::Usable
                }
                Err(why) => {
                    *self = Self::Other { unshown: ours(), why };
                    Verdict::Differ
                }
            },
        }
    }

    /// Says what is different; `None`: nothing that is known.
    pub(crate) fn difference(&self) -> Option<&str> {
        match self {
            Self::Other { why, .. } => Some(why),
            Self::NotChecked | Self::Fit => None,
        }
    }

    /// Tells whether the structs are known to differ.
    pub(crate) fn differ(&self) -> bool {
        self.difference().is_some()
    }

    /// Takes the nodes that have yet to show that the structs differ; `None` if that is not known of them.
    pub(crate) fn take_unshown(&mut self) -> Option<Vec<String>> {
        match self {
            Self::Other { unshown, .. } => Some(std::mem::take(unshown)),
            Self::NotChecked | Self::Fit => None,
        }
    }
}

/// Says what is wrong, and what to do. `version`: of this Slurm, as it calls itself.
pub(crate) fn complaint(version: &str, why: &str) -> String {
    format!(
        "select plugin: this is no Slurm {version} as it was published: {why}; Tessera is off until it has a table of this \
         very Slurm"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours() -> Vec<String> {
        vec!["n1".to_owned(), "n2".to_owned()]
    }

    fn never<T>() -> T {
        panic!("not asked for")
    }

    fn odd() -> Result<bool, String> {
        Err("a job_record has 8 bytes here, and 9 by the table".to_owned())
    }

    #[test]
    fn an_odd_record_after_a_good_one_concerns_its_own_job() {
        let mut structs = Structs::default();
        assert_eq!(structs.judge(never, || Ok(true), never), Verdict::Usable);
        assert_eq!(structs.judge(|| false, never, never), Verdict::NotUsable);
        assert_eq!(structs.judge(|| true, never, never), Verdict::Usable, "the next job is placed");
        assert!(!structs.differ() && structs.take_unshown().is_none());
    }

    /// Slurm asks with one where to put a reservation of GPUs, maybe before there is a job.
    #[test]
    fn a_record_that_is_no_jobs_turns_nothing_off() {
        let mut structs = Structs::default();
        assert_eq!(structs.judge(never, || Ok(false), never), Verdict::NotUsable);
        assert!(!structs.differ());
        assert_eq!(structs.judge(never, || Ok(true), never), Verdict::Usable);
    }

    #[test]
    fn a_first_record_that_does_not_fit_ends_placement_for_good() {
        let mut structs = Structs::default();
        assert!(!structs.differ());
        assert_eq!(structs.judge(never, odd, ours), Verdict::Differ);
        assert_eq!(structs.judge(never, never, never), Verdict::NotUsable, "found once");
        assert_eq!(structs.difference(), odd().err().as_deref());
        assert_eq!(structs.take_unshown(), Some(ours()));
        assert_eq!(structs.take_unshown(), Some(Vec::new()), "shown once");
        assert!(structs.differ(), "and still so");
    }

    #[test]
    fn the_complaint_names_the_slurm_and_what_is_different() {
        let said = complaint("22.05.8", &odd().unwrap_err());
        assert_eq!(
            said,
            "select plugin: this is no Slurm 22.05.8 as it was published: a job_record has 8 bytes here, and 9 by the table; \
             Tessera is off until it has a table of this very Slurm"
        );
    }
}
