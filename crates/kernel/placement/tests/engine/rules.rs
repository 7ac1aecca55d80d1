//! One test per rule.

use crate::common::*;
use decision_report::*;
use geometry::*;
use node_layout::layout_of;
use node_state::*;
use placement::*;
use protocol::*;

#[test]
fn the_smallest_profile_with_the_memory_is_chosen() {
    let p = Policy::default();
    for (mem, want) in [
        ("4G", "1g.5gb"),
        ("5.1G", "1g.5gb"),
        ("5.2G", "1g.10gb"),
        ("10G", "1g.10gb"),
        ("10Gi", "3g.20gb"),
        ("42G", "7g.40gb"),
    ] {
        let mut n = node(&[A100], MigPolicy::Dynamic);
        assert_eq!(mig(&run(&mut n, &ask(1, "mig", mem), &p))[0].1, want, "{mem}");
    }
    assert_eq!(run(&mut node(&[A100], MigPolicy::Dynamic), &ask(1, "mig", "43G"), &p).chosen, None);
}

#[test]
fn threads_ask_for_sms() {
    for (threads, want) in
        [(16, "1g.5gb"), (17, "2g.10gb"), (45, "4g.20gb"), (60, "7g.40gb"), (100, "7g.40gb")]
    {
        let mut a = ask(1, "mig", "1G");
        a.request.threads = Some(threads);
        let d = run(&mut node(&[A100], MigPolicy::On), &a, &Policy::default());
        assert_eq!(mig(&d)[0].1, want, "{threads}");
    }
}

#[test]
fn a_partly_used_gpu_goes_before_a_free_one() {
    let mut n = node(&[A100, A100], MigPolicy::Dynamic);
    held(&mut n, 1, 1, "2g.10gb", 0);
    assert_eq!(mig(&run(&mut n, &ask(2, "mig", "4G"), &Policy::default())), [(1, "1g.5gb".to_owned(), 2)]);
}

#[test]
fn an_idle_instance_is_reused_among_equals() {
    let mut n = node(&[A100, A100], MigPolicy::On);
    held(&mut n, 1, 1, "1g.5gb", 6);
    n.release(JobId(1));
    assert_eq!(mig(&run(&mut n, &ask(2, "mig", "4G"), &Policy::default())), [(1, "1g.5gb".to_owned(), 6)]);
}

#[test]
fn idle_instances_are_never_in_the_way() {
    let mut n = node(&[A100], MigPolicy::Dynamic);
    held(&mut n, 1, 0, "1g.5gb", 3);
    n.release(JobId(1));
    assert_eq!(mig(&run(&mut n, &ask(2, "mig:7g.40gb", ""), &Policy::default()))[0].1, "7g.40gb");
    let mut n = node(&["a30-24gb"], MigPolicy::On);
    held(&mut n, 1, 0, "1g.6gb+me", 3);
    n.release(JobId(1));
    assert_eq!(mig(&run(&mut n, &ask(2, "mig:2g.12gb+me", ""), &Policy::default()))[0].1, "2g.12gb+me");
    assert_eq!(layout_of(&n).to_string(), "tessera gpu0=mig[2g.12gb+me@0:job2]");
}

#[test]
fn instances_of_one_job_are_chosen_together() {
    let mut n = node(&[A100, A100, A100], MigPolicy::On);
    held(&mut n, 1, 1, "4g.20gb", 0);
    let mut a = ask(2, "mig:2g.10gb", "");
    a.request.instances = 3;
    let at = |gpu, start| (gpu, "2g.10gb".to_owned(), start);
    assert_eq!(
        mig(&decide(&n, &a, &Policy::default())),
        [at(0, 0), at(0, 2), at(0, 4)],
        "loses 16; 1 on GPU 1, 17"
    );
    a.request.instances = 2;
    held(&mut n, 9, 2, "4g.20gb", 0);
    assert_eq!(mig(&decide(&n, &a, &Policy::default())), [at(1, 4), at(2, 4)], "opens no GPU");
    a.spread = Spread::OneGpu;
    assert_eq!(mig(&run(&mut n, &a, &Policy::default())), [at(0, 0), at(0, 2)]);
    a.job = JobId(3);
    a.request.instances = 4;
    assert_eq!(run(&mut n, &a, &Policy::default()).chosen, None, "three at most on one GPU");
    a.spread = Spread::Any;
    a.request.instances = 3;
    assert_eq!(mig(&run(&mut n, &a, &Policy::default())), [at(0, 4), at(1, 4), at(2, 4)]);
}

#[test]
fn instances_that_need_several_gpus_are_the_same_number_on_each() {
    let at = |gpu, start| (gpu, "3g.20gb".to_owned(), start);
    let alike = |n: &Node, instances, most| {
        let mut a = ask(7, "mig:3g.20gb", "");
        (a.request.instances, a.spread) = (instances, Spread::Alike { most });
        let decision = decide(n, &a, &Policy::default());
        if decision.chosen.is_some() { mig(&decision) } else { Vec::new() }
    };
    let mut n = node(&[A100, A100, A100, A100], MigPolicy::On);
    held(&mut n, 1, 0, "3g.20gb", 0);
    assert_eq!(alike(&n, 2, u32::MAX), [at(1, 0), at(1, 4)], "one GPU, though GPU 0 would open none");
    assert_eq!(alike(&n, 2, 1), [at(0, 4), at(1, 4)]);
    assert_eq!(alike(&n, 3, u32::MAX), [at(0, 4), at(1, 4), at(2, 4)], "two and one is not the same number");
    assert_eq!(alike(&n, 4, u32::MAX), [at(1, 0), at(1, 4), at(2, 0), at(2, 4)]);
    assert_eq!(alike(&n, 5, u32::MAX), []);
    held(&mut n, 2, 1, "7g.40gb", 0);
    held(&mut n, 3, 2, "3g.20gb", 4);
    held(&mut n, 4, 3, "4g.20gb", 0);
    assert_eq!(alike(&n, 2, u32::MAX).len(), 2, "no GPU has room for both");
    assert_eq!(alike(&n, 4, u32::MAX), []);
}

/// GPUs whose free slices are the same need not be the same: an engine in use, a mode to switch.
#[test]
fn gpus_that_look_the_same_are_told_apart() {
    let mut n = node(&[A100, A100], MigPolicy::On);
    held(&mut n, 1, 0, "1g.5gb", 0);
    held(&mut n, 2, 1, "1g.5gb+me", 0);
    let mut a = ask(3, "mig:1g.5gb+me", "");
    a.request.instances = 2;
    assert_eq!(run(&mut n, &a, &Policy::default()).chosen, None, "one such instance per GPU");
    let mut n = node(&[A100, A100], MigPolicy::Dynamic);
    n.gpus[1].state = GpuState::Mig(Vec::new());
    let mut a = ask(3, "mig:1g.5gb", "");
    a.request.instances = 2;
    let at = |gpu, start| (gpu, "1g.5gb".to_owned(), start);
    assert_eq!(mig(&run(&mut n, &a, &Policy::default())), [at(1, 4), at(1, 5)], "in MIG mode already");
}

#[test]
fn more_instances_than_anybody_has_are_refused_at_once() {
    let mut a = ask(1, "mig", "1G");
    for n in [15, 33, 1 << 20, u32::MAX] {
        a.request.instances = n;
        assert_eq!(run(&mut node(&[A100, A100], MigPolicy::On), &a, &Policy::default()).chosen, None);
    }
}

#[test]
fn full_media_engines_exclude_all_but_those_without() {
    let mut n = node(&["rtx-pro-6000-96gb"], MigPolicy::On);
    held(&mut n, 1, 0, "1g.24gb+me.all", 9);
    assert_eq!(run(&mut n, &ask(2, "mig", "4G"), &Policy::default()).chosen, None);
    assert_eq!(mig(&run(&mut n, &ask(3, "mig:1g.24gb-me", ""), &Policy::default())).len(), 1);
}

#[test]
fn policy_decides_on_mig_mode() {
    let p = Policy::default();
    assert_eq!(run(&mut node(&[A100], MigPolicy::Off), &ask(1, "mig", "4G"), &p).chosen, None);
    assert_eq!(run(&mut node(&[A100], MigPolicy::On), &ask(1, "whole", ""), &p).chosen, None);
    assert!(run(&mut node(&[A100], MigPolicy::Dynamic), &ask(1, "whole", ""), &p).chosen.is_some());
    let share = run(&mut node(&[A100], MigPolicy::On), &ask(1, "mps", "3G"), &p).chosen;
    assert!(matches!(share, Some(Grant::Mps { on: ShareOn::Instance(_), .. })), "{share:?}");
}

#[test]
fn shares_fill_a_gpu_before_another_is_opened() {
    let mut n = node(&[A100, A100, A100], MigPolicy::Dynamic);
    let p = Policy::default();
    let on = |d: Decision| match d.chosen {
        Some(Grant::Mps { on, threads, .. }) => (on.gpu().0, threads),
        other => panic!("{other:?}"),
    };
    assert_eq!(on(run(&mut n, &ask(1, "mps", "10G"), &p)), (0, 24), "9537 of 40192 MiB");
    assert_eq!(on(run(&mut n, &ask(2, "mps", "10G"), &p)), (0, 24));
    let other = Ask { uid: Uid(7), ..ask(3, "mps", "10G") };
    assert_eq!(on(run(&mut n, &other, &p)).0, 1, "another user's daemon");
    let mut wide = ask(4, "mps", "1G");
    wide.request.threads = Some(90);
    assert_eq!(on(run(&mut n, &wide, &p)), (2, 90), "48 + 90 percent");
    let wide = Ask { job: JobId(5), ..wide };
    assert_eq!(on(run(&mut n, &wide, &p)).0, 0, "oversubscribed where the fewest warps are in use");
    assert_eq!(run(&mut n, &ask(6, "mps", "42.2G"), &p).chosen, None, "memory is hard");
    let together = Policy { share_between_users: true, ..p };
    assert_eq!(on(run(&mut n, &Ask { uid: Uid(9), ..ask(7, "mps", "1G") }, &together)).0, 1);
}

/// MPS serves 48 clients on a GPU, and on an instance of one of seven compute slices the seventh part.
#[test]
fn a_device_has_no_more_shares_than_mps_serves_clients() {
    let shares = |policy| {
        let mut n = node(&["h100-80gb-sxm"], policy);
        let mut start = |job| run(&mut n, &ask(job, "mps", "1G"), &Policy::default());
        (1..100).take_while(|job| start(*job).chosen.is_some()).count()
    };
    assert_eq!([shares(MigPolicy::Off), shares(MigPolicy::On)], [48, 7 * 6]);
    let mut n = node(&["h100-80gb-sxm"], MigPolicy::Off);
    let told = (1..50).map(|job| run(&mut n, &ask(job, "mps", "1G"), &Policy::default())).last();
    let told = decision_text::decision(&told.unwrap());
    assert!(told.contains("has 48 shares, as many as MPS serves clients there"), "{told}");
}

/// Devices of different size compare by the part that is promised, as for GPU tasks: 60 % of 14 SMs are fewer warps than 40 %
/// of 42, but more in the way of the next share.
#[test]
fn a_share_joins_the_least_loaded_instance() {
    let mut n = node(&[A100], MigPolicy::On);
    let p = Policy::default();
    let mut start = |job, mem, threads| {
        let mut ask = ask(job, "mps", mem);
        ask.request.threads = Some(threads);
        match run(&mut n, &ask, &p).chosen {
            Some(Grant::Mps { on: ShareOn::Instance(spec), .. }) => (spec.profile, spec.start),
            other => panic!("{other:?}"),
        }
    };
    // 9 % of the GPU is 63 % of a 1g.5gb, 17 % is 40 % of a 3g.20gb, and 2 % is 5 % of that.
    let (small, large) = (start(1, "4G", 9), start(2, "15G", 17));
    assert_ne!(small.0, large.0, "two sizes");
    for job in 3..8 {
        assert_eq!(start(job, "300M", 2), large, "job {job}: 63 % of the other are promised");
    }
    assert_eq!(start(8, "300M", 2), small, "65 % of the larger one are promised");
}

#[test]
fn isolated_and_shared_never_mix_in_one_instance() {
    let mut n = node(&[A100], MigPolicy::On);
    held(&mut n, 1, 0, "4g.20gb", 0);
    for job in 2..8 {
        if let Some(Grant::Mps { on: ShareOn::Instance(spec), .. }) =
            run(&mut n, &ask(job, "mps", "3G"), &Policy::default()).chosen
        {
            assert!(spec.start.0 >= 4);
        }
    }
}

#[test]
fn an_ended_share_leaves_the_device_as_it_was() {
    let mut n = node(&[A100], MigPolicy::Dynamic);
    for job in [1, 2] {
        let _ = run(&mut n, &ask(job, "mps", "3G"), &Policy::default());
    }
    n.release(JobId(1));
    assert_eq!(layout_of(&n).to_string(), "tessera gpu0=mps[job2:2862M/8%]");
    n.release(JobId(2));
    assert_eq!(layout_of(&n).to_string(), "tessera gpu0=free");
}

#[test]
fn auto_takes_what_costs_others_least() {
    let p = Policy::default();
    let mut n = node(&[A100, A100], MigPolicy::Dynamic);
    assert_eq!(mig(&run(&mut n, &ask(1, "auto", "10G"), &p))[0].1, "1g.10gb");
    let _ = run(&mut n, &ask(2, "mps", "3G"), &p);
    let joined = run(&mut n, &ask(3, "auto", "3G"), &p);
    assert!(matches!(joined.chosen, Some(Grant::Mps { .. })), "{}", decision_text::decision(&joined));
    let off = run(&mut node(&[A100], MigPolicy::Off), &ask(1, "auto", "10G"), &p);
    assert!(matches!(off.chosen, Some(Grant::Mps { .. })), "{}", decision_text::decision(&off));
    let mut three = ask(1, "auto", "10G");
    three.request.gpus = Some(3);
    let whole = run(&mut node(&[A100; 4], MigPolicy::Dynamic), &three, &p);
    assert_eq!(whole.chosen, Some(Grant::Whole(gpus(&[0, 1, 2]))));
}

#[test]
fn auto_oversubscribes_only_where_nothing_else_fits() {
    let p = Policy::default();
    let mut wide = ask(1, "mps", "3G");
    wide.request.threads = Some(90);
    let mut n = node(&[A100, A100], MigPolicy::Dynamic);
    let _ = run(&mut n, &wide, &p);
    assert_eq!(
        mig(&run(&mut n, &Ask { job: JobId(2), ..ask(2, "auto", "10G") }, &p)),
        [(1, "1g.10gb".to_owned(), 6)]
    );
    let mut n = node(&[A100], MigPolicy::Dynamic);
    let _ = run(&mut n, &wide, &p);
    let crowded = run(&mut n, &ask(2, "auto", "10G"), &p);
    assert!(matches!(crowded.chosen, Some(Grant::Mps { .. })), "{}", decision_text::decision(&crowded));
}

/// 40192 MiB is what an A100 promises, as a 7g.40gb does.
#[test]
fn memory_limits_hold_to_the_last_mebibyte() {
    for isolation in ["mig", "mps", "whole"] {
        for (mem_mib, fits) in [(40_192, true), (40_193, false)] {
            let mut a = ask(1, isolation, "");
            a.request.mem_mib = Some(mem_mib);
            let d = run(&mut node(&[A100], MigPolicy::Dynamic), &a, &Policy::default());
            assert_eq!(d.chosen.is_some(), fits, "{isolation} {mem_mib}");
        }
    }
}

#[test]
fn defaults_fill_in_memory_but_never_against_a_named_profile() {
    let p = Policy { default_mem_mib: Some(9000), mps_threads: Some(25), ..Policy::default() };
    let d = run(&mut node(&[A100], MigPolicy::Dynamic), &ask(1, "mps", ""), &p);
    assert!(
        matches!(d.chosen, Some(Grant::Mps { mem_mib: 9000, threads: 25, .. })),
        "{}",
        decision_text::decision(&d)
    );
    assert_eq!(mig(&run(&mut node(&[A100], MigPolicy::On), &ask(1, "mig", ""), &p))[0].1, "1g.10gb");
    assert_eq!(mig(&run(&mut node(&[A100], MigPolicy::On), &ask(1, "mig:1g.5gb", ""), &p))[0].1, "1g.5gb");
    // The site's threads are a part of the instance, and rule none out.
    let small = Policy { default_mem_mib: Some(4000), mps_threads: Some(50), ..Policy::default() };
    let d = run(&mut node(&[A100], MigPolicy::On), &ask(1, "mps", ""), &small);
    let Some(Grant::Mps { on: ShareOn::Instance(on), threads: 50, .. }) = d.chosen else {
        panic!("{}", decision_text::decision(&d))
    };
    assert_eq!(Model::find(A100).unwrap().profile_by_id(on.profile).unwrap().name, "1g.5gb");
    let none = run(&mut node(&[A100], MigPolicy::On), &ask(1, "mps", ""), &Policy::default());
    assert_eq!(none.chosen, None);
}

#[test]
fn a_forged_or_stale_grant_is_refused() {
    let mut n = node(&[A100], MigPolicy::On);
    held(&mut n, 1, 0, "2g.10gb", 2);
    let spec = |gpu, profile, start| MigSpec {
        gpu: GpuIndex(gpu),
        profile: ProfileId(profile),
        start: Slice(start),
    };
    let mig = |s| Grant::Mig(vec![s]);
    let share = |s| Grant::Mps { on: ShareOn::Instance(s), mem_mib: 100, threads: 1 };
    for grant in [
        mig(spec(0, 19, 3)),
        mig(spec(0, 19, 7)),
        mig(spec(0, 77, 0)),
        mig(spec(0, 0, 255)),
        mig(spec(9, 19, 0)),
        Grant::Mig(vec![spec(0, 19, 0), spec(0, 19, 0)]),
        Grant::Mig(vec![]),
        Grant::Whole(vec![]),
        Grant::Whole(gpus(&[0])),
        share(spec(0, 14, 2)),
        Grant::Mps { on: ShareOn::Gpu(GpuIndex(0)), mem_mib: 100, threads: 1 },
        Grant::Mps { on: ShareOn::Instance(spec(0, 19, 0)), mem_mib: 4865, threads: 1 },
    ] {
        let before = layout_of(&n).to_string();
        assert!(n.apply(JobId(2), Uid(1), &grant).is_err(), "{grant:?}");
        assert_eq!(layout_of(&n).to_string(), before);
    }
}

#[test]
fn a_gpu_that_the_site_has_cut_is_used_as_it_is() {
    let instances = |list: &[(&str, u8)]| {
        let model = Model::find(A100).unwrap();
        let one = |(name, start): &(&str, u8)| (model.profile(name).unwrap().id, Slice(*start));
        Gpu::kept(model, Purpose::Static, &list.iter().map(one).collect::<Vec<_>>())
    };
    let p = Policy::default();
    let mut n = node(&[A100], MigPolicy::On);
    n.gpus[0] = instances(&[("3g.20gb", 0), ("3g.20gb", 4)]);
    // A larger instance does, and none other is made.
    assert_eq!(mig(&run(&mut n, &ask(1, "mig", "4G"), &p)), [(0, "3g.20gb".to_owned(), 0)]);
    assert_eq!(run(&mut n, &ask(2, "mig:1g.5gb", ""), &p).chosen, None);
    assert_eq!(run(&mut n, &ask(3, "whole", ""), &p).chosen, None);
    assert!(run(&mut n, &ask(4, "mps", "2G"), &p).chosen.is_some());
    assert_eq!(run(&mut n, &ask(5, "mig", "4G"), &p).chosen, None);
    assert_eq!(layout_of(&n).to_string(), "tessera gpu0=mig[3g.20gb@0:job1,3g.20gb@4:mps[job4:1908M/10%]]");
    assert!(n.release(JobId(1)) && n.release(JobId(4)));
    assert_eq!(layout_of(&n).to_string(), "tessera gpu0=mig[3g.20gb@0:idle,3g.20gb@4:idle]");
    // One job's instances may be of several sizes.
    n.gpus[0] = instances(&[("4g.20gb", 0), ("1g.5gb", 4), ("1g.5gb", 5)]);
    let two = |mem| {
        let ask = ask(6, "mig", mem);
        Ask { request: Request { instances: 2, ..ask.request.clone() }, ..ask }
    };
    assert_eq!(mig(&decide(&n, &two("4G"), &p)), [(0, "1g.5gb".to_owned(), 4), (0, "1g.5gb".to_owned(), 5)]);
    assert_eq!(decide(&n, &two("8G"), &p).chosen, None);
    assert_eq!(layout_of(&n.emptied()).to_string(), layout_of(&n).to_string());
}

#[test]
fn a_gpu_is_given_for_what_it_is_kept_for() {
    let p = Policy::default();
    let kept = |purpose| {
        let mut n = node(&[A100], MigPolicy::Dynamic);
        n.gpus[0] = Gpu::kept(n.gpus[0].model, purpose, &[]);
        n
    };
    let may = |n: &Node, ask: &Ask| decide(n, ask, &p).chosen.is_some();
    let all = [ask(1, "mig", "4G"), ask(1, "mps", "4G"), ask(1, "whole", "")];
    let of = |purpose| all.each_ref().map(|ask| may(&kept(purpose), ask));
    assert_eq!(of(Purpose::Any), [true, true, true]);
    assert_eq!(of(Purpose::Whole), [false, false, true]);
    assert_eq!(of(Purpose::Shares), [false, true, false]);
    assert_eq!(of(Purpose::Slurm), [false, false, false]);
    let plain = Ask { plain: true, ..ask(1, "whole", "") };
    assert!(may(&kept(Purpose::Slurm), &plain) && !may(&kept(Purpose::Shares), &plain));
    assert_eq!(layout_of(&kept(Purpose::Slurm)).to_string(), "tessera gpu0=slurm");
    let why = decide(&kept(Purpose::Slurm), &all[2], &p).why();
    assert_eq!(why, "nothing fits: GPU 0: left to Slurm (gpu_use)");
}

#[test]
fn an_unhealthy_gpu_keeps_its_jobs_and_gets_no_new_ones() {
    let p = Policy::default();
    let mut n = node(&[A100; 2], MigPolicy::Dynamic);
    assert!(run(&mut n, &ask(1, "mig:1g.5gb", ""), &p).chosen.is_some());
    assert!(run(&mut n, &ask(2, "mps", "1G"), &p).chosen.is_some());
    n.gpus.iter_mut().for_each(|gpu| gpu.left_out = true);
    let before = layout_of(&n).to_string();
    for (isolation, mem) in
        [("auto", "1G"), ("mig:1g.5gb", ""), ("mig-shared:1c.2g.10gb", "1G"), ("mps", "1G"), ("whole", "")]
    {
        let asked = ask(3, isolation, mem);
        let decision = run(&mut n, &asked, &p);
        assert_eq!(decision.chosen, None, "{isolation}");
        let why = decision.why();
        assert!(why.contains("unhealthy, so it gets no new jobs"), "{isolation}: {why}");
        // It may come back: no job is refused for ever.
        assert!(admits_ever(&n, &asked.request, &p).is_ok(), "{isolation}");
    }
    assert_eq!(layout_of(&n).to_string(), before);
    n.gpus[1].left_out = false;
    assert!(run(&mut n, &ask(3, "mps", "1G"), &p).chosen.is_some());
}

#[test]
fn some_gpus_stay_uncut() {
    let p = Policy::default();
    let mut n = Node { keep_uncut: 2, ..node(&[A100; 3], MigPolicy::Dynamic) };
    let big = |job| ask(job, "mig:7g.40gb", "");
    assert!(run(&mut n, &big(1), &p).chosen.is_some());
    assert_eq!(run(&mut n, &big(2), &p).chosen, None);
    assert_eq!(run(&mut n, &ask(2, "mps", "1G"), &p).chosen, None);
    let why = decide(&n, &ask(2, "mps", "1G"), &p).why();
    assert_eq!(
        why,
        "nothing fits: GPUs 1-2: 2 GPUs of the node stay uncut (keep_uncut); GPU 0: isolated for job 1; GPU 0: taken by job 1"
    );
    // Whole jobs take them, and that makes no more room for instances.
    assert!(run(&mut n, &ask(3, "whole", ""), &p).chosen.is_some());
    assert_eq!(run(&mut n, &big(4), &p).chosen, None);
    assert!(n.release(JobId(1)));
    assert!(run(&mut n, &big(5), &p).chosen.is_some());
    // A job's instances do not spread onto them either.
    let mut n = Node { keep_uncut: 2, ..node(&[A100; 3], MigPolicy::Dynamic) };
    let ask = ask(6, "mig:3g.20gb", "");
    let several = |count| Ask { request: Request { instances: count, ..ask.request.clone() }, ..ask.clone() };
    assert!(decide(&n, &several(2), &p).chosen.is_some());
    assert_eq!(decide(&n, &several(3), &p).chosen, None);
    n.keep_uncut = 1;
    assert!(decide(&n, &several(3), &p).chosen.is_some());
}
