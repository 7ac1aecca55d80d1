//! What is known of a node's room without a decision. That it is never too little: `oracle`.

use crate::common::*;
use geometry::*;
use node_state::*;
use placement::*;

fn may_fit(node: &Node, isolation: &str, mem: &str) -> bool {
    Room::of(node).may_fit(&Least::of(&ask(9, isolation, mem), &Policy::default()))
}

#[test]
fn a_full_node_is_known_without_a_decision() {
    let mut n = node(&[A100, A100], MigPolicy::Dynamic);
    let kinds = [("mig:1g.5gb", ""), ("mig", "4G"), ("mps", "4G"), ("auto", "4G"), ("whole", "")];
    assert!(kinds.iter().all(|(kind, mem)| may_fit(&n, kind, mem)));
    for (job, gpu, start) in [(1, 0, 0), (2, 0, 4), (3, 1, 0), (4, 1, 4)] {
        held(&mut n, job, gpu, "3g.20gb", start);
    }
    assert!(kinds.iter().all(|(kind, mem)| !may_fit(&n, kind, mem)));
}

#[test]
fn what_is_larger_than_the_largest_gap_is_known_not_to_fit() {
    let mut n = node(&[A100, A100], MigPolicy::Dynamic);
    held(&mut n, 1, 0, "4g.20gb", 0);
    assert!(run(&mut n, &ask(2, "mps", "30G"), &Policy::default()).chosen.is_some());
    let kinds = ["mig", "mps", "auto"];
    assert_eq!(kinds.map(|kind| may_fit(&n, kind, "20G")), [true; 3]);
    assert_eq!(kinds.map(|kind| may_fit(&n, kind, "22G")), [false; 3]);
    assert!(!may_fit(&n, "whole", ""));
}

#[test]
fn gpus_that_are_left_out_or_kept_for_others_are_no_room() {
    let mut n = node(&[A100, A100], MigPolicy::Dynamic);
    n.gpus[0].left_out = true;
    n.gpus[1] = Gpu::kept(n.gpus[1].model, Purpose::Whole, &[]);
    assert_eq!(["mig:1g.5gb", "whole"].map(|kind| may_fit(&n, kind, "")), [false, true]);
    n.apply(JobId(1), Uid(1), &protocol::Grant::Whole(gpus(&[1]))).unwrap();
    assert!(!may_fit(&n, "whole", ""));
}
