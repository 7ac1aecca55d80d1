//! A GPU with the jobs on it.

use geometry::Model;
use node_layout::{GpuLayout, Layout};
use node_state::slices::slices_for_gpu;
use node_state::{Gpu, MigPolicy, Purpose};
use site_config::NodeSpec;

use super::usage::Slices;
use crate::gpu_pieces::{self, Owner, Piece};

/// A GPU and the jobs on it.
pub(crate) struct GpuSeen {
    pub(crate) model: &'static Model,
    /// Memory slices in order, without gaps.
    pub(crate) pieces: Vec<Piece>,
    /// The part of it that jobs may have.
    pub(crate) can: Can,
    /// It is unhealthy, and gets no new jobs.
    pub(crate) sick: bool,
}

/// Ways in which jobs may have a GPU, whoever has it now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Can {
    /// New instances.
    pub(crate) be_cut: bool,
    /// All of it.
    pub(crate) be_whole: bool,
}

impl Can {
    /// As the site uses the GPU.
    fn of(gpu: &Gpu) -> Self {
        Self {
            be_cut: gpu.policy != MigPolicy::Off && gpu.purpose == Purpose::Any,
            be_whole: gpu.is_ever_whole(),
        }
    }
}

/// The GPUs of a layout.
pub(crate) fn gpus(models: impl IntoIterator<Item = &'static Model>, layout: &Layout) -> Vec<GpuSeen> {
    let seen = |(model, gpu): (&'static Model, &GpuLayout)| GpuSeen {
        model,
        pieces: gpu_pieces::of(model, gpu),
        can: Can::of(&Gpu::new(model, MigPolicy::Dynamic)),
        sick: false,
    };
    models.into_iter().zip(&layout.gpus).map(seen).collect()
}

/// The GPUs of a node, with what the site lets jobs have of them.
pub(super) fn used_as(spec: &NodeSpec, mut gpus: Vec<GpuSeen>) -> Vec<GpuSeen> {
    for (seen, gpu) in gpus.iter_mut().zip(&site_limits::node_of(spec).gpus) {
        seen.can = Can::of(gpu);
    }
    gpus
}

impl GpuSeen {
    /// Counts the slices; an idle instance counts as free.
    pub(crate) fn both(&self) -> Slices {
        let open = |owner: Owner| matches!(owner, Owner::Free | Owner::Idle);
        let one = |(owner, n): (Owner, u32)| Slices { free: if open(owner) { n } else { 0 }, all: n };
        self.slices().into_iter().map(one).sum()
    }

    /// Names the state of the whole GPU: an owner's name, or `instances`.
    pub(crate) fn state(&self) -> &'static str {
        match &self.pieces[..] {
            [piece] if piece.profile.is_none() => piece.owner.name(),
            _ => "instances",
        }
    }

    /// Compute slices by owner: of an instance its own, of free units what the instances leave, as Slurm bills them.
    pub(crate) fn slices(&self) -> Vec<(Owner, u32)> {
        let total = slices_of_gpu(self.model);
        let mut left = total;
        let mut all = Vec::new();
        for piece in &self.pieces {
            let profile = piece.profile.as_deref().and_then(|name| self.model.profile(name));
            match profile {
                Some(profile) => {
                    let slices = u32::from(profile.compute_slices).min(left);
                    left -= slices;
                    all.push((piece.owner, slices));
                }
                None if self.pieces.len() == 1 => {
                    all.push((piece.owner, total));
                    left = 0;
                }
                None => {}
            }
        }
        if left > 0 {
            all.push((if self.sick { Owner::Sick } else { Owner::Free }, left));
        }
        all
    }

    /// Compute slices that no job has, and those of the largest instance or whole GPU that could be made of them.
    pub(crate) fn free(&self) -> (u32, u32) {
        let open = |owner: Owner| matches!(owner, Owner::Free | Owner::Idle);
        let free = self.slices().iter().filter(|(owner, _)| open(*owner)).map(|(_, n)| n).sum();
        let units = self.free_units();
        let fits = |start| move |profile: &&geometry::Profile| profile.at(start).mask() & !units == 0;
        let largest = self.model.profiles.iter().filter(|p| p.starts.iter().any(|s| fits(*s)(p)));
        let largest = largest.map(|p| u32::from(p.compute_slices)).max();
        let whole = u32::from(units.count_ones() == u32::from(self.model.placement_units));
        (free, largest.unwrap_or(whole * slices_of_gpu(self.model)))
    }

    /// Placement units that no job has, bit 0 for unit 0.
    pub(crate) fn free_units(&self) -> u16 {
        let open = self.pieces.iter().filter(|p| matches!(p.owner, Owner::Free | Owner::Idle));
        open.flat_map(|p| p.start..p.start + p.size).fold(0_u16, |mask, unit| mask | 1 << unit)
    }

    /// Tells whether no job has anything of it.
    pub(crate) fn is_free(&self) -> bool {
        self.pieces.iter().all(|p| matches!(p.owner, Owner::Free | Owner::Idle))
    }

    /// Lists the instances: profile, first memory slice, and whether a job has it.
    pub(crate) fn instances(&self) -> impl Iterator<Item = (&str, u8, bool)> {
        self.pieces.iter().filter_map(|p| Some((p.profile.as_deref()?, p.start, p.owner != Owner::Idle)))
    }
}

/// Compute slices of a whole GPU, as Slurm bills it: 7 for one that cannot be cut.
pub(crate) fn slices_of_gpu(model: &Model) -> u32 {
    u32::try_from(slices_for_gpu(Some(model))).unwrap_or(u32::MAX)
}
