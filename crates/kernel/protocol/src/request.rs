//! The request of one job on each of its nodes.

use std::fmt;

use geometry::size::display_gb;
use geometry::split_compute_name;

use crate::counters::AppCounters;
use crate::moldable::{PlannedStart, SizeTime};
use crate::set_wait::SetWait;
use topology::{Pattern, Selection};

/// Degree to which a job's GPU is kept from other jobs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// The kind that satisfies the rest of the request and takes least from other jobs.
    Auto,
    /// MIG instances of the job's own, of this profile if one is named.
    Mig(Option<String>),
    /// A memory-limited share of a GPU or instance, through MPS.
    Mps,
    /// A seat per Slurm task in the pool of devices that GPU tasks share.
    Tasks {
        /// The programs ask for their tasks' memory themselves. Without it they are preloaded with a library that asks
        /// for them.
        probes: bool,
    },
    /// Whole GPUs, outside MIG mode.
    Whole,
    /// Slurm's own choice; Tessera changes nothing.
    None,
}

impl Isolation {
    /// The values that a user may type, for messages.
    pub const ACCEPTED: &str =
        "auto, mig, mig:PROFILE, mig-shared:INSTANCE, mps, gpu-tasks, gpu-tasks:probes, whole or slurm";

    /// Reads what a user types after `--gpu-isolation=`. A profile's name is checked only for its characters: which
    /// profiles exist depends on the node.
    ///
    /// # Errors
    ///
    /// The text is none of [`Isolation::ACCEPTED`].
    pub fn parse(text: &str) -> Result<Self, UnknownIsolation> {
        match text {
            "auto" => Ok(Self::Auto),
            "mig" => Ok(Self::Mig(None)),
            "mps" => Ok(Self::Mps),
            // The names before 0.1. Requests on their way still have them.
            "gpu-tasks" | "tasks" => Ok(Self::Tasks { probes: false }),
            "gpu-tasks:probes" | "tasks:probes" => Ok(Self::Tasks { probes: true }),
            "whole" => Ok(Self::Whole),
            "slurm" => Ok(Self::None),
            _ => {
                // What shares its memory with other jobs is not spelled as what is isolated.
                let (kind, name) = text.split_once(':').ok_or(UnknownIsolation)?;
                let of_kind = match kind {
                    "mig" => split_compute_name(name).is_none(),
                    "mig-shared" => split_compute_name(name).is_some(),
                    _ => false,
                };
                (of_kind && is_profile_name(name))
                    .then(|| Self::Mig(Some(name.to_owned())))
                    .ok_or(UnknownIsolation)
            }
        }
    }

    /// Says what replaces a spelling that versions before 0.1 took, as the end of a sentence about it; `None`: it never was one.
    #[must_use]
    pub fn renamed(text: &str) -> Option<String> {
        if text == "none" {
            return Some(
                "is now slurm: the job gets what Slurm gives; to share a GPU with other jobs, write mps"
                    .to_owned(),
            );
        }
        let part = text.strip_prefix("mig:").filter(|name| split_compute_name(name).is_some())?;
        Some(format!("is now mig-shared:{part}, because other jobs share its memory"))
    }
}

/// The text is not an isolation; the message lists [`Isolation::ACCEPTED`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {}", Isolation::ACCEPTED)]
pub struct UnknownIsolation;

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Mig(None) => f.write_str("mig"),
            Self::Mig(Some(part)) if split_compute_name(part).is_some() => write!(f, "mig-shared:{part}"),
            Self::Mig(Some(profile)) => write!(f, "mig:{profile}"),
            Self::Mps => f.write_str("mps"),
            Self::Tasks { probes: false } => f.write_str("gpu-tasks"),
            Self::Tasks { probes: true } => f.write_str("gpu-tasks:probes"),
            Self::Whole => f.write_str("whole"),
            Self::None => f.write_str("slurm"),
        }
    }
}

/// Tells whether the text could be a MIG profile's name: 1 to 24 lower-case letters, digits, `.`, `+` and `-`. Names come
/// from users.
#[must_use]
pub fn is_profile_name(text: &str) -> bool {
    (1..=24).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'+' | b'-'))
}

/// Dependence of a job's run time on the bandwidth between its GPUs (MAPA section 3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bandwidth {
    /// GPUs with faster links make the job faster.
    Sensitive,
    /// The job is as fast on any GPUs.
    Insensitive,
}

impl Bandwidth {
    /// The word for it, which users type too.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Sensitive => "sensitive",
            Self::Insensitive => "insensitive",
        }
    }

    /// Reads [`Self::word`].
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Sensitive, Self::Insensitive].into_iter().find(|one| one.word() == word)
    }
}

/// The request of one job on each of its nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// Degree to which the job's GPU is kept from other jobs.
    pub isolation: Isolation,
    /// True if the user named the isolation. If not, it follows from other options, and the site's default may replace it.
    pub isolation_typed: bool,
    /// Memory per instance, share or GPU, or that each process of a `gpu-tasks` job takes, MiB; `None`: any.
    pub mem_mib: Option<u64>,
    /// Instances per node, from 1; where [`Self::per_task`], for each Slurm task on the node.
    pub instances: u32,
    /// True if instances are counted per Slurm task. slurmctld, which knows the tasks, makes a number per node of it.
    pub per_task: bool,
    /// For `gpu-tasks`: Slurm tasks per node, from 1, as slurmctld counts them.
    pub seats: u32,
    /// Percent of the GPU's SMs, 1 to 100: the most for an MPS share, the least for a MIG instance.
    pub threads: Option<u8>,
    /// Pattern in which the job's GPUs talk to each other.
    pub pattern: Option<Pattern>,
    /// Dependence of the job on the bandwidth between its GPUs.
    pub bandwidth: Option<Bandwidth>,
    /// Whole GPUs per node, if the job asked for them.
    pub gpus: Option<u32>,
    /// Policy that selects a set of whole GPUs; `None`: as the partition or site says.
    pub policy: Option<Selection>,
    /// For whole GPUs: how long the job waits for a better set; `None`: as the partition or site says.
    pub wait: Option<SetWait>,
    /// Run time per instance size, ascending by size, for a moldable job (FAR section 2); else empty.
    pub times: Vec<SizeTime>,
    /// Name of the job profile: jobs of one profile scale alike, and planners learn their run times from past ones.
    pub job_profile: Option<String>,
    /// Planned place of the job's instance.
    pub place: Option<PlannedStart>,
    /// Power cap of each of the job's GPUs, W.
    pub cap_w: Option<u16>,
    /// The cap follows from the counters of the application that [`Self::job_profile`] names; then `cap_w` is `None`.
    pub auto_cap: bool,
    /// The user's counters of that application, at most [`MAX_COUNTERS`](crate::MAX_COUNTERS). The site's own come first.
    pub counters: Vec<AppCounters>,
}

/// Most instances per node that a request may have.
pub const MAX_INSTANCES: u32 = 1024;

/// Most seats per node that a request may have. No node has room for so many.
pub const MAX_SEATS: u32 = 65_535;

impl Request {
    /// Tells whether the job is to have whole GPUs of its own, for GPU tasks too.
    #[must_use]
    pub fn is_for_whole_gpus(&self) -> bool {
        match self.isolation {
            Isolation::Whole => true,
            Isolation::Tasks { .. } => self.gpus.is_some(),
            _ => false,
        }
    }

    /// The compute instance that the request names, such as `4c.7g.40gb`; `None` if it asks for something else.
    #[must_use]
    pub fn compute_name(&self) -> Option<&str> {
        let Isolation::Mig(Some(name)) = &self.isolation else { return None };
        split_compute_name(name).map(|_| name.as_str())
    }

    /// A request in a few words: `2 instances 2g.10gb`, `a share of 5.0 GB`, `4 whole GPUs`.
    #[must_use]
    pub fn in_words(&self) -> String {
        let each = self.mem_mib.map(display_gb);
        match &self.isolation {
            Isolation::Mig(profile) => {
                let what = match (profile, self.instances) {
                    (Some(name), 1) => format!("an instance {name}"),
                    (Some(name), n) => format!("{n} instances {name}"),
                    (None, 1) => "an instance".to_owned(),
                    (None, n) => format!("{n} instances"),
                };
                match each.filter(|_| profile.is_none()) {
                    Some(size) => format!("{what} with {size}"),
                    None => what,
                }
            }
            Isolation::Mps => format!("a share of {}", each.unwrap_or_else(|| "some memory".to_owned())),
            Isolation::Tasks { .. } => match each {
                Some(size) => format!("seats for GPU tasks, {size} each"),
                None => "seats for GPU tasks".to_owned(),
            },
            Isolation::Whole => {
                let n = self.gpus.unwrap_or(1);
                format!("{n} whole GPU{}", if n == 1 { "" } else { "s" })
            }
            Isolation::Auto => match each {
                Some(size) => format!("an instance, share or GPU with {size}"),
                None => "an instance, share or GPU".to_owned(),
            },
            Isolation::None => "what Slurm gives".to_owned(),
        }
    }

    /// A request for this isolation and nothing else.
    #[must_use]
    pub fn new(isolation: Isolation) -> Self {
        Self {
            isolation,
            isolation_typed: false,
            mem_mib: None,
            instances: 1,
            per_task: false,
            seats: 1,
            threads: None,
            pattern: None,
            bandwidth: None,
            gpus: None,
            policy: None,
            wait: None,
            times: Vec::new(),
            job_profile: None,
            place: None,
            cap_w: None,
            auto_cap: false,
            counters: Vec::new(),
        }
    }
    /// The isolation that the other parts of the request imply if the user names none, or `auto`. A moldable job, and one that
    /// names a place, gets one MIG instance.
    #[must_use]
    pub fn implied_isolation(&self) -> Option<Isolation> {
        (self.is_moldable() || self.place.is_some()).then_some(Isolation::Mig(None))
    }
}

/// The site's defaults for what a job leaves open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestDefaults {
    /// The isolation of a job that names none and asks Slurm for no GPUs.
    pub isolation: Isolation,
    /// Memory per instance or share, MiB; `None`: a share must name its memory, an instance may have any.
    pub gpu_mem_mib: Option<u64>,
    /// Threads of an MPS share, percent; `None`: the share's part of the device's memory, rounded up.
    pub mps_threads: Option<u8>,
}
