//! A process that asks for nothing itself: what it holds from its first driver call to its end, and what it asks for beyond.
//!
//! The first lease is what the job declared. An allocation that does not fit asks the broker for what is missing and waits for
//! the answer: the broker gives it at once, lets this process wait before all others, or refuses. What was asked for beyond
//! the first lease goes back as soon as it is not used. A thread that waits is called back when another thread's free has
//! made room.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use task_wire::{Begin, Grant, Text};

use crate::ledger::{Charge, Ledger, Name};
use crate::no_device::NoDevice;

/// Calls of an account to the broker. `Client` speaks to the real one.
pub trait Leases {
    /// A name for one more lease.
    fn nonce(&self) -> u64;
    /// Asks, and waits for the answer.
    ///
    /// # Errors
    ///
    /// As [`NoDevice`] says.
    fn begin(&self, begin: &Begin) -> Result<Grant, NoDevice>;
    /// Ends a lease.
    fn free(&self, nonce: u64);
    /// Lets the thread that waits for this lease return with [`NoDevice::Withdrawn`], unless it is granted by then.
    fn withdraw(&self, nonce: u64);
}

#[derive(Debug)]
struct Lease {
    nonce: u64,
    bytes: u64,
}

#[derive(Debug)]
struct Waiter {
    nonce: u64,
    bytes: u64,
}

/// An allocation that the driver has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// The driver's name of it.
    pub name: Name,
    /// The `CUcontext` whose end frees it; 0 for none.
    pub context: u64,
    /// Bytes that it has, where that is more than was asked for.
    pub bytes: u64,
}

#[derive(Debug, Default)]
struct AccountState {
    ledger: Ledger,
    /// GPU tasks that code within the process has begun.
    tasks: u64,
    /// Beyond the first, oldest first.
    beyond: Vec<Lease>,
    waiting: Vec<Waiter>,
    /// Leases of managed memory, by address.
    managed: BTreeMap<u64, u64>,
}

/// The account of a process on its device.
#[derive(Debug)]
pub struct Account {
    state: Mutex<AccountState>,
}

/// A lease of `mem` bytes, or of `managed` ones, for a process that says nothing about its launches.
fn lease(nonce: u64, mem: u64, managed: u64) -> Begin {
    let bound = Text::EMPTY;
    Begin { image: 0, nonce, mem, managed, blocks: 1, threads: 1, whole: false, sticky: false, bound }
}

impl Account {
    /// Nothing allocated, and a first lease of this many bytes.
    #[must_use]
    pub fn new(first: u64) -> Account {
        Account { state: Mutex::new(AccountState { ledger: Ledger::new(first), ..AccountState::default() }) }
    }

    fn lock(&self) -> MutexGuard<'_, AccountState> {
        // No code that holds the lock panics half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that the process may allocate now, and what is left of it, bytes.
    #[must_use]
    pub fn total_and_free(&self) -> (u64, u64) {
        let state = self.lock();
        (state.ledger.limit(), state.ledger.free())
    }

    /// Takes memory for an allocation, from what is left or from the broker.
    ///
    /// # Errors
    ///
    /// The broker's refusal.
    pub fn take(&self, bytes: u64, leases: &impl Leases) -> Result<Charge, NoDevice> {
        let mut state = self.lock();
        loop {
            let missing = match state.ledger.take(bytes) {
                Ok(charge) => return Ok(charge),
                Err(short) => short.0,
            };
            let nonce = leases.nonce();
            state.waiting.push(Waiter { nonce, bytes });
            drop(state);
            let answer = leases.begin(&lease(nonce, missing, 0));
            state = self.lock();
            state.waiting.retain(|waiter| waiter.nonce != nonce);
            match answer {
                Ok(grant) => {
                    state.beyond.push(Lease { nonce, bytes: grant.mem });
                    state.ledger.raise(grant.mem);
                }
                // Another thread freed what this one needs, if nobody was quicker.
                Err(NoDevice::Withdrawn) => {}
                // Memory may have come back while the broker said no.
                Err(why) => return state.ledger.take(bytes).map_err(|_| why),
            }
        }
    }

    /// Counts an allocation of `bytes` that `make` lets the driver make; `make` says what came of it, `None` for nothing.
    ///
    /// # Errors
    ///
    /// The broker's refusal; `make` was not called.
    pub fn allocate(
        &self,
        bytes: u64,
        leases: &impl Leases,
        make: impl FnOnce() -> Option<Made>,
    ) -> Result<(), NoDevice> {
        let charge = self.take(bytes, leases)?;
        let Some(made) = make() else {
            self.give(charge, leases);
            return Ok(());
        };
        let mut state = self.lock();
        let charge = if made.bytes > bytes {
            // The driver has given it already.
            state.ledger.give(charge);
            state.ledger.force(made.bytes)
        } else {
            charge
        };
        state.ledger.place(made.name, made.context, charge);
        Ok(())
    }

    /// Counts back an allocation that `free` lets the driver free; `free` says whether it did. What is not known stays
    /// uncounted.
    pub fn free(&self, name: Name, leases: &impl Leases, free: impl FnOnce() -> bool) {
        let lifted = self.lock().ledger.lift(name);
        let is_freed = free();
        match lifted {
            Some((charge, _)) if is_freed => self.give(charge, leases),
            Some((charge, context)) => self.lock().ledger.place(name, context, charge),
            None => {}
        }
    }

    /// Code within the process begins a GPU task of `mem` bytes: that much can be allocated from now on. What it allocates
    /// is counted like everything else, so the task itself takes nothing.
    ///
    /// # Errors
    ///
    /// The broker's refusal.
    pub fn begin_task(&self, mem: u64, leases: &impl Leases) -> Result<(), NoDevice> {
        self.lock().tasks += 1;
        let room = self.take(mem, leases);
        match room {
            Ok(charge) => {
                self.lock().ledger.give(charge);
                Ok(())
            }
            Err(why) => {
                self.end_task(leases);
                Err(why)
            }
        }
    }

    /// A task of [`Account::begin_task`] ended.
    pub fn end_task(&self, leases: &impl Leases) {
        {
            let mut state = self.lock();
            state.tasks = state.tasks.saturating_sub(1);
        }
        self.change(leases, |_| {});
    }

    /// The driver freed it, or never gave it.
    pub fn give(&self, charge: Charge, leases: &impl Leases) {
        self.change(leases, |ledger| ledger.give(charge));
    }

    /// Changes what is there, and passes on what came free: to threads that wait, else to the broker.
    pub fn change(&self, leases: &impl Leases, change: impl FnOnce(&mut Ledger)) {
        let mut state = self.lock();
        change(&mut state.ledger);
        state.ledger.collect();
        let called = state.fitting();
        let is_kept = state.tasks > 0 || !state.waiting.is_empty();
        let returned = if is_kept { Vec::new() } else { state.unused() };
        drop(state);
        called.into_iter().for_each(|nonce| leases.withdraw(nonce));
        returned.into_iter().for_each(|nonce| leases.free(nonce));
    }

    /// The process allocates managed memory. It is never refused, because the driver moves it to the host where the device
    /// is full; the broker is told, so that it can explain what NVML shows.
    #[must_use]
    pub fn take_managed(&self, bytes: u64, leases: &impl Leases) -> Option<u64> {
        let nonce = leases.nonce();
        leases.begin(&lease(nonce, 0, bytes)).is_ok().then_some(nonce)
    }

    /// The driver gave managed memory.
    pub fn place_managed(&self, address: u64, nonce: u64, leases: &impl Leases) {
        let former = self.lock().managed.insert(address, nonce);
        former.into_iter().for_each(|nonce| leases.free(nonce));
    }

    /// The driver freed what may have been managed memory.
    pub fn give_managed(&self, address: u64, leases: &impl Leases) {
        let nonce = self.lock().managed.remove(&address);
        nonce.into_iter().for_each(|nonce| leases.free(nonce));
    }
}

impl AccountState {
    /// Threads whose allocations fit now, oldest first, all together.
    fn fitting(&self) -> Vec<u64> {
        let mut room = self.ledger.free();
        let fits = self.waiting.iter().filter(|waiter| {
            let need = self.ledger.needs(waiter.bytes);
            let fits = need <= room;
            room -= if fits { need } else { 0 };
            fits
        });
        fits.map(|waiter| waiter.nonce).collect()
    }

    /// Takes out leases beyond the first that are not needed any more, the last first.
    fn unused(&mut self) -> Vec<u64> {
        let mut returned = Vec::new();
        while let Some(lease) = self.beyond.pop_if(|lease| lease.bytes <= self.ledger.free()) {
            self.ledger.lower(lease.bytes);
            returned.push(lease.nonce);
        }
        returned
    }
}

#[cfg(test)]
mod tests;
