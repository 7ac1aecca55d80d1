//! The pool of devices that GPU tasks of several jobs share, and who has seats there.

use geometry::{GpuIndex, Profile};
use protocol::{MigSpec, ShareOn};

use crate::state::{Claim, Gpu, GpuState, Holder, Node, Seat};

/// A device of the pool.
#[derive(Clone, Copy, Debug)]
pub struct PoolDevice<'a> {
    /// The GPU or instance that it is.
    pub on: ShareOn,
    /// Profile; `None` for a GPU without MIG, and for one that the model does not have.
    pub profile: Option<&'static Profile>,
    /// The jobs that may use it; never none.
    pub jobs: &'a [Seat],
}

impl PoolDevice<'_> {
    /// Seats that jobs have.
    #[must_use]
    pub fn taken(&self) -> u32 {
        self.jobs.iter().map(|seat| seat.seats).sum()
    }
}

impl Gpu {
    /// Devices in the pool, by start. `index` is its number.
    pub fn pool(&self, index: GpuIndex) -> impl Iterator<Item = PoolDevice<'_>> {
        let (whole, instances) = match &self.state {
            GpuState::Tasks(jobs) => (Some(jobs), &[][..]),
            GpuState::Mig(instances) => (None, &instances[..]),
            _ => (None, &[][..]),
        };
        let whole = whole.map(|jobs| PoolDevice { on: ShareOn::Gpu(index), profile: None, jobs });
        let cut = instances.iter().filter_map(move |i| match &i.holder {
            Holder::Pool(jobs) => {
                let spec = MigSpec { gpu: index, profile: i.profile, start: i.start };
                Some(PoolDevice { on: ShareOn::Instance(spec), profile: self.profile_of(i), jobs })
            }
            _ => None,
        });
        whole.into_iter().chain(cut)
    }
}

impl Node {
    /// The devices in the pool, by GPU and start.
    pub fn pool(&self) -> impl Iterator<Item = PoolDevice<'_>> {
        self.gpus.iter().zip(0_u16..).flat_map(|(gpu, i)| gpu.pool(GpuIndex(i)))
    }

    /// The claim on a device, or on any part of it.
    #[must_use]
    pub fn claim_on(&self, on: ShareOn) -> Option<&Claim> {
        self.claims.iter().find(|claim| self.overlap(claim.on, on))
    }

    fn overlap(&self, a: ShareOn, b: ShareOn) -> bool {
        let units = |on: ShareOn| match on {
            ShareOn::Gpu(_) => u16::MAX,
            ShareOn::Instance(spec) => {
                let profile = self.gpus.get(usize::from(spec.gpu.0));
                let profile = profile.and_then(|g| g.model.profile_by_id(spec.profile));
                profile.map_or(u16::MAX, |p| p.at(spec.start).mask())
            }
        };
        a.gpu() == b.gpu() && units(a) & units(b) != 0
    }

    /// Empties devices of the pool, as the end of all jobs there would.
    pub fn empty_pool(&mut self, devices: &[ShareOn]) {
        for (gpu, i) in self.gpus.iter_mut().zip(0_u16..) {
            match &mut gpu.state {
                GpuState::Tasks(_) if devices.contains(&ShareOn::Gpu(GpuIndex(i))) => {
                    gpu.state = GpuState::Free
                }
                GpuState::Mig(instances) => {
                    for instance in instances.iter_mut().filter(|i| matches!(i.holder, Holder::Pool(_))) {
                        let spec =
                            MigSpec { gpu: GpuIndex(i), profile: instance.profile, start: instance.start };
                        if devices.contains(&ShareOn::Instance(spec)) {
                            instance.holder = Holder::Idle;
                        }
                    }
                }
                _ => {}
            }
        }
    }
}
