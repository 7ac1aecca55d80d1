//! Submissions that hurt more than their own job on any Slurm: slurmctld and slurmd do not check them.

use admission::Refusal;
use decision_counts::decisions::Reason;
use slurmctld_rt::spank_env::BadEnv;

/// Most variables of a job's environment. `slurmstepd` copies them in a time that grows with the square of their number, and
/// no signal ends the copy (`env_array_copy`, 22.05 to 24.11): 70,000 take half a minute, in which a cancelled job drains its
/// node.
pub(crate) const MAX_VARIABLES: u32 = 10_000;

/// Refuses a job for its SPANK environment; `None`: nothing is wrong with that. No site can change these bounds: they keep a job
/// from draining the nodes that it is given.
pub(crate) fn of_env(bad: Option<&BadEnv>) -> Option<Refusal> {
    bad.map(|why| Refusal::new(Reason::Options, why.to_string()))
}

/// Part of a submission that harms others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Harm {
    /// So many variables in the job's environment.
    Variables(u32),
    /// `extra`, before 23.02: the job's record keeps the message's own text, and both free it.
    Extra,
    /// A job array with an X11 target: each task's record frees the same text (`job_array_split`).
    ArrayWithX11,
    /// No tasks per socket. slurmctld divides by it (`_socks_per_node` of 24.11, `gres_job_state_validate`).
    NoTasksPerSocket,
}

impl Harm {
    /// Names the harm of a submission with so many variables, the field `extra` or not, an X11 target in an array or not, and so
    /// many tasks per socket. `frees_extra_twice`: whether this Slurm does.
    pub(crate) fn find(
        variables: u32,
        extra: bool,
        frees_extra_twice: bool,
        array_with_x11: bool,
        tasks_per_socket: u16,
    ) -> Option<Harm> {
        if variables > MAX_VARIABLES {
            Some(Harm::Variables(variables))
        } else if extra && frees_extra_twice {
            Some(Harm::Extra)
        } else if array_with_x11 {
            Some(Harm::ArrayWithX11)
        } else {
            (tasks_per_socket == 0).then_some(Harm::NoTasksPerSocket)
        }
    }

    /// Says why the job is refused, and what would do.
    pub(crate) fn refusal(&self) -> Refusal {
        let why = match self {
            Harm::Variables(n) => format!(
                "the job's environment has {n} variables; at most {MAX_VARIABLES} are accepted, because Slurm takes so long to \
                 copy more that the node is drained; --export=NAME,... passes fewer"
            ),
            Harm::Extra => "the job has the field extra, with which this Slurm ends slurmctld; leave it out".to_owned(),
            Harm::ArrayWithX11 => {
                "the job is an array with X11 forwarding, with which this Slurm ends slurmctld; leave out --array or --x11"
                    .to_owned()
            }
            Harm::NoTasksPerSocket => {
                "the job asks for 0 tasks per socket, with which Slurm ends slurmctld; leave out --ntasks-per-socket".to_owned()
            }
        };
        Refusal::new(Reason::Options, why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hurts_others_is_found_and_nothing_else() {
        assert_eq!(Harm::find(MAX_VARIABLES, true, false, false, 1), None);
        assert_eq!(
            Harm::find(MAX_VARIABLES + 1, false, true, false, 1),
            Some(Harm::Variables(MAX_VARIABLES + 1))
        );
        assert_eq!(Harm::find(1, true, true, false, 1), Some(Harm::Extra));
        assert_eq!(Harm::find(1, true, false, true, 1), Some(Harm::ArrayWithX11));
        assert_eq!(Harm::find(1, true, false, false, 0), Some(Harm::NoTasksPerSocket));
    }

    #[test]
    fn a_refusal_says_what_would_do() {
        let of = |harm: Harm| harm.refusal().to_string();
        assert!(of(Harm::Variables(70_000)).contains("70000 variables; at most 10000"));
        assert!(of(Harm::NoTasksPerSocket).contains("leave out --ntasks-per-socket"));
        assert!(
            of(Harm::Extra).contains("leave it out") && of(Harm::ArrayWithX11).contains("leave out --array")
        );
    }
}
