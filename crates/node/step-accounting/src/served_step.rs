//! The step that a process serves.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The step that this process serves, if it serves one.
#[derive(Debug)]
pub struct ServedStep<T>(Mutex<Serves<T>>);

#[derive(Debug)]
enum Serves<T> {
    /// Nobody has asked yet.
    Unknown,
    /// No step, or one of which nothing is accounted.
    Nothing,
    Step(T),
}

impl<T> ServedStep<T> {
    /// A process that has not been asked yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::new(Serves::Unknown))
    }

    /// Begins to serve a step.
    pub fn begin(&self, step: T) {
        *self.state() = Serves::Step(step);
    }

    /// Serves no step from here on.
    pub fn forget(&self) {
        *self.state() = Serves::Nothing;
    }

    /// Runs `work` on the step. `find` is asked once which step that is, if no step has begun.
    pub fn with<R>(&self, find: impl FnOnce() -> Option<T>, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        let mut state = self.state();
        if matches!(*state, Serves::Unknown) {
            *state = find().map_or(Serves::Nothing, Serves::Step);
        }
        if let Serves::Step(step) = &mut *state { Some(work(step)) } else { None }
    }

    fn state(&self) -> MutexGuard<'_, Serves<T>> {
        // A panic while it was held has been logged; what the step has seen until then is still right.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for ServedStep<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_looked_for_once() {
        let served = ServedStep::new();
        assert_eq!(served.with(|| None::<u32>, |step| *step), None);
        assert_eq!(served.with(|| Some(1), |step| *step), None, "there was none");
        served.begin(2);
        assert_eq!(served.with(|| Some(1), |step| *step), Some(2));
        served.forget();
        assert_eq!(served.with(|| Some(1), |step| *step), None);
    }

    #[test]
    fn a_step_that_begins_first_is_not_looked_for() {
        let served = ServedStep::new();
        served.begin(7);
        let counted = |step: &mut u32| {
            *step += 1;
            *step
        };
        assert_eq!(served.with(|| None, counted), Some(8));
        assert_eq!(served.with(|| None, counted), Some(9));
    }
}
