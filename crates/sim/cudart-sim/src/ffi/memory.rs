//! Allocating, freeing, filling, and what is known of an address.

use std::ffi::{c_int, c_uint, c_void};

use super::abi::{Out, exports};
use super::driver;
use super::state::{check_device, context, start};
use crate::error::{Answer, Error};

/// `struct cudaExtent`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Extent {
    pub(super) width: u64,
    pub(super) height: u64,
    pub(super) depth: u64,
}

/// `struct cudaPitchedPtr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Pitched {
    pub(super) address: u64,
    pub(super) pitch: u64,
    pub(super) width: u64,
    pub(super) height: u64,
}

/// `struct cudaPointerAttributes`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Attributes {
    kind: c_uint,
    device: c_int,
    device_pointer: u64,
    host_pointer: u64,
}

/// `cudaMemoryType`.
const UNREGISTERED: c_uint = 0;
const DEVICE: c_uint = 2;
const MANAGED: c_uint = 3;

/// No bytes are no error for the runtime: the pointer is null.
fn allocate(out: Out<u64>, bytes: u64, allocate: impl FnOnce(u64, u64) -> Answer<()>) -> Answer<()> {
    context()?;
    if bytes == 0 { out.put(0) } else { allocate(out.address(), bytes) }
}

fn attributes(address: u64) -> Answer<Attributes> {
    context()?;
    let unknown = Attributes { kind: UNREGISTERED, device: -2, device_pointer: 0, host_pointer: address };
    let int = |attribute: c_uint| -> Answer<c_int> {
        let mut value: c_int = 0;
        driver::pointer_attribute((&raw mut value).cast::<c_void>(), attribute, address)?;
        Ok(value)
    };
    let Ok(kind) = int(2) else { return Ok(unknown) };
    let kind = if int(8)? != 0 { MANAGED } else { c_uint::try_from(kind).unwrap_or(DEVICE) };
    let host_pointer = if kind == DEVICE { 0 } else { address };
    Ok(Attributes { kind, device: int(9)?, device_pointer: address, host_pointer })
}

fn set_3d(
    to: Pitched,
    value: c_int,
    extent: Extent,
    set: impl Fn(u64, u64, u8, u64, u64) -> Answer<()>,
) -> Answer<()> {
    context()?;
    let plane = to.pitch.checked_mul(to.height).ok_or(Error::INVALID_VALUE)?;
    (0..extent.depth).try_for_each(|z| {
        set(
            to.address.wrapping_add(plane.wrapping_mul(z)),
            to.pitch,
            byte(value),
            extent.width,
            extent.height,
        )
    })
}

/// Of the value, the lowest byte counts.
fn byte(value: c_int) -> u8 {
    value.to_le_bytes()[0]
}

exports! {
    fn cudaMalloc(out: Out<u64>, bytes: u64) { allocate(out, bytes, driver::allocate) }
    fn cudaMallocAsync(out: Out<u64>, bytes: u64, stream: u64) {
        allocate(out, bytes, |out, bytes| driver::allocate_async(out, bytes, stream))
    }
    fn cudaMallocManaged(out: Out<u64>, bytes: u64, flags: c_uint) {
        context()?;
        driver::allocate_managed(out.address(), bytes, flags)
    }
    fn cudaMallocHost(out: Out<u64>, bytes: u64) {
        allocate(out, bytes, |out, bytes| driver::allocate_host(out, bytes, 0))
    }
    fn cudaHostAlloc(out: Out<u64>, bytes: u64, flags: c_uint) {
        allocate(out, bytes, |out, bytes| driver::allocate_host(out, bytes, flags))
    }
    fn cudaMallocPitch(out: Out<u64>, pitch: Out<u64>, width: u64, height: u64) {
        context()?;
        driver::allocate_pitch(out.address(), pitch.address(), width, height, 16)
    }
    fn cudaMalloc3D(out: Out<Pitched>, extent: Extent) {
        context()?;
        let rows = extent.height.checked_mul(extent.depth).ok_or(Error::MEMORY_ALLOCATION)?;
        let (mut address, mut pitch) = (0_u64, 0_u64);
        let number = |place: *mut u64| place.expose_provenance() as u64;
        driver::allocate_pitch(number(&raw mut address), number(&raw mut pitch), extent.width, rows, 16)?;
        out.put(Pitched { address, pitch, width: extent.width, height: extent.height })
    }
    fn cudaFree(address: u64) {
        context()?;
        driver::free(address)
    }
    fn cudaFreeAsync(address: u64, stream: u64) {
        context()?;
        driver::free_async(address, stream)
    }
    fn cudaFreeHost(address: u64) {
        start()?;
        driver::free_host(address)
    }
    fn cudaHostRegister(address: u64, bytes: u64, flags: c_uint) {
        context()?;
        driver::register(address, bytes, flags)
    }
    fn cudaHostUnregister(address: u64) {
        context()?;
        driver::unregister(address)
    }
    fn cudaHostGetDevicePointer(out: Out<u64>, address: u64, flags: c_uint) {
        context()?;
        driver::device_pointer(out.address(), address, flags)
    }
    fn cudaHostGetFlags(out: Out<c_uint>, address: u64) {
        context()?;
        driver::host_flags(out.address(), address)
    }
    fn cudaMemGetInfo(free: Out<u64>, total: Out<u64>) {
        context()?;
        driver::memory_info(free.address(), total.address())
    }
    fn cudaMemAdvise(address: u64, bytes: u64, advice: c_uint, device: c_int) {
        context()?;
        driver::advise(address, bytes, advice, device)
    }
    fn cudaMemPrefetchAsync(address: u64, bytes: u64, device: c_int, stream: u64) {
        context()?;
        // -1 is the host.
        if device != -1 {
            check_device(device)?;
        }
        driver::prefetch(address, bytes, device, stream)
    }
    fn cudaPointerGetAttributes(out: Out<Attributes>, address: u64) { out.put(attributes(address)?) }
    fn cudaMemset(address: u64, value: c_int, bytes: u64) {
        context()?;
        driver::set_bytes(address, byte(value), bytes)
    }
    fn cudaMemsetAsync(address: u64, value: c_int, bytes: u64, stream: u64) {
        context()?;
        driver::set_bytes_async(address, byte(value), bytes, stream)
    }
    fn cudaMemset2D(address: u64, pitch: u64, value: c_int, width: u64, height: u64) {
        context()?;
        driver::set_rows(address, pitch, byte(value), width, height)
    }
    fn cudaMemset2DAsync(address: u64, pitch: u64, value: c_int, width: u64, height: u64, stream: u64) {
        context()?;
        driver::set_rows_async(address, pitch, byte(value), width, height, stream)
    }
    fn cudaMemset3D(to: Pitched, value: c_int, extent: Extent) { set_3d(to, value, extent, driver::set_rows) }
    fn cudaMemset3DAsync(to: Pitched, value: c_int, extent: Extent, stream: u64) {
        set_3d(to, value, extent, |a, p, v, w, h| driver::set_rows_async(a, p, v, w, h, stream))
    }
}
