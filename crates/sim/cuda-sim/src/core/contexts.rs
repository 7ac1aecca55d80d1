//! Contexts, primary and other, and their limits.

use super::code::{Answer, Code};
use super::driver::{Context, Driver, Inner};
use super::heap;

/// `CUlimit`: stack size, printf buffer, malloc heap, and the rest that this driver keeps.
const LIMITS: [u64; 7] = [1024, 1 << 20, 8 << 20, 2, 2048, 128, 0];

impl Driver {
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
    /// Those of opening an account for the process; [`Code::InvalidDevice`].
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
}
