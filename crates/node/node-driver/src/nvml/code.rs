//! NVML return codes.

use std::fmt;

/// An NVML return code other than success.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(pub u32);

impl Code {
    /// The call does not know the argument; ends the loop over profile numbers.
    pub const INVALID_ARGUMENT: Self = Self(2);
    /// The device cannot do this, or not in its present mode.
    pub const NOT_SUPPORTED: Self = Self(3);
    /// The object is not there, or not any more.
    pub const NOT_FOUND: Self = Self(6);
    /// The buffer is too short.
    pub const INSUFFICIENT_SIZE: Self = Self(7);
    /// The library lacks the function.
    pub const FUNCTION_NOT_FOUND: Self = Self(13);
    /// The GPU has fallen off the bus.
    pub const GPU_IS_LOST: Self = Self(15);
    /// The change is pending until a reset.
    pub const RESET_REQUIRED: Self = Self(16);
    /// Something still uses the object.
    pub const IN_USE: Self = Self(19);
    /// There is nothing to tell.
    pub const NO_DATA: Self = Self(21);
    /// No room for the instance.
    pub const INSUFFICIENT_RESOURCES: Self = Self(23);
    /// The struct's version is not known to the driver.
    pub const ARGUMENT_VERSION_MISMATCH: Self = Self(25);
    /// The GPU is not ready.
    pub const NOT_READY: Self = Self(27);

    /// Success is `Ok`.
    ///
    /// # Errors
    ///
    /// Any other code.
    pub fn check(raw: u32) -> Result<(), Self> {
        if raw == 0 { Ok(()) } else { Err(Self(raw)) }
    }

    /// True for codes after which no job can be started on this node: the driver is broken, or this process lacks a right
    /// that the node's set-up should give it.
    #[must_use]
    pub(super) fn is_of_driver(self) -> bool {
        // UNINITIALIZED, NO_PERMISSION, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND, OPERATING_SYSTEM,
        // LIB_RM_VERSION_MISMATCH
        matches!(self.0, 1 | 4 | 9 | 12 | 13 | 17 | 18)
    }

    /// True for codes after which no job can use the GPU that the call was about. The node's other GPUs may be well.
    #[must_use]
    pub(super) fn is_of_gpu(self) -> bool {
        // IRQ_ISSUE, CORRUPTED_INFOROM, GPU_IS_LOST, RESET_REQUIRED, UNKNOWN
        matches!(self.0, 11 | 14 | 15 | 16 | 999)
    }

    fn meaning(self) -> &'static str {
        match self.0 {
            1 => "NVML is not initialised",
            2 => "the driver does not know this argument",
            3 => "not supported in this mode or on this GPU",
            4 => "no permission",
            6 => "no such object",
            7 => "buffer too short",
            9 => "the NVIDIA driver is not loaded",
            10 => "timed out",
            12 => "a library is missing",
            13 => "the driver library lacks this function",
            14 => "the infoROM is corrupted",
            15 => "the GPU is lost",
            16 => "a GPU reset is required",
            17 => "the operating system refused",
            18 => "driver and library versions differ",
            19 => "still in use",
            20 => "out of host memory",
            21 => "no data",
            23 => "not enough free slices",
            25 => "struct version not known to the driver",
            27 => "not ready",
            28 => "no such GPU",
            29 => "invalid state",
            _ => "unknown error",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (NVML {})", self.meaning(), self.0)
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Code {}
