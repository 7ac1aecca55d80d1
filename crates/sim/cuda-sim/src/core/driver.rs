//! The driver in one process: its devices, and who uses them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nvidia_ml::engine::process::boot_ms;
use nvidia_ml::engine::session::Session;

use super::account::{Accounts, Memory};
use super::code::{Answer, Code};
use super::device::{self, Device, Settings};
use super::heap;
use super::log::{Log, Op};
use super::mappings::Mappings;
use super::memory::Ranges;
use super::stream::{Event, Stream};
use crate::host::Region;

/// Handles are numbers from here on, in steps of 16: they look like addresses, and none is an address.
const FIRST_HANDLE: u64 = 0x10_0000;
/// An initialised driver.
#[derive(Debug)]
pub struct Driver {
    session: Session,
    settings: Settings,
    log: Log,
    pid: u32,
    devices: Vec<Device>,
    cuda_version: i32,
    inner: Mutex<Inner>,
}

/// What changes.
#[derive(Debug, Default)]
pub(super) struct Inner {
    last_handle: u64,
    pub(super) contexts: BTreeMap<u64, Context>,
    pub(super) on: Vec<OnDevice>,
    pub(super) ranges: Ranges,
    pub(super) regions: BTreeMap<u64, Region>,
    pub(super) streams: BTreeMap<u64, Stream>,
    pub(super) events: BTreeMap<u64, Event>,
    pub(super) vmm: Mappings,
    ended: bool,
}

/// What the process has on one device.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OnDevice {
    pub(super) slot: Option<usize>,
    pub(super) users: u32,
    pub(super) primary: Option<u64>,
    pub(super) retained: u32,
    pub(super) flags: u32,
}

/// A context.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) device: usize,
    pub(super) flags: u32,
    pub(super) limits: [u64; 7],
    pub(super) shared: heap::Shared,
}

impl Inner {
    pub(super) fn handle(&mut self) -> u64 {
        self.last_handle = self.last_handle.max(FIRST_HANDLE) + 16;
        self.last_handle
    }

    pub(super) fn context(&self, id: u64) -> Answer<&Context> {
        self.contexts.get(&id).ok_or(Code::InvalidContext)
    }

    pub(super) fn slot(&self, device: usize) -> Answer<usize> {
        self.on.get(device).and_then(|on| on.slot).ok_or(Code::InvalidContext)
    }

    pub(super) fn on(&mut self, device: usize) -> Answer<&mut OnDevice> {
        self.on.get_mut(device).ok_or(Code::InvalidDevice)
    }
}

impl Driver {
    /// Opens the node that `NVML_SIM_STATE` names, as the environment lets this process see it.
    ///
    /// # Errors
    ///
    /// [`Code::NoDevice`] without a node or a device on it.
    pub fn open() -> Answer<Driver> {
        let session = Session::open().map_err(|_| Code::NoDevice)?;
        let settings = Settings::from_env();
        let devices = device::devices(&session, &settings)?;
        let cuda_version = session.state().map_err(|_| Code::NoDevice)?.node.cuda_version;
        let inner = Inner { on: vec![OnDevice::default(); devices.len()], ..Inner::default() };
        let driver = Driver {
            session,
            settings,
            log: Log::from_env(),
            pid: std::process::id(),
            devices,
            cuda_version,
            inner: Mutex::new(inner),
        };
        driver.accounts().forget_former_program()?;
        Ok(driver)
    }

    /// The process that opened it: a child that was forked since may not use it.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether it can map memory at chosen addresses.
    #[must_use]
    pub fn has_vmm(&self) -> bool {
        !self.settings.has_no_vmm
    }

    /// The CUDA version, times 1000.
    #[must_use]
    pub fn cuda_version(&self) -> i32 {
        self.cuda_version
    }

    /// The devices, by ordinal.
    #[must_use]
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// One device.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidDevice`] beyond the last.
    pub fn device(&self, ordinal: usize) -> Answer<&Device> {
        self.devices.get(ordinal).ok_or(Code::InvalidDevice)
    }

    pub(super) fn accounts(&self) -> Accounts<'_> {
        let mps_daemon = self.settings.mps_daemon;
        Accounts { store: self.session.store(), log: &self.log, pid: self.pid, mps_daemon }
    }

    pub(super) fn lock(&self) -> Answer<MutexGuard<'_, Inner>> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.ended { Err(Code::Deinitialized) } else { Ok(inner) }
    }

    /// Renews the process's records: it lives.
    pub fn beat(&self) {
        let slots: Vec<usize> =
            self.lock().map(|inner| inner.on.iter().filter_map(|on| on.slot).collect()).unwrap_or_default();
        if !slots.is_empty() {
            let _ = self.session.store().table().beat(&slots, boot_ms());
        }
    }

    /// The process ends: everything that it holds goes.
    pub fn end(&self) {
        let Ok(mut inner) = self.lock() else { return };
        inner.ended = true;
        for slot in inner.on.iter_mut().filter_map(|on| on.slot.take()) {
            let _ = self.accounts().close(slot);
        }
    }

    /// Registers one more user of the device's memory: a context, or a handle of virtual memory management.
    pub(super) fn join(&self, inner: &mut Inner, ordinal: usize) -> Answer<usize> {
        let device = self.device(ordinal)?;
        let on = inner.on(ordinal)?;
        let slot = match on.slot {
            Some(slot) => slot,
            None => self.accounts().open(device)?,
        };
        on.slot = Some(slot);
        on.users += 1;
        Ok(slot)
    }

    /// One user less; after the last the process is off the device.
    pub(super) fn leave(&self, inner: &mut Inner, ordinal: usize) -> Answer<()> {
        let on = inner.on(ordinal)?;
        on.users = on.users.saturating_sub(1);
        match on.slot {
            Some(slot) if on.users == 0 => {
                on.slot = None;
                self.accounts().close(slot)
            }
            _ => Ok(()),
        }
    }

    /// The memory of a context's device.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidContext`]; those of [`Accounts::memory`].
    pub fn memory(&self, context: u64) -> Answer<Memory> {
        let inner = self.lock()?;
        let device = inner.context(context)?.device;
        self.accounts().memory(self.device(device)?, inner.slot(device)?)
    }

    /// Writes down that a kernel was launched.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidContext`] if the context is gone.
    pub fn note_launch(&self, context: u64, result: u32) -> Answer<()> {
        let device = self.context(context)?.0;
        self.accounts().note(self.device(device)?, Op::Launch, 0, result);
        Ok(())
    }
}
