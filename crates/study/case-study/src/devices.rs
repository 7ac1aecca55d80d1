//! GPUs that only the studies use.

use geometry::Model;
use task_sched::{Bytes, Device, workers_of};

/// A Tesla V100 of 16 GB.
pub const V100: Device = Device { sms: 80, ..Device::P100 };

/// This 16 GB GPU without a scheduler that keeps memory back: what the driver refuses is above 16 GB.
#[must_use]
pub fn unmanaged(gpu: &Device) -> Device {
    Device { mem: Bytes(16_000_000_000), ..*gpu }
}

/// A GPU of `model` outside MIG mode. Its memory is the model's nominal gigabytes, 10^9 bytes each, or what can be promised
/// where that is less.
#[must_use]
pub fn whole(model: &Model) -> Device {
    let nominal_gb = model.shards();
    Device {
        mem: Bytes(u64::from(nominal_gb) * 1_000_000_000).min(Bytes::from_mib(model.usable_mib())),
        sms: model.full_gpu_sm,
        max_workers: Some(workers_of(nominal_gb)),
        ..Device::P100
    }
}
