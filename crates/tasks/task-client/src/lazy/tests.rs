use proptest::prelude::*;

use super::*;
use crate::lazy::size;

const BASE: u64 = 1 << 40;

/// A table, and where its next room will be.
fn add(table: &mut Table, next: &mut u64, bytes: u64) -> u64 {
    table
        .add(bytes, |room| {
            let start = *next;
            // Rooms touch: an address behind one is in the next.
            *next += room;
            Some(start)
        })
        .unwrap()
}

fn bytes(at: u64, width: u64) -> Rows {
    Rows { at, pitch: width, width, height: 1 }
}

fn bind(table: &mut Table, task: i64) -> (Vec<Room>, Vec<Step>) {
    let rooms = table.take_unbound();
    let backed: Vec<_> = rooms.iter().map(|room| (*room, Backing::Mapped(room.start / GRANULE))).collect();
    let steps = table.bind(&backed, task);
    (rooms, steps)
}

#[test]
fn small_objects_share_a_room_and_large_ones_have_their_own() {
    let (mut table, mut next) = (Table::default(), BASE);
    let small: Vec<u64> = (0..3).map(|_| add(&mut table, &mut next, 100)).collect();
    assert_eq!(small, [BASE, BASE + 512, BASE + 1024]);
    let large = add(&mut table, &mut next, GRANULE + 1);
    assert_eq!((large, table.unbound()), (BASE + GRANULE, 3 * GRANULE));
    assert_eq!((table.place(BASE + 99), table.place(BASE + 100)), (Place::Unbound, Place::Unknown));
    let (rooms, _) = bind(&mut table, 7);
    assert_eq!(rooms.iter().map(|room| room.bytes).sum::<u64>(), 3 * GRANULE);
    // A bound room takes nothing more in: its task has been asked for.
    assert_eq!(add(&mut table, &mut next, 100), BASE + 3 * GRANULE);
}

#[test]
fn what_waits_comes_in_order_over_all_objects() {
    let (mut table, mut next) = (Table::default(), BASE);
    let (a, b) = (add(&mut table, &mut next, GRANULE), add(&mut table, &mut next, GRANULE));
    for (to, value) in [(b, 1), (a, 2), (b + 8, 3)] {
        table.queue(bytes(to, 8), Content::Data(vec![value; 8]));
    }
    assert_eq!(table.queued(), 24);
    let (_, steps) = bind(&mut table, 7);
    assert_eq!(steps.iter().map(|step| step.to.at).collect::<Vec<_>>(), [b, a, b + 8]);
    assert_eq!(table.queued(), 0);
}

#[test]
fn a_step_waits_only_inside_one_object_without_memory() {
    let (mut table, mut next) = (Table::default(), BASE);
    let a = add(&mut table, &mut next, 1000);
    let inside = |table: &Table, at, pitch, width, height| table.may_wait(&Rows { at, pitch, width, height });
    assert!(inside(&table, a, 100, 50, 10));
    assert!(inside(&table, a + 50, 100, 50, 10));
    assert!(!inside(&table, a + 51, 100, 50, 10), "the last row would go beyond");
    assert!(!inside(&table, a, 40, 50, 2), "rows that overlap are for the driver to refuse");
    assert!(!inside(&table, a, u64::MAX, 50, 3), "no address is so large");
    assert!(!inside(&table, a + 1000, 1, 1, 1));
    bind(&mut table, 7);
    assert!(!inside(&table, a, 1, 1, 1));
}

#[test]
fn a_task_ends_with_its_last_room() {
    let (mut table, mut next) = (Table::default(), BASE);
    let (a, b) = (add(&mut table, &mut next, GRANULE), add(&mut table, &mut next, 4));
    let c = add(&mut table, &mut next, 4);
    bind(&mut table, 7);
    assert_eq!(table.home(), Some(7));
    assert_eq!(table.free(a + 1), Freed::NotOurs);
    let room = Room { start: a, bytes: GRANULE };
    assert_eq!(table.free(a), Freed::Bound { room, backing: Backing::Mapped(a / GRANULE), ended: None });
    assert_eq!(table.free(a), Freed::NotOurs);
    assert_eq!(table.free(c), Freed::Kept);
    assert!(matches!(table.free(b), Freed::Bound { ended: Some(7), .. }));
    assert_eq!(table.home(), None);
}

#[test]
fn what_was_freed_is_not_written() {
    let (mut table, mut next) = (Table::default(), BASE);
    let (a, b) = (add(&mut table, &mut next, 8), add(&mut table, &mut next, 8));
    table.queue(bytes(a, 8), Content::Data(vec![1; 8]));
    table.queue(bytes(b, 8), Content::Value(2));
    assert_eq!((table.free(a), table.queued()), (Freed::Kept, 0));
    let (_, steps) = bind(&mut table, 7);
    assert_eq!(steps.iter().map(|step| step.to.at).collect::<Vec<_>>(), [b]);
}

#[test]
fn memory_that_is_elsewhere_is_found() {
    let (mut table, mut next) = (Table::default(), BASE);
    let a = add(&mut table, &mut next, GRANULE);
    let rooms = table.take_unbound();
    assert_eq!(table.place(a), Place::Binding);
    table.bind(&[(rooms[0], Backing::Elsewhere(0x7000))], 7);
    assert_eq!(table.place(a + 9), Place::Bound(0x7009));
}

#[test]
fn sizes_beyond_64_bits_are_none() {
    assert_eq!(size(10, 3, false), Some((30, 10)));
    assert_eq!(size(513, 3, true), Some((3072, 1024)));
    assert_eq!(size(u64::MAX, 1, true), None);
    assert_eq!(size(1 << 40, 1 << 30, false), None);
    assert_eq!(Table::default().add(u64::MAX, |_| panic!("no room is so large")), None);
}

proptest! {
    /// Against a model that knows objects only: addresses never overlap, and each lives until it is freed.
    #[test]
    fn objects_never_overlap(steps in prop::collection::vec((0u8..4, 1u64..5_000_000, any::<prop::sample::Index>()), 1..60)) {
        let (mut table, mut next) = (Table::default(), BASE);
        let mut live: Vec<(u64, u64)> = Vec::new();
        let mut task = 0;
        for (what, size, which) in steps {
            match what {
                0 | 1 => {
                    let at = add(&mut table, &mut next, size);
                    prop_assert!(live.iter().all(|(other, bytes)| at + size <= *other || other + bytes <= at));
                    live.push((at, size));
                }
                2 => {
                    task += 1;
                    bind(&mut table, task);
                    prop_assert_eq!(table.unbound(), 0);
                }
                _ if live.is_empty() => {}
                _ => {
                    let (at, _) = live.remove(which.index(live.len()));
                    prop_assert_ne!(table.free(at), Freed::NotOurs);
                    prop_assert_eq!(table.place(at), Place::Unknown);
                }
            }
            for (at, bytes) in &live {
                prop_assert_ne!(table.place(*at), Place::Unknown);
                prop_assert!(matches!(
                    (table.place(*at), table.place(at + bytes - 1)),
                    (Place::Unbound, Place::Unbound) | (Place::Bound(_), Place::Bound(_))
                ));
            }
        }
        for (at, _) in live {
            table.free(at);
        }
        prop_assert_eq!((table.home(), table.unbound()), (None, 0));
    }
}
