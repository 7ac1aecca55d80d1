//! Allocating and freeing.

use std::ffi::{c_int, c_uint};

use super::abi::{Out, driver, exports, here};
use crate::core::code::{Answer, Code};
use crate::core::memory::Kind;

/// `CUmemAttach_flags`: global or host.
const ATTACH: [c_uint; 2] = [1, 2];

fn allocate(out: Out<u64>, bytes: u64) -> Answer<()> {
    let (driver, context) = here()?;
    if out.is_null() {
        return Err(Code::InvalidValue);
    }
    out.put(driver.allocate(context, bytes)?)
}

fn allocate_host(out: Out<u64>, bytes: u64) -> Answer<()> {
    let (driver, context) = here()?;
    if out.is_null() {
        return Err(Code::InvalidValue);
    }
    out.put(driver.allocate_host(context, bytes)?)
}

exports! {
    fn cuMemAlloc_v2(out: Out<u64>, bytes: u64) { allocate(out, bytes) }
    fn cuMemAllocAsync(out: Out<u64>, bytes: u64, stream: u64) {
        driver()?.stream(stream, super::abi::current())?;
        allocate(out, bytes)
    }
    fn cuMemAllocPitch_v2(out: Out<u64>, pitch: Out<u64>, width: u64, height: u64, element: c_uint) {
        if ![4, 8, 16].contains(&element) || width == 0 || height == 0 || pitch.is_null() {
            return Err(Code::InvalidValue);
        }
        let row = width.checked_next_multiple_of(512).ok_or(Code::OutOfMemory)?;
        allocate(out, row.checked_mul(height).ok_or(Code::OutOfMemory)?)?;
        pitch.put(row)
    }
    fn cuMemAllocManaged(out: Out<u64>, bytes: u64, flags: c_uint) {
        let (driver, context) = here()?;
        if out.is_null() || !ATTACH.contains(&flags) {
            return Err(Code::InvalidValue);
        }
        out.put(driver.allocate_managed(context, bytes)?)
    }
    fn cuMemFree_v2(address: u64) { driver()?.free(address) }
    fn cuMemFreeAsync(address: u64, stream: u64) {
        driver()?.stream(stream, super::abi::current())?;
        driver()?.free(address)
    }
    fn cuMemAllocHost_v2(out: Out<u64>, bytes: u64) { allocate_host(out, bytes) }
    fn cuMemHostAlloc(out: Out<u64>, bytes: u64, _flags: c_uint) { allocate_host(out, bytes) }
    fn cuMemFreeHost(address: u64) { driver()?.free_host(address) }
    fn cuMemHostRegister_v2(address: u64, bytes: u64, _flags: c_uint) {
        let (driver, context) = here()?;
        driver.register(context, address, bytes)
    }
    fn cuMemHostUnregister(address: u64) { driver()?.unregister(address) }
    fn cuMemHostGetDevicePointer_v2(out: Out<u64>, address: u64, _flags: c_uint) {
        let range = driver()?.range(address)?.filter(|r| matches!(r.kind, Kind::Host { .. } | Kind::Registered { .. }));
        range.ok_or(Code::InvalidValue)?;
        out.put(address)
    }
    fn cuMemHostGetFlags(out: Out<c_uint>, address: u64) {
        driver()?.range(address)?.ok_or(Code::InvalidValue)?;
        // Every pinned allocation has a device address.
        out.put(2)
    }
    fn cuMemGetInfo_v2(free: Out<u64>, total: Out<u64>) {
        let (driver, context) = here()?;
        let memory = driver.memory(context)?;
        free.put_if(memory.free)?;
        total.put_if(memory.total)
    }
    fn cuMemGetAddressRange_v2(start: Out<u64>, bytes: Out<u64>, address: u64) {
        let range = driver()?.range(address)?.filter(|r| r.is_device()).ok_or(Code::NotFound)?;
        start.put_if(range.start)?;
        bytes.put_if(range.bytes)
    }
    fn cuMemAdvise(address: u64, bytes: u64, _advice: c_uint, _device: c_int) {
        driver()?.check_device(address, bytes)
    }
    fn cuMemPrefetchAsync(address: u64, bytes: u64, _device: c_int, stream: u64) {
        driver()?.stream(stream, super::abi::current())?;
        driver()?.check_device(address, bytes)
    }
}
