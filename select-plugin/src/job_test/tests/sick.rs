//! Unhealthy GPUs in the tests of a job.

use super::*;

const FILE: &str = "[[nodes]]\nnames = \"n[1-2]\"\ngpu = \"a100-40gb\"\ncount = 2\nmig = \"dynamic\"\n";

/// Nodes with two GPUs. `n1` names its second one as unhealthy; its slurmd has slurmctld's file, or another one.
fn nodes(same_file: bool) -> (Memory, Fake) {
    let (config, _) = site_config::parse("t", FILE, &|_| Err(std::io::ErrorKind::NotFound.into()));
    let config = config.unwrap();
    let file = config.fingerprint_of(config.node("n1").unwrap()) ^ u64::from(!same_file);
    let mut memory = Memory::new(Engine::new(config));
    let extra = format!("tessera gpu0-1=free sick=1:7:xid_79 node=says:5:{file:016x}");
    memory.engine.hear("n1", Heard::from_extra(extra.as_bytes(), 5));
    (memory, Fake::with(&["n1", "n2"]))
}

fn out(effects: &[Effect]) -> Vec<usize> {
    let all =
        effects.iter().filter_map(|e| if let Effect::RuleOut(out) = e { Some(out.clone()) } else { None });
    all.flatten().collect()
}

#[test]
fn only_jobs_that_need_an_unhealthy_gpu_are_kept_off_its_node() {
    let (mut memory, slurm) = nodes(true);
    let plain = JobView { request: None, ..pair() };
    let whole = job("v1 iso=whole", GresKind::Gpu, 1);
    for ask in [Ask::RunNow, Ask::WillRun] {
        let mut ruled_out = |view: &JobView| out(&case(ask, false, view).before(&mut memory, &slurm));
        let one = JobView { request: None, ..whole.clone() };
        for fits in [&instance(), &whole, &one, &job("v1 iso=mps mem=3000", GresKind::Shard, 3)] {
            assert_eq!(ruled_out(fits), Vec::<usize>::new(), "{fits:?}");
        }
        for needs in [&pair(), &plain, &JobView { exclusive: true, ..plain.clone() }] {
            assert_eq!(ruled_out(needs), [0], "{ask:?} {needs:?}");
        }
    }
    // Slurm might choose both GPUs of a node for a job that asks for some on several nodes.
    for (most_gpus, kept_off) in [(1, vec![]), (2, vec![0]), (u64::MAX, vec![0])] {
        let scattered = JobView { most_gpus, request: None, ..job("v1 iso=whole", GresKind::Gpu, 0) };
        assert_eq!(out(&case(Ask::RunNow, false, &scattered).before(&mut memory, &slurm)), kept_off);
    }
    // It may come back: no job is told that it can never run.
    assert_eq!(out(&case(Ask::TestOnly, false, &pair()).before(&mut memory, &slurm)), Vec::<usize>::new());
}

#[test]
fn shards_that_slurm_takes_from_several_gpus_wait_until_all_are_well() {
    let (mut memory, slurm) = nodes(true);
    // More than any GPU has.
    let shards = JobView { request: None, ..job("v1 iso=mps", GresKind::Shard, 57) };
    for (ask, kept_off) in [(Ask::RunNow, vec![0]), (Ask::WillRun, vec![0]), (Ask::TestOnly, vec![])] {
        assert_eq!(out(&case(ask, false, &shards).before(&mut memory, &slurm)), kept_off, "{ask:?}");
    }
}

#[test]
fn a_job_is_told_which_gpu_it_waits_for() {
    let (mut memory, mut slurm) = nodes(true);
    slurm.nodes[0].required = true;
    let mut waits = case(Ask::RunNow, false, &pair());
    let effects = waits.before(&mut memory, &slurm);
    let said =
        effects.iter().find_map(|e| if let Effect::Comment(text) = e { Some(text.as_str()) } else { None });
    assert!(said.is_some_and(|s| s.contains("GPU 1 of n1 gets no new jobs: xid 79")), "{said:?}");
    assert_eq!(waits.counts(false, Opinion::AsSlurmSays).unwrap().1, Err(Reason::Config));
}

#[test]
fn where_slurm_alone_picks_gpus_an_unhealthy_one_keeps_all_jobs_off() {
    let (mut memory, slurm) = nodes(false);
    let one = JobView { request: None, ..job("v1 iso=whole", GresKind::Gpu, 1) };
    let shards = JobView { request: None, ..job("v1 iso=mps mem=3000", GresKind::Shard, 3) };
    for view in [&one, &shards, &instance()] {
        for ask in [Ask::RunNow, Ask::WillRun] {
            assert_eq!(out(&case(ask, false, view).before(&mut memory, &slurm)), [0], "{view:?}");
        }
    }
}
