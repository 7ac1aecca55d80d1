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

use crate::ids::{GpuIndex, JobId, Slice};
use crate::state::{Gpu, GpuState, Holder, Instance, MigPolicy, Node, Share};

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
    /// The layout of a node.
    #[must_use]
    pub fn of(node: &Node) -> Self {
        Self { gpus: node.gpus.iter().map(gpu_layout).collect(), cut: false }
    }

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

fn gpu_layout(gpu: &Gpu) -> GpuLayout {
    let name =
        |i: &Instance| gpu.profile_of(i).map_or_else(|| format!("id{}", i.profile), |p| p.name.clone());
    match &gpu.state {
        GpuState::Free => GpuLayout::Free,
        GpuState::Whole(job) => GpuLayout::Whole(*job),
        GpuState::Mps(shares) => GpuLayout::Mps(share_layout(shares)),
        GpuState::Mig(instances) => {
            let one = |i: &Instance| InstanceLayout {
                profile: name(i),
                start: i.start,
                holder: match &i.holder {
                    Holder::Isolated(job) => HolderLayout::Job(*job),
                    Holder::Shared(shares) => HolderLayout::Mps(share_layout(shares)),
                    Holder::Idle => HolderLayout::Idle,
                },
            };
            GpuLayout::Mig(instances.iter().map(one).collect())
        }
    }
}

fn share_layout(shares: &[Share]) -> Shares {
    let one = |s: &Share| ShareLayout { job: s.job, mem_mib: s.mem_mib, threads: s.threads };
    Shares {
        listed: shares.iter().take(MAX_SHARES).map(one).collect(),
        more: shares.len().saturating_sub(MAX_SHARES),
    }
}

impl Node {
    /// The node's layout in one line: see [`crate::layout`].
    #[must_use]
    pub fn layout(&self) -> String {
        Layout::of(self).to_string()
    }

    /// Takes over idle instances that a layout names and that nothing here contradicts: the controller's memory across
    /// a restart. Returns how many. What does not fit is left out; nothing held changes.
    pub fn remember_idle(&mut self, layout: &Layout) -> usize {
        layout.idle().filter(|(gpu, profile, start)| self.add_idle(*gpu, profile, *start)).count()
    }

    fn add_idle(&mut self, gpu: GpuIndex, profile: &str, start: Slice) -> bool {
        let Some(gpu) = self.gpus.get_mut(usize::from(gpu.0)).filter(|g| g.policy != MigPolicy::Off) else {
            return false;
        };
        let model = gpu.model;
        let Some(profile) = model.profile(profile).filter(|p| p.starts.contains(&start)) else {
            return false;
        };
        if gpu.state == GpuState::Free {
            gpu.state = GpuState::Mig(Vec::new());
        }
        let GpuState::Mig(instances) = &mut gpu.state else { return false };
        let same = instances.iter().filter(|i| i.profile == profile.id).count();
        let fits = instances.iter().filter_map(|i| model.profile_by_id(i.profile).map(|p| (p, i.start))).all(
            |(other, at)| {
                other.at(at).mask() & profile.at(start).mask() == 0
                    && (other.id == profile.id || crate::decide::coexist(other, profile))
            },
        );
        let compute = instances
            .iter()
            .filter_map(|i| model.profile_by_id(i.profile))
            .map(|p| u32::from(p.compute_slices));
        let compute = compute.sum::<u32>() + u32::from(profile.compute_slices);
        if !fits || same >= profile.max_instances as usize || compute > u32::from(model.compute_slices) {
            return false;
        }
        instances.push(Instance { profile: profile.id, start, holder: Holder::Idle });
        instances.sort_by_key(|i| i.start);
        true
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
