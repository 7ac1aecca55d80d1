use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use proptest::prelude::*;
use task_wire::{Code, Refused};

use super::*;
use crate::ledger::GRANULE;

const MIB: u64 = 1 << 20;

/// A broker with so much left, which answers at once.
#[derive(Default)]
struct Pool {
    left: Cell<u64>,
    next: Cell<u64>,
    leases: RefCell<BTreeMap<u64, u64>>,
    managed: Cell<u64>,
}

impl Pool {
    fn new(left: u64) -> Pool {
        Pool { left: Cell::new(left), ..Pool::default() }
    }

    fn leased(&self) -> u64 {
        self.leases.borrow().values().sum()
    }
}

impl Leases for Pool {
    fn nonce(&self) -> u64 {
        self.next.set(self.next.get() + 1);
        self.next.get()
    }

    fn begin(&self, begin: &Begin) -> Result<Grant, NoDevice> {
        let need = begin.mem.next_multiple_of(GRANULE);
        if need > self.left.get() {
            let why = Text::cut("no");
            let refused =
                Refused { nonce: begin.nonce, code: Code::Growth, need, most: self.left.get(), why };
            return Err(NoDevice::Refused(Box::new(refused)));
        }
        self.left.set(self.left.get() - need);
        self.managed.set(self.managed.get() + begin.managed);
        self.leases.borrow_mut().insert(begin.nonce, need);
        let [uuid, ..] = [Text::EMPTY; 1];
        Ok(Grant {
            nonce: begin.nonce,
            task: 1,
            mem: need,
            ordinal: 0,
            uuid,
            mps_pipe: Text::EMPTY,
            visible: Text::EMPTY,
        })
    }

    fn free(&self, nonce: u64) {
        let bytes = self.leases.borrow_mut().remove(&nonce).expect("a lease that is there");
        self.left.set(self.left.get() + bytes);
    }

    fn withdraw(&self, _: u64) {}
}

#[test]
fn what_is_asked_for_beyond_the_first_lease_is_what_is_missing_and_goes_back() {
    let pool = Pool::new(10 * MIB);
    let account = Account::new(8 * MIB);
    let first = account.take(6 * MIB, &pool).unwrap();
    let second = account.take(6 * MIB, &pool).unwrap();
    assert_eq!((pool.leased(), account.total_and_free()), (4 * MIB, (12 * MIB, 0)));
    let refused = account.take(8 * MIB, &pool);
    assert!(matches!(refused, Err(NoDevice::Refused(r)) if r.need == 8 * MIB && r.most == 6 * MIB));
    account.give(first, &pool);
    assert_eq!((pool.leased(), account.total_and_free()), (0, (8 * MIB, 2 * MIB)));
    account.give(second, &pool);
    assert_eq!((pool.leased(), account.total_and_free()), (0, (8 * MIB, 8 * MIB)));
}

#[test]
fn managed_memory_is_told_and_never_refused() {
    let pool = Pool::new(0);
    let account = Account::new(2 * MIB);
    let nonce = account.take_managed(100 * MIB, &pool).unwrap();
    account.place_managed(7, nonce, &pool);
    assert_eq!((pool.managed.get(), account.total_and_free()), (100 * MIB, (2 * MIB, 2 * MIB)));
    account.give_managed(8, &pool);
    assert_eq!(pool.leases.borrow().len(), 1);
    account.give_managed(7, &pool);
    assert_eq!(pool.leases.borrow().len(), 0);
}

proptest! {
    /// Whatever a program does: what is allocated is always covered by leases, and none is kept that is not needed.
    #[test]
    fn allocations_are_covered_and_leases_are_needed(
        steps in prop::collection::vec((any::<bool>(), 0..6 * MIB, any::<usize>()), 0..100),
        first in 0..16 * MIB, left in 0..32 * MIB,
    ) {
        let pool = Pool::new(left);
        let account = Account::new(first);
        let mut charges = Vec::new();
        for (is_free, bytes, nth) in steps {
            if is_free && !charges.is_empty() {
                account.give(charges.swap_remove(nth % charges.len()), &pool);
            } else if let Ok(charge) = account.take(bytes, &pool) {
                charges.push(charge);
            }
            let (total, free) = account.total_and_free();
            prop_assert_eq!(total, first + pool.leased());
            prop_assert!(pool.left.get() + pool.leased() == left);
            let last = pool.leases.borrow().values().next_back().copied();
            prop_assert!(!is_free || last.is_none_or(|last| last > free), "a lease that nobody needs");
        }
        charges.into_iter().for_each(|charge| account.give(charge, &pool));
        prop_assert_eq!((pool.leased(), account.total_and_free()), (0, (first, first)));
    }
}
