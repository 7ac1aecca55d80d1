//! Streams and events. All work is done when its call returns: nothing is ever pending.

use std::ffi::{c_int, c_uint};

use super::abi::{Out, current, driver, exports, here};
use super::copy::check_stream;
use crate::core::code::{Answer, Code};

fn create(out: Out<u64>, flags: c_uint, priority: c_int) -> Answer<()> {
    let (driver, context) = here()?;
    if out.is_null() || flags > 1 {
        return Err(Code::InvalidValue);
    }
    out.put(driver.create_stream(context, flags, priority)?)
}

exports! {
    fn cuStreamCreate(out: Out<u64>, flags: c_uint) { create(out, flags, 0) }
    fn cuStreamCreateWithPriority(out: Out<u64>, flags: c_uint, priority: c_int) { create(out, flags, priority.clamp(-5, 0)) }
    fn cuStreamDestroy_v2(stream: u64) { driver()?.destroy_stream(stream) }
    fn cuStreamSynchronize | fn cuStreamQuery(stream: u64) { check_stream(stream) }
    fn cuStreamWaitEvent(stream: u64, event: u64, _flags: c_uint) {
        check_stream(stream)?;
        driver()?.check_event(event)
    }
    fn cuStreamGetCtx(stream: u64, out: Out<u64>) { out.put(driver()?.stream(stream, current())?.0) }
    fn cuStreamGetFlags(stream: u64, out: Out<c_uint>) { out.put(driver()?.stream(stream, current())?.1) }
    fn cuStreamGetPriority(stream: u64, out: Out<c_int>) { out.put(driver()?.stream(stream, current())?.2) }
    fn cuStreamGetId(stream: u64, out: Out<u64>) {
        check_stream(stream)?;
        out.put(stream)
    }
    fn cuStreamGetDevice(stream: u64, out: Out<c_int>) {
        let context = driver()?.stream(stream, current())?.0;
        out.put(c_int::try_from(driver()?.context(context)?.0).unwrap_or(c_int::MAX))
    }
    fn cuStreamIsCapturing(stream: u64, out: Out<c_uint>) {
        check_stream(stream)?;
        out.put(0)
    }
    fn cuStreamAttachMemAsync(stream: u64, address: u64, _bytes: u64, _flags: c_uint) {
        check_stream(stream)?;
        driver()?.range(address)?.map(drop).ok_or(Code::InvalidValue)
    }
    fn cuEventCreate(out: Out<u64>, _flags: c_uint) {
        let (driver, context) = here()?;
        if out.is_null() {
            return Err(Code::InvalidValue);
        }
        out.put(driver.create_event(context)?)
    }
    fn cuEventRecord(event: u64, stream: u64) {
        check_stream(stream)?;
        driver()?.record_event(event)
    }
    fn cuEventRecordWithFlags(event: u64, stream: u64, _flags: c_uint) {
        check_stream(stream)?;
        driver()?.record_event(event)
    }
    fn cuEventQuery | fn cuEventSynchronize(event: u64) { driver()?.check_event(event) }
    fn cuEventElapsedTime | fn cuEventElapsedTime_v2(out: Out<f32>, start: u64, end: u64) {
        out.put(driver()?.elapsed_ms(start, end)?)
    }
    fn cuEventDestroy_v2(event: u64) { driver()?.destroy_event(event) }
}
