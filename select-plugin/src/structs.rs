//! Whether Slurm's structs are those that this plugin was built with.
//!
//! The first job's record and the node table decide for all. After that, an odd record concerns its own job alone: nothing that a user
//! submits can turn placement off.

/// Knowledge of the structs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Structs {
    #[default]
    NotChecked,
    Fit,
    /// They differ. These nodes of ours have yet to show it.
    Other(Vec<String>),
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
    /// Judges a job's record. `job_fits`, `nodes_fit`: whether the record and the node table have what they should at the places
    /// where they should. `ours`: the nodes that have to show it if nothing is placed any more.
    pub(crate) fn judge(
        &mut self,
        job_fits: bool,
        nodes_fit: impl FnOnce() -> bool,
        ours: impl FnOnce() -> Vec<String>,
    ) -> Verdict {
        match self {
            Self::Fit if job_fits => Verdict::Usable,
            Self::Fit | Self::Other(_) => Verdict::NotUsable,
            Self::NotChecked if job_fits && nodes_fit() => {
                *self = Self::Fit;
                Verdict::Usable
            }
            Self::NotChecked => {
                *self = Self::Other(ours());
                Verdict::Differ
            }
        }
    }

    /// Tells whether the structs are known to differ.
    pub(crate) fn differ(&self) -> bool {
        matches!(self, Self::Other(_))
    }

    /// Takes the nodes that have yet to show that the structs differ; `None` if that is not known of them.
    pub(crate) fn take_unshown(&mut self) -> Option<Vec<String>> {
        match self {
            Self::Other(nodes) => Some(std::mem::take(nodes)),
            Self::NotChecked | Self::Fit => None,
        }
    }
}

/// Says what is wrong, and what to do. `version`: of the Slurm that the plugin was built for; Slurm has compared it with its own
/// before it loaded the plugin.
pub(crate) fn complaint(version: &str) -> String {
    format!(
        "select plugin: built for Slurm {version}, but this Slurm, which calls itself {version} too, has other structs; GPU \
         placement is off until it is rebuilt from the source of this very Slurm"
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

    #[test]
    fn an_odd_record_after_a_good_one_concerns_its_own_job() {
        let mut structs = Structs::default();
        assert_eq!(structs.judge(true, || true, never), Verdict::Usable);
        assert_eq!(structs.judge(false, never, never), Verdict::NotUsable);
        assert_eq!(structs.judge(true, never, never), Verdict::Usable, "the next job is placed");
        assert!(!structs.differ() && structs.take_unshown().is_none());
    }

    #[test]
    fn a_first_record_or_node_that_does_not_fit_ends_placement_for_good() {
        for (job_fits, nodes_fit) in [(false, true), (true, false), (false, false)] {
            let mut structs = Structs::default();
            assert!(!structs.differ());
            assert_eq!(structs.judge(job_fits, || nodes_fit, ours), Verdict::Differ);
            assert_eq!(structs.judge(true, never, never), Verdict::NotUsable, "found once");
            assert!(structs.differ());
            assert_eq!(structs.take_unshown(), Some(ours()));
            assert_eq!(structs.take_unshown(), Some(Vec::new()), "shown once");
            assert!(structs.differ(), "and still so");
        }
    }

    #[test]
    fn the_node_table_is_not_read_for_a_record_that_does_not_fit() {
        assert_eq!(Structs::default().judge(false, never, ours), Verdict::Differ);
    }

    #[test]
    fn the_complaint_names_the_slurm_and_what_helps() {
        let said = complaint("22.05.8");
        assert!(
            said.contains("built for Slurm 22.05.8, but this Slurm, which calls itself 22.05.8 too"),
            "{said}"
        );
        assert!(
            said.ends_with("placement is off until it is rebuilt from the source of this very Slurm"),
            "{said}"
        );
    }
}
