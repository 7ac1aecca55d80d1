//! Virtual memory management.

use std::ffi::{c_int, c_uint};

use super::abi::{Out, driver, exports};
use super::device::ordinal;
use crate::core::code::{Answer, Code};
use crate::core::heap::GRANULE;

/// `CUmemLocation`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Location {
    kind: c_uint,
    id: c_int,
}

/// `CUmemAllocationProp`: what is read of it.
#[derive(Clone, Copy)]
#[repr(C)]
struct Properties {
    kind: c_uint,
    handle_types: c_uint,
    location: Location,
}

/// `CUmemAccessDesc`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Access {
    location: Location,
    flags: c_uint,
}

/// Pinned memory, on a device: the only kind there is.
const PINNED: c_uint = 1;
const ON_DEVICE: c_uint = 1;
/// `CU_MEM_ACCESS_FLAGS_PROT_READ` and `…_READWRITE`.
const READ: c_uint = 1;
const READ_WRITE: c_uint = 3;

fn device_of(properties: Out<Properties>) -> Answer<usize> {
    let p = properties.get()?;
    if p.kind != PINNED || p.location.kind != ON_DEVICE {
        return Err(Code::InvalidValue);
    }
    if p.handle_types != 0 {
        // No handle can be given to another process.
        return Err(Code::NotSupported);
    }
    ordinal(p.location.id)
}

exports! {
    fn cuMemGetAllocationGranularity(out: Out<u64>, properties: Out<Properties>, _option: c_uint) {
        driver()?;
        device_of(properties)?;
        out.put(GRANULE)
    }
    fn cuMemAddressReserve(out: Out<u64>, bytes: u64, align: u64, wanted: u64, flags: u64) {
        let driver = driver()?;
        if out.is_null() || flags != 0 {
            return Err(Code::InvalidValue);
        }
        out.put(driver.reserve(bytes, align, wanted)?)
    }
    fn cuMemAddressFree(address: u64, bytes: u64) { driver()?.free_reserved(address, bytes) }
    fn cuMemCreate(out: Out<u64>, bytes: u64, properties: Out<Properties>, flags: u64) {
        let driver = driver()?;
        if out.is_null() || flags != 0 {
            return Err(Code::InvalidValue);
        }
        out.put(driver.create_memory(device_of(properties)?, bytes)?)
    }
    fn cuMemRelease(handle: u64) { driver()?.release_memory(handle) }
    fn cuMemMap(address: u64, bytes: u64, offset: u64, handle: u64, flags: u64) {
        if offset != 0 || flags != 0 {
            return Err(Code::InvalidValue);
        }
        driver()?.map(address, bytes, handle)
    }
    fn cuMemUnmap(address: u64, bytes: u64) { driver()?.unmap(address, bytes) }
    fn cuMemSetAccess(address: u64, bytes: u64, list: Out<Access>, count: u64) {
        let driver = driver()?;
        let count = usize::try_from(count).ok().filter(|n| (1..=64).contains(n)).ok_or(Code::InvalidValue)?;
        let mut allowed = false;
        for i in 0..count {
            let access = list.at(i).get()?;
            ordinal(access.location.id)?;
            allowed |= access.flags == READ || access.flags == READ_WRITE;
        }
        driver.set_access(address, bytes, allowed)
    }
}
