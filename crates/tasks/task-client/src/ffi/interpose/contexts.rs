//! Contexts: what was allocated in one goes with it.

use std::ffi::{c_int, c_uint};

use super::{Opaque, SUCCESS, enter, guard, wrappers};
use crate::ffi::cuda;

/// Lets the driver end a context, and counts back what was there if it is gone.
fn end(context: impl FnOnce() -> u64, end: impl Fn() -> c_uint, is_gone: impl Fn() -> bool) -> c_uint {
    guard(|| match enter() {
        None => end(),
        Some(here) => {
            let context = context();
            let answer = end();
            if answer == SUCCESS && context != 0 && is_gone() {
                here.account.change(here.client(), |ledger| ledger.end_context(context));
            }
            answer
        }
    })
}

fn end_primary(device: c_int, call: impl Fn() -> c_uint) -> c_uint {
    end(|| cuda::primary_context(device), call, || !cuda::has_primary_context(device))
}

fn destroy(context: Opaque, call: impl Fn() -> c_uint) -> c_uint {
    end(|| context.expose_provenance() as u64, call, || true)
}

wrappers! {
    fn cuCtxDestroy since 2000 (context: Opaque) |real| { destroy(context, || real(context)) }
    fn cuCtxDestroy_v2 since 4000 (context: Opaque) |real| { destroy(context, || real(context)) }
    fn cuDevicePrimaryCtxRelease since 7000 (device: c_int) |real| { end_primary(device, || real(device)) }
    fn cuDevicePrimaryCtxRelease_v2 since 11000 (device: c_int) |real| { end_primary(device, || real(device)) }
    fn cuDevicePrimaryCtxReset since 7000 (device: c_int) |real| { end_primary(device, || real(device)) }
    fn cuDevicePrimaryCtxReset_v2 since 11000 (device: c_int) |real| { end_primary(device, || real(device)) }
}
