//! `cudaError_t`. Numbers, names and sentences are those of CUDA 12. A driver's error keeps its number.

/// A failed call; success is `Ok`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error(pub u32);

/// What every call gives back.
pub type Answer<T> = Result<T, Error>;

macro_rules! errors {
    ($($constant:ident = $number:literal, $name:literal, $text:literal;)*) => {
        impl Error {
            $(#[doc = $text] pub const $constant: Error = Error($number);)*
        }

        /// Number, name and sentence of every error, each with its closing NUL.
        const ALL: &[(u32, &str, &str)] = &[$(($number, concat!($name, "\0"), concat!($text, "\0"))),*];
    };
}

errors! {
    SUCCESS = 0, "cudaSuccess", "no error";
    INVALID_VALUE = 1, "cudaErrorInvalidValue", "invalid argument";
    MEMORY_ALLOCATION = 2, "cudaErrorMemoryAllocation", "out of memory";
    INITIALIZATION = 3, "cudaErrorInitializationError", "initialization error";
    CUDART_UNLOADING = 4, "cudaErrorCudartUnloading", "driver shutting down";
    INVALID_CONFIGURATION = 9, "cudaErrorInvalidConfiguration", "invalid configuration argument";
    INVALID_PITCH = 12, "cudaErrorInvalidPitchValue", "invalid pitch argument";
    INVALID_SYMBOL = 13, "cudaErrorInvalidSymbol", "invalid device symbol";
    INVALID_DIRECTION = 21, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy";
    INSUFFICIENT_DRIVER = 35, "cudaErrorInsufficientDriver", "CUDA driver version is insufficient for CUDA runtime version";
    DEVICES_UNAVAILABLE = 46, "cudaErrorDevicesUnavailable", "CUDA-capable device(s) is/are busy or unavailable";
    MISSING_CONFIGURATION = 52, "cudaErrorMissingConfiguration", "__global__ function call is not configured";
    INVALID_FUNCTION = 98, "cudaErrorInvalidDeviceFunction", "invalid device function";
    NO_DEVICE = 100, "cudaErrorNoDevice", "no CUDA-capable device is detected";
    INVALID_DEVICE = 101, "cudaErrorInvalidDevice", "invalid device ordinal";
    INVALID_IMAGE = 200, "cudaErrorInvalidKernelImage", "device kernel image is invalid";
    UNINITIALIZED = 201, "cudaErrorDeviceUninitialized", "invalid device context";
    NO_IMAGE = 209, "cudaErrorNoKernelImageForDevice", "no kernel image is available for execution on the device";
    FILE_NOT_FOUND = 301, "cudaErrorFileNotFound", "file not found";
    SHARED_OBJECT = 303, "cudaErrorSharedObjectInitFailed", "shared object initialization failed";
    OPERATING_SYSTEM = 304, "cudaErrorOperatingSystem", "OS call failed or operation not supported on this OS";
    INVALID_HANDLE = 400, "cudaErrorInvalidResourceHandle", "invalid resource handle";
    SYMBOL_NOT_FOUND = 500, "cudaErrorSymbolNotFound", "named symbol not found";
    NOT_READY = 600, "cudaErrorNotReady", "device not ready";
    SET_ON_ACTIVE = 708, "cudaErrorSetOnActiveProcess", "cannot set while device is active in this process";
    ALREADY_REGISTERED = 712, "cudaErrorHostMemoryAlreadyRegistered", "part or all of the requested memory range is already mapped";
    NOT_REGISTERED = 713, "cudaErrorHostMemoryNotRegistered", "pointer does not correspond to a registered memory region";
    NOT_SUPPORTED = 801, "cudaErrorNotSupported", "operation not supported";
    MPS_CONNECTION = 805, "cudaErrorMpsConnectionFailed", "MPS client failed to connect to the MPS control daemon or the MPS server";
    MPS_MAX_CLIENTS = 808, "cudaErrorMpsMaxClientsReached", "the hardware resources required to support device connections have been exhausted";
    UNKNOWN = 999, "cudaErrorUnknown", "unknown error";
}

/// Name and sentence of an error, each closed by a NUL.
#[must_use]
pub fn describe(number: u32) -> (&'static str, &'static str) {
    let found = ALL.iter().find(|e| e.0 == number).map(|e| (e.1, e.2));
    found.unwrap_or(("unrecognized error code\0", "unrecognized error code\0"))
}
