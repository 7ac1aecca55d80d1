//! CUDA's error codes. Numbers, names and sentences are those of `cuda.h` and `cuGetErrorString` of CUDA 12.

macro_rules! codes {
    ($($variant:ident = $number:literal, $name:literal, $text:literal;)*) => {
        /// A failed call; success is `Ok`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
        #[repr(u32)]
        pub enum Code {
            $(#[doc = $text] #[error($text)] $variant = $number,)*
        }

        /// Number, name and sentence of every code.
        pub const ALL: &[(u32, &str, &str)] = &[$(($number, $name, $text)),*];
    };
}

codes! {
    InvalidValue = 1, "CUDA_ERROR_INVALID_VALUE", "invalid argument";
    OutOfMemory = 2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory";
    NotInitialized = 3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error";
    Deinitialized = 4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down";
    DeviceUnavailable = 46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable";
    NoDevice = 100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected";
    InvalidDevice = 101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal";
    InvalidImage = 200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid";
    InvalidContext = 201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context";
    NoBinaryForGpu = 209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device";
    FileNotFound = 301, "CUDA_ERROR_FILE_NOT_FOUND", "file not found";
    SharedObjectInitFailed = 303, "CUDA_ERROR_SHARED_OBJECT_INIT_FAILED", "shared object initialization failed";
    OperatingSystem = 304, "CUDA_ERROR_OPERATING_SYSTEM", "OS call failed or operation not supported on this OS";
    InvalidHandle = 400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle";
    NotFound = 500, "CUDA_ERROR_NOT_FOUND", "named symbol not found";
    NotReady = 600, "CUDA_ERROR_NOT_READY", "device not ready";
    PrimaryContextActive = 708, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE", "cannot set while device is active in this process";
    HostMemoryAlreadyRegistered = 712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "part or all of the requested memory range is already mapped";
    HostMemoryNotRegistered = 713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "pointer does not correspond to a registered memory region";
    NotSupported = 801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported";
    MpsConnectionFailed = 805, "CUDA_ERROR_MPS_CONNECTION_FAILED", "MPS client failed to connect to the MPS control daemon or the MPS server";
    MpsMaxClientsReached = 808, "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED", "the hardware resources required to support device connections have been exhausted";
    Unknown = 999, "CUDA_ERROR_UNKNOWN", "unknown error";
}

/// What every call gives back.
pub type Answer<T> = Result<T, Code>;

/// Name and sentence of a code, success included.
#[must_use]
pub fn describe(number: u32) -> Option<(&'static str, &'static str)> {
    if number == 0 {
        return Some(("CUDA_SUCCESS", "no error"));
    }
    ALL.iter().find(|c| c.0 == number).map(|c| (c.1, c.2))
}
