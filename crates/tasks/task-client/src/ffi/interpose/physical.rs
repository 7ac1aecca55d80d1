//! Physical memory that programs map by hand: `cuMemCreate` and what keeps its memory.

use std::ffi::{c_int, c_uint};

use super::{Here, OUT_OF_MEMORY, SUCCESS, enter, guard, read, wrappers};
use crate::ledger::VirtualMemory;

/// `CUmemAllocationProp`: what is read of it.
#[derive(Clone, Copy)]
#[repr(C)]
struct Properties {
    kind: c_uint,
    handle_types: c_uint,
    location_kind: c_uint,
    location: c_int,
}

/// `CU_MEM_LOCATION_TYPE_DEVICE`; the others are places on the host.
const ON_DEVICE: c_uint = 1;

fn create(here: &Here, out: *mut u64, bytes: usize, make: impl Fn() -> c_uint) -> c_uint {
    let charge = match here.account.take(bytes as u64, here.client()) {
        Ok(charge) => charge,
        Err(why) => {
            here.refuse(bytes as u64, &why);
            return OUT_OF_MEMORY;
        }
    };
    let answer = make();
    match read(out).filter(|_| answer == SUCCESS) {
        Some(handle) => {
            here.account.change(here.client(), |ledger| ledger.virtual_memory().created(handle, charge));
        }
        None => here.account.give(charge, here.client()),
    }
    answer
}

/// Lets the driver do it, and then does it to the account.
fn after(call: impl Fn() -> c_uint, change: impl FnOnce(&mut VirtualMemory)) -> c_uint {
    guard(|| match enter() {
        None => call(),
        Some(here) => {
            let answer = call();
            if answer == SUCCESS {
                here.account.change(here.client(), |ledger| change(ledger.virtual_memory()));
            }
            answer
        }
    })
}

wrappers! {
    fn cuMemCreate since 10020 (out: *mut u64, bytes: usize, properties: *const Properties, flags: u64) |real| {
        let is_on_device = read(properties).is_some_and(|p| p.location_kind == ON_DEVICE);
        guard(|| match enter().filter(|_| is_on_device) {
            None => real(out, bytes, properties, flags),
            Some(here) => create(&here, out, bytes, || real(out, bytes, properties, flags)),
        })
    }
    fn cuMemRelease since 10020 (handle: u64) |real| { after(|| real(handle), |memory| memory.released(handle)) }
    fn cuMemRetainAllocationHandle since 11000 (out: *mut u64, address: u64) |real| {
        after(|| real(out, address), |memory| {
            if let Some(handle) = read(out) {
                memory.retained(handle, address);
            }
        })
    }
    fn cuMemMap since 10020 (address: u64, bytes: usize, offset: usize, handle: u64, flags: u64) |real| {
        after(|| real(address, bytes, offset, handle, flags), |memory| memory.mapped(address, bytes as u64, handle))
    }
    fn cuMemUnmap since 10020 (address: u64, bytes: usize) |real| {
        after(|| real(address, bytes), |memory| memory.unmapped(address, bytes as u64))
    }
}
