//! Launches pass, by a jump: what they need was asked for when the process came.

use std::ffi::c_uint;

use super::{Opaque, wrappers};

wrappers! {
    fn cuLaunchKernel since 4000 (
        function: Opaque, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint, shared: c_uint,
        stream: Opaque, arguments: Opaque, extra: Opaque,
    ) |real| { real(function, gx, gy, gz, bx, by, bz, shared, stream, arguments, extra) }
    fn cuLaunchKernel_ptsz since 7000 (
        function: Opaque, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint, shared: c_uint,
        stream: Opaque, arguments: Opaque, extra: Opaque,
    ) |real| { real(function, gx, gy, gz, bx, by, bz, shared, stream, arguments, extra) }
    fn cuLaunchCooperativeKernel since 9000 (
        function: Opaque, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint, shared: c_uint,
        stream: Opaque, arguments: Opaque,
    ) |real| { real(function, gx, gy, gz, bx, by, bz, shared, stream, arguments) }
    fn cuLaunchCooperativeKernel_ptsz since 9000 (
        function: Opaque, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint, shared: c_uint,
        stream: Opaque, arguments: Opaque,
    ) |real| { real(function, gx, gy, gz, bx, by, bz, shared, stream, arguments) }
    fn cuLaunchKernelEx since 11060 (config: Opaque, function: Opaque, arguments: Opaque, extra: Opaque) |real| {
        real(config, function, arguments, extra)
    }
    fn cuLaunchKernelEx_ptsz since 11060 (config: Opaque, function: Opaque, arguments: Opaque, extra: Opaque) |real| {
        real(config, function, arguments, extra)
    }
    fn cuGraphLaunch since 10000 (graph: Opaque, stream: Opaque) |real| { real(graph, stream) }
    fn cuGraphLaunch_ptsz since 10000 (graph: Opaque, stream: Opaque) |real| { real(graph, stream) }
}
