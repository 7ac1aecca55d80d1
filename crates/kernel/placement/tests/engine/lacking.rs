//! What a job lacks on nodes beside GPUs, against plain arithmetic.

use std::cell::Cell;

use placement::{HostResources, Needs, lacking};
use proptest::prelude::*;

fn needs() -> impl Strategy<Value = Needs> {
    (room(), room()).prop_map(|(empty, needed)| Needs { empty, needed })
}

fn room() -> impl Strategy<Value = HostResources> {
    (0..12_u64, 0..12_u64).prop_map(|(cores, memory_mib)| HostResources { cores, memory_mib })
}

/// Up to four nodes, and jobs with what each has on each of them.
fn cases() -> impl Strategy<Value = (Vec<Needs>, Vec<Vec<HostResources>>)> {
    // Jobs may have more than there is: a node can have been made smaller under them.
    (0..5_usize).prop_flat_map(|n| {
        let jobs = prop::collection::vec(prop::collection::vec(room(), n), 0..8);
        (prop::collection::vec(needs(), n), jobs)
    })
}

/// Needed, less what all jobs together leave; neither is less than nothing.
fn by_hand(empty: u64, needed: u64, had: impl Iterator<Item = u64>) -> u64 {
    let left = i128::from(empty) - i128::from(had.sum::<u64>());
    u64::try_from((i128::from(needed) - left.max(0)).max(0)).unwrap()
}

proptest! {
    #[test]
    fn what_is_lacking_is_what_the_running_jobs_do_not_leave((nodes, jobs) in cases()) {
        let asked = Cell::new(0);
        let found = lacking(&nodes, &jobs, |job, at| {
            asked.set(asked.get() + 1);
            job[at]
        });
        prop_assert_eq!(found.len(), nodes.len());
        for (at, node) in nodes.iter().enumerate() {
            let of = |what: fn(&HostResources) -> u64| {
                by_hand(what(&node.empty), what(&node.needed), jobs.iter().map(|job| what(&job[at])))
            };
            let want = HostResources { cores: of(|r| r.cores), memory_mib: of(|r| r.memory_mib) };
            prop_assert_eq!(found[at], want, "node {}", at);
        }
        prop_assert!(asked.get() <= nodes.len() * jobs.len());
    }
}

#[test]
fn no_job_is_looked_at_when_the_ones_before_leave_nothing() {
    let all = HostResources { cores: 4, memory_mib: 100 };
    let looked = Cell::new(0);
    let jobs = (0..1000).inspect(|_| looked.set(looked.get() + 1));
    let needed = HostResources { cores: 3, memory_mib: 7 };
    let nodes = [Needs { empty: all, needed }, Needs { empty: all, needed }];
    let asked = Cell::new([0; 2]);
    // The second node is full after one job, the first after two.
    let has = |job: &i32, at: usize| {
        let mut n = asked.get();
        n[at] += 1;
        asked.set(n);
        if *job == 0 && at == 0 { HostResources { cores: 4, memory_mib: 99 } } else { all }
    };
    assert_eq!(lacking(&nodes, jobs, has), [needed, needed]);
    assert_eq!(asked.get(), [2, 1]);
    assert!(looked.get() <= 3, "{}", looked.get());
}
