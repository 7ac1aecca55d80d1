//! Counts of the plugins' decisions in slurmctld, which `tessera exporter` reads: one page of numbers in memory that both
//! processes see. Reasons: docs/decisions/0027.
//!
//! The page is a row of 64-bit numbers in the machine's byte order: [`MARK`], then for each [`Ask`] the numbers of accepted and
//! refused ones, by [`Reason`], then a histogram of the time that they took, and that time in all. Then the same histogram for each
//! [`Hook`], then a [`Placing`]. Last, for each [`Cached`], how many there are and how many there may be.

/// The first number of a page, of this very arrangement: whoever changes that, changes the number. Its bytes are `tess` and a
/// version.
pub const MARK: u64 = 0x7465_7373_0000_0004;

/// The directory of the pages: a file system in memory, on which a write to a page waits for no disk.
pub const DIR: &str = "/dev/shm";

/// The name of the page of the slurmctld whose `StateSaveLocation` this is; its slashes become dots.
#[must_use]
pub fn page_name(state_save_location: &str) -> String {
    format!("tessera{}", state_save_location.trim_end_matches('/').replace('/', "."))
}

/// Slurm's question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// May this job be submitted?
    Submit,
    /// May this job be changed so?
    Change,
    /// Can it start now?
    RunNow,
    /// At what time can it start?
    WillRun,
    /// Could it run on an empty cluster?
    TestOnly,
}

/// Slurm's call of the select plugin, under slurmctld's locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// A job is tested, whatever it asks for.
    JobTest,
    /// A job is about to start.
    JobBegin,
    /// A job was allocated, or found running at slurmctld's start.
    Allocated,
    /// A job begins to end.
    JobEnded,
    /// A running job has lost a node.
    JobResized,
    /// A step starts.
    StepStart,
    /// The nodes are about to be shown.
    NodesShown,
    /// slurmctld has read its configuration: Tessera's file is read, and then its state rebuilt.
    Reconfigure,
}

/// State of slurmctld's placing of GPUs by Tessera's decisions, and if off, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placing {
    /// Tessera decides.
    On = 1,
    /// There is no `tessera.toml`.
    NoFile = 2,
    /// `tessera.toml` has errors, and no good version is known.
    BadFile = 3,
    /// The structures of this slurmctld are not those that the plugin was built for, or it lacks a function.
    OtherSlurm = 4,
}

impl Placing {
    const ALL: [Self; 4] = [Self::On, Self::NoFile, Self::BadFile, Self::OtherSlurm];

    /// Returns why slurmctld leaves GPUs to Slurm, with what to do; `None` if it places them.
    #[must_use]
    pub fn off(self) -> Option<&'static str> {
        match self {
            Self::On => None,
            Self::NoFile => Some("slurmctld's machine has no tessera.toml in the directory of slurm.conf"),
            Self::BadFile => Some(
                "tessera.toml has errors and no good version is known: correct it, then `scontrol reconfigure`",
            ),
            Self::OtherSlurm => Some(
                "this slurmctld is not the Slurm that the plugin was built for: its log names the difference; install the \
                 build for this very Slurm",
            ),
        }
    }
}

/// Things that the plugins keep in slurmctld, so that they need not find them out again. Each has a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cached {
    /// Different requests that have a number.
    Requests,
    /// Answers of nodes, and of kinds of nodes, to those.
    Answers,
    /// Sets of whole GPUs that were chosen, for whichever nodes have the same links and free GPUs.
    GpuSets,
    /// Jobs whose requests have been learnt.
    Jobs,
    /// Names of nodes in the host lists of partitions.
    NodeNames,
}

impl Cached {
    /// All of them, in the order of the page.
    pub const ALL: [Self; 5] = [Self::Requests, Self::Answers, Self::GpuSets, Self::Jobs, Self::NodeNames];

    /// The places of the number that there are, and of the number that there may be.
    #[must_use]
    pub fn slots(self) -> [usize; 2] {
        let first = FIRST_CACHED + 2 * self as usize;
        [first, first + 1]
    }
}

/// Why the answer is no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Options that contradict each other, or that nobody can read.
    Options,
    /// A limit of the site.
    Limit,
    /// No node could ever serve the request.
    Impossible,
    /// There is no `tessera.toml` or no good version of it, or the nodes' GPUs are not those that it describes.
    Config,
    /// The user named, or gave back, the licenses that count slices.
    Licenses,
    /// A power budget has nothing left.
    Power,
    /// The job waits for better-linked GPUs.
    BetterGpus,
    /// No GPUs or slices are free for it.
    NoRoom,
    /// Slurm itself: there are no cores, no memory, no node of its own.
    Slurm,
    /// A bug of Tessera's, which slurmctld's log has.
    Failure,
}

impl Hook {
    /// All of them, in the order of the page.
    pub const ALL: [Self; 8] = [
        Self::JobTest,
        Self::JobBegin,
        Self::Allocated,
        Self::JobEnded,
        Self::JobResized,
        Self::StepStart,
        Self::NodesShown,
        Self::Reconfigure,
    ];

    /// The word for it in a metric's label: Slurm's own name of the call, without `select_p_`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::JobTest => "job_test",
            Self::JobBegin => "job_begin",
            Self::Allocated => "select_nodeinfo_set",
            Self::JobEnded => "job_fini",
            Self::JobResized => "job_resized",
            Self::StepStart => "step_start",
            Self::NodesShown => "select_nodeinfo_set_all",
            Self::Reconfigure => "reconfigure",
        }
    }
}

impl Ask {
    /// All of them, in the order of the page.
    pub const ALL: [Self; 5] = [Self::Submit, Self::Change, Self::RunNow, Self::WillRun, Self::TestOnly];

    /// The word for it in a metric's label.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::Change => "change",
            Self::RunNow => "run_now",
            Self::WillRun => "will_run",
            Self::TestOnly => "test_only",
        }
    }

    /// Why the answer can be no.
    #[must_use]
    pub fn reasons(self) -> &'static [Reason] {
        use Reason::{
            BetterGpus, Config, Failure, Impossible, Licenses, Limit, NoRoom, Options, Power, Slurm,
        };
        match self {
            Self::Submit | Self::Change => &[Options, Limit, Impossible, Config, Licenses],
            Self::RunNow | Self::WillRun => {
                &[Limit, Impossible, Config, Power, BetterGpus, NoRoom, Slurm, Failure]
            }
            Self::TestOnly => &[Impossible, Config, Slurm],
        }
    }
}

impl Reason {
    /// All of them, in the order of the page.
    pub const ALL: [Self; 10] = [
        Self::Options,
        Self::Limit,
        Self::Impossible,
        Self::Config,
        Self::Licenses,
        Self::Power,
        Self::BetterGpus,
        Self::NoRoom,
        Self::Slurm,
        Self::Failure,
    ];

    /// The word for it in a metric's label.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Options => "options",
            Self::Limit => "limit",
            Self::Impossible => "impossible",
            Self::Config => "config",
            Self::Licenses => "licenses",
            Self::Power => "power",
            Self::BetterGpus => "better_gpus",
            Self::NoRoom => "no_room",
            Self::Slurm => "slurm",
            Self::Failure => "failure",
        }
    }
}

/// Upper bounds of the times that are told apart, ns: from 10 microseconds to a second. Longer ones have a bucket of their own.
pub const BOUNDS_NS: [u64; 12] = [
    10_000,
    30_000,
    100_000,
    300_000,
    1_000_000,
    3_000_000,
    5_000_000,
    10_000_000,
    30_000_000,
    100_000_000,
    300_000_000,
    1_000_000_000,
];

const BUCKETS: usize = BOUNDS_NS.len() + 1;
const ANSWERS: usize = Reason::ALL.len() + 1;
const ROW: usize = ANSWERS + BUCKETS + 1;

/// Numbers of a page.
pub const SLOTS: usize = FIRST_CACHED + 2 * Cached::ALL.len();

/// The place of the number that is a [`Placing`].
pub const PLACING: usize = FIRST_HOOK + Hook::ALL.len() * HOOK_ROW;

const FIRST_CACHED: usize = PLACING + 1;
const FIRST_HOOK: usize = 1 + Ask::ALL.len() * ROW;
const HOOK_ROW: usize = BUCKETS + 1;

/// The numbers that one decision raises, each with what is added to it.
#[must_use]
pub fn raised(ask: Ask, answer: Result<(), Reason>, took_ns: u64) -> [(usize, u64); 3] {
    let row = row(ask);
    let answer = answer.err().map_or(0, |reason| 1 + reason as usize);
    [(row + answer, 1), (row + ANSWERS + bucket(took_ns), 1), (row + ANSWERS + BUCKETS, took_ns)]
}

/// The numbers that one call raises, each with what is added to it.
#[must_use]
pub fn raised_by_hook(hook: Hook, took_ns: u64) -> [(usize, u64); 2] {
    let row = hook_row(hook);
    [(row + bucket(took_ns), 1), (row + BUCKETS, took_ns)]
}

fn bucket(took_ns: u64) -> usize {
    BOUNDS_NS.iter().position(|bound| took_ns <= *bound).unwrap_or(BOUNDS_NS.len())
}

fn hook_row(hook: Hook) -> usize {
    FIRST_HOOK + hook as usize * HOOK_ROW
}

fn row(ask: Ask) -> usize {
    1 + ask as usize * ROW
}

/// The numbers of a page at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decisions(Vec<u64>);

impl Decisions {
    /// From the numbers of a page; `None`: it is not one of this arrangement.
    #[must_use]
    pub fn of(numbers: Vec<u64>) -> Option<Self> {
        (numbers.len() == SLOTS && numbers[0] == MARK).then_some(Self(numbers))
    }

    /// Tells whether slurmctld places GPUs; `None`: it has not said so yet.
    #[must_use]
    pub fn placing(&self) -> Option<Placing> {
        Placing::ALL.into_iter().find(|placing| *placing as u64 == self.0[PLACING])
    }

    /// How many of these the plugins keep, and how many they may keep at most; 0 and 0: they have not said so yet.
    #[must_use]
    pub fn kept(&self, what: Cached) -> [u64; 2] {
        what.slots().map(|slot| self.0[slot])
    }

    /// Questions that were answered with yes.
    #[must_use]
    pub fn accepted(&self, ask: Ask) -> u64 {
        self.0[row(ask)]
    }

    /// Questions that were answered with no, for this reason.
    #[must_use]
    pub fn refused(&self, ask: Ask, why: Reason) -> u64 {
        self.0[row(ask) + 1 + why as usize]
    }

    /// Number of decisions that took at most each of [`BOUNDS_NS`] and longer than the one before, and last of those that
    /// took longer than all.
    #[must_use]
    pub fn times(&self, ask: Ask) -> &[u64] {
        &self.0[row(ask) + ANSWERS..][..BUCKETS]
    }

    /// The time that all of them took, ns.
    #[must_use]
    pub fn total_ns(&self, ask: Ask) -> u64 {
        self.0[row(ask) + ANSWERS + BUCKETS]
    }

    /// Number of calls that lasted as [`Self::times`] tells it, and the time of all, ns: of Tessera's part, without Slurm's own.
    #[must_use]
    pub fn hook(&self, hook: Hook) -> (&[u64], u64) {
        let row = hook_row(hook);
        (&self.0[row..][..BUCKETS], self.0[row + BUCKETS])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page on which these numbers were raised.
    fn page(raised: impl IntoIterator<Item = (usize, u64)>) -> Decisions {
        let mut numbers = vec![0; SLOTS];
        numbers[0] = MARK;
        raised.into_iter().for_each(|(slot, n)| numbers[slot] += n);
        Decisions::of(numbers).unwrap()
    }

    /// A page after these decisions.
    fn after(decisions: &[(Ask, Result<(), Reason>, u64)]) -> Decisions {
        page(decisions.iter().flat_map(|(ask, answer, took_ns)| raised(*ask, *answer, *took_ns)))
    }

    #[test]
    fn each_decision_is_found_where_it_was_counted_and_nowhere_else() {
        for (i, ask) in Ask::ALL.into_iter().enumerate() {
            assert_eq!(ask as usize, i);
            for answer in [Ok(())].into_iter().chain(Reason::ALL.into_iter().map(Err)) {
                let page = after(&[(ask, answer, 7)]);
                for other in Ask::ALL {
                    let here = u64::from(other == ask);
                    assert_eq!(page.accepted(other), if answer.is_ok() { here } else { 0 });
                    for why in Reason::ALL {
                        assert_eq!(page.refused(other, why), if answer == Err(why) { here } else { 0 });
                    }
                    assert_eq!((page.times(other)[0], page.total_ns(other)), (here, 7 * here));
                }
            }
        }
        assert_eq!(Reason::ALL.map(|why| why as usize), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn times_fall_into_their_buckets() {
        let took = [0, 10_000, 10_001, 1_000_000_000, 1_000_000_001, u64::MAX / 2];
        let page = after(&took.map(|ns| (Ask::RunNow, Ok(()), ns)));
        assert_eq!(page.times(Ask::RunNow), [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(page.times(Ask::RunNow).iter().sum::<u64>(), 6);
    }

    #[test]
    fn each_call_is_found_where_it_was_counted_and_nowhere_else() {
        for (i, hook) in Hook::ALL.into_iter().enumerate() {
            assert_eq!(hook as usize, i);
            let page = page(raised_by_hook(hook, 5_000_000));
            assert_eq!((page.placing(), page.times(Ask::ALL[4])[12]), (None, 0));
            for other in Hook::ALL {
                let here = u64::from(other == hook);
                let (times, total_ns) = page.hook(other);
                assert_eq!((times[6], times.iter().sum(), total_ns), (here, here, 5_000_000 * here));
            }
        }
        assert_eq!(BOUNDS_NS[6], 5_000_000);
    }

    #[test]
    fn a_page_says_whether_gpus_are_placed() {
        assert_eq!(page([]).placing(), None);
        for placing in Placing::ALL {
            assert_eq!(page([(PLACING, placing as u64)]).placing(), Some(placing));
            assert_eq!(placing.off().is_none(), placing == Placing::On);
        }
    }

    #[test]
    fn what_is_kept_stands_where_nothing_else_does() {
        for (i, kept) in Cached::ALL.into_iter().enumerate() {
            assert_eq!(kept as usize, i);
            let [now, most] = kept.slots();
            let page = page([(now, 3), (most, 9)]);
            for other in Cached::ALL {
                assert_eq!(page.kept(other), if other == kept { [3, 9] } else { [0, 0] });
            }
            let hooks = Hook::ALL.iter().all(|hook| page.hook(*hook).0.iter().all(|n| *n == 0));
            assert!(hooks && page.placing().is_none());
        }
    }

    #[test]
    fn another_arrangement_is_not_read() {
        assert_eq!(Decisions::of(vec![MARK; SLOTS - 1]), None);
        assert_eq!(Decisions::of(vec![0; SLOTS]), None);
    }

    #[test]
    fn a_page_is_named_by_its_slurmctld() {
        assert_eq!(page_name("/var/spool/slurmctld/"), "tessera.var.spool.slurmctld");
    }
}
