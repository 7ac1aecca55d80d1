//! Filling memory.

use std::ffi::{c_uchar, c_uint, c_ushort};

use super::abi::{bytes_at, driver, exports, here};
use super::copy::check_stream;
use crate::core::code::{Answer, Code};

/// Fills `count` elements from an address on.
fn fill<T: Copy>(to: u64, value: T, count: u64) -> Answer<()> {
    let (driver, context) = here()?;
    driver.context(context)?;
    let bytes = count.checked_mul(size_of::<T>() as u64).ok_or(Code::InvalidValue)?;
    if !to.is_multiple_of(size_of::<T>() as u64) {
        return Err(Code::InvalidValue);
    }
    driver.check_device(to, bytes)?;
    fill_known(to, value, count)
}

fn fill_known<T: Copy>(to: u64, value: T, count: u64) -> Answer<()> {
    let length = usize::try_from(count).map_err(|_| Code::InvalidValue)?;
    // SAFETY: the driver owns the range, which the caller of this checked, and T is an integer aligned at `to`.
    let elements = unsafe { std::slice::from_raw_parts_mut(bytes_at(to).cast::<T>(), length) };
    elements.fill(value);
    Ok(())
}

fn fill_2d<T: Copy>(to: u64, pitch: u64, value: T, width: u64, height: u64) -> Answer<()> {
    here()?;
    if width == 0 || height == 0 {
        return Ok(());
    }
    let row = width.checked_mul(size_of::<T>() as u64).ok_or(Code::InvalidValue)?;
    let all = pitch.checked_mul(height - 1).and_then(|n| n.checked_add(row)).ok_or(Code::InvalidValue)?;
    let size = size_of::<T>() as u64;
    if (row > pitch && height > 1) || !to.is_multiple_of(size) || !pitch.is_multiple_of(size) {
        return Err(Code::InvalidValue);
    }
    driver()?.check_device(to, all)?;
    (0..height).try_for_each(|y| fill_known(to + y * pitch, value, width))
}

exports! {
    fn cuMemsetD8_v2(to: u64, value: c_uchar, count: u64) { fill(to, value, count) }
    fn cuMemsetD16_v2(to: u64, value: c_ushort, count: u64) { fill(to, value, count) }
    fn cuMemsetD32_v2(to: u64, value: c_uint, count: u64) { fill(to, value, count) }
    fn cuMemsetD8Async(to: u64, value: c_uchar, count: u64, stream: u64) {
        check_stream(stream)?;
        fill(to, value, count)
    }
    fn cuMemsetD16Async(to: u64, value: c_ushort, count: u64, stream: u64) {
        check_stream(stream)?;
        fill(to, value, count)
    }
    fn cuMemsetD32Async(to: u64, value: c_uint, count: u64, stream: u64) {
        check_stream(stream)?;
        fill(to, value, count)
    }
    fn cuMemsetD2D8_v2(to: u64, pitch: u64, value: c_uchar, width: u64, height: u64) {
        fill_2d(to, pitch, value, width, height)
    }
    fn cuMemsetD2D16_v2(to: u64, pitch: u64, value: c_ushort, width: u64, height: u64) {
        fill_2d(to, pitch, value, width, height)
    }
    fn cuMemsetD2D32_v2(to: u64, pitch: u64, value: c_uint, width: u64, height: u64) {
        fill_2d(to, pitch, value, width, height)
    }
    fn cuMemsetD2D8Async(to: u64, pitch: u64, value: c_uchar, width: u64, height: u64, stream: u64) {
        check_stream(stream)?;
        fill_2d(to, pitch, value, width, height)
    }
    fn cuMemsetD2D16Async(to: u64, pitch: u64, value: c_ushort, width: u64, height: u64, stream: u64) {
        check_stream(stream)?;
        fill_2d(to, pitch, value, width, height)
    }
    fn cuMemsetD2D32Async(to: u64, pitch: u64, value: c_uint, width: u64, height: u64, stream: u64) {
        check_stream(stream)?;
        fill_2d(to, pitch, value, width, height)
    }
}
