//! Copies.

use std::ffi::{c_int, c_uint};

use super::abi::{Out, exports};
use super::driver;
use super::memory::{Extent, Pitched};
use super::register::variable;
use super::state::{check_device, context};
use crate::error::{Answer, Error};

/// `cudaMemcpyKind`.
const HOST_TO_DEVICE: c_uint = 1;
const DEVICE_TO_HOST: c_uint = 2;
const DEVICE_TO_DEVICE: c_uint = 3;
const DEFAULT: c_uint = 4;

fn copy(to: u64, from: u64, bytes: u64, kind: c_uint, stream: Option<u64>) -> Answer<()> {
    context()?;
    match (kind, stream) {
        (HOST_TO_DEVICE, None) => driver::copy_up(to, from, bytes),
        (HOST_TO_DEVICE, Some(stream)) => driver::copy_up_async(to, from, bytes, stream),
        (DEVICE_TO_HOST, None) => driver::copy_down(to, from, bytes),
        (DEVICE_TO_HOST, Some(stream)) => driver::copy_down_async(to, from, bytes, stream),
        (DEVICE_TO_DEVICE, None) => driver::copy_within(to, from, bytes),
        (DEVICE_TO_DEVICE, Some(stream)) => driver::copy_within_async(to, from, bytes, stream),
        (0..=DEFAULT, None) => driver::copy(to, from, bytes),
        (0..=DEFAULT, Some(stream)) => driver::copy_async(to, from, bytes, stream),
        _ => Err(Error::INVALID_DIRECTION),
    }
}

/// One side of the driver's `CUDA_MEMCPY3D`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct CopySide {
    x: u64,
    y: u64,
    z: u64,
    lod: u64,
    memory_type: c_uint,
    host: u64,
    device: u64,
    array: u64,
    reserved: u64,
    pitch: u64,
    height: u64,
}

/// The driver's `CUDA_MEMCPY3D`.
#[derive(Clone, Copy)]
#[repr(C)]
struct DriverCopy {
    from: CopySide,
    to: CopySide,
    extent: Extent,
}

/// `struct cudaMemcpy3DParms`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Parameters {
    from_array: u64,
    from_position: [u64; 3],
    from: Pitched,
    to_array: u64,
    to_position: [u64; 3],
    to: Pitched,
    extent: Extent,
    kind: c_uint,
}

/// A side of a copy. The driver checks those that the kind says are a device's.
fn place(memory: Pitched, [x, y, z]: [u64; 3], is_device: bool) -> CopySide {
    const DEVICE: c_uint = 2;
    const UNIFIED: c_uint = 4;
    let memory_type = if is_device { DEVICE } else { UNIFIED };
    let (device, pitch, height) = (memory.address, memory.pitch, memory.height);
    CopySide { x, y, z, memory_type, device, pitch, height, ..CopySide::default() }
}

fn copy_3d(from: CopySide, to: CopySide, extent: Extent, stream: Option<u64>) -> Answer<()> {
    context()?;
    let copy = DriverCopy { from, to, extent };
    let pointer = (&raw const copy).cast();
    match stream {
        None => driver::copy_3d(pointer),
        Some(stream) => driver::copy_3d_async(pointer, stream),
    }
}

fn sides(kind: c_uint) -> Answer<(bool, bool)> {
    if kind > DEFAULT {
        return Err(Error::INVALID_DIRECTION);
    }
    Ok((matches!(kind, DEVICE_TO_HOST | DEVICE_TO_DEVICE), matches!(kind, HOST_TO_DEVICE | DEVICE_TO_DEVICE)))
}

fn copy_parameters(p: Parameters, stream: Option<u64>) -> Answer<()> {
    if p.from_array != 0 || p.to_array != 0 {
        return Err(Error::NOT_SUPPORTED);
    }
    let (from_device, to_device) = sides(p.kind)?;
    copy_3d(
        place(p.from, p.from_position, from_device),
        place(p.to, p.to_position, to_device),
        p.extent,
        stream,
    )
}

/// Rows of `width` bytes, each `pitch` behind the last one.
#[derive(Clone, Copy)]
struct Rows {
    address: u64,
    pitch: u64,
}

fn copy_2d(to: Rows, from: Rows, width: u64, height: u64, kind: c_uint, stream: Option<u64>) -> Answer<()> {
    if width > to.pitch || width > from.pitch {
        return Err(Error::INVALID_PITCH);
    }
    let (from_device, to_device) = sides(kind)?;
    let side = |rows: Rows, device| {
        place(Pitched { address: rows.address, pitch: rows.pitch, width, height }, [0; 3], device)
    };
    copy_3d(side(from, from_device), side(to, to_device), Extent { width, height, depth: 1 }, stream)
}

/// The address of `bytes` from `offset` on in a variable of a module's.
fn in_variable(symbol: u64, offset: u64, bytes: u64) -> Answer<u64> {
    let (start, size) = variable(symbol)?;
    if offset.checked_add(bytes).is_none_or(|end| end > size) {
        return Err(Error::INVALID_VALUE);
    }
    Ok(start + offset)
}

exports! {
    fn cudaMemcpy(to: u64, from: u64, bytes: u64, kind: c_uint) { copy(to, from, bytes, kind, None) }
    fn cudaMemcpyAsync(to: u64, from: u64, bytes: u64, kind: c_uint, stream: u64) {
        copy(to, from, bytes, kind, Some(stream))
    }
    fn cudaMemcpyPeer(to: u64, to_device: c_int, from: u64, from_device: c_int, bytes: u64) {
        check_device(to_device)?;
        check_device(from_device)?;
        copy(to, from, bytes, DEVICE_TO_DEVICE, None)
    }
    fn cudaMemcpyPeerAsync(to: u64, to_device: c_int, from: u64, from_device: c_int, bytes: u64, stream: u64) {
        check_device(to_device)?;
        check_device(from_device)?;
        copy(to, from, bytes, DEVICE_TO_DEVICE, Some(stream))
    }
    fn cudaMemcpy2D(to: u64, to_pitch: u64, from: u64, from_pitch: u64, width: u64, height: u64, kind: c_uint) {
        let (to, from) = (Rows { address: to, pitch: to_pitch }, Rows { address: from, pitch: from_pitch });
        copy_2d(to, from, width, height, kind, None)
    }
    fn cudaMemcpy2DAsync(
        to: u64, to_pitch: u64, from: u64, from_pitch: u64, width: u64, height: u64, kind: c_uint, stream: u64,
    ) {
        let (to, from) = (Rows { address: to, pitch: to_pitch }, Rows { address: from, pitch: from_pitch });
        copy_2d(to, from, width, height, kind, Some(stream))
    }
    fn cudaMemcpy3D(parameters: Out<Parameters>) { copy_parameters(parameters.get()?, None) }
    fn cudaMemcpy3DAsync(parameters: Out<Parameters>, stream: u64) { copy_parameters(parameters.get()?, Some(stream)) }
    fn cudaMemcpyToSymbol(symbol: u64, from: u64, bytes: u64, offset: u64, kind: c_uint) {
        copy(in_variable(symbol, offset, bytes)?, from, bytes, kind, None)
    }
    fn cudaMemcpyToSymbolAsync(symbol: u64, from: u64, bytes: u64, offset: u64, kind: c_uint, stream: u64) {
        copy(in_variable(symbol, offset, bytes)?, from, bytes, kind, Some(stream))
    }
    fn cudaMemcpyFromSymbol(to: u64, symbol: u64, bytes: u64, offset: u64, kind: c_uint) {
        copy(to, in_variable(symbol, offset, bytes)?, bytes, kind, None)
    }
    fn cudaMemcpyFromSymbolAsync(to: u64, symbol: u64, bytes: u64, offset: u64, kind: c_uint, stream: u64) {
        copy(to, in_variable(symbol, offset, bytes)?, bytes, kind, Some(stream))
    }
    fn cudaGetSymbolAddress(out: Out<u64>, symbol: u64) { out.put(variable(symbol)?.0) }
    fn cudaGetSymbolSize(out: Out<u64>, symbol: u64) { out.put(variable(symbol)?.1) }
}
