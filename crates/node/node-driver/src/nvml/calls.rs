//! The driver's library and what it says about a GPU as a whole.

use std::cell::RefCell;
use std::path::Path;

use geometry::Model;
use nvml_wrapper_sys::bindings as sys;

use super::code::Code;
use super::error::{NvmlError, at};
use super::ffi;
use super::processes::{Shown, merged};
use super::profiles::KnownProfiles;
use crate::gpu_ids::{GpuMinor, NvmlIndex};
use crate::scarce;

/// The driver's library, initialised.
pub struct Nvml {
    pub(super) lib: ffi::Lib,
    pub(super) known: RefCell<KnownProfiles>,
}

/// Fixed properties of a GPU; its state is not part of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuInfo {
    /// NVML's number of it, which also finds it in [`Nvml`]'s calls.
    pub index: NvmlIndex,
    /// `GPU-…`.
    pub uuid: String,
    /// As NVML names the model.
    pub name: String,
    /// N of /dev/nvidiaN.
    pub minor: GpuMinor,
    /// PCI bus id in lower case, as the kernel writes it: `00000000:07:00.0`.
    pub pci_bus_id: String,
    /// Size of the framebuffer, MiB.
    pub memory_mib: u64,
}

impl GpuInfo {
    /// The geometry table's row for it.
    #[must_use]
    pub fn model(&self) -> Option<&'static Model> {
        Model::find(&self.name)
    }
}

/// A GPU's MIG mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigMode {
    /// The mode in force now.
    pub current: bool,
    /// The mode after the next reset.
    pub pending: bool,
}

/// Calls that read one value of a GPU.
macro_rules! reads {
    ($($(#[$doc:meta])* $name:ident: $value:ty = $call:ident, $what:literal;)*) => { impl Nvml { $(
        $(#[$doc])*
        pub fn $name(&self, gpu: NvmlIndex) -> Result<$value, NvmlError> {
            self.lib.$call(self.device(gpu)?).map_err(at(gpu, $what))
        }
    )* } };
}
reads! {
    /// The GPU's model name.
    name: String = name, "cannot read its name";
    /// The GPU's UUID.
    uuid: String = uuid, "cannot read its UUID";
    /// The power limit that was set, milliwatts.
    power_limit_mw: u32 = power_limit, "cannot read its power limit";
    /// The power limit that the driver starts with, milliwatts.
    power_default_mw: u32 = power_default, "cannot read its default power limit";
    /// Least and greatest power limit, milliwatts.
    power_range_mw: (u32, u32) = power_range, "cannot read its power range";
    /// The energy that the GPU has used since the driver was loaded, millijoules. GPUs before Volta do not count it.
    energy_mj: u64 = energy, "cannot read its energy counter";
}

/// Every call of a loaded library fails as NVML answers.
impl Nvml {
    /// Loads and initialises the library.
    ///
    /// # Errors
    ///
    /// The library is missing, or the driver is not loaded.
    pub fn load(path: &Path) -> Result<Self, NvmlError> {
        // The C library of a static program would load a second one, of any version, into the process.
        if cfg!(target_feature = "crt-static") {
            let why = "a static program loads no library".to_owned();
            return Err(NvmlError::Load { path: path.display().to_string(), why });
        }
        let error = match ffi::Lib::load(path) {
            Ok(lib) => return Ok(Self { lib, known: RefCell::default() }),
            Err(error) => error,
        };
        let path = path.display().to_string();
        // Neither the loader nor NVML says reliably why a file could not be opened.
        let lack = scarce::lack_of_files().map(|lack| lack.to_string());
        Err(match (error, lack) {
            (ffi::LoadError::Open(why), Some(lack)) => NvmlError::Scarce { path, why, lack },
            (ffi::LoadError::Init(code), Some(lack)) => {
                NvmlError::Scarce { path, why: code.to_string(), lack }
            }
            (ffi::LoadError::Open(why), None) => NvmlError::Load { path, why },
            (ffi::LoadError::Init(code), None) => NvmlError::Node { what: "cannot initialise", code },
        })
    }

    /// Number of GPUs that this process can see.
    pub fn count(&self) -> Result<u16, NvmlError> {
        let n =
            self.lib.device_count().map_err(|code| NvmlError::Node { what: "cannot count GPUs", code })?;
        Ok(u16::try_from(n).unwrap_or(u16::MAX))
    }

    /// Identity of one GPU.
    ///
    /// # Errors
    ///
    /// No such GPU, or it is lost.
    pub fn info(&self, gpu: NvmlIndex) -> Result<GpuInfo, NvmlError> {
        let device = self.device(gpu)?;
        let (total, _) = self.lib.memory(device).map_err(at(gpu, "cannot read its memory"))?;
        Ok(GpuInfo {
            index: gpu,
            uuid: self.uuid(gpu)?,
            name: self.lib.name(device).map_err(at(gpu, "cannot read its name"))?,
            minor: self.minor(gpu)?,
            pci_bus_id: self.lib.pci_bus_id(device).map_err(at(gpu, "cannot read its bus id"))?,
            memory_mib: total >> 20,
        })
    }

    /// N of /dev/nvidiaN.
    pub fn minor(&self, gpu: NvmlIndex) -> Result<GpuMinor, NvmlError> {
        self.lib.minor(self.device(gpu)?).map(GpuMinor).map_err(at(gpu, "cannot read its minor number"))
    }

    /// Processes on a device, MPS clients included.
    pub(super) fn shown(&self, device: ffi::Device<'_>) -> Result<Vec<Shown>, Code> {
        let all = self.lib.compute_processes(device)?;
        match self.lib.mps_clients(device) {
            Err(Code::NOT_SUPPORTED | Code::FUNCTION_NOT_FOUND) => Ok(all),
            clients => Ok(merged(all, clients?)),
        }
    }

    /// Processes with a CUDA context on the GPU, MPS clients included: pid, and the GPU instance each is in.
    pub fn processes(&self, gpu: NvmlIndex) -> Result<Vec<(u32, Option<u32>)>, NvmlError> {
        let all = self.shown(self.device(gpu)?).map_err(at(gpu, "cannot list its processes"))?;
        Ok(all.into_iter().map(|p| (p.pid, p.gpu_instance)).collect())
    }

    /// Sets the power limit, milliwatts.
    ///
    /// # Errors
    ///
    /// As NVML answers: out of range, no permission.
    pub fn set_power_limit_mw(&self, gpu: NvmlIndex, limit_mw: u32) -> Result<(), NvmlError> {
        let device = self.device(gpu)?;
        self.lib.set_power_limit(device, limit_mw).map_err(|code| NvmlError::Gpu {
            gpu,
            what: format!("cannot limit power to {limit_mw} mW"),
            code,
        })
    }

    /// The GPU's MIG mode; off where it has none.
    pub fn mig_mode(&self, gpu: NvmlIndex) -> Result<MigMode, NvmlError> {
        match self.lib.mig_mode(self.device(gpu)?) {
            Ok((current, pending)) => Ok(MigMode { current: current == 1, pending: pending == 1 }),
            Err(Code::NOT_SUPPORTED | Code::FUNCTION_NOT_FOUND) => {
                Ok(MigMode { current: false, pending: false })
            }
            Err(code) => Err(at(gpu, "cannot read its MIG mode")(code)),
        }
    }

    /// Asks for a MIG mode. The inner result is the activation status: an error there means that the mode is pending
    /// (`RESET_REQUIRED`) or that something holds the GPU (`IN_USE`).
    pub fn set_mig_mode(&self, gpu: NvmlIndex, on: bool) -> Result<Result<(), Code>, NvmlError> {
        let what = if on { "cannot switch MIG mode on" } else { "cannot switch MIG mode off" };
        // What a GPU offers may depend on its mode.
        self.known.take();
        self.lib.set_mig_mode(self.device(gpu)?, u32::from(on)).map_err(at(gpu, what))
    }

    /// Calls a function of the library, for crates with questions of their own. `call` returns the function's code, or `None` if the
    /// library lacks it.
    ///
    /// # Errors
    ///
    /// The function's code if it is not success; [`Code::FUNCTION_NOT_FOUND`] if there is none.
    pub fn ask(&self, call: impl FnOnce(&sys::NvmlLib) -> Option<u32>) -> Result<(), Code> {
        self.lib.ask(call)
    }

    /// A GPU's handle for [`ask`](Self::ask). It is valid while this library is loaded.
    pub fn raw_device(&self, gpu: NvmlIndex) -> Result<sys::nvmlDevice_t, NvmlError> {
        Ok(self.device(gpu)?.raw)
    }

    pub(super) fn device(&self, gpu: NvmlIndex) -> Result<ffi::Device<'_>, NvmlError> {
        self.lib.device(u32::from(gpu.0)).map_err(at(gpu, "cannot open it"))
    }
}
