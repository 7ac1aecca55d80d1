//! Copies of one stretch of bytes. All of them are done when the call returns.

use super::abi::{bytes_at, current, driver, exports, here};
use crate::core::code::{Answer, Code};

/// Which sides of a copy must be device memory.
#[derive(Clone, Copy)]
pub(super) struct Sides {
    pub(super) to_device: bool,
    pub(super) from_device: bool,
}

/// Copies, once both sides are known to be what they should be.
pub(super) fn copy(to: u64, from: u64, bytes: u64, sides: Sides) -> Answer<()> {
    let (driver, context) = here()?;
    driver.context(context)?;
    if bytes == 0 {
        return Ok(());
    }
    if sides.to_device {
        driver.check_device(to, bytes)?;
    }
    if sides.from_device {
        driver.check_device(from, bytes)?;
    }
    move_bytes(to, from, bytes)
}

pub(super) fn move_bytes(to: u64, from: u64, bytes: u64) -> Answer<()> {
    let length = usize::try_from(bytes).map_err(|_| Code::InvalidValue)?;
    if length == 0 {
        return Ok(());
    }
    if to == 0 || from == 0 {
        return Err(Code::InvalidValue);
    }
    // SAFETY: device sides are the driver's memory; cuda.h: host sides are the caller's memory of that size.
    unsafe { std::ptr::copy(bytes_at(from).cast_const(), bytes_at(to), length) };
    Ok(())
}

pub(super) fn check_stream(stream: u64) -> Answer<()> {
    driver()?.stream(stream, current()).map(drop)
}

const ANY: Sides = Sides { to_device: false, from_device: false };
const UP: Sides = Sides { to_device: true, from_device: false };
const DOWN: Sides = Sides { to_device: false, from_device: true };
const WITHIN: Sides = Sides { to_device: true, from_device: true };

exports! {
    fn cuMemcpy(to: u64, from: u64, bytes: u64) { copy(to, from, bytes, ANY) }
    fn cuMemcpyAsync(to: u64, from: u64, bytes: u64, stream: u64) {
        check_stream(stream)?;
        copy(to, from, bytes, ANY)
    }
    fn cuMemcpyHtoD_v2(to: u64, from: u64, bytes: u64) { copy(to, from, bytes, UP) }
    fn cuMemcpyHtoDAsync_v2(to: u64, from: u64, bytes: u64, stream: u64) {
        check_stream(stream)?;
        copy(to, from, bytes, UP)
    }
    fn cuMemcpyDtoH_v2(to: u64, from: u64, bytes: u64) { copy(to, from, bytes, DOWN) }
    fn cuMemcpyDtoHAsync_v2(to: u64, from: u64, bytes: u64, stream: u64) {
        check_stream(stream)?;
        copy(to, from, bytes, DOWN)
    }
    fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: u64) { copy(to, from, bytes, WITHIN) }
    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: u64, stream: u64) {
        check_stream(stream)?;
        copy(to, from, bytes, WITHIN)
    }
    fn cuMemcpyPeer(to: u64, to_context: u64, from: u64, from_context: u64, bytes: u64) {
        driver()?.context(to_context)?;
        driver()?.context(from_context)?;
        copy(to, from, bytes, WITHIN)
    }
    fn cuMemcpyPeerAsync(to: u64, to_context: u64, from: u64, from_context: u64, bytes: u64, stream: u64) {
        check_stream(stream)?;
        driver()?.context(to_context)?;
        driver()?.context(from_context)?;
        copy(to, from, bytes, WITHIN)
    }
}
