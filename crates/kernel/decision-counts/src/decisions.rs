//! Counts of the plugins' decisions in slurmctld, which `tessera exporter` reads: one page of numbers in memory that both
//! processes see. Reasons: docs/decisions/0027.
//!
//! The page is a row of 64-bit numbers in the machine's byte order: [`MARK`], then for each [`Ask`] the numbers of accepted and
//! refused ones, by [`Reason`], then a histogram of the time that they took, and that time in all. Then the same histogram for each
//! [`Hook`], then what [`placed_by`] gives. Last, for each [`Cached`], how many there are and how many there may be.

/// The first number of a page, of this very arrangement: whoever changes that, changes the number. Its bytes are `tess` and a
/// version.
pub const MARK: u64 = 0x7465_7373_0000_0005;

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
}

impl Ask {
    /// All of them, in the order of the page.
    pub const ALL: [Self; 5] = [Self::Submit, Self::Change, Self::RunNow, Self::WillRun, Self::TestOnly];
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

/// Numbers of a histogram: one for each of [`BOUNDS_NS`], and one for longer times.
pub const BUCKETS: usize = BOUNDS_NS.len() + 1;
/// Numbers of an [`Ask`] before its histogram: accepted ones, then refused ones by [`Reason`].
pub const ANSWERS: usize = Reason::ALL.len() + 1;
const ROW: usize = ANSWERS + BUCKETS + 1;

/// Numbers of a page.
pub const SLOTS: usize = FIRST_CACHED + 2 * Cached::ALL.len();

/// The place of the number that [`placed_by`] gives.
pub const PLACING: usize = FIRST_HOOK + Hook::ALL.len() * HOOK_ROW;

const FIRST_CACHED: usize = PLACING + 1;
const FIRST_HOOK: usize = 1 + Ask::ALL.len() * ROW;
const HOOK_ROW: usize = BUCKETS + 1;

/// The number that says how the process with this id places: its lowest byte is the [`Placing`], the rest the id. The page outlives the
/// process.
#[must_use]
pub fn placed_by(placing: Placing, process: u32) -> u64 {
    u64::from(process) << 8 | placing as u64
}

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

/// The place of a call's histogram; the time in all is behind it.
#[must_use]
pub fn hook_row(hook: Hook) -> usize {
    FIRST_HOOK + hook as usize * HOOK_ROW
}

/// The place of a question's first number, of [`ANSWERS`]; its histogram is behind these, and then the time in all.
#[must_use]
pub fn row(ask: Ask) -> usize {
    1 + ask as usize * ROW
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_named_by_its_slurmctld() {
        assert_eq!(page_name("/var/spool/slurmctld/"), "tessera.var.spool.slurmctld");
    }
}
