//! A node's layout in one line, for `node.extra` and `sinfo`, and back.
//!
//! ```text
//! tessera gpu0=mig[2g.10gb@0:job12,1g.5gb@2:idle] gpu1=whole[job13] gpu2=mps[job14:2862M/25%] gpu3-7=free
//! ```
//!
//! Memory is MiB, threads percent. A shared instance lists its shares: `1g.5gb@2:mps[job14:2862M/25%]`. Neighbours in
//! the same state are one entry. Users' ids are left out: anybody may read the line. At most [`MAX_SHARES`] shares of
//! a device are listed, the rest counted: `+3`; the line stays below [`MAX_LEN`] bytes by ending early with `...`.

mod parse;

pub use parse::parse_layout;

use std::fmt;

use geometry::{GpuIndex, JobId, Slice};

/// Longest line written or read, bytes.
pub const MAX_LEN: usize = 8192;
/// Most shares listed per device.
pub const MAX_SHARES: usize = 8;

/// A layout as the line tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// In NVML order.
    pub gpus: Vec<GpuLayout>,
    /// The line ended early: there are more GPUs.
    pub cut: bool,
}

/// One GPU's use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GpuLayout {
    /// Nobody's.
    Free,
    /// One job's.
    Whole(JobId),
    /// Shared through MPS.
    Mps(Shares),
    /// Partitioned.
    Mig(Vec<InstanceLayout>),
}

/// One instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceLayout {
    /// Name of its profile.
    pub profile: String,
    /// Its first unit.
    pub start: Slice,
    /// Whose.
    pub holder: HolderLayout,
}

/// Whose an instance is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HolderLayout {
    /// One job's.
    Job(JobId),
    /// Shared through MPS.
    Mps(Shares),
    /// Nobody's, kept for reuse.
    Idle,
}

/// The shares of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// The first [`MAX_SHARES`].
    pub listed: Vec<ShareLayout>,
    /// How many more there are.
    pub more: usize,
}

/// One share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareLayout {
    /// Whose.
    pub job: JobId,
    /// Memory limit, MiB.
    pub mem_mib: u64,
    /// Threads, percent.
    pub threads: u8,
}

/// A line that is no layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at} of the layout")]
pub struct LayoutError {
    what: &'static str,
    at: usize,
}

impl Layout {
    /// The idle instances it names: GPU, profile name, start.
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

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = String::from(PREFIX);
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

const PREFIX: &str = "tessera";
const CUT: &str = " ...";

impl fmt::Display for GpuLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Free => f.write_str("free"),
            Self::Whole(job) => write!(f, "whole[job{job}]"),
            Self::Mps(shares) => shares.fmt(f),
            Self::Mig(instances) => {
                f.write_str("mig[")?;
                for (i, instance) in instances.iter().enumerate() {
                    let comma = if i == 0 { "" } else { "," };
                    write!(f, "{comma}{}@{}:", instance.profile, instance.start)?;
                    match &instance.holder {
                        HolderLayout::Job(job) => write!(f, "job{job}")?,
                        HolderLayout::Mps(shares) => shares.fmt(f)?,
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
            write!(f, "+{}", self.more)?;
        }
        f.write_str("]")
    }
}
