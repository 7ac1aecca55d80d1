//! Chooses the MIG profile that a request means on each GPU: the smallest that satisfies it, the one that it names, or for a
//! moldable job the one with the least work.

use super::view::View;
use decision_report::report::Constraint;
use geometry::Profile;
use node_state::{Ask, InstanceLimit};
use protocol::Request;

/// Requirements on an instance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Want<'a> {
    /// The name of the only profile that will do.
    pub(super) profile: Option<&'a str>,
    /// At least this much memory, MiB.
    pub(super) mem_mib: u64,
    /// At least this share of the SMs that MIG can give, percent.
    pub(super) sm_percent: u8,
    /// Choose the size with the least work for this request, see [`Request::least_work`], instead of the smallest.
    pub(super) least_work: Option<&'a Request>,
    /// Instances that the site's limits leave.
    pub(super) limit: &'a InstanceLimit,
}

/// The profile per model: nodes have few models, so the last one asked is nearly always the next one.
pub(super) struct Profiles<'a> {
    want: Want<'a>,
    known: Vec<(&'static str, Result<&'static Profile, Constraint>)>,
}

impl<'a> Profiles<'a> {
    pub(super) fn new(want: Want<'a>) -> Self {
        Self { want, known: Vec::new() }
    }

    /// The answer for a GPU of this model, if [`Profiles::of`] was asked for one before.
    pub(super) fn known(&self, view: &View<'_>) -> Option<Result<&'static Profile, Constraint>> {
        let same = |key: &str| std::ptr::eq(key, view.model.key.as_str());
        self.known.iter().find(|(key, _)| same(key)).map(|(_, found)| *found)
    }

    /// The profile that the request means on this GPU's model, or why that model has none for it.
    pub(super) fn of(&mut self, view: &View<'_>) -> Result<&'static Profile, Constraint> {
        if let Some(found) = self.known(view) {
            return found;
        }
        let found = smallest(view, self.want);
        self.known.push((view.model.key.as_str(), found));
        found
    }
}

impl Profiles<'_> {
    /// Tells whether an instance of this profile that is there already will do: a larger one does, where neither a name nor
    /// run times say which.
    pub(super) fn will_do(&mut self, view: &View<'_>, profile: &'static Profile) -> bool {
        let Ok(meant) = self.of(view) else { return false };
        if self.want.profile.is_some() || self.want.least_work.is_some() {
            return profile.id == meant.id;
        }
        !profile.is_variant() && enough(view, self.want, profile).is_ok()
    }
}

/// Checks that a profile has the memory and the SMs that are wanted, and that no limit forbids it.
fn enough(view: &View<'_>, want: Want<'_>, profile: &Profile) -> Result<(), Constraint> {
    let sm_need = view.model.least_sm(want.sm_percent);
    if profile.memory_mib < want.mem_mib {
        Err(Constraint::TooLittleMemory { need: want.mem_mib, has: profile.memory_mib })
    } else if profile.sm < sm_need {
        Err(Constraint::TooFewSms { need: sm_need, has: profile.sm })
    } else if !want.limit.allows(profile) {
        Err(Constraint::BeyondLimit)
    } else {
        Ok(())
    }
}

/// The smallest base profile that satisfies `want`; the named one, if it does; or the one with the least work.
fn smallest(view: &View<'_>, want: Want<'_>) -> Result<&'static Profile, Constraint> {
    let model = view.model;
    let enough = |p: &Profile| enough(view, want, p);
    if let Some(name) = want.profile {
        let profile = model.profile(name).ok_or(Constraint::NoSuchProfile(model))?;
        return enough(profile).map(|()| profile);
    }
    let mut base = model.profiles.iter().filter(|p| !p.is_variant());
    if let Some(request) = want.least_work {
        let listed = |p: &&Profile| request.times.iter().any(|t| t.slices == p.compute_slices);
        let largest = base.rfind(listed).ok_or(Constraint::NoSuchProfile(model))?;
        let none = || enough(largest).err().unwrap_or(Constraint::NoSuchProfile(model));
        return request.least_work(model, |p| want.limit.allows(p)).ok_or_else(none);
    }
    let Some(found) = base.clone().find(|p| enough(p).is_ok()) else {
        let none = Constraint::TooLittleMemory { need: want.mem_mib, has: 0 };
        return Err(base.next_back().map_or(none, |largest| enough(largest).err().unwrap_or(none)));
    };
    Ok(found)
}

/// The profile for a GPU as it is now.
///
/// # Errors
///
/// Why the job can have no instance on this GPU, whatever is free there.
pub(super) fn profile_here(
    view: &View<'_>,
    ask: &Ask,
    profiles: &mut Profiles<'_>,
) -> Result<&'static Profile, Constraint> {
    if let Some(why) = view.withheld(ask) {
        return Err(why);
    }
    if let Err(never @ (Constraint::MigOff | Constraint::NoMig)) = view.mig {
        return Err(never);
    }
    let profile = profiles.of(view)?;
    view.mig.map(|()| profile)
}
