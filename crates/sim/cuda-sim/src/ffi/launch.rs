//! Launching kernels and host functions.

use std::ffi::{c_int, c_uint, c_void};

use super::abi::{Out, bytes_at, current, driver, exports, here};
use super::copy::check_stream;
use super::module::kernel;
use crate::core::attribute::attribute;
use crate::core::code::{Answer, Code};

/// `CUlaunchConfig` up to what is read of it.
#[derive(Clone, Copy)]
#[repr(C)]
struct Config {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared: c_uint,
    stream: u64,
}

fn is_legal(grid: [c_uint; 3], block: [c_uint; 3], shared: u64) -> bool {
    let threads: u64 = block.iter().map(|n| u64::from(*n)).product();
    (1..=1024).contains(&threads)
        && block[2] <= 64
        && grid.iter().all(|n| *n > 0)
        && grid[0] <= i32::MAX.cast_unsigned()
        && grid[1] <= 65_535
        && grid[2] <= 65_535
        && shared <= 227 << 10
}

fn launch(
    function: u64,
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared: u64,
    stream: u64,
    arguments: u64,
) -> Answer<()> {
    let (driver, context) = here()?;
    let kernel = kernel(function)?;
    check_stream(stream)?;
    let ran = if is_legal(grid, block, shared) {
        kernel.run(grid, block, shared, arguments)
    } else {
        Err(Code::InvalidValue)
    };
    driver.note_launch(context, ran.err().map_or(0, |code| code as u32))?;
    ran
}

/// Calls a host function of the program's.
fn call_host(function: u64, data: u64) -> Answer<()> {
    if function == 0 {
        return Err(Code::InvalidValue);
    }
    // SAFETY: cuda.h: the argument is a CUhostFn, a function that takes a void pointer.
    let function = unsafe { std::mem::transmute::<*mut u8, extern "C" fn(*mut c_void)>(bytes_at(function)) };
    function(bytes_at(data).cast());
    Ok(())
}

fn blocks_per_sm(threads: c_int) -> Answer<c_int> {
    let (driver, context) = here()?;
    let device = driver.device(driver.context(context)?.0)?;
    let value = |number| attribute(device, number).unwrap_or(0);
    if !(1..=1024).contains(&threads) {
        return Err(Code::InvalidValue);
    }
    let warps = (threads + 31) / 32;
    Ok((value(39) / 32 / warps).min(value(106)))
}

exports! {
    fn cuLaunchKernel(
        function: u64, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint, shared: c_uint, stream: u64,
        arguments: u64, extra: u64,
    ) {
        if extra != 0 {
            return Err(Code::NotSupported);
        }
        launch(function, [gx, gy, gz], [bx, by, bz], shared.into(), stream, arguments)
    }
    fn cuLaunchCooperativeKernel(
        function: u64, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint, shared: c_uint, stream: u64,
        arguments: u64,
    ) {
        // Blocks run one after another, so a kernel that synchronises its grid would wait for ever; one block does not.
        if gx != 1 || gy != 1 || gz != 1 {
            return Err(Code::NotSupported);
        }
        launch(function, [gx, gy, gz], [bx, by, bz], shared.into(), stream, arguments)
    }
    fn cuLaunchKernelEx(config: Out<Config>, function: u64, arguments: u64, extra: u64) {
        if extra != 0 {
            return Err(Code::NotSupported);
        }
        let c = config.get()?;
        launch(function, c.grid, c.block, c.shared.into(), c.stream, arguments)
    }
    fn cuLaunchHostFunc(stream: u64, function: u64, data: u64) {
        check_stream(stream)?;
        call_host(function, data)
    }
    fn cuStreamAddCallback(stream: u64, function: u64, data: u64, _flags: c_uint) {
        driver()?.stream(stream, current())?;
        if function == 0 {
            return Err(Code::InvalidValue);
        }
        // SAFETY: cuda.h: the argument is a CUstreamCallback.
        let call = unsafe { std::mem::transmute::<*mut u8, extern "C" fn(u64, c_uint, *mut c_void)>(bytes_at(function)) };
        call(stream, 0, bytes_at(data).cast());
        Ok(())
    }
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(out: Out<c_int>, function: u64, threads: c_int, _shared: u64) {
        kernel(function)?;
        out.put(blocks_per_sm(threads)?)
    }
    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        out: Out<c_int>, function: u64, threads: c_int, _shared: u64, _flags: c_uint,
    ) {
        kernel(function)?;
        out.put(blocks_per_sm(threads)?)
    }
}
