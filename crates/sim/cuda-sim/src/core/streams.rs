//! Streams and events. All work is done when its call returns, so that they only keep names and times.

use std::time::Instant;

use super::code::{Answer, Code};
use super::driver::Driver;
use super::stream::{Event, Stream};

impl Driver {
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
