//! The kernel's log of a simulated node, `ROOT/dev/kmsg`: a file in which each line is a record, as Documentation/ABI/testing/dev-kmsg
//! describes them.

use std::fs::OpenOptions;
use std::io::{self, Write as _};

use nvidia_ml::engine::store::Store;

use super::{FaultCommand, FaultKind};

/// Writes the records of an error with an Xid, in the driver's words; nothing for other faults.
pub(super) fn log(store: &Store, command: &FaultCommand) -> io::Result<()> {
    let FaultCommand::Add { gpu, kind: FaultKind::Xid, number, times, .. } = *command else { return Ok(()) };
    let state = store.read().map_err(|e| io::Error::other(e.to_string()))?;
    let path = state.root.join("dev/kmsg");
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    let mut next = before.lines().filter(|line| !line.starts_with(' ')).count();
    let mut text = String::new();
    for _ in 0..times {
        for (index, described) in (0_u32..).zip(&state.node.gpus) {
            if gpu.is_none_or(|gpu| gpu == index) {
                let [domain, bus, device] = described.pci;
                text += &format!(
                    "3,{next},{next},-;NVRM: Xid (PCI:{domain:04x}:{bus:02x}:{device:02x}): {number}, pid=1, simulated\n \
                     SUBSYSTEM=pci\n"
                );
                next += 1;
            }
        }
    }
    OpenOptions::new().create(true).append(true).open(&path)?.write_all(text.as_bytes())
}
