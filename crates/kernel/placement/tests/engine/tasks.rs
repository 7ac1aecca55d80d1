//! Seats in the pool of GPU tasks, one test per rule.

use crate::common::*;
use decision_report::*;
use geometry::*;
use node_layout::layout_of;
use node_state::*;
use placement::*;
use protocol::*;

fn pool() -> Policy {
    Policy { tasks: Some(PoolPolicy::default()), ..Policy::default() }
}

fn tasks(job: u32, seats: u32, mem: &str) -> Ask {
    let mut ask = ask(job, "tasks:probes", mem);
    ask.request.seats = seats;
    ask
}

/// Device by device: the start, or 99 for a GPU, and the seats.
fn seats(decision: &Decision) -> Vec<(u16, u8, u32)> {
    let Some(Grant::Tasks(TaskGrant { on: TaskDevices::Pool(pool), .. })) = &decision.chosen else {
        panic!("{}", decision_text::decision(decision))
    };
    pool.iter().map(|s| (s.on.gpu().0, s.on.start().unwrap_or(99), s.seats)).collect()
}

#[test]
fn a_job_joins_the_pool_before_it_opens_a_device() {
    let mut n = node(&["v100-16gb"; 3], MigPolicy::Off);
    let p = pool();
    assert_eq!(seats(&run(&mut n, &tasks(1, 1, ""), &p)), [(0, 99, 1)]);
    assert_eq!(seats(&run(&mut n, &tasks(2, 3, ""), &p)), [(0, 99, 3)]);
    assert_eq!(seats(&run(&mut n, &tasks(3, 1, ""), &p)), [(1, 99, 1)], "four seats on a V100");
    assert_eq!(layout_of(&n).to_string(), "tessera gpu0=tasks[job1*1,job2*3] gpu1=tasks[job3*1] gpu2=free");
    n.release(JobId(1));
    assert_eq!(seats(&run(&mut n, &tasks(4, 1, ""), &p)), [(1, 99, 1)], "the emptier of two pools");
}

#[test]
fn a_job_may_use_every_device_of_the_pool_on_its_gpu_and_its_seats_are_dealt_evenly() {
    let mut n = node(&["a30-24gb"], MigPolicy::On);
    let p = pool();
    let first = run(&mut n, &tasks(1, 4, ""), &p);
    assert_eq!(first.chosen.as_ref().unwrap().instances().len(), 1);
    let at = seats(&first)[0].1;
    // One more than is free opens a second instance, and both are dealt.
    let second = seats(&run(&mut n, &tasks(2, 3, ""), &p));
    assert_eq!((second.len(), second.iter().map(|s| s.2).sum::<u32>()), (2, 3));
    assert_eq!(second.iter().find(|s| s.1 == at).unwrap().2, 0, "no seat was left on the first");
    assert_eq!(seats(&run(&mut n, &tasks(3, 1, ""), &p)).len(), 2);
}

#[test]
fn a_device_holds_one_process_with_its_context() {
    let p = pool();
    let n = node(&["a30-24gb"], MigPolicy::On);
    // 1g.6gb has 5952 MiB.
    let profile = |mem: &str| {
        let d = decide(&n, &tasks(1, 1, mem), &p);
        let grant = d.chosen.unwrap().instances()[0];
        n.gpus[0].model.profile_by_id(grant.profile).unwrap().name.clone()
    };
    assert_eq!((profile("5440Mi").as_str(), profile("5800Mi").as_str()), ("1g.6gb", "2g.12gb"));
    assert_eq!(decide(&n, &tasks(1, 1, "25G"), &p).chosen, None);
    // Eight seats need two slices.
    let eight = decide(&n, &tasks(1, 8, ""), &p).chosen.unwrap().instances()[0];
    assert_eq!(n.gpus[0].model.profile_by_id(eight.profile).unwrap().name, "2g.12gb");
}

#[test]
fn users_share_only_where_the_site_says_so() {
    let mut n = node(&["v100-16gb"; 2], MigPolicy::Off);
    let other = Ask { uid: Uid(2), ..tasks(2, 1, "") };
    let _ = run(&mut n, &tasks(1, 1, ""), &pool());
    assert_eq!(seats(&decide(&n, &other, &pool())), [(1, 99, 1)]);
    let shared = Policy { share_between_users: true, ..pool() };
    assert_eq!(seats(&decide(&n, &other, &shared)), [(0, 99, 1)]);
}

#[test]
fn the_pool_shares_with_no_other_kind() {
    let p = pool();
    let mut n = node(&["v100-16gb"], MigPolicy::Off);
    let _ = run(&mut n, &tasks(1, 1, ""), &p);
    for kind in ["mps", "whole"] {
        assert_eq!(decide(&n, &ask(2, kind, "1G"), &p).chosen, None, "{kind}");
    }
    let mut n = node(&["v100-16gb"], MigPolicy::Off);
    let _ = run(&mut n, &ask(1, "mps", "1G"), &p);
    assert_eq!(decide(&n, &tasks(2, 1, ""), &p).chosen, None);
    let mut n = node(&["a30-24gb"], MigPolicy::On);
    let _ = run(&mut n, &tasks(1, 1, ""), &p);
    let beside = run(&mut n, &ask(2, "mps", "1G"), &p).chosen.unwrap().instances();
    let mine = n.pool().map(|d| d.on).collect::<Vec<_>>();
    assert!(!mine.contains(&ShareOn::Instance(beside[0])), "another instance of the GPU");
}

#[test]
fn whole_gpus_of_a_jobs_own_are_one_group() {
    let mut n = node(&[A100; 3], MigPolicy::Dynamic);
    let mut a = tasks(1, 40, "");
    a.request.gpus = Some(2);
    let d = run(&mut n, &a, &pool());
    let Some(Grant::Tasks(TaskGrant { on: TaskDevices::Own { gpus, seats }, .. })) = &d.chosen else {
        panic!("{}", decision_text::decision(&d))
    };
    assert_eq!((gpus.len(), *seats), (2, 40));
    assert_eq!(layout_of(&n).to_string(), "tessera gpu0-1=whole[job1] gpu2=free");
    a.request.seats = 57;
    assert_eq!(decide(&node(&[A100; 3], MigPolicy::Dynamic), &a, &pool()).chosen, None, "28 seats each");
}

#[test]
fn auto_takes_seats_only_where_the_site_lists_them() {
    let n = node(&["a30-24gb"], MigPolicy::On);
    let auto = ask(1, "auto", "3G");
    assert!(matches!(decide(&n, &auto, &pool()).chosen, Some(Grant::Mig(_))));
    let first = Policy { auto: vec![Kind::Tasks, Kind::Mig], ..pool() };
    let mut n = n;
    assert!(matches!(run(&mut n, &auto, &first).chosen, Some(Grant::Tasks(_))));
    // Without a pool nobody gets seats, whatever they ask.
    let none = Policy { tasks: None, ..first };
    assert!(matches!(decide(&n, &Ask { job: JobId(2), ..auto }, &none).chosen, Some(Grant::Mig(_))));
    assert_eq!(decide(&n, &tasks(3, 1, ""), &none).chosen, None);
}

fn pool_of(gpus_per_job: u32) -> Policy {
    Policy { tasks: Some(PoolPolicy { gpus_per_job, ..PoolPolicy::default() }), ..Policy::default() }
}

#[test]
fn tasks_of_a_job_use_several_gpus_where_the_site_says_so() {
    let mut n = node(&["v100-16gb"; 4], MigPolicy::Off);
    let p = pool_of(3);
    assert_eq!(seats(&run(&mut n, &tasks(1, 2, ""), &p)), [(0, 99, 2), (1, 99, 0), (2, 99, 0)]);
    // The next one has its seats where most are free, and may use the same GPUs.
    assert_eq!(seats(&run(&mut n, &tasks(2, 1, ""), &p)), [(0, 99, 0), (1, 99, 1), (2, 99, 0)]);
    let text =
        "tessera gpu0=tasks[job1*2,job2*0] gpu1=tasks[job1*0,job2*1] gpu2=tasks[job1*0,job2*0] gpu3=free";
    assert_eq!(layout_of(&n).to_string(), text);
    // Another user's pool has what is left.
    let other = Ask { uid: Uid(2), ..tasks(3, 1, "") };
    assert_eq!(seats(&run(&mut n, &other, &p)), [(3, 99, 1)]);
    // A process that no further GPU could hold stays away from there.
    let mut mixed = node(&["v100-32gb", "v100-16gb", "v100-32gb"], MigPolicy::Off);
    assert_eq!(seats(&run(&mut mixed, &tasks(1, 1, "20G"), &p)), [(0, 99, 1), (2, 99, 0)]);
}

#[test]
fn further_gpus_are_neither_claimed_nor_cut_nor_kept_uncut() {
    let p = pool_of(8);
    let mut n = node(&[A100; 4], MigPolicy::Dynamic);
    let _ = run(&mut n, &ask(1, "mig:1g.5gb", ""), &p);
    n.keep_uncut = 1;
    assert_eq!(seats(&decide(&n, &tasks(2, 1, ""), &p)), [(1, 99, 1), (2, 99, 0)]);
    n.keep_uncut = 2;
    let first = run(&mut n, &tasks(2, 1, ""), &p);
    assert_eq!(seats(&first), [(1, 99, 1)]);
    n.keep_uncut = 0;
    n.claims.push(Claim { job: JobId(9), on: ShareOn::Gpu(GpuIndex(1)) });
    assert_eq!(seats(&decide(&n, &tasks(3, 1, ""), &p)), [(2, 99, 1), (3, 99, 0)]);
    // Instances of a pool stay on one GPU.
    let mut n = node(&["a30-24gb"; 2], MigPolicy::On);
    for job in 1..4 {
        let on = run(&mut n, &tasks(job, 4, ""), &p).chosen.unwrap();
        assert_eq!(on.gpus().len(), 1, "{on:?}");
    }
}

/// A V100 has 4 seats and 16 shards. Slurm counts every job on every GPU that it may use: the jobs that come last have one GPU
/// each, so that no seat is without a shard.
#[test]
fn no_seat_loses_its_shard_to_jobs_with_seats_elsewhere() {
    let mut n = node(&["v100-16gb"; 8], MigPolicy::Off);
    let p = pool_of(8);
    let gpus: Vec<usize> = (1..33).map(|job| seats(&run(&mut n, &tasks(job, 1, ""), &p)).len()).collect();
    assert_eq!(gpus[..12], [8; 12], "{gpus:?}");
    assert_eq!(gpus[31], 1, "{gpus:?}");
    assert_eq!(decide(&n, &tasks(40, 1, ""), &p).chosen, None, "32 seats");
}

#[test]
fn a_claimed_device_is_neither_joined_nor_opened_again() {
    let mut n = node(&["v100-16gb"; 2], MigPolicy::Off);
    let _ = run(&mut n, &tasks(1, 1, ""), &pool());
    n.claims.push(Claim { job: JobId(9), on: ShareOn::Gpu(GpuIndex(0)) });
    assert_eq!(layout_of(&n).to_string(), "tessera gpu0=tasks[job1*1>job9] gpu1=free");
    assert_eq!(seats(&decide(&n, &tasks(2, 1, ""), &pool())), [(1, 99, 1)]);
    n.release(JobId(1));
    assert_eq!(seats(&decide(&n, &tasks(2, 1, ""), &pool())), [(1, 99, 1)]);
    let _ = run(&mut n, &ask(9, "whole", ""), &pool());
    assert!(n.claims.is_empty(), "the job has what it claimed");
}

#[test]
fn what_can_never_be_had_is_refused_with_what_could() {
    let never = |seats, mem: &str, policy: &Policy| {
        let n = node(&["v100-16gb"], MigPolicy::Off);
        admits_ever(&n, &tasks(1, seats, mem).request, policy).unwrap_err().to_string()
    };
    assert_eq!(
        never(5, "", &pool()),
        "5 Slurm tasks per node, and v100-16gb has at most 4 seats where 5 are needed; use fewer tasks per node, or whole \
         GPUs with --gpus-per-node"
    );
    assert_eq!(never(1, "40G", &pool()), "v100-16gb has 16.4 GB for jobs; use --gpu-mem=15G or less");
    assert_eq!(
        never(1, "", &Policy::default()),
        "this site has no pool of GPU tasks ([tasks] in tessera.toml); use --gpu-isolation=mps with --gpu-mem=SIZE for a share"
    );
    let n = node(&[A100; 2], MigPolicy::Dynamic);
    let mut request = tasks(1, 3, "").request;
    assert_eq!(admits_ever(&n, &request, &pool()), Ok(Admission::Shards(3)));
    request.gpus = Some(2);
    assert_eq!(admits_ever(&n, &request, &pool()), Ok(Admission::Gpus(2)));
}

#[test]
fn an_isolated_job_waits_for_the_devices_that_free_first() {
    let mut n = node(&["a30-24gb"], MigPolicy::On);
    let p = pool();
    let place = |start: u8| {
        let profile = Model::find("a30-24gb").unwrap().profile("1g.6gb").unwrap().id;
        ShareOn::Instance(MigSpec { gpu: GpuIndex(0), profile, start: Slice(start) })
    };
    for (job, start) in [(1, 0), (2, 1), (3, 2), (4, 3)] {
        let on = TaskDevices::Pool(vec![PoolSeats { on: place(start), seats: 4 }]);
        let grant = Grant::Tasks(TaskGrant { on, mem_mib: None, probes: true });
        n.apply(JobId(job), Uid(1000), &grant).unwrap();
    }
    let end = |job: JobId| [400, 200, 300, 500][job.0 as usize - 1];
    let awaited = |ask: &Ask| await_pool(&n, ask, &p, &end).map(|a| (a.devices, a.free_at));
    assert_eq!(awaited(&ask(9, "mig:1g.6gb", "")), Some((vec![place(1)], 200)));
    assert_eq!(
        awaited(&ask(9, "mig:2g.12gb", "")),
        Some((vec![place(1), place(0)], 400)),
        "0 and 1 go first"
    );
    assert_eq!(awaited(&ask(9, "mig:4g.24gb", "")), None, "the pool keeps a device");
}

/// A placement of another state of the node, or a forged one, asks for more seats than MPS serves there.
#[test]
fn no_grant_takes_more_seats_than_mps_has_clients() {
    let a2g = Model::find("a100-40gb").unwrap().profile("2g.10gb").unwrap().id;
    let instance = ShareOn::Instance(MigSpec { gpu: GpuIndex(0), profile: a2g, start: Slice(0) });
    // 48 clients for the GPU, and two sevenths of them for a 2g.
    for (on, policy, most) in [(ShareOn::Gpu(GpuIndex(0)), MigPolicy::Off, 48), (instance, MigPolicy::On, 13)]
    {
        let mut n = node(&[A100], policy);
        let grant = |seats| {
            let on = TaskDevices::Pool(vec![PoolSeats { on, seats }]);
            Grant::Tasks(TaskGrant { on, mem_mib: None, probes: true })
        };
        let busy = Err(ApplyError::Busy(GpuIndex(0)));
        assert_eq!(n.apply(JobId(1), Uid(1000), &grant(most + 1)), busy, "at once");
        n.apply(JobId(1), Uid(1000), &grant(6)).unwrap();
        let before = layout_of(&n).to_string();
        assert_eq!(n.apply(JobId(2), Uid(1000), &grant(most - 5)), busy, "with another's");
        assert_eq!(layout_of(&n).to_string(), before);
        n.apply(JobId(2), Uid(1000), &grant(most - 6)).unwrap();
    }
}
