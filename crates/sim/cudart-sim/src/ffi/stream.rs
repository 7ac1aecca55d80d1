//! Streams and events.

use std::ffi::{c_int, c_uint};

use super::abi::{Out, exports};
use super::driver;
use super::state::context;

exports! {
    fn cudaStreamCreate(out: Out<u64>) {
        context()?;
        driver::create_stream(out.address(), 0, 0)
    }
    fn cudaStreamCreateWithFlags(out: Out<u64>, flags: c_uint) {
        context()?;
        driver::create_stream(out.address(), flags, 0)
    }
    fn cudaStreamCreateWithPriority(out: Out<u64>, flags: c_uint, priority: c_int) {
        context()?;
        driver::create_stream(out.address(), flags, priority)
    }
    fn cudaStreamDestroy(stream: u64) {
        context()?;
        driver::destroy_stream(stream)
    }
    fn cudaStreamSynchronize(stream: u64) {
        context()?;
        driver::synchronize_stream(stream)
    }
    fn cudaStreamQuery(stream: u64) {
        context()?;
        driver::query_stream(stream)
    }
    fn cudaStreamWaitEvent(stream: u64, event: u64, flags: c_uint) {
        context()?;
        driver::wait_event(stream, event, flags)
    }
    fn cudaStreamGetFlags(stream: u64, out: Out<c_uint>) {
        context()?;
        driver::stream_flags(stream, out.address())
    }
    fn cudaStreamGetPriority(stream: u64, out: Out<c_int>) {
        context()?;
        driver::stream_priority(stream, out.address())
    }
    fn cudaStreamAddCallback(stream: u64, function: u64, data: u64, flags: c_uint) {
        context()?;
        driver::add_callback(stream, function, data, flags)
    }
    fn cudaStreamAttachMemAsync(stream: u64, address: u64, bytes: u64, flags: c_uint) {
        context()?;
        driver::attach(stream, address, bytes, flags)
    }
    fn cudaEventCreate(out: Out<u64>) {
        context()?;
        driver::create_event(out.address(), 0)
    }
    fn cudaEventCreateWithFlags(out: Out<u64>, flags: c_uint) {
        context()?;
        driver::create_event(out.address(), flags)
    }
    fn cudaEventRecord(event: u64, stream: u64) {
        context()?;
        driver::record_event(event, stream, 0)
    }
    fn cudaEventRecordWithFlags(event: u64, stream: u64, flags: c_uint) {
        context()?;
        driver::record_event(event, stream, flags)
    }
    fn cudaEventQuery(event: u64) {
        context()?;
        driver::query_event(event)
    }
    fn cudaEventSynchronize(event: u64) {
        context()?;
        driver::synchronize_event(event)
    }
    fn cudaEventElapsedTime(out: Out<f32>, start: u64, end: u64) {
        context()?;
        driver::elapsed(out.address(), start, end)
    }
    fn cudaEventDestroy(event: u64) {
        context()?;
        driver::destroy_event(event)
    }
}
