//! GPUs whose instances the policy makes.

use geometry::{Model, Profile, Slice, coexist};

use crate::device::Device;
use crate::units::Bytes;

/// GPUs of one model in MIG mode, without instances at first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gpus {
    /// What they are.
    pub model: &'static Model,
    /// How many.
    pub count: usize,
}

/// An instance of one of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Instance {
    /// The GPU's position, from 0.
    pub gpu: usize,
    /// Its profile; no variant with other engines.
    pub profile: &'static Profile,
    /// Its first placement unit.
    pub start: Slice,
}

impl Instance {
    /// The units that it takes on its GPU.
    #[must_use]
    pub fn mask(&self) -> u16 {
        self.profile.at(self.start).mask()
    }

    /// Whether both can exist at the same time.
    #[must_use]
    pub fn is_beside(&self, other: &Instance) -> bool {
        self.gpu != other.gpu || (self.mask() & other.mask() == 0 && coexist(self.profile, other.profile))
    }
}

impl Gpus {
    /// What an instance of `profile` is able to hold.
    #[must_use]
    pub fn device(&self, profile: &Profile) -> Option<Device> {
        Device::instance(&self.model.key, &profile.name)
    }

    /// The profiles that instances are made of.
    fn profiles(&self) -> impl Iterator<Item = (&'static Profile, Device)> {
        let plain = self.model.profiles.iter().filter(|profile| !profile.is_variant());
        plain.filter_map(|profile| Some((profile, self.device(profile)?)))
    }

    /// One GPU as a single instance.
    #[must_use]
    pub fn largest(&self) -> Option<Device> {
        self.profiles().map(|(_, device)| device).max_by_key(|device| (device.mem, device.sms))
    }

    /// Where an instance that holds `mem` could be if the GPUs were empty: on the fewest units first, and of as many units
    /// with the most SMs first, because memory is what instances of one size share.
    pub fn places(&self, mem: Bytes) -> impl Iterator<Item = Instance> {
        let mut able: Vec<_> = self.profiles().filter(|(_, device)| mem <= device.mem).collect();
        able.sort_by_key(|(profile, device)| (profile.size, std::cmp::Reverse(device.sms)));
        let gpus = 0..self.count;
        able.into_iter().flat_map(move |(profile, _)| {
            let starts =
                move |gpu| profile.starts.iter().map(move |start| Instance { gpu, profile, start: *start });
            gpus.clone().flat_map(starts)
        })
    }
}
