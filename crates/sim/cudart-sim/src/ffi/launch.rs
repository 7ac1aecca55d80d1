//! Launching kernels.

use std::cell::RefCell;
use std::ffi::{c_int, c_uint};

use super::abi::{Out, exports};
use super::driver;
use super::register::function;
use super::state::context;
use crate::error::{Answer, Error};

/// `dim3`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Dim3 {
    x: c_uint,
    y: c_uint,
    z: c_uint,
}

/// What stands between `<<<` and `>>>`.
#[derive(Clone, Copy)]
struct Configuration {
    grid: Dim3,
    block: Dim3,
    shared: u64,
    stream: u64,
}

thread_local! {
    static CONFIGURATIONS: RefCell<Vec<Configuration>> = const { RefCell::new(Vec::new()) };
}

/// `struct cudaFuncAttributes`.
#[derive(Clone, Copy)]
#[repr(C)]
struct FunctionAttributes {
    shared_const_local_bytes: [u64; 3],
    max_threads_per_block: c_int,
    registers: c_int,
    ptx_version: c_int,
    binary_version: c_int,
    cache_mode: c_int,
    max_dynamic_shared_bytes: c_int,
    preferred_carveout: c_int,
    clusters: [c_int; 6],
    reserved: [c_int; 16],
}

fn attributes(host: u64) -> Answer<FunctionAttributes> {
    let function = function(host)?;
    let int = |attribute: c_int| -> Answer<c_int> {
        let mut value = 0;
        driver::function_attribute(&mut value, attribute, function)?;
        Ok(value)
    };
    let long = |attribute: c_int| int(attribute).map(|n| u64::try_from(n).unwrap_or(0));
    Ok(FunctionAttributes {
        shared_const_local_bytes: [long(1)?, long(2)?, long(3)?],
        max_threads_per_block: int(0)?,
        registers: int(4)?,
        ptx_version: int(5)?,
        binary_version: int(6)?,
        cache_mode: int(7)?,
        max_dynamic_shared_bytes: int(8)?,
        preferred_carveout: int(9)?,
        clusters: [0; 6],
        reserved: [0; 16],
    })
}

fn launch(
    host: u64,
    grid: Dim3,
    block: Dim3,
    arguments: u64,
    shared: u64,
    stream: u64,
    cooperative: bool,
) -> Answer<()> {
    let function = function(host)?;
    let shared = c_uint::try_from(shared).map_err(|_| Error::INVALID_VALUE)?;
    let launched = if cooperative {
        driver::launch_cooperative(
            function, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared, stream, arguments,
        )
    } else {
        driver::launch(
            function, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared, stream, arguments, 0,
        )
    };
    // The driver calls any value invalid; the runtime says that it is the configuration.
    launched.map_err(|e| if e == Error::INVALID_VALUE { Error::INVALID_CONFIGURATION } else { e })
}

exports! {
    fn __cudaPushCallConfiguration(grid: Dim3, block: Dim3, shared: u64, stream: u64) {
        CONFIGURATIONS.with(|all| all.borrow_mut().push(Configuration { grid, block, shared, stream }));
        Ok(())
    }
    fn __cudaPopCallConfiguration(grid: Out<Dim3>, block: Out<Dim3>, shared: Out<u64>, stream: Out<u64>) {
        let last = CONFIGURATIONS.with(|all| all.borrow_mut().pop()).ok_or(Error::MISSING_CONFIGURATION)?;
        grid.put(last.grid)?;
        block.put(last.block)?;
        shared.put(last.shared)?;
        stream.put(last.stream)
    }
    fn cudaLaunchKernel(host: u64, grid: Dim3, block: Dim3, arguments: u64, shared: u64, stream: u64) {
        launch(host, grid, block, arguments, shared, stream, false)
    }
    fn cudaLaunchCooperativeKernel(host: u64, grid: Dim3, block: Dim3, arguments: u64, shared: u64, stream: u64) {
        launch(host, grid, block, arguments, shared, stream, true)
    }
    fn cudaLaunchHostFunc(stream: u64, function: u64, data: u64) {
        context()?;
        driver::launch_host(stream, function, data)
    }
    fn cudaFuncGetAttributes(out: Out<FunctionAttributes>, host: u64) { out.put(attributes(host)?) }
    fn cudaFuncSetAttribute(host: u64, attribute: c_int, value: c_int) {
        driver::set_function_attribute(function(host)?, attribute, value)
    }
    fn cudaFuncSetCacheConfig(host: u64, _config: c_uint) { function(host).map(drop) }
    fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(out: Out<c_int>, host: u64, threads: c_int, shared: u64) {
        driver::blocks_per_sm(out.address(), function(host)?, threads, shared)
    }
    fn cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        out: Out<c_int>, host: u64, threads: c_int, shared: u64, _flags: c_uint,
    ) {
        driver::blocks_per_sm(out.address(), function(host)?, threads, shared)
    }
}
