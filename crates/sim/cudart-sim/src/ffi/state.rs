//! The device of each thread, and the contexts that make themselves.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::abi::{Out, exports};
use super::driver;
use crate::error::{Answer, Error};

thread_local! {
    static DEVICE: Cell<c_int> = const { Cell::new(0) };
}

/// Primary contexts that this runtime retains, by ordinal, and all that it ever did.
#[derive(Default)]
struct Contexts {
    primary: BTreeMap<c_int, u64>,
    ever: Vec<u64>,
}

static CONTEXTS: Mutex<Contexts> = Mutex::new(Contexts { primary: BTreeMap::new(), ever: Vec::new() });

fn contexts() -> MutexGuard<'static, Contexts> {
    CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Initialises the driver.
pub(super) fn start() -> Answer<()> {
    driver::init(0)
}

/// The number of devices.
pub(super) fn count() -> Answer<c_int> {
    start()?;
    let mut count = 0;
    driver::device_count(&mut count)?;
    Ok(count)
}

/// An ordinal that names a device.
pub(super) fn check_device(device: c_int) -> Answer<c_int> {
    if (0..count()?).contains(&device) { Ok(device) } else { Err(Error::INVALID_DEVICE) }
}

fn primary(device: c_int) -> Answer<u64> {
    let mut all = contexts();
    if let Some(id) = all.primary.get(&device) {
        return Ok(*id);
    }
    let mut id = 0;
    driver::retain_primary(&mut id, device)?;
    all.primary.insert(device, id);
    all.ever.push(id);
    Ok(id)
}

/// Makes sure that the thread has a current context, and returns it: the program's own, or the primary one of the thread's device.
pub(super) fn context() -> Answer<u64> {
    start()?;
    let mut current = 0;
    driver::get_current(&mut current)?;
    if current != 0 && !contexts().ever.contains(&current) {
        return Ok(current);
    }
    let wanted = primary(DEVICE.get())?;
    if wanted != current {
        driver::set_current(wanted)?;
    }
    Ok(wanted)
}

fn reset() -> Answer<()> {
    start()?;
    let device = DEVICE.get();
    contexts().primary.remove(&device);
    driver::reset_primary(device)?;
    driver::set_current(0)
}

exports! {
    fn cudaSetDevice(device: c_int) {
        check_device(device)?;
        let before = DEVICE.replace(device);
        let made = primary(device).and_then(driver::set_current);
        if made.is_err() {
            DEVICE.set(before);
        }
        made
    }
    fn cudaInitDevice(device: c_int, _device_flags: c_uint, _flags: c_uint) {
        primary(check_device(device)?).map(drop)
    }
    fn cudaGetDevice(out: Out<c_int>) {
        start()?;
        out.put(DEVICE.get())
    }
    fn cudaDeviceReset | fn cudaThreadExit() { reset() }
    fn cudaDeviceSynchronize | fn cudaThreadSynchronize() {
        context()?;
        driver::synchronize()
    }
    fn cudaSetDeviceFlags(flags: c_uint) {
        start()?;
        driver::set_primary_flags(DEVICE.get(), flags)
    }
    fn cudaGetDeviceFlags(out: Out<c_uint>) {
        start()?;
        let (mut flags, mut active) = (0, 0);
        driver::primary_state(DEVICE.get(), &mut flags, &mut active)?;
        out.put(flags)
    }
    fn cudaDeviceSetLimit(limit: c_uint, value: u64) {
        context()?;
        driver::set_limit(limit, value)
    }
    fn cudaDeviceGetLimit(out: Out<u64>, limit: c_uint) {
        context()?;
        driver::get_limit(out.address(), limit)
    }
    fn cudaDeviceGetCacheConfig(out: Out<c_uint>) {
        context()?;
        driver::cache_config(out.address())
    }
    fn cudaDeviceSetCacheConfig(_config: c_uint) { context().map(drop) }
    fn cudaDeviceGetStreamPriorityRange(least: Out<c_int>, greatest: Out<c_int>) {
        context()?;
        driver::priority_range(least.address(), greatest.address())
    }
}
