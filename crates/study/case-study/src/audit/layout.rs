//! Instances that come and go.

use std::collections::BTreeMap;

use geometry::{Profile, coexist};

use super::{Audit, BegunTask, Book};
use task_sched::Need;
use task_sched::{Device, DeviceId};
use task_sched::{Gpus, Instance};

impl Audit {
    /// New instances: legal together, and those in use as they were.
    pub(super) fn layout(&mut self, devices: &[(DeviceId, Device, Instance)]) {
        let Some(gpus) = self.gpus.clone() else {
            return self.report("nobody may make instances here".to_owned());
        };
        let mut after = BTreeMap::new();
        for (id, device, instance) in devices {
            let Instance { gpu, profile, start } = *instance;
            let name = format!("instance {} at {} of GPU {gpu}", profile.name, start.0);
            if gpu >= gpus.count()
                || !profile.starts.contains(&start)
                || gpus.model().profile(&profile.name) != Some(profile)
            {
                self.report(format!("{name} cannot exist"));
            }
            if device.mem.0 > profile.nominal_mib() << 20 || device.sms != profile.sm {
                self.report(format!("{name} has {} and {} SMs", device.mem, device.sms));
            }
            let others = || devices.iter().filter(|(other, ..)| other != id).map(|(_, _, other)| other);
            let beside = |other: &&Instance| other.gpu == gpu;
            if others()
                .filter(beside)
                .any(|other| units(other) & units(instance) != 0 || !coexist(profile, other.profile))
            {
                self.report(format!("{name} is not alone in its place"));
            }
            let alike = 1 + others().filter(beside).filter(|other| other.profile == profile).count();
            if alike > profile.max_instances as usize {
                self.report(format!("{name} is one of {alike}"));
            }
            let old = self.books.remove(&id.0).filter(|book| book.instance == Some(*instance));
            after.insert(id.0, old.unwrap_or_else(|| Book::new(*device, Some(*instance))));
        }
        let used: Vec<usize> = self
            .tasks
            .iter()
            .filter_map(|(_, seen)| seen.dev)
            .chain(self.isolated.values().copied())
            .collect();
        for device in used {
            let is_kept = after
                .get(&device)
                .is_some_and(|book| book.owner.is_some() || book.used > 0 || book.warps > 0);
            if !is_kept {
                self.report(format!("device {device} is given up while in use"));
            }
        }
        self.books = after;
    }

    /// Lists what is passed on when a task gets `dev`: the device, or the memory slices of its instance, numbered through all GPUs.
    pub(super) fn units_of(&self, dev: usize) -> Vec<usize> {
        match self.books.get(&dev).and_then(|book| book.instance) {
            Some(instance) => (0..16)
                .filter(|unit| units(&instance) >> unit & 1 == 1)
                .map(|unit| instance.gpu * 16 + unit)
                .collect(),
            None => vec![dev],
        }
    }

    /// True if tasks that began later went, after the sixteenth, to every device or place that could serve this one.
    pub(super) fn is_passed_everywhere(&self, seen: &BegunTask) -> bool {
        let is_passed = |units: Vec<usize>| units.iter().any(|unit| seen.passed_on.contains(unit));
        if self.gpus.is_none() {
            let mut able = self.books.iter().filter(|(_, book)| book.device.mem >= seen.need.mem());
            return able.all(|(dev, _)| is_passed(vec![*dev]));
        }
        self.places(&seen.need).all(|place| {
            is_passed(
                (0..16)
                    .filter(|unit| units(&place) >> unit & 1 == 1)
                    .map(|unit| place.gpu * 16 + unit)
                    .collect(),
            )
        })
    }

    /// Every place of an instance that could hold the task if nobody else were there.
    fn places(&self, need: &Need) -> impl Iterator<Item = Instance> {
        let mem = need.mem().0;
        let holds = move |profile: &&Profile| {
            u64::from(profile.nominal_gb()) * 1_000_000_000 >= mem && profile.memory_mib << 20 >= mem
        };
        let profiles =
            self.gpus.iter().flat_map(|gpus| gpus.model().profiles.iter().filter(|p| !p.is_variant()));
        profiles.filter(holds).flat_map(move |profile| {
            let count = self.gpus.as_ref().map_or(0, Gpus::count);
            (0..count).flat_map(move |gpu| {
                profile.starts.iter().map(move |start| Instance { gpu, profile, start: *start })
            })
        })
    }

    pub(super) fn could_ever_make(&self, need: &Need) -> bool {
        self.places(need).next().is_some()
    }

    /// True if an instance for the task could be made at a place where none is in use.
    pub(super) fn could_make(&self, seen: &BegunTask) -> bool {
        let in_use = |book: &&Book| book.used > 0 || book.warps > 0 || book.owner.is_some();
        self.places(&seen.need).any(|place| {
            let beside = || {
                self.books
                    .values()
                    .filter(in_use)
                    .filter_map(|book| book.instance)
                    .filter(|other| other.gpu == place.gpu)
            };
            let alike = beside().filter(|other| other.profile == place.profile).count();
            alike < place.profile.max_instances as usize
                && beside().all(|other| units(&other) & units(&place) == 0)
        })
    }
}

/// The units of an instance as bits, from the geometry.
fn units(instance: &Instance) -> u32 {
    ((1 << instance.profile.size) - 1) << instance.start.0
}
