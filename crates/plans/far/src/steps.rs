//! The budget of the default policy, in steps.

/// Work left to do, in steps. One step is about what judging one move costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Steps(pub(super) u64);

impl Steps {
    /// Takes so many steps, or all that are left; false if there were fewer.
    pub(super) fn take(&mut self, steps: u64) -> bool {
        let enough = self.0 >= steps;
        self.0 = self.0.saturating_sub(steps);
        enough
    }
}
