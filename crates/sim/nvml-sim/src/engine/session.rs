//! What a process holds between `nvmlInit` and `nvmlShutdown`, and what it may see.
//!
//! Visibility follows the device nodes, as the driver's does: a process other than root's sees a GPU if it can open its node for reading
//! and writing, and a MIG device if it can also open the capability nodes of its GPU instance and its compute instance. The list
//! of GPUs is taken at `nvmlInit`; MIG devices are asked each time.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::code::{Answer, Code};
use super::fault::{self, Kind};
use super::handle::{CiRef, GiRef, Handle};
use super::state::{Ci, Gi, State};
use super::store::Store;
use super::{ids, tree};

/// Names the state file.
pub const STATE_VARIABLE: &str = "NVML_SIM_STATE";

/// An initialised library.
#[derive(Debug)]
pub struct Session {
    pub(crate) store: Store,
    visible: Vec<u32>,
    is_root: bool,
    /// Device nodes that this process has open for its handles.
    opened: Mutex<BTreeMap<u32, File>>,
}

/// True if this process could open the node: "no driver behind it" counts as could, permission denied or no such file does not.
fn can_open(path: &Path, write: bool) -> bool {
    let opened =
        OpenOptions::new().read(true).write(write).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
    match opened {
        Ok(_) => true,
        Err(e) if matches!(e.kind(), ErrorKind::PermissionDenied | ErrorKind::NotFound) => false,
        Err(e) => e.raw_os_error() != Some(libc::EPERM),
    }
}

impl Session {
    /// Opens the node that `NVML_SIM_STATE` names.
    ///
    /// # Errors
    ///
    /// [`Code::DriverNotLoaded`] without the variable or a readable state.
    pub fn open() -> Answer<Session> {
        let path = std::env::var_os(STATE_VARIABLE).ok_or(Code::DriverNotLoaded)?;
        Session::at(&PathBuf::from(path))
    }

    /// Opens the node of a state file.
    ///
    /// # Errors
    ///
    /// The same as of [`Session::open`].
    pub fn at(path: &Path) -> Answer<Session> {
        let store = Store::new(path);
        let mut state = store.read()?;
        let is_root = rustix::process::geteuid().is_root();
        if is_root && state.tree_dirty {
            store.update(|_| Ok(()))?;
            state = store.read()?;
        }
        let n_gpus = u32::try_from(state.gpus.len()).unwrap_or(0);
        let now = fault::now_ms();
        let is_hidden = |gpu: u32| {
            let faults = state.gpus.get(gpu as usize).map_or(&[][..], |gpu| &gpu.faults);
            fault::find(faults, now, |kind| *kind == Kind::Hidden).is_some()
        };
        let visible = (0..n_gpus)
            .filter(|&gpu| is_root || can_open(&tree::gpu_node(&state.root, gpu), true))
            .filter(|&gpu| !is_hidden(gpu))
            .collect();
        Ok(Session { store, visible, is_root, opened: Mutex::default() })
    }

    /// The state now.
    ///
    /// # Errors
    ///
    /// [`Code::DriverNotLoaded`] if the state file is gone.
    pub fn state(&self) -> Answer<Arc<State>> {
        self.store.read()
    }

    /// The state file.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The visible GPUs, as indexes among all.
    #[must_use]
    pub fn visible(&self) -> &[u32] {
        &self.visible
    }

    /// Refuses callers who may not change or list instances.
    ///
    /// # Errors
    ///
    /// [`Code::NoPermission`] unless root.
    pub fn privileged(&self) -> Answer<()> {
        if self.is_root { Ok(()) } else { Err(Code::NoPermission) }
    }

    /// The visible GPU at NVML index `index`.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidArgument`] beyond the last; [`Code::GpuIsLost`] if it is lost.
    pub fn by_index(&self, index: u32) -> Answer<u32> {
        let gpu = *self.visible.get(index as usize).ok_or(Code::InvalidArgument)?;
        self.alive(&*self.state()?, gpu)?;
        Ok(gpu)
    }

    /// The NVML index of a GPU in this process.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidArgument`] if it is not visible.
    pub fn index_of(&self, gpu: u32) -> Answer<u32> {
        let index = self.visible.iter().position(|g| *g == gpu).ok_or(Code::InvalidArgument)?;
        u32::try_from(index).map_err(|_| Code::Unknown)
    }

    fn alive(&self, state: &State, gpu: u32) -> Answer<()> {
        let faults = &state.gpu(gpu)?.faults;
        match fault::find(faults, fault::now_ms(), |k| *k == Kind::GpuLost) {
            Some(_) => Err(Code::GpuIsLost),
            None => Ok(()),
        }
    }

    /// The physical GPU behind a handle of a GPU, after checking that this process may use it.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidArgument`] for another kind of handle or a hidden GPU; [`Code::GpuIsLost`].
    pub fn gpu(&self, state: &State, handle: Handle) -> Answer<u32> {
        let Handle::Gpu(gpu) = handle else { return Err(Code::InvalidArgument) };
        self.index_of(gpu)?;
        self.alive(state, gpu)?;
        Ok(gpu)
    }

    /// The physical GPU behind a handle of a GPU or of a MIG device.
    ///
    /// # Errors
    ///
    /// As [`Session::gpu`]; also [`Code::InvalidArgument`] for a MIG device that is gone or hidden.
    pub fn any_gpu(&self, state: &State, handle: Handle) -> Answer<(u32, Option<CiRef>)> {
        match handle {
            Handle::Mig(r) => {
                self.gpu(state, Handle::Gpu(r.gpu))?;
                let (gi, ci) = state.ci(r)?;
                if self.sees(state, r.gpu, gi, ci) {
                    Ok((r.gpu, Some(r)))
                } else {
                    Err(Code::InvalidArgument)
                }
            }
            other => Ok((self.gpu(state, other)?, None)),
        }
    }

    /// The GPU instance behind a handle, on a GPU that is there.
    ///
    /// # Errors
    ///
    /// The same as of [`Session::gpu`].
    pub fn gi(&self, state: &State, handle: Handle) -> Answer<GiRef> {
        let Handle::Gi(r) = handle else { return Err(Code::InvalidArgument) };
        self.gpu(state, Handle::Gpu(r.gpu))?;
        state.gi(r)?;
        Ok(r)
    }

    /// The compute instance behind a handle, on a GPU that is there.
    ///
    /// # Errors
    ///
    /// The same as of [`Session::gpu`].
    pub fn ci(&self, state: &State, handle: Handle) -> Answer<CiRef> {
        let Handle::Ci(r) = handle else { return Err(Code::InvalidArgument) };
        self.gpu(state, Handle::Gpu(r.gpu))?;
        state.ci(r)?;
        Ok(r)
    }

    /// True if this process may use the MIG device.
    #[must_use]
    pub fn sees(&self, state: &State, gpu: u32, gi: &Gi, ci: &Ci) -> bool {
        let cap = |minor| can_open(&tree::cap_node(&state.root, minor), false);
        self.is_root || cap(ids::gi_cap_minor(gpu, gi.id)) && cap(ids::ci_cap_minor(gpu, gi.id, ci.id))
    }

    /// The MIG devices of a GPU that this process sees, in the order of their ids.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidArgument`] if there is no such GPU.
    pub fn mig_devices(&self, state: &State, gpu: u32) -> Answer<Vec<CiRef>> {
        let all = state.gpu(gpu)?.instances.iter().flat_map(|gi| gi.cis.iter().map(move |ci| (gi, ci)));
        Ok(all.filter(|(gi, ci)| self.sees(state, gpu, gi, ci)).map(|(gi, ci)| gi.ci_ref(gpu, ci)).collect())
    }

    /// The device with a UUID: `GPU-…`, `MIG-…` or the older `MIG-GPU-…/GI/CI`.
    ///
    /// # Errors
    ///
    /// [`Code::NotFound`] if none that this process sees has it; [`Code::GpuIsLost`].
    pub fn by_uuid(&self, uuid: &str) -> Answer<Handle> {
        let state = self.state()?;
        for &gpu in &self.visible {
            if let Some(handle) = self.on_gpu(&state, gpu, uuid)? {
                self.alive(&state, gpu)?;
                return Ok(handle);
            }
        }
        Err(Code::NotFound)
    }

    /// As [`Session::by_uuid`], as NVML searches: it opens each GPU on its way.
    ///
    /// # Errors
    ///
    /// As there; [`Code::GpuIsLost`] also if a GPU on the way is lost (`nvmlDeviceGetHandleByUUID` in nvml.h).
    pub fn search_uuid(&self, uuid: &str) -> Answer<Handle> {
        let state = self.state()?;
        for &gpu in &self.visible {
            self.alive(&state, gpu)?;
            self.open_node(&state, gpu);
            if let Some(handle) = self.on_gpu(&state, gpu, uuid)? {
                return Ok(handle);
            }
        }
        Err(Code::NotFound)
    }

    fn on_gpu(&self, state: &State, gpu: u32, uuid: &str) -> Answer<Option<Handle>> {
        let spec = state.node.gpus.get(gpu as usize).ok_or(Code::Unknown)?;
        if spec.uuid == uuid {
            return Ok(Some(Handle::Gpu(gpu)));
        }
        for r in self.mig_devices(state, gpu)? {
            let older = format!("MIG-{}/{}/{}", spec.uuid, r.gi, r.ci);
            if state.ci(r)?.1.uuid == uuid || older == uuid {
                return Ok(Some(Handle::Mig(r)));
            }
        }
        Ok(None)
    }

    /// Has a GPU's device node open until the session ends, as root's NVML has it from the first handle of the GPU on. No driver is
    /// behind the node here, so it is open as a path alone.
    pub fn open_node(&self, state: &State, gpu: u32) {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_root || opened.contains_key(&gpu) {
            return;
        }
        let path = tree::gpu_node(&state.root, gpu);
        // A test may have taken the node away.
        if let Ok(file) = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path) {
            opened.insert(gpu, file);
        }
    }
}
