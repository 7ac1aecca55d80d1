//! Submissions that hurt more than their own job on any Slurm: slurmctld and slurmd do not check them.

use admission::Refusal;
use decision_counts::decisions::Reason;
use site_limits::tres::Tres;
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

/// Fields of a submission that can harm others.
#[derive(Clone, Debug)]
pub(crate) struct Fields {
    /// Number of variables in the job's environment.
    pub(crate) variables: u32,
    /// Has the field `extra`.
    pub(crate) extra: bool,
    /// Is an array and has an X11 target.
    pub(crate) array_with_x11: bool,
    pub(crate) tasks_per_socket: u16,
    /// `--spread-job`.
    pub(crate) spread: bool,
}

/// Faults that not every release of Slurm has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    /// slurmctld frees `extra` of a submission twice (`_copy_job_desc_to_job_record`).
    pub(crate) frees_extra_twice: bool,
    /// slurmctld ends when it spreads a job whose GRES it counts for the job as a whole (`_eval_nodes_spread`).
    pub(crate) spreads_no_gres: bool,
}

/// Part of a submission that harms others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Harm {
    /// A field with more bytes than this.
    TooLong(&'static str, usize),
    /// So many variables in the job's environment.
    Variables(u32),
    /// `extra`, before 23.02: the job's record keeps the message's own text, and both free it.
    Extra,
    /// A job array with an X11 target: each task's record frees the same text (`job_array_split`).
    ArrayWithX11,
    /// No tasks per socket. slurmctld divides by it (`_socks_per_node` of 24.11, `gres_job_state_validate`). It also makes that number
    /// itself, of 16 bits, from GRES per socket and per task.
    NoTasksPerSocket,
    /// `--spread-job` with GRES that are counted for the job as a whole.
    SpreadGres,
    /// Other nodes for a running job that has more than one GRES, or GPUs of several types: if a step has them, too, slurmctld frees
    /// their bit strings twice (`gres_stepmgr_step_state_rebase`, before 24.05 `gres_ctld_step_state_rebase`).
    FewerNodes,
}

impl Harm {
    /// Names the harm of a submission with these fields and these lists of GRES.
    pub(crate) fn find(fields: &Fields, tres: &Tres, faults: Faults) -> Option<Harm> {
        // First, because it is the one that counts in a change, too.
        if fields.tasks_per_socket == 0 {
            Some(Harm::NoTasksPerSocket)
        } else if fields.variables > MAX_VARIABLES {
            Some(Harm::Variables(fields.variables))
        } else if fields.extra && faults.frees_extra_twice {
            Some(Harm::Extra)
        } else if fields.array_with_x11 {
            Some(Harm::ArrayWithX11)
        } else {
            Harm::of_lists(fields.spread && faults.spreads_no_gres, tres)
        }
    }

    /// Names the harm of these lists of GRES in a job; `spread`: slurmctld spreads it and must not count them for the whole job.
    pub(crate) fn of_lists(spread: bool, tres: &Tres) -> Option<Harm> {
        if makes_no_tasks_per_socket(tres) {
            return Some(Harm::NoTasksPerSocket);
        }
        let has_gres = |list: &Option<String>| list.as_deref().is_some_and(|list| list.contains("gres"));
        // slurmctld makes such a count of `--gpus-per-task`, whose list can also have CPUs alone, and of `--ntasks-per-gpu` if no
        // list names GPUs.
        let by_tasks =
            tres.tasks_per_gpu.is_some() && !names_gpus(&tres.per_node) && !names_gpus(&tres.per_socket);
        let counted = has_gres(&tres.per_job) || has_gres(&tres.per_task) || by_tasks;
        (spread && counted).then_some(Harm::SpreadGres)
    }

    /// Says why the job is refused, and what would do.
    pub(crate) fn refusal(&self) -> Refusal {
        let why = match self {
            Harm::TooLong(field, most) => format!("its {field} has more than {most} bytes; shorten it"),
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
                "the job asks for 0 tasks per socket, with which Slurm ends slurmctld; 65536 or more GPUs per socket with \
                 --gpus-per-task ask for that, too; leave out --ntasks-per-socket or --gpus-per-socket"
                    .to_owned()
            }
            Harm::SpreadGres => {
                "the job has --spread-job and counts GPUs for the whole job or per task, with which this Slurm ends slurmctld; use \
                 --gpus-per-node or --gres, or leave out --spread-job"
                    .to_owned()
            }
            Harm::FewerNodes => {
                "the job runs with several GRES, or with GPUs of several types, and Slurm ends slurmctld when such a job gives up a node \
                 under its steps; leave its nodes as they are, or let an administrator change them while the job has no steps of srun"
                    .to_owned()
            }
        };
        Refusal::new(Reason::Options, why)
    }
}

/// Tells whether so many GRES per socket and some per task are asked that their ratio may be 0 in 16 bits.
fn makes_no_tasks_per_socket(tres: &Tres) -> bool {
    tres.per_task.is_some() && tres.per_socket.as_deref().is_some_and(has_large_count)
}

/// Tells whether slurmctld finds GPUs in a list of GRES. It passes over other GRES such as `gpumem`, a count of 0, and a list
/// without the prefix that it has had since 23.11.
fn names_gpus(list: &Option<String>) -> bool {
    list.as_deref().unwrap_or_default().split(',').any(|entry| {
        let rest =
            entry.strip_prefix("gres/gpu").filter(|rest| rest.is_empty() || rest.starts_with([':', '=']));
        rest.is_some_and(|rest| rest.rsplit([':', '=']).next().and_then(count) != Some(0))
    })
}

/// Tells whether a list of GRES has a number above 16 bits.
fn has_large_count(list: &str) -> bool {
    let mut fields = list.split([',', ';', ':', '=', '/', '(', ')', ' ', '+']);
    fields.any(|field| count(field).is_some_and(|count| count > u64::from(u16::MAX)))
}

/// Reads the number that a field of a list begins with. Slurm reads K, M, G, T and P after a number as powers of 1024.
fn count(field: &str) -> Option<u64> {
    let unit = field.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = &field[..field.len() - unit.len()];
    let power = unit.chars().next().and_then(|c| "kmgtp".find(c.to_ascii_lowercase()));
    let factor = power.map_or(1, |power| 1024_u64.pow(u32::try_from(power + 1).unwrap_or(0)));
    // More digits than a number can have are a large number.
    (!digits.is_empty()).then(|| digits.parse::<u64>().unwrap_or(u64::MAX).saturating_mul(factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_VAL16: u16 = 0xfffe;
    const PLAIN: Fields = Fields {
        variables: MAX_VARIABLES,
        extra: true,
        array_with_x11: false,
        tasks_per_socket: NO_VAL16,
        spread: true,
    };
    const NONE: Faults = Faults { frees_extra_twice: false, spreads_no_gres: false };
    const ALL: Faults = Faults { frees_extra_twice: true, spreads_no_gres: true };

    #[test]
    fn what_hurts_others_is_found_and_nothing_else() {
        let per_node = Tres { per_node: Some("gres/gpu:1".to_owned()), ..Tres::default() };
        let find = |fields: Fields, faults| Harm::find(&fields, &per_node, faults);
        assert_eq!(find(PLAIN, NONE), None);
        let many = MAX_VARIABLES + 1;
        assert_eq!(find(Fields { variables: many, ..PLAIN }, ALL), Some(Harm::Variables(many)));
        assert_eq!(find(PLAIN, ALL), Some(Harm::Extra));
        assert_eq!(find(Fields { extra: false, ..PLAIN }, ALL), None);
        assert_eq!(find(Fields { array_with_x11: true, ..PLAIN }, NONE), Some(Harm::ArrayWithX11));
        for faults in [NONE, ALL] {
            assert_eq!(find(Fields { tasks_per_socket: 0, ..PLAIN }, faults), Some(Harm::NoTasksPerSocket));
        }
    }

    #[test]
    fn only_gres_that_slurmctld_counts_for_the_whole_job_cannot_be_spread() {
        let list = |text: &str| Some(text.to_owned());
        let counted = [
            Tres { per_job: list("gres/gpu:2"), ..Tres::default() },
            Tres { per_task: list("cpu:2,gres/gpu:1"), ..Tres::default() },
            Tres { tasks_per_gpu: Some(2), ..Tres::default() },
        ];
        for tres in counted {
            let spread = Fields { extra: false, ..PLAIN };
            assert_eq!(Harm::find(&spread, &tres, ALL), Some(Harm::SpreadGres));
            assert_eq!(Harm::find(&spread, &tres, NONE), None);
            assert_eq!(Harm::of_lists(false, &tres), None);
        }
        let cpus = Tres { per_task: list("cpu:2"), per_socket: list("gres/gpu:1"), ..Tres::default() };
        assert_eq!(Harm::of_lists(true, &cpus), None);
    }

    #[test]
    fn tasks_count_gpus_unless_slurmctld_finds_gpus_in_a_list() {
        let find = |text: &str| {
            let list = Some(text.to_owned());
            let per_node = Tres { per_node: list.clone(), tasks_per_gpu: Some(2), ..Tres::default() };
            let per_socket = Tres { per_socket: list, tasks_per_gpu: Some(2), ..Tres::default() };
            [per_node, per_socket].map(|tres| Harm::of_lists(true, &tres).is_some())
        };
        for named in ["gres/gpu", "gres/gpu:1", "gres/gpu=1", "gres/gpu:a100", "gres/nic:1,gres/gpu:7g:2"] {
            assert_eq!(find(named), [false; 2], "{named}");
        }
        for passed_over in ["gres/gpumem:8", "gres/nic:gpu:1", "gres/gpu:0", "gres/gpu:a100:00", "gpu:1"] {
            assert_eq!(find(passed_over), [true; 2], "{passed_over}");
        }
    }

    #[test]
    fn a_ratio_that_is_0_in_16_bits_is_found() {
        let find = |per_socket: &str, per_task: &str| {
            let list = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            let tres = Tres { per_socket: list(per_socket), per_task: list(per_task), ..Tres::default() };
            Harm::find(&PLAIN, &tres, NONE)
        };
        for large in
            ["gres/gpu:65536", "gres:gpu:a100:64K", "gres/nic:1,gres/gpu=1m", "gpu:99999999999999999999"]
        {
            assert_eq!(find(large, "gres/gpu:1"), Some(Harm::NoTasksPerSocket), "{large}");
            assert_eq!(find(large, ""), None, "{large}");
        }
        assert_eq!(find("gres/gpu:h100k:65535", "gres/gpu:1"), None);
    }

    #[test]
    fn a_refusal_says_what_would_do() {
        let of = |harm: Harm| harm.refusal().to_string();
        assert!(of(Harm::Variables(70_000)).contains("70000 variables; at most 10000"));
        assert!(of(Harm::NoTasksPerSocket).contains("leave out --ntasks-per-socket"));
        assert!(of(Harm::SpreadGres).contains("use --gpus-per-node or --gres"));
        assert!(
            of(Harm::Extra).contains("leave it out") && of(Harm::ArrayWithX11).contains("leave out --array")
        );
    }
}
