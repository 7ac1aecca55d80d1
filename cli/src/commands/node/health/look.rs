//! Looks at a node's GPUs: the driver's counters, and its errors in the kernel's log.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use gpu_health::{HealthRecord, KernelXid, KnownGpu, Look, Reading, Seen, xids};
use gpu_node::{Numbering, number_of};
use gpu_survey::GpuHealth;
use node_driver::NvmlIndex;
use node_driver::nvml::{Code, Nvml};

use crate::clock::epoch_seconds;
use crate::local_node::Local;
use crate::outcome::Failure;

/// A node's GPUs and the kernel's log, as they were seen.
pub(super) struct SeenNode {
    gpus: Vec<Seen>,
    log: Vec<KernelXid>,
}

impl SeenNode {
    pub(super) fn now<'a>(&'a self, boot: &'a str) -> Look<'a> {
        Look { gpus: &self.gpus, log: &self.log, boot, now: epoch_seconds() }
    }
}

/// Looks at all GPUs, and at the kernel's log. `known` is what the node remembers.
///
/// # Errors
///
/// The driver does not answer, or a GPU does not say which one it is. Nothing is judged then: another GPU might be left out, or an
/// unhealthy one come back.
pub(super) fn seen(local: &Local<'_>, known: &HealthRecord) -> Result<SeenNode, Failure> {
    let nvml = Nvml::load(&local.settings.node.nvml_library).map_err(|e| Failure::of(&e))?;
    let count = nvml.count().map_err(|e| Failure::of(&e))?;
    let driver = DriverLook { nvml: &nvml, count, numbering: &local.settings.numbering, known };
    let gpus = (0..count).map(NvmlIndex).map(|index| driver.gpu(index)).collect::<Result<_, _>>()?;
    let log = xids(&kernel_log(&local.settings.node.dev_root.join("kmsg")));
    Ok(SeenNode { gpus, log })
}

struct DriverLook<'a> {
    nvml: &'a Nvml,
    count: u16,
    numbering: &'a Numbering,
    known: &'a HealthRecord,
}

impl DriverLook<'_> {
    fn gpu(&self, index: NvmlIndex) -> Result<Seen, Failure> {
        let number = number_of(self.numbering, index);
        let error = match self.nvml.info(index) {
            Ok(info) => {
                let known = self.known.gpus.iter().find(|known| known.uuid == info.uuid);
                let reading = match gpu_survey::health(self.nvml, index) {
                    Ok(health) => Some(reading(health, known)),
                    Err(e) if e.code() == Some(Code::GPU_IS_LOST) => None,
                    Err(_) => Some(known.map(unchanged).unwrap_or_default()),
                };
                return Ok(Seen { uuid: info.uuid, bus_id: info.pci_bus_id, number, reading });
            }
            Err(error) => error,
        };
        // It does not say which GPU it is: the one that had this number, as long as all others have theirs.
        let had = self.known.gpus.iter().find(|known| number.is_some_and(|n| known.number == Some(n.0)));
        let Some(known) = had.filter(|_| !self.is_shifted()) else {
            return Err(Failure::of(&error).hint("cannot tell which GPU that is, so nothing was judged"));
        };
        let reading = (error.code() != Some(Code::GPU_IS_LOST)).then(|| unchanged(known));
        Ok(Seen { uuid: known.uuid.clone(), bus_id: String::new(), number, reading })
    }

    /// Tells whether a GPU that answers has another number than it had.
    fn is_shifted(&self) -> bool {
        (0..self.count).map(NvmlIndex).any(|index| {
            let Ok(uuid) = self.nvml.uuid(index) else { return false };
            let number = number_of(self.numbering, index).map(|number| number.0);
            let known = self.known.gpus.iter().find(|known| known.uuid == uuid);
            known.is_none_or(|known| known.number != number)
        })
    }
}

/// A reading that changes nothing: the GPU is there, and does not say how it is.
fn unchanged(known: &KnownGpu) -> Reading {
    Reading { ecc: known.ecc, nvlink: known.nvlink, recovery: known.recovery, ..Reading::default() }
}

/// The driver's answers, and for those that it did not give what is known: a GPU that has not been reset must not look so.
fn reading(health: GpuHealth, known: Option<&KnownGpu>) -> Reading {
    let before = known.map(unchanged).unwrap_or_default();
    Reading {
        ecc: health.ecc_uncorrected.unwrap_or(before.ecc),
        remap_pending: health.remap_pending,
        remap_failed: health.remap_failed,
        hot: health.too_hot,
        nvlink: health.nvlink_recoveries.unwrap_or(before.nvlink),
        recovery: health.needs_recovery.unwrap_or(before.recovery),
    }
}

/// Most bytes of the kernel's log, more than its ring has.
const MOST: usize = 16 << 20;

/// The kernel's log as it is now; empty if it cannot be read. The device gives one record at each call, and none is waited for.
fn kernel_log(path: &Path) -> String {
    let mut log = Vec::new();
    let nonblock = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    let Ok(mut file) = OpenOptions::new().read(true).custom_flags(nonblock).open(path) else {
        return String::new();
    };
    let mut buffer = vec![0; 16 << 10];
    while log.len() < MOST {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => log.extend_from_slice(&buffer[..n]),
            // Records were overwritten before they were read.
            Err(e) if e.raw_os_error() == Some(rustix::io::Errno::PIPE.raw_os_error()) => {}
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&log).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_gives_no_answer_has_not_reset_the_gpu() {
        let known = KnownGpu { ecc: 7, nvlink: 3, recovery: true, ..KnownGpu::default() };
        let none = reading(GpuHealth::default(), Some(&known));
        assert_eq!((none.ecc, none.nvlink, none.recovery), (7, 3, true));
        let zeros = GpuHealth {
            ecc_uncorrected: Some(0),
            nvlink_recoveries: Some(0),
            needs_recovery: Some(false),
            ..GpuHealth::default()
        };
        assert_eq!(reading(zeros, Some(&known)), Reading::default());
        assert_eq!(reading(GpuHealth::default(), None), Reading::default());
    }
}
