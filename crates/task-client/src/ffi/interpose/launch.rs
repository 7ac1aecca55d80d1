//! Launches pass: what they need was asked for when the process came. One that the driver refuses for lack of memory is named,
//! because local memory of kernels is nothing that a program allocates.

use std::ffi::c_uint;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{OUT_OF_MEMORY, Opaque, process, tell, wrappers};

#[cold]
fn explain() {
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    let _ = std::panic::catch_unwind(|| {
        if !IS_SAID.swap(true, Ordering::Relaxed) {
            tell(
                "a launch failed: the driver has no memory left for what the kernel itself needs (local memory, stack)",
            );
        }
    });
}

#[inline(always)]
fn passed(answer: c_uint) -> c_uint {
    if answer == OUT_OF_MEMORY && process::is_anything_held() {
        explain();
    }
    answer
}

wrappers! {
    fn cuLaunchKernel since 4000 (
        function: Opaque, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint, shared: c_uint,
        stream: Opaque, arguments: Opaque, extra: Opaque,
    ) |real| { passed(real(function, gx, gy, gz, bx, by, bz, shared, stream, arguments, extra)) }
    fn cuLaunchKernel_ptsz since 7000 (
        function: Opaque, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint, shared: c_uint,
        stream: Opaque, arguments: Opaque, extra: Opaque,
    ) |real| { passed(real(function, gx, gy, gz, bx, by, bz, shared, stream, arguments, extra)) }
    fn cuLaunchCooperativeKernel since 9000 (
        function: Opaque, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint, shared: c_uint,
        stream: Opaque, arguments: Opaque,
    ) |real| { passed(real(function, gx, gy, gz, bx, by, bz, shared, stream, arguments)) }
    fn cuLaunchCooperativeKernel_ptsz since 9000 (
        function: Opaque, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint, shared: c_uint,
        stream: Opaque, arguments: Opaque,
    ) |real| { passed(real(function, gx, gy, gz, bx, by, bz, shared, stream, arguments)) }
    fn cuLaunchKernelEx since 11060 (config: Opaque, function: Opaque, arguments: Opaque, extra: Opaque) |real| {
        passed(real(config, function, arguments, extra))
    }
    fn cuLaunchKernelEx_ptsz since 11060 (config: Opaque, function: Opaque, arguments: Opaque, extra: Opaque) |real| {
        passed(real(config, function, arguments, extra))
    }
    fn cuGraphLaunch since 10000 (graph: Opaque, stream: Opaque) |real| { passed(real(graph, stream)) }
    fn cuGraphLaunch_ptsz since 10000 (graph: Opaque, stream: Opaque) |real| { passed(real(graph, stream)) }
}
