//! Linear memory.

use std::ffi::c_uint;

use super::{Here, Opaque, SUCCESS, enter, guard, read, wrappers, write};
use crate::account::Leases;
use crate::ledger::Name;

fn allocate(out: *mut u64, bytes: usize, make: impl Fn() -> c_uint) -> c_uint {
    guard(|| match enter() {
        None => make(),
        Some(here) => here.allocate(bytes as u64, make, || Some((Name::Address(read(out)?), bytes as u64))),
    })
}

fn free(address: u64, free: impl Fn() -> c_uint) -> c_uint {
    guard(|| match enter() {
        None => free(),
        Some(here) => {
            let answer = here.free(Name::Address(address), free);
            if answer == SUCCESS {
                here.account.give_managed(address, here.client());
            }
            answer
        }
    })
}

/// Managed memory passes: the driver moves it to the host where the device is full. The broker is told how much there is.
fn managed(here: &Here, out: *mut u64, bytes: usize, make: impl Fn() -> c_uint) -> c_uint {
    let told = here.account.take_managed(bytes as u64, here.client());
    let answer = make();
    let address = if answer == SUCCESS { read(out) } else { None };
    match (told, address) {
        (Some(nonce), Some(address)) => here.account.place_managed(address, nonce, here.client()),
        (Some(nonce), None) => Leases::free(here.client(), nonce),
        (None, _) => {}
    }
    answer
}

/// Rows are at least this far apart on every GPU: `CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT` and more.
const PITCH: u64 = 512;

wrappers! {
    fn cuMemAlloc_v2 since 3020 (out: *mut u64, bytes: usize) |real| { allocate(out, bytes, || real(out, bytes)) }
    fn cuMemAllocAsync since 11020 (out: *mut u64, bytes: usize, stream: Opaque) |real| {
        allocate(out, bytes, || real(out, bytes, stream))
    }
    fn cuMemAllocAsync_ptsz since 11020 (out: *mut u64, bytes: usize, stream: Opaque) |real| {
        allocate(out, bytes, || real(out, bytes, stream))
    }
    fn cuMemAllocFromPoolAsync since 11020 (out: *mut u64, bytes: usize, pool: Opaque, stream: Opaque) |real| {
        allocate(out, bytes, || real(out, bytes, pool, stream))
    }
    fn cuMemAllocFromPoolAsync_ptsz since 11020 (out: *mut u64, bytes: usize, pool: Opaque, stream: Opaque) |real| {
        allocate(out, bytes, || real(out, bytes, pool, stream))
    }
    fn cuMemAllocPitch_v2 since 3020 (
        out: *mut u64, pitch: *mut usize, width: usize, height: usize, element: c_uint,
    ) |real| {
        let rows = height as u64;
        let foreseen = (width as u64).checked_next_multiple_of(PITCH).unwrap_or(u64::MAX).saturating_mul(rows);
        guard(|| match enter() {
            None => real(out, pitch, width, height, element),
            Some(here) => here.allocate(foreseen, || real(out, pitch, width, height, element), || {
                Some((Name::Address(read(out)?), (read(pitch)? as u64).saturating_mul(rows)))
            }),
        })
    }
    fn cuMemAllocManaged since 6000 (out: *mut u64, bytes: usize, flags: c_uint) |real| {
        guard(|| match enter() {
            None => real(out, bytes, flags),
            Some(here) => managed(&here, out, bytes, || real(out, bytes, flags)),
        })
    }
    fn cuMemFree_v2 since 3020 (address: u64) |real| { free(address, || real(address)) }
    fn cuMemFreeAsync since 11020 (address: u64, stream: Opaque) |real| { free(address, || real(address, stream)) }
    fn cuMemFreeAsync_ptsz since 11020 (address: u64, stream: Opaque) |real| { free(address, || real(address, stream)) }
    fn cuMemGetInfo_v2 since 3020 (free: *mut usize, total: *mut usize) |real| {
        guard(|| {
            let answer = real(free, total);
            if let Some(here) = enter().filter(|_| answer == SUCCESS) {
                let (own_total, own_free) = here.account.total_and_free();
                lessen(free, own_free);
                lessen(total, own_total);
            }
            answer
        })
    }
}

/// Writes the smaller of what is there and what the process may use.
pub(super) fn lessen(out: *mut usize, own: u64) {
    let own = usize::try_from(own).unwrap_or(usize::MAX);
    if let Some(there) = read(out) {
        write(out, there.min(own));
    }
}
