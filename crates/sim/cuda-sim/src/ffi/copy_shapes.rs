//! Copies of rows and planes.

use std::ffi::c_uint;

use super::abi::{Out, driver, exports, here};
use super::copy::{check_stream, move_bytes};
use crate::core::code::{Answer, Code};

/// One side of `CUDA_MEMCPY2D`, after x and y.
#[derive(Clone, Copy)]
#[repr(C)]
struct Place2D {
    x: u64,
    y: u64,
    memory_type: c_uint,
    host: u64,
    device: u64,
    array: u64,
    pitch: u64,
}

/// `CUDA_MEMCPY2D_v2`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Copy2D {
    from: Place2D,
    to: Place2D,
    width: u64,
    height: u64,
}

/// One side of `CUDA_MEMCPY3D`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Place3D {
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

/// `CUDA_MEMCPY3D_v2`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Copy3D {
    from: Place3D,
    to: Place3D,
    width: u64,
    height: u64,
    depth: u64,
}

/// `CUmemorytype`.
const HOST: c_uint = 1;
const DEVICE: c_uint = 2;
const UNIFIED: c_uint = 4;

/// Where rows of a copy lie: the first byte, and the bytes from a row, and a plane, to the next.
#[derive(Clone, Copy)]
struct Rows {
    start: u64,
    pitch: u64,
    plane: u64,
}

impl From<Place2D> for Place3D {
    fn from(p: Place2D) -> Place3D {
        Place3D {
            x: p.x,
            y: p.y,
            z: 0,
            lod: 0,
            memory_type: p.memory_type,
            host: p.host,
            device: p.device,
            array: p.array,
            reserved: 0,
            pitch: p.pitch,
            height: 0,
        }
    }
}

/// Finds the rows, and checks that a device's are device memory. A pitch of 0 is the row's width.
fn rows(place: Place3D, width: u64, height: u64, depth: u64) -> Answer<Rows> {
    let base = match place.memory_type {
        HOST => place.host,
        DEVICE | UNIFIED => place.device,
        // An array has no address.
        _ => return Err(Code::NotSupported),
    };
    let pitch = if place.pitch == 0 { width } else { place.pitch };
    let lines = if place.height == 0 { height } else { place.height };
    let find = || {
        let plane = pitch.checked_mul(lines)?;
        let start =
            base.checked_add(plane.checked_mul(place.z)?)?.checked_add(pitch.checked_mul(place.y)?)?;
        let last =
            plane.checked_mul(depth - 1)?.checked_add(pitch.checked_mul(height - 1)?)?.checked_add(width)?;
        Some((Rows { start: start.checked_add(place.x)?, pitch, plane }, last))
    };
    let (rows, last) = find().ok_or(Code::InvalidValue)?;
    if place.x.checked_add(width).is_none_or(|end| end > pitch) {
        return Err(Code::InvalidValue);
    }
    if place.memory_type == DEVICE {
        driver()?.check_device(rows.start, last)?;
    }
    Ok(rows)
}

fn copy_3d(c: Copy3D) -> Answer<()> {
    let (driver, context) = here()?;
    driver.context(context)?;
    if c.width == 0 || c.height == 0 || c.depth == 0 {
        return Ok(());
    }
    let (from, to) = (rows(c.from, c.width, c.height, c.depth)?, rows(c.to, c.width, c.height, c.depth)?);
    for z in 0..c.depth {
        for y in 0..c.height {
            let at = |rows: Rows| rows.start + z * rows.plane + y * rows.pitch;
            move_bytes(at(to), at(from), c.width)?;
        }
    }
    Ok(())
}

fn copy_2d(c: Copy2D) -> Answer<()> {
    copy_3d(Copy3D { from: c.from.into(), to: c.to.into(), width: c.width, height: c.height, depth: 1 })
}

exports! {
    fn cuMemcpy2D_v2 | fn cuMemcpy2DUnaligned_v2(copy: Out<Copy2D>) { copy_2d(copy.get()?) }
    fn cuMemcpy2DAsync_v2(copy: Out<Copy2D>, stream: u64) {
        check_stream(stream)?;
        copy_2d(copy.get()?)
    }
    fn cuMemcpy3D_v2(copy: Out<Copy3D>) { copy_3d(copy.get()?) }
    fn cuMemcpy3DAsync_v2(copy: Out<Copy3D>, stream: u64) {
        check_stream(stream)?;
        copy_3d(copy.get()?)
    }
}
