//! Which GPUs a job gets, out of those that Slurm has chosen or could choose.

use super::*;

#[test]
fn only_devices_slurm_could_choose_are_given() {
    let engine = engine();
    let want = mig("7g.40gb");
    let placed = place(&engine, question(&engine, &want), &want, &choice(&[1], &[1])).unwrap().unwrap();
    assert_eq!(placed.devices, [(1, 1)]);
    let want = self::want(None, GresKind::Gpu, 1);
    let placed = place(&engine, question(&engine, &want), &want, &choice(&[1], &[0, 1])).unwrap().unwrap();
    assert_eq!(placed.devices.len(), 1);
}

/// A DGX-1V, GPU 0 in use: 2-3 and 1-2 have two links, 1-3 has one.
fn linked() -> Engine {
    let text = "[defaults]\nbandwidth = \"insensitive\"\n[[partitions]]\nname = \"plain\"\ngpu_set_policy = \"baseline\"\n\
                [[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 8\ninterconnect = \"dgx-v\"\n";
    let mut engine = Engine::of_tests(text);
    occupy(&mut engine, 1, "n1", &[0]);
    engine
}

/// The GPUs given where Slurm has this choice: `(chosen, available, sockets)` per entry.
fn given(want: &Want, entries: &[(u64, u64, &[u64])], near: u64) -> (Vec<u16>, Option<String>) {
    let engine = linked();
    let entry = |(chosen, available, sockets): &(u64, u64, &[u64])| EntryChoice {
        chosen: GpuSet::from_bits(*chosen),
        available: GpuSet::from_bits(*available),
        sockets: sockets.iter().map(|s| GpuSet::from_bits(*s)).collect(),
        amount: 0,
    };
    let entries = entries.iter().map(entry).collect();
    let view = ChosenView { name: "n1".to_owned(), entries, near: GpuSet::from_bits(near) };
    let placed = place(&engine, question(&engine, want), want, &view).unwrap().unwrap();
    let Grant::Whole(order) = placed.grant else { panic!("{placed:?}") };
    (order.into_iter().map(|g| g.0).collect(), placed.matched.map(|m| m.to_string()))
}

const SENSITIVE: &str = "v1 iso=whole bw=sensitive";

#[test]
fn whole_gpus_are_given_in_the_order_of_ranks() {
    let sensitive = want(Some(SENSITIVE), GresKind::Gpu, 7);
    let (order, matched) = given(&sensitive, &[(0xfe, 0xfe, &[])], 0xff);
    assert_eq!(order, [1, 2, 3, 7, 4, 6, 5]);
    assert_eq!(matched.as_deref(), Some("ring/sensitive/preserve/bottleneck/55.6"));
    let (order, _) = given(&sensitive, &[(0b1110, 0xfe, &[])], 0xff);
    assert_eq!(order, [1, 2, 3]);
    let tree = want(Some("v1 iso=whole pattern=tree bw=sensitive policy=greedy"), GresKind::Gpu, 3);
    assert_eq!(
        given(&tree, &[(0b1110, 0xfe, &[])], 0xff).1.as_deref(),
        Some("tree/sensitive/greedy/bottleneck/59.0")
    );
}

#[test]
fn a_partitions_policy_is_its_jobs() {
    let mut plain = want(Some(SENSITIVE), GresKind::Gpu, 2);
    assert_eq!(given(&plain, &[(0b0110_0000, 0xfe, &[])], 0xff).0, [2, 3]);
    plain.partition = Some("plain".to_owned());
    assert_eq!(given(&plain, &[(0b0110_0000, 0xfe, &[])], 0xff).0, [1, 2]);
    let own = want(Some("v1 iso=whole bw=sensitive policy=preserve"), GresKind::Gpu, 2);
    let own = Want { partition: plain.partition, ..own };
    assert_eq!(given(&own, &[(0b0110_0000, 0xfe, &[])], 0xff).0, [2, 3]);
}

#[test]
fn as_many_of_each_socket_and_type_as_slurm_chose() {
    let sensitive = want(Some(SENSITIVE), GresKind::Gpu, 2);
    let sockets: &[u64] = &[0x0f, 0xf0];
    // One of each: 1-5 has two links.
    assert_eq!(given(&sensitive, &[(0b0001_0010, 0xfe, sockets)], 0xff).0, [1, 5]);
    assert_eq!(given(&sensitive, &[(0b0011_0010, 0xfe, sockets)], 0xff).0, [1, 5, 6]);
    // GPUs 1, 2, 4 of one type and the others of another.
    assert_eq!(
        given(&sensitive, &[(0b0000_0010, 0b0001_0110, &[]), (0b1000_0000, 0b1110_1000, &[])], 0xff).0,
        [2, 3]
    );
    // One of any type beside one of a certain one: Slurm's choice stands.
    assert_eq!(
        given(&sensitive, &[(0b0000_0010, 0b0001_0110, &[]), (0b1000_0000, 0xfe, &[])], 0xff).0,
        [1, 7]
    );
}

#[test]
fn a_job_that_needs_no_links_gets_gpus_near_its_cores() {
    let single = want(None, GresKind::Gpu, 1);
    let upper = [(0b0001_0000, 0xfe, &[][..])];
    assert!(given(&single, &upper, 0xf0).0[0] >= 4);
    let pair = want(None, GresKind::Gpu, 2);
    assert!(given(&pair, &[(0b0011_0000, 0xfe, &[])], 0xf0).0.iter().all(|g| *g >= 4));
    // Where those do not suffice, any.
    assert_eq!(given(&pair, &[(0b0011_0000, 0xfe, &[])], 0x10).0.len(), 2);
    // Links come first where they matter.
    let sensitive = want(Some(SENSITIVE), GresKind::Gpu, 2);
    assert_eq!(given(&sensitive, &[(0b0011_0000, 0xfe, &[])], 0xf0).0, [2, 3]);
}

#[test]
fn of_equally_linked_sets_the_one_near_the_cores_is_given() {
    let four = |near, busy: &[u16]| {
        let mut engine = linked();
        let _ = engine.release(JobId(1));
        if !busy.is_empty() {
            occupy(&mut engine, 2, "n1", busy);
        }
        let want = want(Some(SENSITIVE), GresKind::Gpu, 4);
        let free: Vec<u16> = (0..8).filter(|g| !busy.contains(g)).collect();
        let slurm = ChosenView { near: GpuSet::from_bits(near), ..choice(&free[..4], &free) };
        let placed = place(&engine, question(&engine, &want), &want, &slurm).unwrap().unwrap();
        let mut given: Vec<u16> = placed.grant.gpus().iter().map(|g| g.0).collect();
        given.sort_unstable();
        given
    };
    assert_eq!(four(0x0f, &[]), [0, 1, 2, 3]);
    assert_eq!(four(0xf0, &[]), [4, 5, 6, 7]);
    // No set near the cores is as good, or they lack a GPU.
    assert_eq!(four(0xc3, &[]), [0, 1, 2, 3]);
    assert_eq!(four(0x70, &[]), [0, 1, 2, 3]);
    assert_eq!(four(0xf0, &[7]), [0, 1, 2, 3]);
}

/// GPUs of a DGX-1V on which 1 and 4 are free: jobs with 0, 2, 3, with 5, 6 and with 7 are on the others.
#[test]
fn a_tie_goes_to_the_gpu_whose_links_nobody_waits_for() {
    let mut engine = linked();
    occupy(&mut engine, 1, "n1", &[0, 2, 3]);
    occupy(&mut engine, 2, "n1", &[5, 6]);
    occupy(&mut engine, 3, "n1", &[7]);
    let want = want(None, GresKind::Gpu, 1);
    let given = |ends: [i64; 3]| {
        let ends: Vec<(i64, JobId)> = ends.into_iter().zip((1..).map(JobId)).collect();
        let question = engine.with_next(question(&engine, &want), "n1", &ends);
        let placed = place(&engine, question, &want, &choice(&[1], &[1, 4])).unwrap().unwrap();
        (engine.first_back("n1", &ends).to_string(), placed.grant)
    };
    let whole = |gpu| Grant::Whole(vec![GpuIndex(gpu)]);
    // GPU 1 has four lanes to 0, 2 and 3, two to 5 and 6, none to 7; GPU 4 has two to each of these. Where that ties, too,
    // so do all their links, and the lowest is taken.
    assert_eq!(given([10, 20, 30]), ("0,2-3".to_owned(), whole(4)));
    assert_eq!(given([20, 10, 30]), ("5-6".to_owned(), whole(1)));
    assert_eq!(given([30, 20, 10]), ("7".to_owned(), whole(1)));
}

#[test]
fn a_shared_gpu_comes_back_with_its_last_job() {
    let mut engine = engine();
    for (job, request) in [(1, "v1 iso=mps mem=4000"), (2, "v1 iso=mps mem=4000")] {
        let want = want(Some(request), GresKind::Shard, 4);
        let placed = place(&engine, question(&engine, &want), &want, &choice(&[0], &[0])).unwrap().unwrap();
        let placement = JobPlacement { job: JobId(job), nodes: vec![("n1".to_owned(), placed.grant.into())] };
        assert_eq!(engine.commit(USER, &placement), Vec::<String>::new());
    }
    occupy(&mut engine, 3, "n1", &[1]);
    let first = |ends: [i64; 3]| {
        let ends: Vec<(i64, JobId)> = ends.into_iter().zip((1..).map(JobId)).collect();
        engine.first_back("n1", &ends).to_string()
    };
    assert_eq!(first([10, 30, 20]), "1");
    assert_eq!(first([10, 15, 20]), "0");
}
