//! The due times of tables.

/// Requests before the first tables.
const FIRST: u64 = 16;
/// Most requests between tables.
const MOST: u64 = 1000;

/// Says when tables are to be built again: as requests double from 16 on, and at the latest after every 1,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    arrived: u64,
    next: u64,
}

impl Default for Schedule {
    fn default() -> Self {
        Self { arrived: 0, next: FIRST }
    }
}

impl Schedule {
    /// Counts a request and says whether tables are due.
    pub fn arrived(&mut self) -> bool {
        self.arrived = self.arrived.saturating_add(1);
        let due = self.arrived >= self.next;
        if due {
            self.next = self.arrived.saturating_add(self.arrived.min(MOST));
        }
        due
    }
}
