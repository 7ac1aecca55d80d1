//! What users and administrators read.

use crate::common::*;
use decision_report::*;
use geometry::*;
use insta::assert_snapshot;
use node_layout::{layout_of, parse_layout};
use node_state::*;
use placement::*;
use protocol::*;
use topology::*;

fn half_full() -> Node {
    let mut n = node(&["a100-40gb"; 4], MigPolicy::Dynamic);
    let p = Policy::default();
    for (job, isolation, mem) in
        [(12, "mig:2g.10gb", ""), (13, "whole", ""), (14, "mps", "3G"), (15, "mig", "4G")]
    {
        assert!(run(&mut n, &ask(job, isolation, mem), &p).chosen.is_some());
    }
    n.release(JobId(15));
    n
}

#[test]
fn a_layout_names_the_jobs_of_each_gpu() {
    assert_snapshot!(layout_of(&half_full()).to_string(), @"tessera gpu0=mig[2g.10gb@4:job12,1g.5gb@6:idle] gpu1=whole[job13] gpu2=mps[job14:2862M/8%] gpu3=free");
    assert_snapshot!(layout_of(&node(&["a30-24gb"; 8], MigPolicy::On)).to_string(), @"tessera gpu0-7=free");
    let mut shared = node(&["a100-40gb"], MigPolicy::Dynamic);
    for job in 1..12 {
        let _ = run(&mut shared, &ask(job, "mps", "1G"), &Policy::default());
    }
    assert_snapshot!(layout_of(&shared).to_string(), @"tessera gpu0=mps[job1:954M/3%,job2:954M/3%,job3:954M/3%,job4:954M/3%,job5:954M/3%,job6:954M/3%,job7:954M/3%,job8:954M/3%+3:2862M/9%]");
    assert_snapshot!(parse_layout("tessera gpu0=mig[2g.10gb@0:job12,1g.5gb@x:idle]").unwrap_err(), @"not a number at byte 40 of the layout");
    assert_eq!(parse_layout("tessera gpu0-63=free ...").unwrap().gpus.len(), 64);
    let ending = "tessera config=last-good ending=job3,job12 gpu0=whole[job3]";
    assert_eq!(parse_layout(ending).unwrap().ending, [JobId(3), JobId(12)]);
    assert_eq!(parse_layout(ending).unwrap().to_string(), ending);
    assert!(parse_layout("tessera ending= gpu0=free").is_err());
    assert!(parse_layout("tessera gpu0-64=free").is_err());
}

#[test]
fn every_kind_of_grant_says_why_in_one_line() {
    let p = Policy::default();
    let why = |ask: &Ask| decide(&half_full(), ask, &p).why();
    assert_snapshot!(why(&ask(20, "auto", "10G")), @"a share of 10.0 GB and 24 % of the SMs of GPU 2: joins the least loaded shared device");
    assert_snapshot!(why(&ask(20, "mig", "4G")), @"1g.5gb at memory slice 6 of GPU 0: smallest instance with 4 GB; 14 of 108 SMs; reuses an idle instance");
    assert_snapshot!(why(&ask(20, "mig:2g.10gb", "")), @"2g.10gb at memory slice 0 of GPU 0: as named; 28 of 108 SMs");
    assert_snapshot!(why(&ask(20, "mps", "3G")), @"a share of 3.0 GB and 8 % of the SMs of GPU 2: joins the least loaded shared device");
    assert_snapshot!(why(&ask(20, "whole", "")), @"GPU 3: the only free GPU");
    assert_snapshot!(why(&ask(20, "mig:2g.12gb", "")), @"nothing fits: GPUs 0-3: a100-40gb has no such profile");
    assert_snapshot!(why(&ask(20, "mig", "41G")), @"7g.40gb at memory slice 0 of GPU 3: smallest instance with 41 GB; 98 of 108 SMs");
    assert_snapshot!(why(&ask(20, "auto", "100G")), @"nothing fits: GPUs 0-3: 42.1 GB at most, 100.0 GB asked; GPU 2: 39.1 GB left, 100.0 GB asked; GPU 0: 5.1 GB at most, 100.0 GB asked; GPU 0: isolated for job 12; 3 more reasons");
    let mut two = ask(20, "mig:1g.5gb", "");
    two.request.instances = 2;
    assert_snapshot!(why(&two), @"1g.5gb at memory slices 0 and 1 of GPU 0: as named; 14 of 108 SMs each");
    let mut three = ask(20, "whole", "");
    three.request.gpus = Some(3);
    assert_snapshot!(why(&three), @"nothing fits: GPU 3: only 1 available; GPU 2: shared through MPS by job 14; GPU 0: taken by job 12; GPU 1: taken by job 13");
    let mut many = ask(20, "mig:3g.20gb", "");
    many.request.instances = 4;
    assert_snapshot!(why(&many), @"nothing fits: such instances available: 1 on GPU 0, 2 on GPU 3; GPU 2: shared through MPS by job 14; GPU 1: taken by job 13");
    many.spread = Spread::OneGpu;
    assert_snapshot!(why(&many), @"nothing fits: GPU 0: only 1 available; GPU 3: only 2 available; GPU 2: shared through MPS by job 14; GPU 1: taken by job 13");
    assert_snapshot!(why(&ask(20, "slurm", "")), @"nothing was asked for");
    let other = Ask { uid: Uid(1), ..ask(20, "mps", "3G") };
    assert_snapshot!(why(&other), @"a share of 3.0 GB and 59 % of the SMs of 1g.5gb at memory slice 6 of GPU 0: the first share there");
}

#[test]
fn every_candidate_says_why_it_was_not_chosen() {
    let p = Policy::default();
    assert_snapshot!(decision_text::decision(&decide(&half_full(), &ask(20, "auto", "10G"), &p)), @r"
    a share of 10.0 GB and 24 % of the SMs of GPU 2: joins the least loaded shared device
    552 warps in use; mps takes a device already shared, mig would take 2 of 8 memory slices, whole would take 8 of 8 memory slices
    mig   2 of 8 memory slices
      GPU 0 1g.10gb at 4: no: taken by job 12
      GPU 0 1g.10gb at 0: loses 6 placements
      GPU 0 1g.10gb at 2: loses 6 placements
      GPU 0 1g.10gb at 6: loses 2 placements, destroys an idle instance
      GPU 1: no: taken by job 13
      GPU 2: no: shared through MPS by job 14
      GPU 3 1g.10gb at 0: loses 7 placements, opens an unused GPU, switches MIG mode on
      GPU 3 1g.10gb at 2: loses 7 placements, opens an unused GPU, switches MIG mode on
      GPU 3 1g.10gb at 4: loses 6 placements, opens an unused GPU, switches MIG mode on
      GPU 3 1g.10gb at 6: loses 4 placements, opens an unused GPU, switches MIG mode on
    mps   a device already shared, chosen
      GPU 0 2g.10gb at 4: no: isolated for job 12
      GPU 0 1g.5gb at 6: no: 5.1 GB at most, 10.0 GB asked
      GPU 0 1g.10gb at 0: a new instance, loses 6 placements
      GPU 0 1g.10gb at 2: a new instance, loses 6 placements
      GPU 0 1g.10gb at 4: no: taken by job 12
      GPU 0 1g.10gb at 6: a new instance, loses 2 placements, destroys an idle instance
      GPU 1: no: taken by job 13
      GPU 2: shared already, 552 warps in use
      GPU 3: to be opened, loses 18 placements, opens an unused GPU
    whole 8 of 8 memory slices
      GPU 0: no: taken by job 12
      GPU 1: no: taken by job 13
      GPU 2: no: shared through MPS by job 14
      GPU 3: leaves 0 GB/s of links, of 1 free GPUs
    ");
    assert_snapshot!(decision_text::decision(&decide(&half_full(), &ask(20, "mig:1g.6gb", ""), &p)), @r#"
    nothing fits: GPUs 0-3: a100-40gb has no such profile
    mig   nothing fits
      GPU 0: no: a100-40gb has no such profile
      GPU 1: no: a100-40gb has no such profile
      GPU 2: no: a100-40gb has no such profile
      GPU 3: no: a100-40gb has no such profile
    "#);
}

#[test]
fn sets_of_whole_gpus() {
    let mut n = node(&["a100-40gb"; 8], MigPolicy::Dynamic);
    n.links = dgx1().into();
    let p = Policy::default();
    let why = |n: &Node, count, change: &dyn Fn(&mut Request)| {
        let mut asked = ask(20, "whole", "");
        asked.request.gpus = Some(count);
        change(&mut asked.request);
        run(&mut n.clone(), &asked, &p).why()
    };
    let same = |_: &mut Request| ();
    let insensitive = |r: &mut Request| r.bandwidth = Some(Bandwidth::Insensitive);
    let by = |policy| move |r: &mut Request| r.policy = Some(policy);
    assert_snapshot!(why(&n, 1, &same), @"GPU 0: leaves 450 GB/s of links to other jobs, the most of 8 free GPUs (preserve)");
    assert_snapshot!(why(&n, 2, &same), @"GPUs 0, 3: ring at 50 GB/s (bottleneck), the best of 8 free GPUs (preserve)");
    assert_snapshot!(why(&n, 3, &same), @"GPUs 0, 2, 3: ring at 43 GB/s (bottleneck), the best of 8 free GPUs (preserve)");
    assert_snapshot!(why(&n, 4, &same), @"GPUs 0, 1, 2, 3: ring at 52 GB/s (bottleneck), the best of 8 free GPUs (preserve)");
    assert_snapshot!(why(&n, 8, &same), @"GPUs 0, 3, 2, 1, 5, 6, 7, 4: ring at 86 GB/s (bottleneck), the only free GPUs");
    assert_snapshot!(why(&n, 4, &|r| r.pattern = Some(Pattern::Tree)), @"GPUs 0, 3, 2, 1: tree at 52 GB/s (bottleneck), the best of 8 free GPUs (preserve)");
    assert_snapshot!(why(&n, 4, &|r| r.pattern = Some(Pattern::None)), @"GPUs 0, 1, 2, 3: leaves 225 GB/s of links to other jobs, the most of 8 free GPUs (preserve)");
    assert_snapshot!(why(&n, 4, &by(Selection::Greedy)), @"GPUs 0, 1, 2, 3: ring at 52 GB/s (bottleneck), the most AggBW of 8 free GPUs (greedy)");
    assert_snapshot!(why(&n, 3, &by(Selection::TopoAware)), @"GPUs 0, 1, 2: ring at 34 GB/s (bottleneck), on the fewest sockets of 8 free GPUs (topo-aware)");
    assert_snapshot!(why(&n, 3, &by(Selection::Baseline)), @"GPUs 0, 1, 2: ring at 34 GB/s (bottleneck), the lowest numbers of 8 free GPUs (baseline)");
    let misfit = Pattern::Edges(vec![PatternEdge::new(0, 7)]);
    assert_snapshot!(why(&n, 3, &|r| r.pattern = Some(misfit.clone())), @"GPUs 0, 2, 3: largest sum of links, 125 GB/s, of 8 free GPUs");
    // GPUs 0 and 3 in use: a sensitive job gets the best that is left, an insensitive one leaves it.
    for gpu in [0, 3] {
        n.gpus[gpu].state = GpuState::Whole(JobId(1));
    }
    assert_snapshot!(why(&n, 2, &same), @"GPUs 1, 2: ring at 50 GB/s (bottleneck), the best of 6 free GPUs (preserve)");
    assert_snapshot!(why(&n, 2, &insensitive), @"GPUs 1, 2: ring at 50 GB/s (bottleneck), leaves 225 GB/s of links to other jobs, the most of 6 free GPUs (preserve)");
    assert_snapshot!(why(&n, 3, &same), @"GPUs 4, 6, 7: ring at 43 GB/s (bottleneck), the best of 6 free GPUs (preserve)");
    assert_snapshot!(why(&n, 3, &insensitive), @"GPUs 1, 2, 5: ring at 18 GB/s (bottleneck), leaves 125 GB/s of links to other jobs, the most of 6 free GPUs (preserve)");
    let mut two = ask(20, "whole", "");
    two.request.gpus = Some(2);
    assert_snapshot!(decision_text::decision(&decide(&n, &two, &p)), @r#"
    GPUs 1, 2: ring at 50 GB/s (bottleneck), the best of 6 free GPUs (preserve)
    whole 16 of 16 memory slices, chosen
      GPU 0: no: taken by job 1
      GPU 3: no: taken by job 1
      GPU 1-2: ring at 50 GB/s (bottleneck), AggBW 100 GB/s, leaves 225 GB/s of links, 5 sets as good, of 6 free GPUs
    "#);
    let large = node(&["a100-40gb"; 8], MigPolicy::Dynamic);
    assert_snapshot!(why(&large, 3, &same), @"GPUs 0, 1, 2: ring at 34 GB/s (bottleneck), as good as any of 8 free GPUs (preserve)");
}

#[test]
fn a_report_is_bounded() {
    let n = node(&["a100-40gb"; 60], MigPolicy::On);
    let d = decide(&n, &ask(1, "auto", "1G"), &Policy::default());
    assert_eq!(d.report.weighed.len(), report::MAX_WEIGHED);
    assert!(decision_text::decision(&d).ends_with("more\n"));
}

#[test]
fn a_node_that_can_never_serve_a_request_says_why() {
    let p = Policy::default();
    let on = |keys: &[&str], policy, ask: &Ask| match admits_ever(&node(keys, policy), &ask.request, &p) {
        Ok(admission) => format!("{admission:?}"),
        Err(never) => never.to_string(),
    };
    let a100 = |ask: &Ask| on(&["a100-40gb"; 8], MigPolicy::Dynamic, ask);
    assert_snapshot!(a100(&ask(0, "auto", "10G")), @"Shards(10)");
    assert_snapshot!(a100(&ask(0, "mig", "4G")), @"Shards(5)");
    assert_snapshot!(a100(&ask(0, "mps", "42G")), @"Shards(40)");
    assert_snapshot!(a100(&ask(0, "mps", "3G")), @"Shards(3)");
    assert_snapshot!(a100(&ask(0, "auto", "50G")), @"largest instance on a100-40gb is 7g.40gb with 42.1 GB; use --gpu-mem=42G or less");
    assert_snapshot!(a100(&ask(0, "mig", "50G")), @"largest instance on a100-40gb is 7g.40gb with 42.1 GB; use --gpu-mem=42G or less");
    assert_snapshot!(a100(&ask(0, "mps", "50G")), @"largest instance on a100-40gb is 7g.40gb with 42.1 GB; use --gpu-mem=42G or less");
    assert_snapshot!(a100(&ask(0, "whole", "50G")), @"a100-40gb has 42.1 GB for jobs; use --gpu-mem=42G or less");
    assert_snapshot!(a100(&ask(0, "mps", "")), @"a share needs a memory size; use --gpu-mem=SIZE with it");
    assert_snapshot!(a100(&ask(0, "mig:1g.6gb", "")), @"a100-40gb has no profile for mig:1g.6gb; it has 1g.5gb, 1g.5gb+me, 1g.10gb, 2g.10gb, 3g.20gb, 4g.20gb, 7g.40gb");
    assert_snapshot!(a100(&ask(0, "mig:1g.5gb", "10G")), @"1g.5gb has 5.1 GB, not 10.0 GB; 1g.10gb has 10.3 GB; use --gpu-isolation=mig:1g.10gb");
    assert_snapshot!(on(&["a100-40gb"], MigPolicy::Off, &ask(0, "mig", "5G")), @"the node's a100-40gb are never in MIG mode; use --gpu-isolation=mps or whole");
    assert_snapshot!(on(&["a100-40gb"], MigPolicy::On, &ask(0, "whole", "")), @"the node's a100-40gb are always in MIG mode; largest instance on a100-40gb is 7g.40gb with 42.1 GB; use --gpu-isolation=mig");
    assert_snapshot!(on(&[], MigPolicy::On, &ask(0, "whole", "")), @"the node has no GPUs");
    let many = |isolation: &str, instances, gpus| {
        let mut a = ask(0, isolation, "");
        (a.request.instances, a.request.gpus) = (instances, gpus);
        a100(&a)
    };
    assert_snapshot!(many("mig:2g.10gb", 3, None), @"Shards(30)");
    assert_snapshot!(many("mig:2g.10gb", 4, None), @"Shards(20)");
    assert_snapshot!(many("mig:2g.10gb", 25, None), @"25 such instances do not fit on an empty node, on which each GPU must carry the same number, 24 do; use --gpu-instances=24 or less");
    assert_snapshot!(many("mig:2g.10gb", 11, None), @"11 such instances do not fit on an empty node, on which each GPU must carry the same number, 10 do; use --gpu-instances=10 or less");
    assert_snapshot!(many("whole", 1, Some(4)), @"Gpus(4)");
    assert_snapshot!(many("whole", 1, Some(9)), @"9 GPUs do not fit on an empty node, 8 do; use --gpus-per-node=8 or less");
    assert_snapshot!(many("mps", 2, None), @"a job has one share per node, not several instances; use --gpu-isolation=mig for several");
    assert_snapshot!(on(&["a30-24gb", "a100-40gb"], MigPolicy::On, &ask(0, "mig", "5.5G")), @"Shards(6)");
}
