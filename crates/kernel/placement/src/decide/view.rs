//! The state of one GPU as the searches need it, computed once per decision.

use decision_report::Cost;
use decision_report::report::Constraint;
use geometry::{GpuIndex, JobId, Model, Placement, Profile, ProfileId, Slice};
use node_state::{Ask, Gpu, GpuState, Holder, Instance, MigPolicy, Node, Purpose};

/// A GPU as the searches see it.
pub(super) struct View<'a> {
    pub(super) gpu: GpuIndex,
    pub(super) model: &'static Model,
    pub(super) policy: MigPolicy,
    pub(super) purpose: Purpose,
    pub(super) state: &'a GpuState,
    /// Unhealthy.
    left_out: bool,
    /// Bit mask of the units that jobs hold; all bits if an instance has a profile that the model does not have.
    pub(super) held: u16,
    /// Compute slices that jobs hold.
    held_compute: u8,
    /// A held instance has every media engine, so no base profile can be added.
    all_media_held: bool,
    /// Some held instance is of a variant profile. Only then can profiles exclude each other.
    variant_held: bool,
    /// No job is on it.
    pub(super) untouched: bool,
    /// True if a first instance or share on it would be one of the few that [`Node::may_be_cut`] counts.
    pub(super) uncut: bool,
    /// Why no first instance or share may come here, if that is so.
    pub(super) kept_uncut: Option<Constraint>,
    /// Ok if the GPU may be partitioned and is, or can be now; else why not.
    pub(super) mig: Result<(), Constraint>,
}

/// Every GPU of a node.
pub(super) fn views(node: &Node) -> Vec<View<'_>> {
    let full = (node.may_be_cut() == 0).then_some(Constraint::KeptUncut(node.keep_uncut));
    node.gpus.iter().enumerate().map(|(i, gpu)| View::new(i, gpu, full)).collect()
}

impl<'a> View<'a> {
    /// `full`: why no further GPU of the node may be cut, if that is so.
    fn new(index: usize, gpu: &'a Gpu, full: Option<Constraint>) -> Self {
        let mut view = Self {
            gpu: GpuIndex(u16::try_from(index).unwrap_or(u16::MAX)),
            model: gpu.model,
            policy: gpu.policy,
            purpose: gpu.purpose,
            state: &gpu.state,
            left_out: gpu.left_out,
            held: 0,
            held_compute: 0,
            all_media_held: false,
            variant_held: false,
            untouched: !gpu.has_job(),
            uncut: false,
            kept_uncut: None,
            mig: mig_possible(gpu),
        };
        if let GpuState::Mig(instances) = &gpu.state {
            for instance in instances.iter().filter(|i| i.holder != Holder::Idle) {
                view.hold(gpu.profile_of(instance), instance);
            }
        }
        view.uncut = view.untouched && gpu.is_flexible();
        view.kept_uncut = full.filter(|_| view.uncut);
        if let (Ok(()), Some(kept)) = (view.mig, view.kept_uncut) {
            view.mig = Err(kept);
        }
        view
    }

    /// Why this request may have nothing of the GPU, whatever is free there; `None`: it may.
    pub(super) fn withheld(&self, ask: &Ask) -> Option<Constraint> {
        if !ask.permits(self.gpu) {
            return Some(Constraint::NotOffered);
        }
        self.left_out.then_some(Constraint::LeftOut)
    }

    /// The site's own instances that no job has; none on a GPU that is not static.
    pub(super) fn static_idle(&self) -> impl Iterator<Item = (&'static Profile, Slice)> {
        let (model, fixed) = (self.model, self.purpose == Purpose::Static);
        let idle = self.instances().iter().filter(move |i| fixed && i.holder == Holder::Idle);
        idle.filter_map(move |i| model.profile_by_id(i.profile).map(|p| (p, i.start)))
    }

    fn hold(&mut self, profile: Option<&'static Profile>, instance: &Instance) {
        let Some(profile) = profile else {
            self.held = u16::MAX;
            return;
        };
        self.held |= profile.at(instance.start).mask();
        self.held_compute = self.held_compute.saturating_add(profile.compute_slices);
        self.all_media_held |= profile.has_all_media();
        self.variant_held |= profile.is_variant();
    }

    pub(super) fn instances(&self) -> &'a [Instance] {
        match self.state {
            GpuState::Mig(instances) => instances,
            _ => &[],
        }
    }

    /// Placement units of the GPU.
    pub(super) fn units(&self) -> u32 {
        u32::from(self.model.placement_units)
    }

    /// Cost of opening the GPU without MIG.
    pub(super) fn opened(&self) -> Cost {
        Cost { opened: 1, lost: self.left(0, None), ..Cost::default() }
    }

    /// Base placements that remain if the units in `more` are held too, by instances of `profile`.
    pub(super) fn left(&self, more: u16, profile: Option<&Profile>) -> u32 {
        if self.mig.is_err() || self.all_media_held || profile.is_some_and(Profile::has_all_media) {
            return 0;
        }
        if self.purpose == Purpose::Static {
            let spared = self.static_idle().filter(|(p, start)| p.at(*start).mask() & more == 0);
            return u32::try_from(spared.count()).unwrap_or(u32::MAX);
        }
        u32::from(self.model.placements_left(self.held | more))
    }

    /// Number of further instances of `profile` that the limits on counts allow: the profile's own maximum, the GPU's
    /// compute slices, and the media engines. Free places are not looked at.
    pub(super) fn room_for(&self, profile: &Profile) -> u32 {
        if self.purpose == Purpose::Static {
            let same = self.static_idle().filter(|(p, _)| p.id == profile.id);
            return u32::try_from(same.count()).unwrap_or(u32::MAX);
        }
        let compute =
            self.model.compute_slices.saturating_sub(self.held_compute) / profile.compute_slices.max(1);
        let held = || self.instances().iter().filter(|i| i.holder != Holder::Idle);
        if (self.variant_held || profile.is_variant())
            && held().any(|i| {
                self.model
                    .profile_by_id(i.profile)
                    .is_some_and(|p| p.id != profile.id && !geometry::coexist(p, profile))
            })
        {
            return 0;
        }
        let same = held().filter(|i| i.profile == profile.id).count();
        let count = profile.max_instances.saturating_sub(u32::try_from(same).unwrap_or(u32::MAX));
        count.min(u32::from(compute))
    }

    /// Tells whether instances of `profile` cost the same on both GPUs at every start. Job ids may differ.
    pub(super) fn looks_like(&self, other: &View<'_>, profile: &Profile) -> bool {
        fn idle<'v>(v: &'v View<'_>) -> impl Iterator<Item = (ProfileId, Slice)> + 'v {
            let idle = v.instances().iter().filter(|i| i.holder == Holder::Idle);
            idle.map(|i| (i.profile, i.start))
        }
        std::ptr::eq(self.model, other.model)
            && (self.purpose, self.uncut) == (other.purpose, other.uncut)
            && (self.policy, self.held, self.untouched) == (other.policy, other.held, other.untouched)
            && self.mig == other.mig
            && matches!(self.state, GpuState::Free) == matches!(other.state, GpuState::Free)
            && self.all_media_held == other.all_media_held
            && self.room_for(profile) == other.room_for(profile)
            && idle(self).eq(idle(other))
    }

    /// The job on the first held instance that overlaps `place`.
    pub(super) fn holder_of(&self, place: Placement) -> Option<JobId> {
        self.instances()
            .iter()
            .filter(|i| {
                self.model.profile_by_id(i.profile).is_none_or(|p| p.at(i.start).mask() & place.mask() != 0)
            })
            .find_map(|i| first_job(&i.holder))
    }
}

/// The first of the jobs that hold an instance.
pub(super) fn first_job(holder: &Holder) -> Option<JobId> {
    match holder {
        Holder::Isolated(job) => Some(*job),
        Holder::Shared(shares) => shares.first().map(|s| s.job),
        Holder::Compute(holds) => holds.first().map(|h| h.job),
        Holder::Pool(seats) => seats.first().map(|s| s.job),
        Holder::Idle => None,
    }
}

fn mig_possible(gpu: &Gpu) -> Result<(), Constraint> {
    if matches!(gpu.purpose, Purpose::Whole | Purpose::Shares | Purpose::Slurm) {
        return Err(Constraint::KeptFor(gpu.purpose));
    }
    match (&gpu.state, gpu.policy) {
        _ if !gpu.model.has_mig() => Err(Constraint::NoMig),
        (_, MigPolicy::Off) => Err(Constraint::MigOff),
        (GpuState::Whole(job), _) => Err(Constraint::Taken(*job)),
        (GpuState::Mps(shares), _) => Err(Constraint::SharedBy(shares.first().map_or(JobId(0), |s| s.job))),
        (GpuState::Tasks(seats), _) => Err(Constraint::InPool(seats.first().map_or(JobId(0), |s| s.job))),
        (GpuState::Free | GpuState::Mig(_), _) => Ok(()),
    }
}

/// The job that holds the GPU or a part of it, as the constraint that rules out giving it whole.
pub(super) fn blocker(view: &View<'_>) -> Option<Constraint> {
    match view.state {
        GpuState::Free => None,
        GpuState::Whole(job) => Some(Constraint::Taken(*job)),
        GpuState::Mps(shares) => shares.first().map(|s| Constraint::SharedBy(s.job)),
        GpuState::Tasks(seats) => seats.first().map(|s| Constraint::InPool(s.job)),
        GpuState::Mig(instances) => {
            instances.iter().find_map(|i| first_job(&i.holder)).map(Constraint::Taken)
        }
    }
}
