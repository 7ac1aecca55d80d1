//! The values of one submission's options.

use topology::{Pattern, Selection};

use crate::value::Value;
use protocol::SetWait;
use protocol::moldable::{PlannedStart, SizeTime};
use protocol::{Bandwidth, Isolation, Request};

/// The value of each option; `None` if the option was not used.
#[derive(Default)]
pub(super) struct OptionValues {
    pub(super) isolation: Option<Isolation>,
    pub(super) mem: Option<u64>,
    pub(super) instances: Option<u32>,
    /// The instances are for each Slurm task.
    pub(super) per_task: bool,
    pub(super) sms: Option<u8>,
    pub(super) pattern: Option<Pattern>,
    pub(super) bandwidth: Option<Bandwidth>,
    pub(super) policy: Option<Selection>,
    pub(super) wait: Option<SetWait>,
    pub(super) times: Option<Vec<SizeTime>>,
    pub(super) app: Option<String>,
    pub(super) place: Option<PlannedStart>,
    pub(super) power: Option<u16>,
    /// The power cap follows from counters.
    pub(super) auto_power: bool,
}

impl OptionValues {
    pub(super) fn of(values: Vec<Value>) -> Self {
        let mut given = Self::default();
        for value in values {
            match value {
                Value::Isolation(v) => given.isolation = Some(v),
                Value::Mem(v) => given.mem = Some(v),
                Value::Instances(n, per_task) => (given.instances, given.per_task) = (Some(n), per_task),
                Value::Sms(v) => given.sms = Some(v),
                Value::Pattern(v) => given.pattern = Some(v),
                Value::Bandwidth(v) => given.bandwidth = Some(v),
                Value::SetPolicy(v) => given.policy = Some(v),
                Value::Wait(v) => given.wait = Some(v),
                Value::Times(v) => given.times = Some(v),
                Value::App(v) => given.app = Some(v),
                Value::Place(v) => given.place = Some(v),
                Value::Power(v) => given.power = Some(v),
                Value::AutoPower => given.auto_power = true,
            }
        }
        given
    }

    /// A request with only those options that are about one MIG instance: its possible sizes and its place.
    pub(super) fn about_one_instance(&self) -> Request {
        Request {
            times: self.times.clone().unwrap_or_default(),
            job_profile: self.app.clone(),
            place: self.place,
            auto_cap: self.auto_power,
            ..Request::new(Isolation::Auto)
        }
    }
}
