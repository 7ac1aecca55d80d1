use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;

#[test]
fn whole_granules_and_shared_ones() {
    let mut ledger = Ledger::new(10 * MIB);
    let large = ledger.take(3 * MIB).unwrap();
    assert_eq!((ledger.used(), ledger.free()), (4 * MIB, 6 * MIB));
    let first = ledger.take(1).unwrap();
    let second = ledger.take(MIB - 1).unwrap();
    assert_eq!(ledger.used(), 6 * MIB, "both in one granule");
    assert_eq!(ledger.take(5 * MIB), Err(Short(2 * MIB)));
    let third = ledger.take(MIB - 1).unwrap();
    assert_eq!(ledger.used(), 8 * MIB, "the first granule has no room for it");
    ledger.give(first);
    assert_eq!(ledger.used(), 8 * MIB, "one allocation keeps a granule");
    ledger.give(second);
    ledger.give(third);
    ledger.give(large);
    assert_eq!(ledger.used(), 0);
}

#[test]
fn sizes_beyond_all_memory_are_short_and_nothing_wraps() {
    let mut ledger = Ledger::new(10 * MIB);
    let Err(Short(missing)) = ledger.take(u64::MAX) else { panic!() };
    assert!(missing > 1 << 63);
    let forced = ledger.force(u64::MAX);
    assert_eq!(ledger.free(), 0, "not a huge number: HAMi-core#200");
    assert!(ledger.missing(MIB).is_some());
    ledger.give(forced);
    assert_eq!(ledger.free(), 10 * MIB);
}

#[test]
fn an_address_that_comes_again_was_freed_behind_our_back() {
    let mut ledger = Ledger::new(10 * MIB);
    for _ in 0..3 {
        let charge = ledger.take(4 * MIB).unwrap();
        ledger.place(Name::Address(7), 1, charge);
    }
    assert_eq!(ledger.used(), 4 * MIB);
    assert_eq!(ledger.lift(Name::Array(7)), None);
    let (charge, context) = ledger.lift(Name::Address(7)).unwrap();
    assert_eq!((context, ledger.used()), (1, 4 * MIB), "it counts until the driver has freed it");
    ledger.give(charge);
    assert_eq!(ledger.used(), 0);
}

#[test]
fn a_context_takes_its_allocations_along() {
    let mut ledger = Ledger::new(100 * MIB);
    for (address, context) in [(1, 1), (2, 2), (3, 1)] {
        let charge = ledger.take(2 * MIB).unwrap();
        ledger.place(Name::Address(address), context, charge);
    }
    ledger.end_context(1);
    assert_eq!(ledger.used(), 2 * MIB);
    assert!(ledger.lift(Name::Address(2)).is_some());
}

#[test]
fn physical_memory_goes_with_its_last_handle_and_mapping() {
    let mut ledger = Ledger::new(100 * MIB);
    let charge = ledger.take(4 * MIB).unwrap();
    ledger.virtual_memory().created(9, charge);
    ledger.virtual_memory().mapped(0x1000, 2 * MIB, 9);
    ledger.virtual_memory().mapped(0x1000 + 2 * MIB, 2 * MIB, 9);
    ledger.virtual_memory().released(9);
    ledger.collect();
    assert_eq!(ledger.used(), 4 * MIB, "mapped");
    // The driver may use the number again.
    let charge = ledger.take(2 * MIB).unwrap();
    ledger.virtual_memory().created(9, charge);
    ledger.virtual_memory().unmapped(0x1000, 4 * MIB);
    ledger.collect();
    assert_eq!(ledger.used(), 2 * MIB);
    ledger.virtual_memory().released(9);
    ledger.virtual_memory().released(9);
    ledger.collect();
    assert_eq!(ledger.used(), 0);
}

#[test]
fn a_retained_handle_keeps_memory() {
    let mut ledger = Ledger::new(100 * MIB);
    let charge = ledger.take(4 * MIB).unwrap();
    ledger.virtual_memory().created(9, charge);
    ledger.virtual_memory().mapped(0x1000, 4 * MIB, 9);
    ledger.virtual_memory().released(9);
    // The driver may answer with another number.
    ledger.virtual_memory().retained(11, 0x1000 + MIB);
    ledger.virtual_memory().unmapped(0x1000, 4 * MIB);
    ledger.collect();
    assert_eq!(ledger.used(), 4 * MIB);
    ledger.virtual_memory().released(11);
    ledger.collect();
    assert_eq!(ledger.used(), 0);
    // Another process's memory is not ours.
    ledger.virtual_memory().retained(12, 0x9000);
    ledger.virtual_memory().mapped(0x1000, 4 * MIB, 12);
    ledger.virtual_memory().unmapped(0, u64::MAX);
    ledger.virtual_memory().released(12);
    ledger.collect();
    assert_eq!(ledger.used(), 0);
}

/// One step of a program: allocate so many bytes in a context, free the nth that is there, end a context.
#[derive(Clone, Debug)]
enum Step {
    Allocate(u64, u64),
    Free(usize),
    EndContext(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (prop_oneof![0..4 * MIB, Just(SHARED_BELOW), Just(SHARED_BELOW - 1)], 1..4u64)
            .prop_map(|(bytes, context)| Step::Allocate(bytes, context)),
        3 => any::<usize>().prop_map(Step::Free),
        1 => (1..4u64).prop_map(Step::EndContext),
    ]
}

proptest! {
    /// Against a list of what is there: all large ones in whole granules, small ones between perfect and one granule each.
    #[test]
    fn what_is_used_is_what_is_there(steps in prop::collection::vec(step(), 0..200), limit in 0..64 * MIB) {
        let mut ledger = Ledger::new(limit);
        let mut there: Vec<(u64, u64, u64)> = Vec::new();
        for (at, step) in steps.into_iter().enumerate() {
            let name = at as u64;
            match step {
                Step::Allocate(bytes, context) => {
                    let before = ledger.used();
                    match ledger.take(bytes) {
                        Ok(charge) => {
                            ledger.place(Name::Address(name), context, charge);
                            there.push((name, bytes, context));
                            prop_assert!(ledger.used() <= limit);
                        }
                        Err(Short(missing)) => {
                            prop_assert_eq!(ledger.used(), before);
                            let more = if bytes >= SHARED_BELOW { bytes.div_ceil(GRANULE) * GRANULE } else { GRANULE };
                            prop_assert_eq!(missing, before + more - limit);
                        }
                    }
                }
                Step::Free(nth) if !there.is_empty() => {
                    let (name, _, context) = there.swap_remove(nth % there.len());
                    let (charge, of) = ledger.lift(Name::Address(name)).unwrap();
                    prop_assert_eq!(of, context);
                    ledger.give(charge);
                }
                Step::Free(_) => prop_assert_eq!(ledger.lift(Name::Address(name)), None),
                Step::EndContext(context) => {
                    ledger.end_context(context);
                    there.retain(|(_, _, of)| *of != context);
                }
            }
            let (large, small): (Vec<u64>, Vec<u64>) =
                there.iter().map(|(_, bytes, _)| *bytes).partition(|bytes| *bytes >= SHARED_BELOW);
            let whole: u64 = large.iter().map(|bytes| bytes.div_ceil(GRANULE) * GRANULE).sum();
            let packed = small.iter().sum::<u64>().div_ceil(GRANULE) * GRANULE;
            prop_assert!(ledger.used() >= whole + packed);
            prop_assert!(ledger.used() <= whole + small.len() as u64 * GRANULE);
        }
    }
}
