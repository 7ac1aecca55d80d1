//! The driver's calls that give objects their memory where their addresses are.

use std::ffi::{c_int, c_uint, c_void};

use super::super::cuda::driver;
use crate::lazy::{Backing, Content, Room, Rows, Step};

const SUCCESS: c_int = 0;

/// `CUmemLocation`: kind (1: a device) and ordinal.
#[repr(C)]
struct Location {
    kind: c_uint,
    id: c_int,
}

/// `CUmemAllocationProp`. Kind 1 is pinned memory, the only one of devices.
#[repr(C)]
struct Properties {
    kind: c_uint,
    handle_types: c_uint,
    location: Location,
    windows: *mut c_void,
    flags: [u8; 8],
}

/// `CUmemAccessDesc`. Flags 3 allow reads and writes.
#[repr(C)]
struct Access {
    location: Location,
    flags: c_uint,
}

fn is_ok(answer: Option<c_int>) -> bool {
    answer == Some(SUCCESS)
}

/// A pointer as C passes addresses of its own memory.
fn pointer(address: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(usize::try_from(address).unwrap_or(0))
}

/// The ordinal of the current context's device.
fn device() -> Option<c_int> {
    let mut device: c_int = 0;
    is_ok(driver!(true, c"cuCtxGetDevice", (*mut c_int), &raw mut device)).then_some(device)
}

/// Makes a context current if there is none: of the first device, as the runtime does.
pub(super) fn enter() {
    if device().is_some() {
        return;
    }
    let mut context: *mut c_void = std::ptr::null_mut();
    let is_there = is_ok(driver!(true, c"cuInit", (c_uint), 0))
        && is_ok(driver!(true, c"cuDevicePrimaryCtxRetain", (*mut *mut c_void, c_int), &raw mut context, 0));
    if is_there {
        driver!(true, c"cuCtxSetCurrent", (*mut c_void), context);
    }
}

/// Gives a room memory of the current device: where its addresses are, or elsewhere if the driver cannot. Nobody else may
/// have mapped anything there: the reservation that held the addresses has been given up just now.
pub(super) fn back(room: Room) -> Backing {
    if let Some(handle) = map_at(room) {
        return Backing::Mapped(handle);
    }
    let mut other: u64 = 0;
    let bytes = usize::try_from(room.bytes).unwrap_or(usize::MAX);
    match driver!(true, c"cuMemAlloc_v2", (*mut u64, usize), &raw mut other, bytes) {
        Some(SUCCESS) => Backing::Elsewhere(other),
        _ => Backing::Nothing,
    }
}

/// Memory at the room's own addresses; its handle.
fn map_at(room: Room) -> Option<u64> {
    let bytes = usize::try_from(room.bytes).ok()?;
    let location = || Some(Location { kind: 1, id: device()? });
    let mut at: u64 = 0;
    let reserved = driver!(
        true,
        c"cuMemAddressReserve",
        (*mut u64, usize, usize, u64, u64),
        &raw mut at,
        bytes,
        0,
        room.start,
        0
    );
    if !is_ok(reserved) {
        return None;
    }
    if at != room.start {
        unreserve(Room { start: at, bytes: room.bytes });
        return None;
    }
    let properties = Properties {
        kind: 1,
        handle_types: 0,
        location: location()?,
        windows: std::ptr::null_mut(),
        flags: [0; 8],
    };
    let mut handle: u64 = 0;
    let made = driver!(
        true,
        c"cuMemCreate",
        (*mut u64, usize, *const Properties, u64),
        &raw mut handle,
        bytes,
        &raw const properties,
        0
    );
    if !is_ok(made) {
        unreserve(room);
        return None;
    }
    let access = Access { location: location()?, flags: 3 };
    let mapped =
        is_ok(driver!(true, c"cuMemMap", (u64, usize, usize, u64, u64), room.start, bytes, 0, handle, 0));
    let allowed = || {
        is_ok(driver!(
            true,
            c"cuMemSetAccess",
            (u64, usize, *const Access, usize),
            room.start,
            bytes,
            &raw const access,
            1
        ))
    };
    if mapped && allowed() {
        return Some(handle);
    }
    if mapped {
        driver!(true, c"cuMemUnmap", (u64, usize), room.start, bytes);
    }
    driver!(true, c"cuMemRelease", (u64), handle);
    unreserve(room);
    None
}

fn unreserve(room: Room) {
    let bytes = usize::try_from(room.bytes).unwrap_or(0);
    driver!(true, c"cuMemAddressFree", (u64, usize), room.start, bytes);
}

/// Gives a room's memory back, and its addresses if the driver holds them.
pub(super) fn release(room: Room, backing: Backing) {
    let bytes = usize::try_from(room.bytes).unwrap_or(0);
    match backing {
        Backing::Mapped(handle) => {
            driver!(true, c"cuMemUnmap", (u64, usize), room.start, bytes);
            driver!(true, c"cuMemRelease", (u64), handle);
            unreserve(room);
        }
        Backing::Elsewhere(other) => drop(driver!(true, c"cuMemFree_v2", (u64), other)),
        Backing::Own => drop(driver!(true, c"cuMemFree_v2", (u64), room.start)),
        Backing::Nothing => {}
    }
}

/// Managed memory of the current device, which every device and the host reach.
pub(super) fn managed(bytes: u64) -> Option<u64> {
    let (mut at, bytes) = (0_u64, usize::try_from(bytes).ok()?);
    let made = driver!(true, c"cuMemAllocManaged", (*mut u64, usize, c_uint), &raw mut at, bytes, 1);
    is_ok(made).then_some(at)
}

/// Carries out what has waited, at `at`: where its first row is now.
pub(super) fn replay(step: &Step, at: u64) {
    let rows = Rows { at, ..step.to };
    let width = usize::try_from(rows.width).unwrap_or(0);
    for row in 0..rows.height {
        let to = rows.row(row);
        let done = match &step.content {
            Content::Value(value) => driver!(true, c"cuMemsetD8_v2", (u64, u8, usize), to, *value, width),
            Content::Data(data) => {
                let from = usize::try_from(row).unwrap_or(0) * width;
                let Some(from) = data.get(from..from + width) else { return };
                driver!(
                    true,
                    c"cuMemcpyHtoD_v2",
                    (u64, *const c_void, usize),
                    to,
                    from.as_ptr().cast(),
                    width
                )
            }
        };
        if !is_ok(done) {
            return;
        }
    }
}

/// Copies rows, each side wherever it is. `false` where the driver refused.
pub(super) fn copy(to: Rows, from: Rows) -> bool {
    let width = usize::try_from(to.width).unwrap_or(0);
    let mut rows = 0..to.height;
    rows.all(|row| is_ok(driver!(true, c"cuMemcpy", (u64, u64, usize), to.row(row), from.row(row), width)))
}

/// Fills rows.
pub(super) fn fill(to: Rows, value: u8) -> bool {
    let width = usize::try_from(to.width).unwrap_or(0);
    let mut rows = 0..to.height;
    rows.all(|row| is_ok(driver!(true, c"cuMemsetD8_v2", (u64, u8, usize), to.row(row), value, width)))
}

/// Waits for all that the device does, or for one stream.
pub(super) fn wait(stream: Option<u64>) {
    match stream {
        Some(stream) => drop(driver!(true, c"cuStreamSynchronize", (*mut c_void), pointer(stream))),
        None => drop(driver!(true, c"cuCtxSynchronize", (),)),
    }
}

/// Sets the heap of the current device's kernels (`CU_LIMIT_MALLOC_HEAP_SIZE` is 2).
pub(super) fn set_heap(bytes: u64) {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    driver!(true, c"cuCtxSetLimit", (c_uint, usize), 2, bytes);
}
