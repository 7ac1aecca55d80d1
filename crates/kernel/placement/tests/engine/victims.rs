//! The jobs that must go, against every set of jobs.

use crate::common::*;
use geometry::*;
use node_layout::layout_of;
use node_state::*;
use placement::*;
use proptest::prelude::*;
use protocol::ShareOn;

/// The best of all sets, by trying each.
fn by_hand(
    node: &Node,
    ask: &Ask,
    policy: &Policy,
    victims: &[Victim],
    lacks: HostResources,
) -> Option<Vec<JobId>> {
    let will_do = |set: &u32| {
        let mut node = node.clone();
        let mut sum = HostResources::default();
        for (victim, i) in victims.iter().zip(0..).filter(|(_, i)| set >> i & 1 == 1) {
            let _ = i;
            node.release(victim.job);
            sum.cores += victim.has.cores;
            sum.memory_mib += victim.has.memory_mib;
        }
        sum.cores >= lacks.cores
            && sum.memory_mib >= lacks.memory_mib
            && decide(&node, ask, policy).chosen.is_some()
    };
    let sets = (0..1_u32 << victims.len()).filter(will_do);
    let best = sets.min_by_key(|set| (set.count_ones(), *set))?;
    Some(victims.iter().zip(0..).filter(|(_, i)| best >> i & 1 == 1).map(|(v, _)| v.job).collect())
}

/// Jobs on the node in an order of importance, with their rooms.
fn victims(node: &Node, order: &[u32], rooms: &[(u64, u64)]) -> Vec<Victim> {
    let here = (1..40).map(JobId).filter(|job| node.gpus_of(*job).next().is_some());
    let mut jobs: Vec<(u32, JobId)> =
        here.map(|job| (order[job.0 as usize], job)).filter(|(o, _)| *o > 10).collect();
    jobs.sort_unstable();
    let of = |(_, job): (u32, JobId)| {
        let (cores, memory_mib) = rooms[job.0 as usize];
        Victim { job, has: HostResources { cores, memory_mib } }
    };
    jobs.into_iter().take(9).map(of).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_fewest_and_least_important_go(
        (mut node, events) in (ruled_nodes(4), events(14)), ask in prop_oneof![2 => asks(2), 1 => whole_asks()],
        policy in site_policies(), order in prop::collection::vec(0..100_u32, 40),
        rooms in prop::collection::vec((0..8_u64, 0..1000_u64), 40), lacks in (0..12_u64, 0..1500_u64),
    ) {
        live(&mut node, &policy, &events);
        // Instances that somebody placed against the rule may stay, and the end of all of them gives no right to a new one.
        let uncut = node.gpus.iter().filter(|g| g.is_flexible() && !g.is_cut()).count();
        node.keep_uncut = node.keep_uncut.min(uncut);
        let ask = Ask { job: JobId(999), quotas: Vec::new(), ..ask };
        let victims = victims(&node, &order, &rooms);
        let lacks = HostResources { cores: lacks.0.saturating_sub(6), memory_mib: lacks.1.saturating_sub(700) };
        let least = least_victims(&node, &ask, &policy, &victims, lacks);
        prop_assert_eq!(least, by_hand(&node, &ask, &policy, &victims, lacks), "{}", layout_of(&node));
    }
}

fn all(jobs: &[u32]) -> Vec<Victim> {
    jobs.iter()
        .map(|job| Victim { job: JobId(*job), has: HostResources { cores: 1, memory_mib: 100 } })
        .collect()
}

fn going(node: &Node, ask: &Ask, victims: &[Victim]) -> Option<Vec<u32>> {
    let least = least_victims(node, ask, &Policy::default(), victims, HostResources::default());
    least.map(|jobs| jobs.into_iter().map(|j| j.0).collect())
}

#[test]
fn one_job_goes_for_a_large_instance_and_not_three() {
    let mut n = node(&[A100, A100], MigPolicy::Dynamic);
    held(&mut n, 1, 0, "2g.10gb", 0);
    held(&mut n, 2, 0, "2g.10gb", 2);
    held(&mut n, 3, 0, "3g.20gb", 4);
    held(&mut n, 4, 1, "7g.40gb", 0);
    let seven = ask(9, "mig:7g.40gb", "");
    // Job 4 is the most important, and still the only one that suffices alone.
    assert_eq!(going(&n, &seven, &all(&[1, 2, 3, 4])), Some(vec![4]));
    assert_eq!(going(&n, &seven, &all(&[1, 2, 3])), Some(vec![1, 2, 3]));
    assert_eq!(going(&n, &seven, &all(&[1, 3])), None);
    assert_eq!(going(&n, &ask(9, "mig:3g.20gb", ""), &all(&[3, 1, 4, 2])), Some(vec![3]));
}

#[test]
fn whole_gpus_come_from_those_with_the_fewest_jobs() {
    let mut n = node(&[A100; 3], MigPolicy::Dynamic);
    for (job, (gpu, start)) in (1..).zip([(0, 0), (0, 2), (0, 4), (1, 0), (1, 2), (2, 0), (2, 4)]) {
        held(&mut n, job, gpu, "2g.10gb", start);
    }
    let mut two = ask(9, "whole", "");
    two.request.gpus = Some(2);
    assert_eq!(going(&n, &two, &all(&[1, 2, 3, 4, 5, 6, 7])), Some(vec![4, 5, 6, 7]));
    let one = ask(9, "whole", "");
    assert_eq!(going(&n, &one, &all(&[6, 7, 1, 2, 3, 4, 5])), Some(vec![6, 7]));
}

#[test]
fn a_device_that_a_waiting_job_has_claimed_makes_no_room() {
    let mut n = node(&["v100-16gb"; 2], MigPolicy::Off);
    let pool = Policy { tasks: Some(PoolPolicy::default()), ..Policy::default() };
    let tasks = |job| ask(job, "tasks:probes", "");
    let _ = run(&mut n, &tasks(1), &pool);
    let _ = run(&mut n, &ask(2, "whole", ""), &pool);
    n.claims.push(Claim { job: JobId(9), on: ShareOn::Gpu(GpuIndex(0)) });
    assert_eq!(layout_of(&n).to_string(), "tessera gpu0=tasks[job1*1>job9] gpu1=whole[job2]");
    let least = |job| least_victims(&n, &tasks(3), &pool, &all(&[job]), HostResources::default());
    assert_eq!(least(2), Some(vec![JobId(2)]));
    assert_eq!(least(1), None);
}

#[test]
fn a_gpu_that_is_kept_uncut_is_opened_by_emptying_another() {
    let mut n = node(&["a30-24gb", "a30-24gb", A100], MigPolicy::Dynamic);
    held(&mut n, 1, 0, "1g.6gb", 0);
    held(&mut n, 2, 0, "1g.6gb", 1);
    held(&mut n, 3, 1, "1g.6gb", 0);
    n.keep_uncut = 1;
    // Only the A100 has so much, and it is the last uncut GPU.
    let share = ask(9, "mps", "30G");
    assert_eq!(going(&n, &share, &all(&[1, 2, 3])), Some(vec![3]));
    assert_eq!(going(&n, &share, &all(&[1, 2])), Some(vec![1, 2]));
    assert_eq!(going(&n, &share, &all(&[1])), None);
}

#[test]
fn a_pool_that_the_request_joins_does_not_end_for_memory_alone() {
    let mut n = node(&["rtx-pro-6000-96gb"], MigPolicy::Dynamic);
    held(&mut n, 1, 0, "1g.24gb", 0);
    held(&mut n, 3, 0, "1g.24gb", 6);
    let pool = Policy { tasks: Some(PoolPolicy::default()), ..Policy::default() };
    let _ = run(&mut n, &ask(2, "tasks:probes", "20G"), &pool);
    assert_eq!(
        layout_of(&n).to_string(),
        "tessera gpu0=mig[1g.24gb@0:job1,1g.24gb@3:tasks[job2*1],1g.24gb@6:job3]"
    );
    let mut five = ask(9, "tasks:probes", "20G");
    five.request.seats = 5;
    // Three seats beside job 2 and four on a new instance; without job 2, no instance has five until job 3 ends, too.
    let gives = |memory_mib| HostResources { cores: 0, memory_mib };
    let victims = [(2, 28), (3, 0)].map(|(job, has)| Victim { job: JobId(job), has: gives(has) });
    let least = |lacks| least_victims(&n, &five, &pool, &victims, gives(lacks));
    assert_eq!(least(0), Some(vec![]));
    assert_eq!(least(1), Some(vec![JobId(2), JobId(3)]));
}

#[test]
fn cores_and_memory_come_from_somebody_too() {
    let mut n = node(&[A100, A100], MigPolicy::Dynamic);
    held(&mut n, 1, 0, "7g.40gb", 0);
    held(&mut n, 2, 1, "7g.40gb", 0);
    let with = |cores| HostResources { cores, memory_mib: 0 };
    let victims = [(1, 2), (2, 8), (3, 8)].map(|(job, cores)| Victim { job: JobId(job), has: with(cores) });
    let going = |cores| {
        let seven = ask(9, "mig:7g.40gb", "");
        least_victims(&n, &seven, &Policy::default(), &victims, with(cores))
            .map(|j| j.iter().map(|j| j.0).collect::<Vec<_>>())
    };
    assert_eq!(going(0), Some(vec![1]));
    assert_eq!(going(4), Some(vec![2]));
    assert_eq!(going(10), Some(vec![1, 2]));
    assert_eq!(going(16), Some(vec![2, 3]));
    assert_eq!(going(19), None);
}

#[test]
fn where_there_are_too_many_sets_the_answer_still_makes_room() {
    let mut n = node(&[A100; 8], MigPolicy::Dynamic);
    let share = |job: u32| {
        let mut share = ask(job, "mps", "900M");
        share.request.threads = Some(2);
        share
    };
    let placed = |n: &mut Node, job: &u32| run(n, &share(*job), &Policy::default()).chosen.is_some();
    let jobs: Vec<u32> = (1..1000).take_while(|job| placed(&mut n, job)).collect();
    assert!(jobs.len() > 300, "{}", jobs.len());
    let mut two = ask(9999, "whole", "");
    two.request.gpus = Some(2);
    for (want, lacks) in [(ask(9999, "mig:7g.40gb", ""), 0), (ask(9999, "mig:7g.40gb", ""), 200), (two, 0)] {
        // Few give several cores: they are not spared for those that give one.
        let victims = jobs.iter().map(|job| Victim {
            job: JobId(*job),
            has: HostResources { cores: if job % 16 == 0 { 20 } else { 1 }, memory_mib: 0 },
        });
        let victims: Vec<Victim> = victims.collect();
        let lacks = HostResources { cores: lacks, memory_mib: 0 };
        let least = least_victims(&n, &want, &Policy::default(), &victims, lacks).unwrap();
        let mut after = n.clone();
        least.iter().for_each(|job| assert!(after.release(*job)));
        assert!(run(&mut after, &want, &Policy::default()).chosen.is_some());
        let given: u64 = victims.iter().filter(|v| least.contains(&v.job)).map(|v| v.has.cores).sum();
        assert!(given >= lacks.cores, "{given}");
        let on_a_gpu = jobs.len() / 8;
        let gpus = want.request.gpus.unwrap_or(1) as usize;
        let for_cores = usize::try_from(lacks.cores).unwrap();
        assert!(least.len() <= gpus * on_a_gpu + for_cores, "{} end", least.len());
    }
    // Within the search, and too many sets for it: the cores come from those that have most.
    let mut n = node(&[A100; 16], MigPolicy::Dynamic);
    let places = (0..16).flat_map(|gpu| (0..7).map(move |start| (gpu, start)));
    for (job, (gpu, start)) in (1..).zip(places) {
        held(&mut n, job, gpu, "1g.5gb", start);
    }
    let cores = |job: u32| u64::from(job * 7 % 5);
    let victims: Vec<Victim> = (1..=112)
        .map(|job| Victim { job: JobId(job), has: HostResources { cores: cores(job), memory_mib: 0 } })
        .collect();
    let lacks = HostResources { cores: 112, memory_mib: 0 };
    let least =
        least_victims(&n, &ask(9999, "mig:7g.40gb", ""), &Policy::default(), &victims, lacks).unwrap();
    // Seven of one GPU, and the rest by fours.
    assert!(least.len() <= 7 + 112_usize.div_ceil(4), "{}", least.len());
}

/// The least for one whole GPU's worth: all jobs of some GPU, and the fewest others that have the cores still lacking.
fn least_by_counting(node: &Node, victims: &[Victim], lacks: u64) -> usize {
    let gpus = (0..u16::try_from(node.gpus.len()).unwrap()).map(GpuIndex);
    let of_gpu = |gpu: GpuIndex| {
        let (here, elsewhere): (Vec<&Victim>, Vec<&Victim>) =
            victims.iter().partition(|v| node.gpus_of(v.job).any(|g| g == gpu));
        let mut cores: Vec<u64> = elsewhere.iter().map(|v| v.has.cores).collect();
        cores.sort_unstable();
        let mut left = lacks.saturating_sub(here.iter().map(|v| v.has.cores).sum());
        let mut count = here.len();
        while left > 0 {
            left = left.saturating_sub(cores.pop().unwrap());
            count += 1;
        }
        count
    };
    gpus.map(of_gpu).min().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn of_hundreds_of_jobs_the_fewest_go(
        shares in prop::collection::vec((500..1500_u64, 0..5_u64, 0..1000_u32), 150..240), part in 0..100_u64,
    ) {
        let mut n = node(&[A100; 6], MigPolicy::Dynamic);
        let mut victims = Vec::new();
        for (job, (mem_mib, cores, order)) in (1..).zip(&shares) {
            let mut share = ask(job, "mps", "1G");
            (share.request.mem_mib, share.request.threads) = (Some(*mem_mib), Some(2));
            if run(&mut n, &share, &Policy::default()).chosen.is_some() {
                victims.push((*order, Victim { job: JobId(job), has: HostResources { cores: *cores, memory_mib: 0 } }));
            }
        }
        victims.sort_by_key(|(order, victim)| (*order, victim.job.0));
        let victims: Vec<Victim> = victims.into_iter().map(|(_, v)| v).collect();
        prop_assume!(victims.len() > 128);
        let lacks = victims.iter().map(|v| v.has.cores).sum::<u64>() * part / 100;
        let seven = ask(9999, "mig:7g.40gb", "");
        prop_assume!(!fits(&n, &seven, &Policy::default()));
        let room = HostResources { cores: lacks, memory_mib: 0 };
        let least = least_victims(&n, &seven, &Policy::default(), &victims, room).unwrap();
        let mut after = n.clone();
        least.iter().for_each(|job| assert!(after.release(*job)));
        prop_assert!(fits(&after, &seven, &Policy::default()));
        prop_assert!(victims.iter().filter(|v| least.contains(&v.job)).map(|v| v.has.cores).sum::<u64>() >= lacks);
        prop_assert_eq!(least.len(), least_by_counting(&n, &victims, lacks));
    }
}
