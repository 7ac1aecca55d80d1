//! Compute instances: beside whom, where, and what they leave.
use crate::common::*;
use geometry::*;
use node_layout::{layout_of, parse_layout};
use node_state::*;
use placement::*;
use protocol::moldable::PlannedStart;
use protocol::*;

/// What a request got: GPU, start of the GPU instance, first compute slice; or why it got nothing.
fn got(node: &mut Node, ask: &Ask, policy: &Policy) -> Result<(u16, u8, u8), String> {
    let decision = run(node, ask, policy);
    match decision.chosen {
        Some(Grant::Compute { within, part, .. }) => Ok((within.gpu.0, within.start.0, part.start.0)),
        Some(other) => panic!("{other:?}"),
        None => Err(decision.why()),
    }
}

fn of_user(uid: u32, ask: Ask) -> Ask {
    Ask { uid: Uid(uid), ..ask }
}

#[test]
fn four_and_three_slices_share_a_gpu_instance_in_either_order() {
    for (first, second, starts) in [("4c", "3c", (0, 4)), ("3c", "4c", (4, 0))] {
        let mut node = node(&[A100, A100], MigPolicy::Dynamic);
        let mut start = |job, size: &str| {
            got(&mut node, &ask(job, &format!("mig-shared:{size}.7g.40gb"), "20G"), &Policy::default())
        };
        assert_eq!((start(1, first), start(2, second)), (Ok((0, 0, starts.0)), Ok((0, 0, starts.1))));
        // The GPU instance is full.
        assert_eq!(start(3, "1c"), Ok((1, 0, 6)));
    }
}

#[test]
fn the_layout_names_each_compute_instance() {
    let mut node = node(&[A100], MigPolicy::Dynamic);
    let _ = got(&mut node, &ask(12, "mig-shared:3c.7g.40gb", "20G"), &Policy::default());
    let _ = got(&mut node, &ask(13, "mig-shared:4c.7g.40gb", "10G"), &Policy::default());
    let line = "tessera gpu0=mig[7g.40gb@0:ci[4c@0:job13:9537M,3c@4:job12:19074M]]";
    assert_eq!(layout_of(&node).to_string(), line);
    assert_eq!(parse_layout(line).unwrap().to_string(), line);
    node.release(JobId(13));
    assert_eq!(layout_of(&node).to_string(), "tessera gpu0=mig[7g.40gb@0:ci[3c@4:job12:19074M]]");
    node.release(JobId(12));
    assert_eq!(layout_of(&node).to_string(), "tessera gpu0=mig[7g.40gb@0:idle]");
}

#[test]
fn what_the_jobs_state_must_fit_the_memory() {
    let mut node = node(&[A100], MigPolicy::Dynamic);
    let policy = Policy::default();
    let _ = got(&mut node, &ask(1, "mig-shared:4c.7g.40gb", "30G"), &policy);
    let why = got(&mut node, &ask(2, "mig-shared:3c.7g.40gb", "13G"), &policy).unwrap_err();
    assert!(why.contains("12.1 GB left, 13.0 GB asked"), "{why}");
    assert_eq!(got(&mut node, &ask(3, "mig-shared:3c.7g.40gb", "12G"), &policy), Ok((0, 0, 4)));
    let why = got(&mut node, &ask(4, "mig-shared:1c.7g.40gb", ""), &policy).unwrap_err();
    assert!(why.contains("needs a memory size"), "{why}");
}

#[test]
fn who_may_be_beside_whom_is_the_sites_choice() {
    let start = |shared_memory| {
        let mut node = node(&[A100], MigPolicy::Dynamic);
        let policy = Policy { shared_memory, ..Policy::default() };
        let first = got(&mut node, &of_user(1, ask(1, "mig-shared:4c.7g.40gb", "10G")), &policy);
        let second = got(&mut node, &of_user(2, ask(2, "mig-shared:3c.7g.40gb", "10G")), &policy);
        (first, second)
    };
    let (first, second) = start(SharedMemory::SameUser);
    assert!(first.is_ok() && second.unwrap_err().contains("shared by another user (1)"));
    assert_eq!(start(SharedMemory::Any), (Ok((0, 0, 0)), Ok((0, 0, 4))));
    assert!(start(SharedMemory::Never).0.unwrap_err().contains("shared_memory"));
}

#[test]
fn a_job_that_has_its_instance_alone_keeps_it_alone() {
    let mut node = node(&[A100], MigPolicy::Dynamic);
    held(&mut node, 1, 0, "7g.40gb", 0);
    let why = got(&mut node, &ask(2, "mig-shared:1c.7g.40gb", "1G"), &Policy::default()).unwrap_err();
    assert!(why.contains("isolated for job 1"), "{why}");
    // Nor does anything else come into a GPU instance that is divided.
    node.release(JobId(1));
    let _ = got(&mut node, &ask(3, "mig-shared:1c.7g.40gb", "1G"), &Policy::default());
    for other in
        [ask(4, "mig:7g.40gb", ""), ask(4, "mps", "1G"), ask(4, "whole", ""), ask(4, "mig:1g.5gb", "")]
    {
        assert_eq!(decide(&node, &other, &Policy::default()).chosen, None);
    }
}

#[test]
fn a_place_names_the_gpu_instance() {
    let mut node = node(&[A100, A100], MigPolicy::Dynamic);
    let placed = |job, gpu| {
        let mut ask = ask(job, "mig-shared:1c.7g.40gb", "1G");
        ask.request.place = Some(PlannedStart { gpu: GpuIndex(gpu), start: Slice(0) });
        ask
    };
    assert_eq!(got(&mut node, &placed(1, 1), &Policy::default()), Ok((1, 0, 6)));
    assert_eq!(got(&mut node, &placed(2, 0), &Policy::default()), Ok((0, 0, 6)));
}

#[test]
fn a_site_counts_it_by_the_memory_that_it_states() {
    let node = node(&[A100], MigPolicy::Dynamic);
    let admitted = |isolation: &str, mem: &str| {
        admits_ever(&node, &ask(0, isolation, mem).request, &Policy::default()).map_err(|n| n.to_string())
    };
    assert_eq!(admitted("mig-shared:4c.7g.40gb", "10G"), Ok(Admission::Shards(10)));
    let no_mem = "a compute instance needs a memory size; use --gpu-mem=SIZE with it";
    assert_eq!(admitted("mig-shared:4c.7g.40gb", ""), Err(no_mem.to_owned()));
    assert!(
        admitted("mig-shared:4c.7g.80gb", "10G")
            .unwrap_err()
            .contains("no profile for mig-shared:4c.7g.80gb")
    );
}
