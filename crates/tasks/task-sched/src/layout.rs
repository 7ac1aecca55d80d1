//! GPUs whose instances the policy makes.

use std::cmp::Reverse;

use geometry::{Model, Profile, Slice, coexist};

use crate::device::Device;
use crate::units::Bytes;

/// GPUs of one model in MIG mode, without instances at first.
#[derive(Clone, Debug, PartialEq)]
pub struct Gpus {
    model: &'static Model,
    count: usize,
    /// Profiles of the instances: fewest units first, and of as many units most SMs first.
    profiles: Vec<(&'static Profile, Device)>,
}

/// An instance of one of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Instance {
    /// The GPU's position, from 0.
    pub gpu: usize,
    /// Profile; no variant with other engines.
    pub profile: &'static Profile,
    /// First placement unit.
    pub start: Slice,
}

impl Instance {
    /// The units that it takes on its GPU.
    #[must_use]
    pub fn mask(&self) -> u16 {
        self.profile.at(self.start).mask()
    }

    /// Tells whether both can exist at the same time.
    #[must_use]
    pub fn is_beside(&self, other: &Instance) -> bool {
        self.gpu != other.gpu || (self.mask() & other.mask() == 0 && coexist(self.profile, other.profile))
    }
}

impl Gpus {
    /// `count` GPUs of `model`.
    #[must_use]
    pub fn new(model: &'static Model, count: usize) -> Gpus {
        let plain = model.profiles.iter().filter(|profile| !profile.is_variant());
        let mut profiles: Vec<(&'static Profile, Device)> = plain
            .filter_map(|profile| Some((profile, Device::instance(&model.key, &profile.name)?)))
            .collect();
        profiles.sort_by_key(|(profile, device)| (profile.size, Reverse(device.sms)));
        Gpus { model, count, profiles }
    }

    /// Model of the GPUs.
    #[must_use]
    pub fn model(&self) -> &'static Model {
        self.model
    }

    /// Number of the GPUs.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Gives the device that an instance of `profile` is to its tasks; `None` for a variant with other engines.
    #[must_use]
    pub fn device(&self, profile: &Profile) -> Option<Device> {
        self.profiles.iter().find(|(known, _)| *known == profile).map(|(_, device)| *device)
    }

    /// A GPU as a single instance.
    #[must_use]
    pub fn largest(&self) -> Option<Device> {
        self.profiles.iter().map(|(_, device)| *device).max_by_key(|device| (device.mem, device.sms))
    }

    /// Lists the places of an instance that holds `mem` on empty GPUs: on the fewest units first, and of as many units with
    /// the most SMs first, because memory is what instances of one size share.
    pub fn places(&self, mem: Bytes) -> impl Iterator<Item = Instance> {
        let able = self.profiles.iter().filter(move |(_, device)| mem <= device.mem);
        able.flat_map(|(profile, _)| {
            let profile: &'static Profile = profile;
            let starts =
                move |gpu| profile.starts.iter().map(move |start| Instance { gpu, profile, start: *start });
            (0..self.count).flat_map(starts)
        })
    }
}
