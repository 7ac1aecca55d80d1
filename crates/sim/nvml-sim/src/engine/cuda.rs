//! The devices that a CUDA program would see.

use super::code::{Answer, Code};
use super::handle::{CiRef, Handle};
use super::session::Session;
use super::state::State;

/// The variable that names a program's devices.
pub const VISIBLE_DEVICES: &str = "CUDA_VISIBLE_DEVICES";

/// A device as CUDA counts them: a GPU without MIG, or a compute instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// The GPU, by index among all.
    pub gpu: u32,
    /// The GPU instance.
    pub gi: Option<u32>,
    /// The compute instance.
    pub ci: Option<u32>,
    handle: Handle,
}

impl Device {
    fn whole(gpu: u32) -> Self {
        Self { gpu, gi: None, ci: None, handle: Handle::Gpu(gpu) }
    }

    fn mig(r: CiRef) -> Self {
        Self { gpu: r.gpu, gi: Some(r.gi), ci: Some(r.ci), handle: Handle::Mig(r) }
    }

    /// Fails once the device is gone.
    ///
    /// # Errors
    ///
    /// [`Code::GpuIsLost`]; [`Code::InvalidArgument`] if the instance does not exist any more.
    pub fn alive(&self, session: &Session, state: &State) -> Answer<()> {
        session.any_gpu(state, self.handle).map(drop)
    }
}

/// Why a program has no devices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CudaError {
    /// The variable is empty, or the node has no GPU that this user may open.
    #[error("no CUDA-capable device is detected")]
    None,
    /// An entry is no device that this user may open.
    #[error("{0:?} is no device that this user may open")]
    Unknown(String),
    /// A GPU in MIG mode without an instance that this user may open.
    #[error("GPU {0} is in MIG mode and has no instance that this user may open")]
    NoInstance(u32),
    /// The driver does not answer.
    #[error("the driver says {0}")]
    Driver(#[from] Code),
}

/// The devices that `variable`, a list of indexes or UUIDs, leaves a program; all without it.
///
/// CUDA enumerates one MIG device at most, and then nothing else.
///
/// # Errors
///
/// [`CudaError`].
pub fn devices(session: &Session, variable: Option<&str>) -> Result<Vec<Device>, CudaError> {
    let state = session.state()?;
    let entries: Vec<String> = match variable {
        Some(list) => list.split(',').map(|entry| entry.trim().to_owned()).collect(),
        None => (0..session.visible().len()).map(|index| index.to_string()).collect(),
    };
    let mut devices = Vec::new();
    for entry in entries.iter().filter(|entry| !entry.is_empty()) {
        let device = device(session, &state, entry)?;
        if device.gi.is_none() {
            devices.push(device);
        } else if devices.is_empty() {
            return Ok(vec![device]);
        }
    }
    if devices.is_empty() { Err(CudaError::None) } else { Ok(devices) }
}

fn device(session: &Session, state: &State, entry: &str) -> Result<Device, CudaError> {
    let unknown = || CudaError::Unknown(entry.to_owned());
    let handle = match entry.parse() {
        Ok(index) => Handle::Gpu(session.by_index(index).map_err(|_| unknown())?),
        Err(_) => session.by_uuid(entry).map_err(|_| unknown())?,
    };
    match handle {
        Handle::Mig(r) => Ok(Device::mig(r)),
        Handle::Gpu(gpu) if state.gpu(gpu)?.mig => {
            let first = session.mig_devices(state, gpu)?.into_iter().next();
            first.map(Device::mig).ok_or(CudaError::NoInstance(gpu))
        }
        Handle::Gpu(gpu) => Ok(Device::whole(gpu)),
        Handle::Gi(_) | Handle::Ci(_) => Err(unknown()),
    }
}
