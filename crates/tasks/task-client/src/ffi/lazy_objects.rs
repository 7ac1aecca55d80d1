//! Objects of a process whose tasks are not known.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::lazy::{DEFAULT_HEAP, Place, Table};

/// Objects of a process whose tasks are not known.
#[derive(Default)]
pub(super) struct Lazy {
    pub(super) table: Mutex<Table>,
    /// Objects that were being bound are.
    pub(super) bound: Condvar,
    /// The heap limit that the program has set, and 1; 0 where it has set none.
    pub(super) heap: AtomicU64,
    /// Devices whose limit is that one.
    pub(super) limited: Mutex<Vec<String>>,
    /// The most that a task could ever get, and 1; 0 where nobody has asked.
    pub(super) most: AtomicU64,
}

impl Lazy {
    pub(super) fn lock(&self) -> MutexGuard<'_, Table> {
        // No code that holds the lock panics half-way.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The table, with nothing half bound.
    pub(super) fn settled(&self) -> MutexGuard<'_, Table> {
        let mut table = self.lock();
        while table.is_binding() {
            table = self.bound.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
        table
    }

    /// The table, with none of these addresses in an object that is half bound.
    pub(super) fn at_rest(&self, addresses: &[u64]) -> MutexGuard<'_, Table> {
        let mut table = self.lock();
        while addresses.iter().any(|address| table.place(*address) == Place::Binding) {
            table = self.bound.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
        table
    }

    pub(super) fn heap(&self) -> u64 {
        self.heap.load(Ordering::Relaxed).checked_sub(1).unwrap_or(DEFAULT_HEAP)
    }
}
