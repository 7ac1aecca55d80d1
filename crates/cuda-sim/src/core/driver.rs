//! The driver in one process: its devices, contexts, streams and events.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use nvidia_ml::engine::session::Session;
use nvidia_ml::engine::usage::boot_ms;

use super::account::{Accounts, Memory};
use super::code::{Answer, Code};
use super::device::{self, Device, Settings};
use super::heap;
use super::log::{Log, Op};
use super::memory::Ranges;
use super::vmm::Vmm;
use crate::ffi::host::Region;

/// Handles are numbers from here on, in steps of 16: they look like addresses, and none is an address.
const FIRST_HANDLE: u64 = 0x10_0000;
/// `CUlimit`: stack size, printf buffer, malloc heap, and the rest that this driver keeps.
const LIMITS: [u64; 7] = [1024, 1 << 20, 8 << 20, 2, 2048, 128, 0];

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
    on: Vec<OnDevice>,
    pub(super) ranges: Ranges,
    pub(super) regions: BTreeMap<u64, Region>,
    streams: BTreeMap<u64, Stream>,
    events: BTreeMap<u64, Event>,
    pub(super) vmm: Vmm,
    ended: bool,
}

/// What the process has on one device.
#[derive(Clone, Copy, Debug, Default)]
struct OnDevice {
    slot: Option<usize>,
    users: u32,
    primary: Option<u64>,
    retained: u32,
    flags: u32,
}

/// A context.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) device: usize,
    flags: u32,
    limits: [u64; 7],
    pub(super) shared: heap::Shared,
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    context: u64,
    flags: u32,
    priority: i32,
}

#[derive(Clone, Copy, Debug)]
struct Event {
    context: u64,
    recorded: Option<Instant>,
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

    fn on(&mut self, device: usize) -> Answer<&mut OnDevice> {
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

    fn new_context(&self, inner: &mut Inner, ordinal: usize, flags: u32) -> Answer<u64> {
        self.join(inner, ordinal)?;
        let id = inner.handle();
        let context = Context { device: ordinal, flags, limits: LIMITS, shared: heap::Shared::default() };
        inner.contexts.insert(id, context);
        Ok(id)
    }

    /// Makes a context.
    ///
    /// # Errors
    ///
    /// Those of [`Accounts::open`]; [`Code::InvalidDevice`].
    pub fn create_context(&self, ordinal: usize, flags: u32) -> Answer<u64> {
        self.new_context(&mut *self.lock()?, ordinal, flags)
    }

    /// Destroys a context and frees what was allocated in it.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidContext`] if it is gone or a primary one.
    pub fn destroy_context(&self, id: u64) -> Answer<()> {
        let mut inner = self.lock()?;
        if inner.on.iter().any(|on| on.primary == Some(id)) {
            return Err(Code::InvalidContext);
        }
        self.remove_context(&mut inner, id)
    }

    fn remove_context(&self, inner: &mut Inner, id: u64) -> Answer<()> {
        let device = inner.context(id)?.device;
        for range in inner.ranges.of_context(id) {
            self.free_range(inner, range)?;
        }
        inner.contexts.remove(&id);
        inner.streams.retain(|_, s| s.context != id);
        inner.events.retain(|_, e| e.context != id);
        self.leave(inner, device)
    }

    /// The device's primary context, made if it is not there; counts one more user of it.
    ///
    /// # Errors
    ///
    /// Those of [`Driver::create_context`].
    pub fn retain_primary(&self, ordinal: usize) -> Answer<u64> {
        let mut inner = self.lock()?;
        let on = *inner.on(ordinal)?;
        let id = match on.primary {
            Some(id) => id,
            None => self.new_context(&mut inner, ordinal, on.flags)?,
        };
        let on = inner.on(ordinal)?;
        on.primary = Some(id);
        on.retained += 1;
        Ok(id)
    }

    /// One user of the primary context less; the last one, or `all`, destroys it.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidContext`] if nobody retains it, unless `all`.
    pub fn release_primary(&self, ordinal: usize, all: bool) -> Answer<()> {
        let mut inner = self.lock()?;
        let on = inner.on(ordinal)?;
        let Some(id) = on.primary else { return if all { Ok(()) } else { Err(Code::InvalidContext) } };
        on.retained = if all { 0 } else { on.retained.saturating_sub(1) };
        if on.retained > 0 {
            return Ok(());
        }
        on.primary = None;
        self.remove_context(&mut inner, id)
    }

    /// Flags of the primary context, and whether it is there.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidDevice`] beyond the last device.
    pub fn primary_state(&self, ordinal: usize) -> Answer<(u32, bool)> {
        let mut inner = self.lock()?;
        let on = inner.on(ordinal)?;
        Ok((on.flags, on.primary.is_some()))
    }

    /// Sets the flags of the primary context.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidDevice`] beyond the last device.
    pub fn set_primary_flags(&self, ordinal: usize, flags: u32) -> Answer<()> {
        self.lock()?.on(ordinal)?.flags = flags;
        Ok(())
    }

    /// Ordinal and flags of a context.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidContext`] if it is gone.
    pub fn context(&self, id: u64) -> Answer<(usize, u32)> {
        let inner = self.lock()?;
        let context = inner.context(id)?;
        Ok((context.device, context.flags))
    }

    /// A `CUlimit` of a context.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidContext`]; [`Code::InvalidValue`] for an unknown limit.
    pub fn limit(&self, id: u64, limit: u32) -> Answer<u64> {
        self.lock()?.context(id)?.limits.get(limit as usize).copied().ok_or(Code::InvalidValue)
    }

    /// Sets a `CUlimit` of a context. The heap of kernels' `malloc` is host memory here and not counted.
    ///
    /// # Errors
    ///
    /// As [`Driver::limit`].
    pub fn set_limit(&self, id: u64, limit: u32, value: u64) -> Answer<()> {
        let mut inner = self.lock()?;
        let context = inner.contexts.get_mut(&id).ok_or(Code::InvalidContext)?;
        *context.limits.get_mut(limit as usize).ok_or(Code::InvalidValue)? = value;
        Ok(())
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

    /// Makes a stream.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidContext`] if the context is gone.
    pub fn create_stream(&self, context: u64, flags: u32, priority: i32) -> Answer<u64> {
        let mut inner = self.lock()?;
        inner.context(context)?;
        let id = inner.handle();
        inner.streams.insert(id, Stream { context, flags, priority });
        Ok(id)
    }

    /// Context, flags and priority of a stream; the three default streams are those of `current`.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidHandle`] for a stream that is gone; [`Code::InvalidContext`] for a default stream without a context.
    pub fn stream(&self, id: u64, current: Option<u64>) -> Answer<(u64, u32, i32)> {
        if id <= 2 {
            return Ok((current.ok_or(Code::InvalidContext)?, 0, 0));
        }
        let inner = self.lock()?;
        inner.streams.get(&id).map(|s| (s.context, s.flags, s.priority)).ok_or(Code::InvalidHandle)
    }

    /// Destroys a stream.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidHandle`] if it is gone.
    pub fn destroy_stream(&self, id: u64) -> Answer<()> {
        self.lock()?.streams.remove(&id).map(drop).ok_or(Code::InvalidHandle)
    }

    /// Makes an event.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidContext`] if the context is gone.
    pub fn create_event(&self, context: u64) -> Answer<u64> {
        let mut inner = self.lock()?;
        inner.context(context)?;
        let id = inner.handle();
        inner.events.insert(id, Event { context, recorded: None });
        Ok(id)
    }

    /// Records an event now: all work before it is done.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidHandle`] if it is gone.
    pub fn record_event(&self, id: u64) -> Answer<()> {
        let mut inner = self.lock()?;
        inner.events.get_mut(&id).ok_or(Code::InvalidHandle)?.recorded = Some(Instant::now());
        Ok(())
    }

    /// Makes sure that an event is there.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidHandle`] if it is not.
    pub fn check_event(&self, id: u64) -> Answer<()> {
        self.lock()?.events.get(&id).map(drop).ok_or(Code::InvalidHandle)
    }

    /// Milliseconds between two events.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidHandle`] for one that is gone or was not recorded.
    pub fn elapsed_ms(&self, start: u64, end: u64) -> Answer<f32> {
        let inner = self.lock()?;
        let at = |id| inner.events.get(&id).and_then(|e| e.recorded).ok_or(Code::InvalidHandle);
        let (start, end) = (at(start)?, at(end)?);
        let forward = end.saturating_duration_since(start).as_secs_f32();
        Ok((forward - start.saturating_duration_since(end).as_secs_f32()) * 1000.0)
    }

    /// Destroys an event.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidHandle`] if it is gone.
    pub fn destroy_event(&self, id: u64) -> Answer<()> {
        self.lock()?.events.remove(&id).map(drop).ok_or(Code::InvalidHandle)
    }
}
