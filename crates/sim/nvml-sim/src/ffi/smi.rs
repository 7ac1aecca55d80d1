//! `nvmlInternalGetExportTable`: what `nvidia-smi` asks outside the header.
//!
//! The table is not documented. What stands here was found by running Debian's `nvidia-smi` 535 on the simulator and recording which slots
//! it calls with what; the table's id and the layout of a process entry also agree with what NVIDIA/k8s-test-infra recorded for 580. Every other
//! slot answers `NVML_ERROR_NOT_SUPPORTED`, which `nvidia-smi` shows as N/A.
//!
//! | slot | arguments | meaning |
//! |---|---|---|
//! | 23 | bus id, bus id, `unsigned *` | relation of two devices for `topo -m`: 0 PIX, 1 PXB, 2 PHB, 3 NODE, 4 SYS |
//! | 20 | device, `unsigned *`, `unsigned *` | is it the primary display, and another flag |
//! | 72 | device, `unsigned *` | can `dmon` and `pmon` watch it |
//! | 168 | count, devices, details, `unsigned *` | `--gpu-reset`: resets the devices; the last says whether NVSwitches were reset too |
//! | 169 | `unsigned *` | state of the fabric: 0, none |
//! | 182, 183, 184 | group, … | makes a group of devices, lists those that are missing from it, ends it |
//! | 213, 214, 215 | device, `unsigned *` count, entries of 4128 bytes | compute processes, MPS clients and graphics processes: `nvidia-smi` calls a process in two lists `M+C` or `C+G` |
//! | 230 | device, `unsigned *` | the host's highest PCIe generation |

use std::ffi::{c_char, c_uint, c_void};

use c_edge::guard;

use super::abi::{CText, Out, Ref, with_state};
use super::load::processes;
use crate::engine::code::{Answer, Code};
use crate::engine::node;
use crate::engine::process::{self, Process};

/// The functions of this module.
pub(super) const NAMES: &[&str] = &["nvmlInternalGetExportTable"];

/// The only table asked for: 6c3efec4-8fc9-4e6c-a327-ee696e12f7c4, first three groups little-endian.
const TABLE_ID: [u8; 16] =
    [0xc4, 0xfe, 0x3e, 0x6c, 0xc9, 0x8f, 0x6c, 0x4e, 0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4];

const PRIMARY: usize = 20;
const RELATION: usize = 23;
const MONITOR: usize = 72;
const RESET: usize = 168;
const FABRIC: usize = 169;
const GROUP: usize = 182;
const GROUP_MISSING: usize = 183;
const GROUP_END: usize = 184;
const COMPUTE: usize = 213;
const MPS: usize = 214;
const GRAPHICS: usize = 215;
const HOST_PCIE: usize = 230;
const N_SLOTS: usize = 512;

/// One slot. The C functions take different arguments, all in registers; a slot that is called with fewer never looks at the rest.
#[derive(Clone, Copy)]
#[repr(C)]
union Slot {
    unknown: extern "C" fn() -> c_uint,
    relation: extern "C" fn(CText, CText, Out<c_uint>) -> c_uint,
    list: extern "C" fn(Ref, Out<c_uint>, Out<SmiProcess>) -> c_uint,
    number: extern "C" fn(Ref, Out<c_uint>) -> c_uint,
    flags: extern "C" fn(Ref, Out<c_uint>, Out<c_uint>) -> c_uint,
    fabric: extern "C" fn(Out<c_uint>) -> c_uint,
    reset: extern "C" fn(c_uint, Out<Ref>, Out<c_uint>, Out<c_uint>) -> c_uint,
    group: extern "C" fn(Out<usize>, Out<Ref>, c_uint) -> c_uint,
    missing: extern "C" fn(usize, Out<Ref>, Out<c_uint>) -> c_uint,
    size: usize,
}

/// Slot 0 holds the table's size in bytes.
static TABLE: [Slot; N_SLOTS] = {
    let mut table = [Slot { unknown }; N_SLOTS];
    table[0] = Slot { size: N_SLOTS * size_of::<Slot>() };
    table[PRIMARY] = Slot { flags: primary };
    table[RELATION] = Slot { relation };
    table[MONITOR] = Slot { number: monitor };
    table[RESET] = Slot { reset };
    table[FABRIC] = Slot { fabric };
    table[GROUP] = Slot { group };
    table[GROUP_MISSING] = Slot { missing: group_missing };
    table[GROUP_END] = Slot { unknown: group_end };
    table[COMPUTE] = Slot { list: compute };
    table[GRAPHICS] = Slot { list: graphics };
    table[MPS] = Slot { list: mps };
    table[HOST_PCIE] = Slot { number: host_pcie };
    table
};

/// A process as `nvidia-smi` reads it.
#[derive(Clone, Copy)]
#[repr(C)]
struct SmiProcess {
    pid: c_uint,
    used_bytes: u64,
    gpu_instance: c_uint,
    compute_instance: c_uint,
    protected_bytes: u64,
    name: [c_char; 4096],
}

const _: () = assert!(size_of::<SmiProcess>() == 4128);

#[unsafe(no_mangle)]
extern "C" fn nvmlInternalGetExportTable(out: Out<*const c_void>, id: Out<[u8; 16]>) -> c_uint {
    guard(|| {
        if id.get()? != TABLE_ID {
            return Err(Code::NotFound);
        }
        out.put((&raw const TABLE).cast())
    })
}

extern "C" fn unknown() -> c_uint {
    Code::NotSupported as c_uint
}

extern "C" fn relation(a: CText, b: CText, out: Out<c_uint>) -> c_uint {
    with_state(|_, state| {
        let gpu = |text: CText| -> Answer<u32> {
            let pci = node::pci_id(&text.get()?).map_err(|_| Code::InvalidArgument)?;
            let found = state.node.gpus.iter().position(|g| g.pci == pci).ok_or(Code::NotFound)?;
            u32::try_from(found).map_err(|_| Code::Unknown)
        };
        let level = state.level(gpu(a)?, gpu(b)?)?;
        out.put((level / 10).saturating_sub(1))
    })
}

extern "C" fn compute(device: Ref, count: Out<c_uint>, out: Out<SmiProcess>) -> c_uint {
    list(device, count, out, false)
}

extern "C" fn mps(device: Ref, count: Out<c_uint>, out: Out<SmiProcess>) -> c_uint {
    list(device, count, out, true)
}

/// Nothing here draws.
extern "C" fn graphics(_device: Ref, count: Out<c_uint>, _out: Out<SmiProcess>) -> c_uint {
    guard(|| count.put(0))
}

fn list(device: Ref, count: Out<c_uint>, out: Out<SmiProcess>, is_mps: bool) -> c_uint {
    with_state(|session, state| {
        let found = processes(session, state, device, is_mps)?;
        let entry = |p: &Process| SmiProcess {
            pid: p.pid,
            used_bytes: p.memory_mib << 20,
            gpu_instance: p.gi.unwrap_or(c_uint::MAX),
            compute_instance: p.ci.unwrap_or(c_uint::MAX),
            protected_bytes: 0,
            name: super::abi::chars(&process::name(p.pid).unwrap_or_default()),
        };
        let entries: Vec<SmiProcess> = found.iter().map(entry).collect();
        out.put_list(count, &entries)
    })
}

extern "C" fn host_pcie(device: Ref, out: Out<c_uint>) -> c_uint {
    with_state(|session, state| {
        let gpu = device.gpu(session, state)?;
        out.put(state.chip(gpu)?.board.pcie_gen)
    })
}

/// No simulated GPU drives a display.
extern "C" fn primary(device: Ref, is_primary: Out<c_uint>, other: Out<c_uint>) -> c_uint {
    with_state(|session, state| {
        device.gpu(session, state)?;
        is_primary.put(0)?;
        other.put(0)
    })
}

extern "C" fn monitor(device: Ref, out: Out<c_uint>) -> c_uint {
    with_state(|session, state| {
        device.gpu(session, state)?;
        out.put(1)
    })
}

extern "C" fn fabric(out: Out<c_uint>) -> c_uint {
    guard(|| out.put(0))
}

/// A group needs no memory: its handle only has to differ from null.
extern "C" fn group(out: Out<usize>, _devices: Out<Ref>, _count: c_uint) -> c_uint {
    guard(|| out.put(1))
}

/// Any GPU may be reset alone.
extern "C" fn group_missing(_group: usize, _devices: Out<Ref>, count: Out<c_uint>) -> c_uint {
    guard(|| count.put(0))
}

extern "C" fn group_end() -> c_uint {
    0
}

extern "C" fn reset(
    count: c_uint,
    devices: Out<Ref>,
    _details: Out<c_uint>,
    switches: Out<c_uint>,
) -> c_uint {
    with_state(|session, state| {
        switches.put(0)?;
        let devices = (0..count as usize).map(|i| devices.at(i).get()?.gpu(session, state));
        // All are looked up before the first is reset.
        let gpus: Vec<u32> = devices.collect::<Answer<_>>()?;
        gpus.into_iter().try_for_each(|gpu| session.reset(gpu))
    })
}
