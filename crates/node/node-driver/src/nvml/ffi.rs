//! Every call into the driver's library. Nothing else in this crate is `unsafe`.
//!
//! Handles are only made by the library and only used while it is loaded: they borrow it.

use std::ffi::{c_char, c_uint};
use std::marker::PhantomData;
use std::time::Instant;

use nvml_wrapper_sys::bindings as sys;

use super::code::Code;
use super::driver_time::count_since;
use super::processes::Shown;

/// The loaded and initialised library; shut down when dropped.
pub(super) struct Lib {
    raw: sys::NvmlLib,
}

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident, $raw:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(super) struct $name<'lib> { pub(super) raw: $raw, lib: PhantomData<&'lib Lib> }
        impl<'lib> $name<'lib> {
            fn of(_: &'lib Lib, raw: $raw) -> Self { Self { raw, lib: PhantomData } }
        }
    };
}
handle!(
    /// A GPU or a MIG device.
    Device, sys::nvmlDevice_t);
handle!(
    /// A GPU instance.
    Gi, sys::nvmlGpuInstance_t);
handle!(
    /// A compute instance.
    Ci, sys::nvmlComputeInstance_t);

/// Longest name or UUID that NVML returns (`NVML_DEVICE_UUID_V2_BUFFER_SIZE`, `NVML_DEVICE_NAME_V2_BUFFER_SIZE`).
const TEXT: usize = 96;
const TEXT_LEN: c_uint = 96;

macro_rules! call {
    ($lib:expr, $name:ident ( $($arg:expr),* )) => {
        $lib.ask(|raw| {
            let function = raw.$name.as_ref().ok()?;
            // SAFETY: nvml.h: the signature is that of the bindings; the library is initialised; handles come from
            // this library and borrow it; pointers are to locals of at least the size that nvml.h names.
            Some(unsafe { function($($arg),*) })
        })
    };
}

/// Calls that read one number of a GPU.
macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident: $number:ty = $call:ident;)*) => { impl Lib { $(
        $(#[$doc])*
        pub(super) fn $name(&self, device: Device<'_>) -> Result<$number, Code> {
            let mut number = 0;
            call!(self, $call(device.raw, &raw mut number))?;
            Ok(number)
        }
    )* } };
}
numbers! {
    minor: u32 = nvmlDeviceGetMinorNumber;
    /// Power limit, milliwatts.
    power_limit: u32 = nvmlDeviceGetPowerManagementLimit;
    /// Default power limit, milliwatts.
    power_default: u32 = nvmlDeviceGetPowerManagementDefaultLimit;
    /// Energy since the driver was loaded, millijoules.
    energy: u64 = nvmlDeviceGetTotalEnergyConsumption;
}

mod mig;

/// An out-parameter of plain C data.
trait Plain: Sized {
    fn zeroed() -> Self;
}
macro_rules! plain {
    ($($t:ty),*) => { $(impl Plain for $t {
        fn zeroed() -> Self {
            // SAFETY: a C struct of numbers, arrays of numbers and raw pointers only: all zeroes is a valid value.
            unsafe { std::mem::zeroed() }
        }
    })* };
}
plain!(
    sys::nvmlGpuInstanceProfileInfo_t,
    sys::nvmlGpuInstanceProfileInfo_v2_t,
    sys::nvmlGpuInstanceProfileInfo_v3_st,
    sys::nvmlGpuInstanceInfo_t,
    sys::nvmlGpuInstancePlacement_t,
    sys::nvmlComputeInstanceProfileInfo_t,
    sys::nvmlComputeInstanceInfo_t,
    sys::nvmlPciInfo_t,
    sys::nvmlProcessInfo_t,
    sys::nvmlMemory_t
);

/// A text of C, up to its end.
pub fn text(chars: &[c_char]) -> String {
    let bytes: Vec<u8> = chars.iter().map(|c| c.to_ne_bytes()[0]).take_while(|b| *b != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Lib {
    /// Loads the library from `path` (or by name through the loader's path) and initialises it.
    pub(super) fn load(path: &std::path::Path) -> Result<Self, LoadError> {
        let start = Instant::now();
        let loaded = Self::open(path);
        count_since(start);
        loaded
    }

    fn open(path: &std::path::Path) -> Result<Self, LoadError> {
        // SAFETY: loading runs the library's initialisers; the path comes from the site's configuration and names
        // NVIDIA's library or the simulator.
        let raw = unsafe { sys::NvmlLib::new(path) }.map_err(|e| LoadError::Open(e.to_string()))?;
        match raw.nvmlInit_v2.as_ref() {
            // SAFETY: nvml.h: no preconditions.
            Ok(init) => Code::check(unsafe { init() }).map_err(LoadError::Init)?,
            Err(e) => return Err(LoadError::Open(e.to_string())),
        }
        Ok(Self { raw })
    }

    /// Calls one of the library's functions. `call` returns the function's code, or `None` if the library lacks it.
    pub(super) fn ask(&self, call: impl FnOnce(&sys::NvmlLib) -> Option<u32>) -> Result<(), Code> {
        let start = Instant::now();
        let answer = call(&self.raw).map_or(Err(Code::FUNCTION_NOT_FOUND), Code::check);
        count_since(start);
        answer
    }

    pub(super) fn device_count(&self) -> Result<u32, Code> {
        let mut n = 0;
        call!(self, nvmlDeviceGetCount_v2(&raw mut n))?;
        Ok(n)
    }

    pub(super) fn device(&self, index: u32) -> Result<Device<'_>, Code> {
        let mut raw = std::ptr::null_mut();
        call!(self, nvmlDeviceGetHandleByIndex_v2(index, &raw mut raw))?;
        Ok(Device::of(self, raw))
    }

    pub(super) fn uuid(&self, device: Device<'_>) -> Result<String, Code> {
        let mut buf = [0; TEXT];
        call!(self, nvmlDeviceGetUUID(device.raw, buf.as_mut_ptr(), TEXT_LEN))?;
        Ok(text(&buf))
    }

    pub(super) fn name(&self, device: Device<'_>) -> Result<String, Code> {
        let mut buf = [0; TEXT];
        call!(self, nvmlDeviceGetName(device.raw, buf.as_mut_ptr(), TEXT_LEN))?;
        Ok(text(&buf))
    }

    /// Bus id, lower case as the kernel writes it: `00000000:07:00.0`.
    pub(super) fn pci_bus_id(&self, device: Device<'_>) -> Result<String, Code> {
        let mut pci = sys::nvmlPciInfo_t::zeroed();
        call!(self, nvmlDeviceGetPciInfo_v3(device.raw, &raw mut pci))?;
        Ok(text(&pci.busId).to_ascii_lowercase())
    }

    /// Total and used memory, bytes.
    pub(super) fn memory(&self, device: Device<'_>) -> Result<(u64, u64), Code> {
        let mut memory = sys::nvmlMemory_t::zeroed();
        call!(self, nvmlDeviceGetMemoryInfo(device.raw, &raw mut memory))?;
        Ok((memory.total, memory.used))
    }

    /// Processes with a CUDA context.
    pub(super) fn compute_processes(&self, device: Device<'_>) -> Result<Vec<Shown>, Code> {
        listed(|n, infos| call!(self, nvmlDeviceGetComputeRunningProcesses_v3(device.raw, n, infos)))
    }

    /// Clients of an MPS server.
    pub(super) fn mps_clients(&self, device: Device<'_>) -> Result<Vec<Shown>, Code> {
        listed(|n, infos| call!(self, nvmlDeviceGetMPSComputeRunningProcesses_v3(device.raw, n, infos)))
    }

    /// Current and pending MIG mode, 0 or 1.
    pub(super) fn mig_mode(&self, device: Device<'_>) -> Result<(u32, u32), Code> {
        let (mut current, mut pending) = (0, 0);
        call!(self, nvmlDeviceGetMigMode(device.raw, &raw mut current, &raw mut pending))?;
        Ok((current, pending))
    }

    /// Sets the MIG mode; the inner result is the activation status.
    pub(super) fn set_mig_mode(&self, device: Device<'_>, mode: u32) -> Result<Result<(), Code>, Code> {
        let mut activation = 0;
        call!(self, nvmlDeviceSetMigMode(device.raw, mode, &raw mut activation))?;
        Ok(Code::check(activation))
    }

    /// Least and greatest power limit, milliwatts.
    pub(super) fn power_range(&self, device: Device<'_>) -> Result<(u32, u32), Code> {
        let (mut least, mut greatest) = (0, 0);
        call!(
            self,
            nvmlDeviceGetPowerManagementLimitConstraints(device.raw, &raw mut least, &raw mut greatest)
        )?;
        Ok((least, greatest))
    }

    pub(super) fn set_power_limit(&self, device: Device<'_>, limit_mw: u32) -> Result<(), Code> {
        call!(self, nvmlDeviceSetPowerManagementLimit(device.raw, limit_mw))
    }
}

/// nvml.h: an instance's id and `NVML_VALUE_NOT_AVAILABLE` are -1 where there is none.
fn shown(p: &sys::nvmlProcessInfo_t) -> Shown {
    let instance = |id: c_uint| (id != c_uint::MAX).then_some(id);
    Shown {
        pid: p.pid,
        gpu_instance: instance(p.gpuInstanceId),
        compute_instance: instance(p.computeInstanceId),
        used: (p.usedGpuMemory != u64::MAX).then_some(p.usedGpuMemory),
    }
}

/// Processes, however many there are: the driver says how much room it needs.
fn listed(
    ask: impl Fn(*mut c_uint, *mut sys::nvmlProcessInfo_t) -> Result<(), Code>,
) -> Result<Vec<Shown>, Code> {
    let mut room: c_uint = 64;
    loop {
        let mut infos = vec![sys::nvmlProcessInfo_t::zeroed(); room as usize];
        let mut n = room;
        match ask(&raw mut n, infos.as_mut_ptr()) {
            // Others may come between two questions.
            Err(Code::INSUFFICIENT_SIZE) if room < MOST_PROCESSES => {
                room = (n * 2).clamp(room * 2, MOST_PROCESSES)
            }
            Err(code) => return Err(code),
            Ok(()) => {
                infos.truncate(n as usize);
                return Ok(infos.iter().map(shown).collect());
            }
        }
    }
}

/// More processes than any GPU takes.
const MOST_PROCESSES: c_uint = 1 << 16;

impl Drop for Lib {
    fn drop(&mut self) {
        // A failed shutdown leaves nothing to do: the process is about to end or to load the library again.
        let _ = call!(self, nvmlShutdown());
    }
}

/// Why there is no library.
pub(super) enum LoadError {
    Open(String),
    Init(Code),
}
