//! Arrays and mipmapped arrays: counted by their description, which the driver may round up.

use std::ffi::c_uint;

use super::{enter, guard, read, wrappers};
use crate::ledger::{ArrayShape, Name};

/// `CUDA_ARRAY_DESCRIPTOR`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Flat {
    width: usize,
    height: usize,
    format: u32,
    channels: u32,
}

fn allocate(out: *mut u64, shape: Option<ArrayShape>, levels: u32, make: impl Fn() -> c_uint) -> c_uint {
    let bytes = shape.map_or(0, |shape| shape.bytes(levels));
    guard(|| match enter().filter(|_| bytes > 0) {
        None => make(),
        Some(here) => here.allocate(bytes, make, || Some((Name::Array(read(out)?), bytes))),
    })
}

fn free(array: u64, free: impl Fn() -> c_uint) -> c_uint {
    guard(|| match enter() {
        None => free(),
        Some(here) => here.free(Name::Array(array), free),
    })
}

wrappers! {
    fn cuArrayCreate_v2 since 3020 (out: *mut u64, shape: *const Flat) |real| {
        let flat = |f: Flat| ArrayShape {
            width: f.width,
            height: f.height,
            format: f.format,
            channels: f.channels,
            ..ArrayShape::default()
        };
        allocate(out, read(shape).map(flat), 1, || real(out, shape))
    }
    fn cuArray3DCreate_v2 since 3020 (out: *mut u64, shape: *const ArrayShape) |real| {
        allocate(out, read(shape), 1, || real(out, shape))
    }
    fn cuMipmappedArrayCreate since 5000 (out: *mut u64, shape: *const ArrayShape, levels: c_uint) |real| {
        allocate(out, read(shape), levels, || real(out, shape, levels))
    }
    fn cuArrayDestroy since 2000 (array: u64) |real| { free(array, || real(array)) }
    fn cuMipmappedArrayDestroy since 5000 (array: u64) |real| { free(array, || real(array)) }
}
