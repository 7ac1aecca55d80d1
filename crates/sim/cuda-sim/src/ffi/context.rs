//! Contexts: primary ones, others, and which is current.

use std::ffi::{c_int, c_uint};

use super::abi::{Out, current, driver, exports, here, stack};
use super::device::ordinal;
use crate::core::code::{Answer, Code};

fn create(out: Out<u64>, flags: c_uint, number: c_int) -> Answer<()> {
    let driver = driver()?;
    if out.is_null() {
        return Err(Code::InvalidValue);
    }
    let id = driver.create_context(ordinal(number)?, flags)?;
    stack(|s| s.push(id));
    out.put(id)
}

exports! {
    fn cuDevicePrimaryCtxRetain(out: Out<u64>, number: c_int) {
        let driver = driver()?;
        if out.is_null() {
            return Err(Code::InvalidValue);
        }
        out.put(driver.retain_primary(ordinal(number)?)?)
    }
    fn cuDevicePrimaryCtxRelease_v2(number: c_int) { driver()?.release_primary(ordinal(number)?, false) }
    fn cuDevicePrimaryCtxReset_v2(number: c_int) { driver()?.release_primary(ordinal(number)?, true) }
    fn cuDevicePrimaryCtxSetFlags_v2(number: c_int, flags: c_uint) {
        driver()?.set_primary_flags(ordinal(number)?, flags)
    }
    fn cuDevicePrimaryCtxGetState(number: c_int, flags: Out<c_uint>, active: Out<c_int>) {
        let (now, there) = driver()?.primary_state(ordinal(number)?)?;
        flags.put_if(now)?;
        active.put_if(c_int::from(there))
    }
    fn cuCtxCreate_v2(out: Out<u64>, flags: c_uint, number: c_int) { create(out, flags, number) }
    fn cuCtxDestroy_v2(id: u64) {
        driver()?.destroy_context(id)?;
        stack(|s| if s.last() == Some(&id) { s.pop(); });
        Ok(())
    }
    fn cuCtxPushCurrent_v2(id: u64) {
        driver()?.context(id)?;
        stack(|s| s.push(id));
        Ok(())
    }
    fn cuCtxPopCurrent_v2(out: Out<u64>) {
        driver()?;
        let id = stack(Vec::pop).ok_or(Code::InvalidContext)?;
        out.put_if(id)
    }
    fn cuCtxSetCurrent(id: u64) {
        let driver = driver()?;
        if id != 0 {
            driver.context(id)?;
        }
        stack(|s| {
            s.pop();
            s.extend((id != 0).then_some(id));
        });
        Ok(())
    }
    fn cuCtxGetCurrent(out: Out<u64>) {
        driver()?;
        out.put(current().unwrap_or(0))
    }
    fn cuCtxGetDevice(out: Out<c_int>) {
        let (driver, id) = here()?;
        out.put(c_int::try_from(driver.context(id)?.0).unwrap_or(c_int::MAX))
    }
    fn cuCtxGetFlags(out: Out<c_uint>) {
        let (driver, id) = here()?;
        out.put(driver.context(id)?.1)
    }
    fn cuCtxGetId(id: u64, out: Out<u64>) {
        let id = if id == 0 { here()?.1 } else { id };
        driver()?.context(id)?;
        out.put(id)
    }
    fn cuCtxGetApiVersion(id: u64, out: Out<c_uint>) {
        if id != 0 {
            driver()?.context(id)?;
        }
        out.put(3020)
    }
    fn cuCtxSynchronize() {
        let (driver, id) = here()?;
        driver.context(id).map(drop)
    }
    fn cuCtxSetLimit(limit: c_uint, value: u64) {
        let (driver, id) = here()?;
        driver.set_limit(id, limit, value)
    }
    fn cuCtxGetLimit(out: Out<u64>, limit: c_uint) {
        let (driver, id) = here()?;
        out.put(driver.limit(id, limit)?)
    }
    fn cuCtxGetCacheConfig(out: Out<c_uint>) {
        here()?;
        out.put(0)
    }
    fn cuCtxSetCacheConfig(_config: c_uint) { here().map(drop) }
    fn cuCtxGetStreamPriorityRange(least: Out<c_int>, greatest: Out<c_int>) {
        here()?;
        least.put_if(0)?;
        greatest.put_if(-5)
    }
    fn cuCtxEnablePeerAccess(peer: u64, _flags: c_uint) { driver()?.context(peer).map(drop) }
    fn cuCtxDisablePeerAccess(peer: u64) { driver()?.context(peer).map(drop) }
}
