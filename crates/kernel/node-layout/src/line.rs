//! A layout as values, and how it is written.

use std::fmt;

use geometry::{GpuIndex, JobId, Slice};

use protocol::ComputeSpec;

/// Longest line written or read, bytes.
pub const MAX_LEN: usize = 8192;

/// The line of every node while slurmctld leaves the GPUs to Slurm because it is not the Slurm that Tessera was built for.
pub const OFF: &str = "tessera off: slurmctld is not the Slurm that Tessera was built for; see its log";
/// Most shares listed per device.
pub const MAX_SHARES: usize = 8;

/// A layout as the line tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// In the order of Slurm's numbers, from GPU 0.
    pub gpus: Vec<GpuLayout>,
    /// True if the line ended early, so that the node has more GPUs.
    pub cut: bool,
    /// The `tessera.toml` that slurmctld works with.
    pub config: ConfigInForce,
    /// Jobs that have been told to end and are still shown with what they have, ascending.
    pub ending: Vec<JobId>,
    /// Watts of the node's power budgets that its GPUs commit; `None`: the node is in no budget.
    pub watts: Option<u32>,
}

/// The `tessera.toml` that slurmctld works with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConfigInForce {
    /// The file as it is.
    #[default]
    Current,
    /// Last good version: the file has errors.
    LastGood,
    /// None: the file has errors, and no good version is known. The line then names no GPU.
    Bad,
}

impl ConfigInForce {
    /// The word for it in a layout line.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Current => "",
            Self::LastGood => " config=last-good",
            Self::Bad => " config=bad",
        }
    }
}

/// Use of one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GpuLayout {
    /// No job has it, and it has no instances.
    Free,
    /// The site leaves it to Slurm, and no job has it whole.
    Slurm,
    /// This job has all of it.
    Whole(JobId),
    /// Jobs share it through MPS, without MIG.
    Mps(Shares),
    /// In the pool of GPU tasks, without MIG.
    Tasks(Seats),
    /// Partitioned into these instances.
    Mig(Vec<InstanceLayout>),
}

/// A MIG instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceLayout {
    /// Name of its profile.
    pub profile: String,
    /// First placement unit.
    pub start: Slice,
    /// Holder of the instance.
    pub holder: HolderLayout,
}

/// Holder of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HolderLayout {
    /// This job alone.
    Job(JobId),
    /// Jobs that share it through MPS.
    Mps(Shares),
    /// Jobs that have compute instances in it, ascending by first slice; never empty.
    Compute(Vec<ComputeLayout>),
    /// Jobs whose GPU tasks share it.
    Tasks(Seats),
    /// Nobody; it is kept for reuse.
    Idle,
}

/// A job's compute instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComputeLayout {
    /// Slices of the GPU instance that it takes.
    pub part: ComputeSpec,
    /// The job that has it.
    pub job: JobId,
    /// Memory that the job says it needs, MiB.
    pub mem_mib: u64,
}

/// The seats of a device in the pool of GPU tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seats {
    /// The first [`MAX_SHARES`] jobs that may use it, each with the seats that are its own.
    pub listed: Vec<(JobId, u32)>,
    /// Number of jobs that are not listed.
    pub more: usize,
    /// The job that gets the device next: no new job of GPU tasks may use it.
    pub claimed: Option<JobId>,
}

/// The shares of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// The first [`MAX_SHARES`] shares.
    pub listed: Vec<ShareLayout>,
    /// Number of shares that are not listed.
    pub more: usize,
    /// Memory and SMs of these together, MiB and percent.
    pub rest: (u64, u64),
}

/// A job's share of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareLayout {
    /// The job that has the share.
    pub job: JobId,
    /// Most memory that the job may use, MiB.
    pub mem_mib: u64,
    /// Most of the device's SMs that the job may use, percent.
    pub threads: u8,
}

/// A line that is not a layout; the message gives the reason and the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at} of the layout")]
pub struct LayoutError {
    pub(super) what: &'static str,
    /// Byte of the line, from 0.
    pub(super) at: usize,
}

impl Layout {
    /// The idle instances that it names: GPU, profile name, start.
    pub fn idle(&self) -> impl Iterator<Item = (GpuIndex, &str, Slice)> {
        self.gpus.iter().zip(0_u16..).flat_map(|(gpu, i)| {
            let instances: &[InstanceLayout] = match gpu {
                GpuLayout::Mig(instances) => instances,
                _ => &[],
            };
            let idle = instances.iter().filter(|x| x.holder == HolderLayout::Idle);
            idle.map(move |x| (GpuIndex(i), x.profile.as_str(), x.start))
        })
    }
}

impl GpuLayout {
    /// The jobs that have something of the GPU, as far as the line lists them; a job can come twice.
    pub fn jobs(&self) -> impl Iterator<Item = JobId> {
        let shares = |shares: &Shares| shares.listed.iter().map(|s| s.job).collect::<Vec<_>>();
        let seated = |pool: &Seats| pool.listed.iter().map(|(job, _)| *job).collect::<Vec<_>>();
        let of_instance = |holder: &HolderLayout| match holder {
            HolderLayout::Job(job) => vec![*job],
            HolderLayout::Mps(list) => shares(list),
            HolderLayout::Compute(parts) => parts.iter().map(|p| p.job).collect(),
            HolderLayout::Tasks(pool) => seated(pool),
            HolderLayout::Idle => Vec::new(),
        };
        let jobs = match self {
            Self::Free | Self::Slurm => Vec::new(),
            Self::Whole(job) => vec![*job],
            Self::Mps(list) => shares(list),
            Self::Tasks(pool) => seated(pool),
            Self::Mig(instances) => instances.iter().flat_map(|i| of_instance(&i.holder)).collect(),
        };
        jobs.into_iter()
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = String::from(PREFIX);
        line.push_str(self.config.word());
        for (i, job) in self.ending.iter().take(MAX_ENDING).enumerate() {
            line.push_str(if i == 0 { ENDING } else { "," });
            line.push_str(&format!("job{job}"));
        }
        if let Some(watts) = self.watts {
            line.push_str(&format!("{WATTS}{watts}"));
        }
        let mut at = 0;
        while let Some(gpu) = self.gpus.get(at) {
            let run = self.gpus[at..].iter().take_while(|g| *g == gpu).count();
            let mut entry =
                if run == 1 { format!(" gpu{at}=") } else { format!(" gpu{at}-{}=", at + run - 1) };
            entry.push_str(&gpu.to_string());
            if line.len() + entry.len() + CUT.len() > MAX_LEN {
                break;
            }
            line.push_str(&entry);
            at += run;
        }
        if self.cut || at < self.gpus.len() {
            line.push_str(CUT);
        }
        f.write_str(&line)
    }
}

pub(super) const PREFIX: &str = "tessera";
pub(super) const CUT: &str = " ...";
pub(super) const ENDING: &str = " ending=";
pub(super) const WATTS: &str = " watts=";
/// Most ending jobs listed.
const MAX_ENDING: usize = 64;

impl fmt::Display for GpuLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Free => f.write_str("free"),
            Self::Slurm => f.write_str("slurm"),
            Self::Whole(job) => write!(f, "whole[job{job}]"),
            Self::Mps(shares) => shares.fmt(f),
            Self::Tasks(seats) => seats.fmt(f),
            Self::Mig(instances) => {
                f.write_str("mig[")?;
                for (i, instance) in instances.iter().enumerate() {
                    let comma = if i == 0 { "" } else { "," };
                    write!(f, "{comma}{}@{}:", instance.profile, instance.start)?;
                    match &instance.holder {
                        HolderLayout::Job(job) => write!(f, "job{job}")?,
                        HolderLayout::Mps(shares) => shares.fmt(f)?,
                        HolderLayout::Compute(parts) => {
                            let one = |p: &ComputeLayout| {
                                let ComputeLayout { part, job, mem_mib } = p;
                                format!("{}c@{}:job{job}:{mem_mib}M", part.slices, part.start)
                            };
                            write!(f, "ci[{}]", parts.iter().map(one).collect::<Vec<_>>().join(","))?;
                        }
                        HolderLayout::Tasks(seats) => seats.fmt(f)?,
                        HolderLayout::Idle => f.write_str("idle")?,
                    }
                }
                f.write_str("]")
            }
        }
    }
}

impl fmt::Display for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("mps[")?;
        for (i, s) in self.listed.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}job{}:{}M/{}%", s.job, s.mem_mib, s.threads)?;
        }
        if self.more > 0 {
            write!(f, "+{}:{}M/{}%", self.more, self.rest.0, self.rest.1)?;
        }
        f.write_str("]")
    }
}

impl fmt::Display for Seats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tasks[")?;
        for (i, (job, seats)) in self.listed.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}job{job}*{seats}")?;
        }
        if self.more > 0 {
            write!(f, "+{}", self.more)?;
        }
        if let Some(job) = self.claimed {
            write!(f, ">job{job}")?;
        }
        f.write_str("]")
    }
}
