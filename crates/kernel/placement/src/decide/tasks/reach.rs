//! Further GPUs on which the tasks of a job may run, in addition to the one where it has its seats.
//!
//! # Rules
//! The site says how many GPUs of a node the tasks of one job may use ([`PoolPolicy::gpus_per_job`]). A job whose seats are on a GPU
//! without MIG may then use others without MIG, and has no seat of its own there: first those of the pool that it may join, in the
//! order in which their seats are taken, then free GPUs. Slurm counts all of the job's seats on each of them: a device cgroup then
//! admits the job, and Slurm gives none of them away whole before the job ends. So a GPU comes into question only while it has shards
//! for the job and one for each of its free seats.
//!
//! # Source
//! CASE (PPoPP'22), section 4: a task of any process goes to any device of the node.
//!
//! [`PoolPolicy::gpus_per_job`]: node_state::PoolPolicy::gpus_per_job

use std::collections::BTreeMap;

use decision_report::report::GPU_PARTS;
use geometry::load::Load;
use geometry::{GpuIndex, JobId};
use node_state::{GpuState, MigPolicy, Purpose};
use protocol::{PoolSeats, ShareOn};

use super::{BestSeats, Search};
use crate::decide::view::View;

/// Seats of each job in the pool, on all of its devices.
type SeatsOfJobs = BTreeMap<JobId, u32>;

impl Search<'_> {
    /// Adds the further GPUs to the best seats.
    pub(super) fn with_further_gpus(&self, views: &[View<'_>], mut best: BestSeats) -> BestSeats {
        let further = usize::try_from(self.pool.gpus_per_job).unwrap_or(usize::MAX).saturating_sub(1);
        let Some(PoolSeats { on: ShareOn::Gpu(home), .. }) = best.on.first().copied() else { return best };
        if further == 0 {
            return best;
        }
        let mut seats = SeatsOfJobs::new();
        for seat in self.node.pool().flat_map(|device| device.jobs) {
            *seats.entry(seat.job).or_default() += seat.seats;
        }
        let others = || views.iter().filter(|view| view.gpu != home && self.is_offered(view, &seats));
        let mut joined: Vec<(Load, GpuIndex)> =
            others().filter_map(|view| Some((self.load_if_joined(view)?, view.gpu))).collect();
        joined.sort_unstable();
        // The GPU of the seats may be one that is cut for them.
        let cuts = views.iter().filter(|view| view.gpu == home && view.uncut).count();
        let mut may_be_cut = self.node.may_be_cut().saturating_sub(cuts);
        let may_open = |view: &&View<'_>| {
            let left = may_be_cut.checked_sub(usize::from(view.uncut));
            may_be_cut = left.unwrap_or(may_be_cut);
            left.is_some()
        };
        let free = others().filter(|view| self.could_be_opened(view));
        for view in free.filter(may_open).take(further.saturating_sub(joined.len())) {
            best.takes.parts += GPU_PARTS;
            best.takes.units += view.units();
            best.takes.of_units += view.units();
            best.score.cost.opened += 1;
            best.score.cost.lost += view.left(0, None);
            best.on.push(PoolSeats { on: ShareOn::Gpu(view.gpu), seats: 0 });
        }
        let joined = joined.into_iter().take(further).map(|(_, gpu)| ShareOn::Gpu(gpu));
        best.on.extend(joined.map(|on| PoolSeats { on, seats: 0 }));
        best.on.sort_unstable();
        best
    }

    /// Tells whether the job may use the GPU at all, without MIG.
    fn is_offered(&self, view: &View<'_>, seats: &SeatsOfJobs) -> bool {
        matches!(view.purpose, Purpose::Any | Purpose::Shares)
            && view.withheld(self.ask).is_none()
            && self.has_shards(view, seats)
    }

    /// Tells whether Slurm has shards of the GPU for the job and for each free seat there.
    fn has_shards(&self, view: &View<'_>, seats: &SeatsOfJobs) -> bool {
        let jobs = match view.state {
            GpuState::Tasks(jobs) => &jobs[..],
            _ => &[],
        };
        let counted: u32 = jobs.iter().filter_map(|seat| seats.get(&seat.job)).sum();
        let taken: u32 = jobs.iter().map(|seat| seat.seats).sum();
        let free = self.pool.seats(view.model, None).saturating_sub(taken);
        counted.saturating_add(free).saturating_add(self.ask.request.seats) <= view.model.shards()
    }

    /// Gives the load of a GPU in the pool; `None` if the job may not join it.
    fn load_if_joined(&self, view: &View<'_>) -> Option<Load> {
        let gpu = self.node.gpus.get(usize::from(view.gpu.0))?;
        let device = gpu.pool(view.gpu).find(|device| device.on == ShareOn::Gpu(view.gpu))?;
        let load = Load::new(device.taken().into(), self.pool.seats(view.model, None).into());
        self.why_not_joined(view, &device).is_none().then_some(load)
    }

    fn could_be_opened(&self, view: &View<'_>) -> bool {
        *view.state == GpuState::Free
            && view.policy != MigPolicy::On
            && self.node.claim_on(ShareOn::Gpu(view.gpu)).is_none()
            && self.too_little(view, None).is_none()
    }
}
