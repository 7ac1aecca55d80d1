//! Library, system and unit functions.

use std::ffi::{c_char, c_int, c_uint};

use c_edge::guard;

use super::abi::{self, Out};
use crate::engine::code::Code;
use crate::engine::process;

const EXTRA: &[&str] = &["nvmlInit", "nvmlInit_v2", "nvmlInitWithFlags", "nvmlShutdown", "nvmlErrorString"];

/// The functions of this module.
pub(super) const NAMES: &[&str] = &[
    EXTRA[0],
    EXTRA[1],
    EXTRA[2],
    EXTRA[3],
    EXTRA[4],
    "nvmlSystemGetDriverVersion",
    "nvmlSystemGetNVMLVersion",
    "nvmlSystemGetCudaDriverVersion",
    "nvmlSystemGetCudaDriverVersion_v2",
    "nvmlSystemGetProcessName",
    "nvmlSystemGetDriverBranch",
    "nvmlUnitGetCount",
    "nvmlSystemGetHicVersion",
    "nvmlGetExcludedDeviceCount",
];

#[unsafe(no_mangle)]
extern "C" fn nvmlInit() -> c_uint {
    guard(abi::init)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInit_v2() -> c_uint {
    guard(abi::init)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInitWithFlags(_flags: c_uint) -> c_uint {
    guard(abi::init)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlShutdown() -> c_uint {
    guard(abi::shutdown)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(code: c_uint) -> *const c_char {
    let text = match code {
        0 => c"Success",
        1 => c"Uninitialized",
        2 => c"Invalid Argument",
        3 => c"Not Supported",
        4 => c"Insufficient Permissions",
        5 => c"Already Initialized",
        6 => c"Not Found",
        7 => c"Insufficient Size",
        8 => c"Insufficient External Power",
        9 => c"Driver Not Loaded",
        10 => c"Timeout",
        11 => c"Interrupt Request Issue",
        12 => c"NVML Shared Library Not Found",
        13 => c"Function Not Found",
        14 => c"Corrupted infoROM",
        15 => c"GPU is lost",
        16 => c"GPU requires reset",
        17 => c"GPU access blocked by the operating system",
        18 => c"Driver/library version mismatch",
        19 => c"In use by another client",
        20 => c"Insufficient Memory",
        21 => c"No data",
        22 => c"The requested vgpu operation is not available on target device, because ECC is enabled",
        23 => c"Insufficient Resources",
        24 => c"Frequency Not Supported",
        25 => c"Argument version mismatch",
        26 => c"Deprecated",
        27 => c"Not ready",
        28 => c"GPU not found",
        29 => c"Invalid state",
        _ => c"Unknown Error",
    };
    text.as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetDriverVersion(version: Out<c_char>, length: c_uint) -> c_uint {
    abi::with_state(|_, state| version.put_text(length, &state.node.driver_version))
}

/// The library's version is `CUDA major.driver version`.
#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetNVMLVersion(version: Out<c_char>, length: c_uint) -> c_uint {
    abi::with_state(|_, state| {
        let major = state.node.cuda_version / 1000;
        version.put_text(length, &format!("{major}.{}", state.node.driver_version))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetDriverBranch(
    info: Out<nvml_wrapper_sys::bindings::nvmlSystemDriverBranchInfo_v1_t>,
    length: c_uint,
) -> c_uint {
    abi::with_state(|_, state| {
        let mut value = info.get()?;
        let major = state.node.driver_version.split('.').next().unwrap_or_default();
        let branch = format!("r{major}_00");
        if branch.len() >= length as usize {
            return Err(Code::InsufficientSize);
        }
        value.branch = abi::chars(&branch);
        info.put(value)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetCudaDriverVersion(version: Out<c_int>) -> c_uint {
    abi::with_state(|_, state| version.put(state.node.cuda_version))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetCudaDriverVersion_v2(version: Out<c_int>) -> c_uint {
    abi::with_state(|_, state| version.put(state.node.cuda_version))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetProcessName(pid: c_uint, name: Out<c_char>, length: c_uint) -> c_uint {
    abi::with_state(|_, _| {
        let mut text = process::name(pid).ok_or(Code::NotFound)?;
        // The driver cuts a long name to the buffer instead of refusing.
        while text.len() >= length as usize && text.pop().is_some() {}
        name.put_text(length, &text)
    })
}

/// There are no S-class units.
#[unsafe(no_mangle)]
extern "C" fn nvmlUnitGetCount(count: Out<c_uint>) -> c_uint {
    abi::with_state(|_, _| count.put(0))
}

/// There are no host interface cards.
#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetHicVersion(
    count: Out<c_uint>,
    _entries: Out<nvml_wrapper_sys::bindings::nvmlHwbcEntry_t>,
) -> c_uint {
    abi::with_state(|_, _| count.put(0))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlGetExcludedDeviceCount(count: Out<c_uint>) -> c_uint {
    abi::with_state(|_, _| count.put(0))
}
