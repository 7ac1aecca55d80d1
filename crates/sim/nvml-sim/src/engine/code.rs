//! NVML's return codes, as the engine's error type.

/// A failed call. The number is NVML's (`nvml.h`, `nvmlReturn_t`); success is `Ok`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u32)]
pub enum Code {
    /// `nvmlInit` has not been called.
    #[error("Uninitialized")]
    Uninitialized = 1,
    /// An argument is null, out of range or a handle of something gone.
    #[error("Invalid Argument")]
    InvalidArgument = 2,
    /// The device, or this simulator, does not do it.
    #[error("Not Supported")]
    NotSupported = 3,
    /// Only root may.
    #[error("Insufficient Permissions")]
    NoPermission = 4,
    /// No such device or instance.
    #[error("Not Found")]
    NotFound = 6,
    /// The caller's buffer is too small.
    #[error("Insufficient Size")]
    InsufficientSize = 7,
    /// No state file: no node to speak of.
    #[error("Driver Not Loaded")]
    DriverNotLoaded = 9,
    /// Nothing happened within the time given.
    #[error("Timeout")]
    Timeout = 10,
    /// Symbol not in this driver.
    #[error("Function Not Found")]
    FunctionNotFound = 13,
    /// The GPU fell off the bus.
    #[error("GPU is lost")]
    GpuIsLost = 15,
    /// The mode is set but only a reset puts it into force.
    #[error("GPU requires reset")]
    ResetRequired = 16,
    /// The operating system refused.
    #[error("The operating system has blocked the request")]
    OperatingSystem = 17,
    /// A process or a child instance uses it.
    #[error("In use by another client")]
    InUse = 19,
    /// No data yet.
    #[error("No data")]
    NoData = 21,
    /// The profile does not fit now.
    #[error("Insufficient Resources")]
    InsufficientResources = 23,
    /// A versioned struct carries a version this library does not know.
    #[error("Version mismatch")]
    VersionMismatch = 25,
    /// Our bug, or the state file cannot be read or written.
    #[error("Unknown Error")]
    Unknown = 999,
}

/// What every engine call gives back.
pub type Answer<T> = Result<T, Code>;
