//! The driver's functions, taken from `libcuda.so.1` when they are first needed.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use crate::error::{Answer, Error};

/// `cuGetProcAddress_v2`.
type GetProcAddress =
    unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64, *mut c_uint) -> c_uint;

/// The version of CUDA whose functions are meant.
const VERSION: c_int = 12_080;

fn get_proc_address() -> Answer<GetProcAddress> {
    static FOUND: OnceLock<Option<GetProcAddress>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        // SAFETY: the name is a C string; the library's constructors are the driver's.
        let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            return None;
        }
        // SAFETY: the handle is dlopen's and stays open; the name is a C string.
        let address = unsafe { libc::dlsym(library, c"cuGetProcAddress_v2".as_ptr()) };
        if address.is_null() {
            return None;
        }
        // SAFETY: cuda.h defines the function with this type.
        Some(unsafe { std::mem::transmute::<*mut c_void, GetProcAddress>(address) })
    });
    found.ok_or(Error::INSUFFICIENT_DRIVER)
}

/// The address of a driver's function, by the name that programs write.
pub(super) fn address(name: &str) -> Answer<*mut c_void> {
    let name = CString::new(name).map_err(|_| Error::INVALID_VALUE)?;
    let (mut found, mut status) = (std::ptr::null_mut(), 0);
    let get = get_proc_address()?;
    // SAFETY: the name is a C string, and both out arguments are of this frame.
    check(unsafe { get(name.as_ptr(), &raw mut found, VERSION, 0, &raw mut status) })?;
    if found.is_null() { Err(Error::SYMBOL_NOT_FOUND) } else { Ok(found) }
}

fn check(result: c_uint) -> Answer<()> {
    if result == 0 { Ok(()) } else { Err(Error(result)) }
}

macro_rules! driver {
    ($($function:ident = $name:literal ($($arg:ident : $ty:ty),*);)*) => {
        $(
            pub(super) fn $function($($arg: $ty),*) -> Answer<()> {
                static ADDRESS: OnceLock<usize> = OnceLock::new();
                let address = match ADDRESS.get() {
                    Some(address) => *address,
                    None => {
                        let found = address($name)?.expose_provenance();
                        *ADDRESS.get_or_init(|| found)
                    }
                };
                let pointer = std::ptr::with_exposed_provenance_mut::<c_void>(address);
                // SAFETY: cuda.h defines the function of this name with these arguments.
                let call = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn($($ty),*) -> c_uint>(pointer) };
                check(call($($arg),*))
            }
        )*
    };
}

driver! {
    init = "cuInit" (flags: c_uint);
    driver_version = "cuDriverGetVersion" (out: &mut c_int);
    device_count = "cuDeviceGetCount" (out: &mut c_int);
    device_attribute = "cuDeviceGetAttribute" (out: &mut c_int, attribute: c_int, device: c_int);
    device_name = "cuDeviceGetName" (name: *mut c_char, length: c_int, device: c_int);
    device_uuid = "cuDeviceGetUuid" (out: &mut [c_char; 16], device: c_int);
    device_total = "cuDeviceTotalMem" (out: &mut u64, device: c_int);
    device_bus_id = "cuDeviceGetPCIBusId" (name: u64, length: c_int, device: c_int);
    device_by_bus_id = "cuDeviceGetByPCIBusId" (out: &mut c_int, name: u64);
    can_access_peer = "cuDeviceCanAccessPeer" (out: &mut c_int, device: c_int, peer: c_int);
    retain_primary = "cuDevicePrimaryCtxRetain" (out: &mut u64, device: c_int);
    reset_primary = "cuDevicePrimaryCtxReset" (device: c_int);
    primary_state = "cuDevicePrimaryCtxGetState" (device: c_int, flags: &mut c_uint, active: &mut c_int);
    set_primary_flags = "cuDevicePrimaryCtxSetFlags" (device: c_int, flags: c_uint);
    get_current = "cuCtxGetCurrent" (out: &mut u64);
    set_current = "cuCtxSetCurrent" (context: u64);
    synchronize = "cuCtxSynchronize" ();
    get_limit = "cuCtxGetLimit" (out: u64, limit: c_uint);
    set_limit = "cuCtxSetLimit" (limit: c_uint, value: u64);
    cache_config = "cuCtxGetCacheConfig" (out: u64);
    priority_range = "cuCtxGetStreamPriorityRange" (least: u64, greatest: u64);
    allocate = "cuMemAlloc" (out: u64, bytes: u64);
    allocate_async = "cuMemAllocAsync" (out: u64, bytes: u64, stream: u64);
    allocate_pitch = "cuMemAllocPitch" (out: u64, pitch: u64, width: u64, height: u64, element: c_uint);
    allocate_managed = "cuMemAllocManaged" (out: u64, bytes: u64, flags: c_uint);
    allocate_host = "cuMemHostAlloc" (out: u64, bytes: u64, flags: c_uint);
    free = "cuMemFree" (address: u64);
    free_async = "cuMemFreeAsync" (address: u64, stream: u64);
    free_host = "cuMemFreeHost" (address: u64);
    register = "cuMemHostRegister" (address: u64, bytes: u64, flags: c_uint);
    unregister = "cuMemHostUnregister" (address: u64);
    device_pointer = "cuMemHostGetDevicePointer" (out: u64, address: u64, flags: c_uint);
    host_flags = "cuMemHostGetFlags" (out: u64, address: u64);
    memory_info = "cuMemGetInfo" (free: u64, total: u64);
    advise = "cuMemAdvise" (address: u64, bytes: u64, advice: c_uint, device: c_int);
    prefetch = "cuMemPrefetchAsync" (address: u64, bytes: u64, device: c_int, stream: u64);
    pointer_attribute = "cuPointerGetAttribute" (out: *mut c_void, attribute: c_uint, address: u64);
    copy = "cuMemcpy" (to: u64, from: u64, bytes: u64);
    copy_up = "cuMemcpyHtoD" (to: u64, from: u64, bytes: u64);
    copy_down = "cuMemcpyDtoH" (to: u64, from: u64, bytes: u64);
    copy_within = "cuMemcpyDtoD" (to: u64, from: u64, bytes: u64);
    copy_async = "cuMemcpyAsync" (to: u64, from: u64, bytes: u64, stream: u64);
    copy_up_async = "cuMemcpyHtoDAsync" (to: u64, from: u64, bytes: u64, stream: u64);
    copy_down_async = "cuMemcpyDtoHAsync" (to: u64, from: u64, bytes: u64, stream: u64);
    copy_within_async = "cuMemcpyDtoDAsync" (to: u64, from: u64, bytes: u64, stream: u64);
    copy_3d = "cuMemcpy3D" (copy: *const c_void);
    copy_3d_async = "cuMemcpy3DAsync" (copy: *const c_void, stream: u64);
    set_bytes = "cuMemsetD8" (address: u64, value: u8, count: u64);
    set_bytes_async = "cuMemsetD8Async" (address: u64, value: u8, count: u64, stream: u64);
    set_rows = "cuMemsetD2D8" (address: u64, pitch: u64, value: u8, width: u64, height: u64);
    set_rows_async = "cuMemsetD2D8Async" (address: u64, pitch: u64, value: u8, width: u64, height: u64, stream: u64);
    load_module = "cuModuleLoadData" (out: &mut u64, image: u64);
    module_function = "cuModuleGetFunction" (out: &mut u64, module: u64, name: *const c_char);
    module_global = "cuModuleGetGlobal" (out: &mut u64, bytes: &mut u64, module: u64, name: *const c_char);
    function_attribute = "cuFuncGetAttribute" (out: &mut c_int, attribute: c_int, function: u64);
    set_function_attribute = "cuFuncSetAttribute" (function: u64, attribute: c_int, value: c_int);
    blocks_per_sm = "cuOccupancyMaxActiveBlocksPerMultiprocessor" (out: u64, function: u64, threads: c_int, shared: u64);
    launch = "cuLaunchKernel" (
        function: u64, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint, shared: c_uint, stream: u64,
        arguments: u64, extra: u64
    );
    launch_cooperative = "cuLaunchCooperativeKernel" (
        function: u64, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint, shared: c_uint, stream: u64,
        arguments: u64
    );
    launch_host = "cuLaunchHostFunc" (stream: u64, function: u64, data: u64);
    add_callback = "cuStreamAddCallback" (stream: u64, function: u64, data: u64, flags: c_uint);
    create_stream = "cuStreamCreateWithPriority" (out: u64, flags: c_uint, priority: c_int);
    destroy_stream = "cuStreamDestroy" (stream: u64);
    synchronize_stream = "cuStreamSynchronize" (stream: u64);
    query_stream = "cuStreamQuery" (stream: u64);
    wait_event = "cuStreamWaitEvent" (stream: u64, event: u64, flags: c_uint);
    stream_flags = "cuStreamGetFlags" (stream: u64, out: u64);
    stream_priority = "cuStreamGetPriority" (stream: u64, out: u64);
    attach = "cuStreamAttachMemAsync" (stream: u64, address: u64, bytes: u64, flags: c_uint);
    create_event = "cuEventCreate" (out: u64, flags: c_uint);
    record_event = "cuEventRecordWithFlags" (event: u64, stream: u64, flags: c_uint);
    query_event = "cuEventQuery" (event: u64);
    synchronize_event = "cuEventSynchronize" (event: u64);
    elapsed = "cuEventElapsedTime" (out: u64, start: u64, end: u64);
    destroy_event = "cuEventDestroy" (event: u64);
}
