//! The strings that travel with a job come back as they went, and no bytes make the parsers panic.
#![allow(clippy::unwrap_used, reason = "tests")]

use geometry::{GpuIndex, JobId, Model, ProfileId, Slice};
use proptest::prelude::*;
use protocol::moldable::{MAX_MILLIS, PlannedStart, SizeTime};
use protocol::wire::{
    JobPlacement, MAX_CAP_W, MAX_WHY, encode_placement, encode_request, parse_placement, parse_request,
    plain_why, split_node, with_node,
};
use protocol::{
    AdminComment, Bandwidth, ComputeSpec, Grant, Isolation, MOST_SECONDS, MigSpec, NodeGrant, PoolSeats,
    Request, SetWait, ShareOn, TaskDevices, TaskGrant,
};
use topology::{Pattern, PatternEdge, Selection};

fn a100(_node: &str, gpu: GpuIndex) -> Option<&'static Model> {
    Model::find("a100-40gb").filter(|_| gpu.0 < 8)
}

#[test]
fn request_reads_as_documented() {
    let text = "v1 iso=mig:2g.10gb typed=1 mem=9537 inst=2 seats=4 threads=25 pattern=ring bw=sensitive gpus=3 policy=greedy \
                wait=12.5:1200 times=1g:60,2g:35.5 job-profile=bert place=3@4 cap=200";
    let request = parse_request(text).unwrap();
    assert_eq!(request.isolation, Isolation::Mig(Some("2g.10gb".to_owned())));
    assert_eq!(encode_request(&request), text);
    assert_eq!(encode_request(&parse_request("v1 iso=auto").unwrap()), "v1 iso=auto");
    let auto = "v1 iso=whole job-profile=bert cap=auto counters=a100-40gb:ncu:45123:12000:1:80000:5:0:0:0,h100:dcgm:1::2::3:4:5:6";
    let request = parse_request(auto).unwrap();
    assert!(request.auto_cap && request.counters.len() == 2 && !request.is_moldable());
    assert_eq!(encode_request(&request), auto);
}

#[test]
fn bad_requests_name_the_part() {
    let error = |text| parse_request(text).unwrap_err().to_string();
    assert_eq!(error("v2 iso=mig"), "not version 1 in \"v2 iso=mig\"");
    assert_eq!(error("v1 iso=mig threads=101"), "a number out of range in \"101\"");
    assert_eq!(error("v1 iso=mig mem=1 mem=2"), "repeated key in \"mem=2\"");
    assert_eq!(error("v1 iso=mig mem=+1"), "a number out of range in \"+1\"");
    assert_eq!(error("v1 iso=mig typed=0"), "a number out of range in \"0\"");
    assert_eq!(error("v1 iso=mig place=3@99"), "not GPU@START in \"3@99\"");
    assert_eq!(error("v1 iso=mig times=1g:0"), "not times per size in \"1g:0\"");
    assert_eq!(error("v1 iso=whole policy=best"), "unknown policy in \"best\"");
    assert_eq!(error("v1 iso=whole wait=25"), "not GBPS:SECONDS in \"25\"");
    assert_eq!(error("v1 iso=whole pattern=edges:0-1*0"), "not an edge's weight in \"0-1*0\"");
    let twice = "v1 iso=whole pattern=edges:0-1,1-2,1-0*2";
    assert_eq!(error(twice), "an edge that is listed twice in \"1-0*2\"");
    assert_eq!(error("v1 iso=whole counters=a:b:1"), "not counters in \"a:b:1\"");
    let many = ["a:b:1:2:3:4:5:6:7:8"; 9].join(",");
    let many = parse_request(&format!("v1 iso=whole counters={many}")).unwrap_err().to_string();
    assert!(many.starts_with("too many counters in "), "{many}");
    assert_eq!(error("v1 iso=whole colour=red"), "unknown key in \"colour\"");
    assert_eq!(error("v1 iso=mig:$(reboot)"), "unknown isolation in \"mig:$(reboot)\"");
}

#[test]
fn placement_reads_as_documented() {
    let text = "v1 job=12;n1=mig:3/2g.10gb@4,3/2g.10gb@0;n2=mps:1/mem=2862/threads=25;\
                n2b=mps:0/1g.5gb@2/mem=2862/threads=25/cap=150;n3=whole:0,3,4;n4=whole:1/cap=190;\
                n5=mig:3/7g.40gb@0/4c@0/mem=19073;n6=mig:3/7g.40gb@0/3c@4/mem=19073/cap=230;n7=mig:0/1g.5gb@6/cap=200";
    let placement = parse_placement(text, &a100).unwrap();
    let whole = Grant::Whole(vec![GpuIndex(0), GpuIndex(3), GpuIndex(4)]);
    assert_eq!(placement.on("n3"), Some(&NodeGrant::from(whole)));
    let seven = Model::find("a100-40gb").unwrap().profile("7g.40gb").unwrap().id;
    let within = MigSpec { gpu: GpuIndex(3), profile: seven, start: Slice(0) };
    let part = ComputeSpec { slices: 3, start: Slice(4) };
    let grant = Grant::Compute { within, part, mem_mib: 19073 };
    assert_eq!(placement.on("n6"), Some(&NodeGrant { grant, cap_w: Some(230) }));
    assert_eq!(encode_placement(&placement, &a100), text);
}

#[test]
fn bad_placements_name_the_part() {
    let error = |text| parse_placement(text, &a100).unwrap_err().to_string();
    assert_eq!(error("v1 job=1;n1=whole:8"), "a GPU this node does not have in \"8\"");
    assert_eq!(
        error("v1 job=1;n1=mig:0/2g.10gb@1"),
        "a profile or start this GPU does not have in \"0/2g.10gb@1\""
    );
    let no_part = |part: &str, text| {
        let why = format!("a compute instance this GPU instance does not have in {part:?}");
        assert_eq!(error(text), why);
    };
    no_part("5c@0", "v1 job=1;n1=mig:0/7g.40gb@0/5c@0/mem=1");
    no_part("3c@1", "v1 job=1;n1=mig:0/7g.40gb@0/3c@1/mem=1");
    no_part("7c@0", "v1 job=1;n1=mig:0/7g.40gb@0/7c@0/mem=1");
    assert_eq!(error("v1 job=1;n1=mig:0/7g.40gb@0/4c/mem=1"), "no compute slices in \"4c\"");
    assert_eq!(error("v1 job=1;n1=whole:0/cap=0"), "a number out of range in \"0\"");
    assert_eq!(error("v1 job=1;n1=whole:0/cap=10001"), "a number out of range in \"10001\"");
    assert_eq!(error("v1 job=1;n1=whole:0/cap=5/cap=6"), "a number out of range in \"0/cap=5\"");
    assert_eq!(error("v1 job=1;n1=whole:0;n1=whole:1"), "no node or one named twice in \"n1=whole:1\"");
    assert_eq!(error("v1 job=0;n1=whole:0"), "a number out of range in \"0\"");
}

fn any_grant() -> impl Strategy<Value = NodeGrant> {
    (any_uncapped(), prop::option::of(1..=MAX_CAP_W)).prop_map(|(grant, cap_w)| NodeGrant { grant, cap_w })
}

/// A compute instance of any size anywhere.
fn any_compute() -> impl Strategy<Value = Grant> {
    let any = any::<prop::sample::Index>;
    (0u16..8, any(), any(), any(), any(), 1u64..1 << 20).prop_map(|(gpu, p, s, c, at, mem_mib)| {
        let profiles = Model::find("a100-40gb").unwrap().profiles.iter();
        let profiles: Vec<_> = profiles.filter(|p| !p.compute.is_empty()).collect();
        let profile = p.get(&profiles);
        let (start, size) = (*s.get(&profile.starts), c.get(&profile.compute));
        Grant::Compute {
            within: MigSpec { gpu: GpuIndex(gpu), profile: profile.id, start },
            part: ComputeSpec { slices: size.slices, start: *at.get(&size.starts) },
            mem_mib,
        }
    })
}

fn any_uncapped() -> impl Strategy<Value = Grant> {
    let spec =
        (0u16..8, any::<prop::sample::Index>(), any::<prop::sample::Index>()).prop_map(|(gpu, p, s)| {
            let profiles = &Model::find("a100-40gb").unwrap().profiles;
            let profile = &profiles[p.index(profiles.len())];
            MigSpec {
                gpu: GpuIndex(gpu),
                profile: profile.id,
                start: profile.starts[s.index(profile.starts.len())],
            }
        });
    let on = prop_oneof![
        (0u16..8).prop_map(|g| ShareOn::Gpu(GpuIndex(g))),
        spec.clone().prop_map(ShareOn::Instance)
    ];
    prop_oneof![
        prop::collection::vec(spec, 1..4).prop_map(Grant::Mig),
        any_compute(),
        (prop::collection::vec((on.clone(), 0u32..9), 1..4), prop::option::of(1u64..1 << 20), any::<bool>())
            .prop_map(|(pool, mem_mib, probes)| {
                let pool = pool.into_iter().map(|(on, seats)| PoolSeats { on, seats }).collect();
                Grant::Tasks(TaskGrant { on: TaskDevices::Pool(pool), mem_mib, probes })
            }),
        (prop::collection::vec((0u16..8).prop_map(GpuIndex), 1..8), 1u32..99).prop_map(|(gpus, seats)| {
            let on = TaskDevices::Own { gpus, seats };
            Grant::Tasks(TaskGrant { on, mem_mib: None, probes: seats % 2 == 0 })
        }),
        (on, 1u64..1 << 20, 1u8..=100).prop_map(|(on, mem_mib, threads)| Grant::Mps { on, mem_mib, threads }),
        prop::collection::vec((0u16..8).prop_map(GpuIndex), 1..8).prop_map(Grant::Whole),
    ]
}

fn any_request() -> impl Strategy<Value = Request> {
    let isolation = prop_oneof![
        Just(Isolation::Auto),
        Just(Isolation::Mps),
        any::<bool>().prop_map(|probes| Isolation::Tasks { probes }),
        Just(Isolation::Whole),
        Just(Isolation::None),
        prop::option::of("[0-9]g\\.[0-9]{1,3}gb(\\+me)?").prop_map(Isolation::Mig)
    ];
    let edge = (0u16..1024, 0u16..1024, 1..=PatternEdge::MOST);
    let edge = edge.prop_map(|(a, b, milli)| PatternEdge { a, b, milli });
    let pattern = prop_oneof![
        Just(Pattern::Ring),
        Just(Pattern::All),
        Just(Pattern::RingTree),
        prop::collection::vec(edge, 1..20).prop_map(Pattern::Edges)
    ];
    let bandwidth = prop_oneof![Just(Bandwidth::Sensitive), Just(Bandwidth::Insensitive)];
    (
        isolation,
        prop::option::of(1u64..1 << 20),
        1u32..1024,
        prop::option::of(1u8..=100),
        prop::option::of(pattern),
        prop::option::of(bandwidth),
        prop::option::of(1u32..1024),
        any_choice(),
    )
        .prop_map(|(isolation, mem_mib, instances, threads, pattern, bandwidth, gpus, choice)| Request {
            isolation,
            mem_mib,
            instances,
            threads,
            pattern,
            bandwidth,
            gpus,
            ..choice
        })
}

/// A request with the keys that say how the choice is made.
fn any_choice() -> impl Strategy<Value = Request> {
    let times = prop::collection::btree_map(1u8..16, 1..MAX_MILLIS, 0..8);
    let times =
        times.prop_map(|t| t.into_iter().map(|(slices, millis)| SizeTime { slices, millis }).collect());
    let place = (0u16..64, 0u8..16);
    let place = place.prop_map(|(gpu, start)| PlannedStart { gpu: GpuIndex(gpu), start: Slice(start) });
    (
        any::<bool>(),
        prop::option::of(prop::sample::select(&Selection::ALL)),
        times,
        prop::option::of("[a-zA-Z0-9._-]{1,64}"),
        prop::option::of(place),
        prop::option::of((0..1_000_000_u32, 1..=MOST_SECONDS)),
        prop::option::of(1..=MAX_CAP_W),
    )
        .prop_map(|(isolation_typed, policy, times, job_profile, place, wait, cap_w)| Request {
            isolation_typed,
            policy,
            wait: wait.map(|(above_mb_s, seconds)| SetWait { above_mb_s, seconds }),
            times,
            job_profile,
            place,
            cap_w,
            ..Request::new(Isolation::Auto)
        })
}

proptest! {
    #[test]
    fn requests_round_trip(request in any_request()) {
        prop_assert_eq!(parse_request(&encode_request(&request)).unwrap(), request);
    }

    #[test]
    fn placements_round_trip(job in 1u32.., grants in prop::collection::vec(any_grant(), 1..5)) {
        let nodes = grants.into_iter().enumerate().map(|(i, g)| (format!("n{i}"), g)).collect();
        let placement = JobPlacement { job: JobId(job), nodes };
        prop_assert_eq!(parse_placement(&encode_placement(&placement, &a100), &a100).unwrap(), placement);
    }

    #[test]
    fn no_text_makes_the_parsers_panic(text in "(v1 )?(iso=|job=1;n=)?[a-z0-9=:;,/@. \\PC]{0,80}") {
        let _ = parse_request(&text);
        let _ = parse_placement(&text, &a100);
    }
}

#[test]
fn an_unknown_profile_is_written_by_id_and_never_read_back() {
    let spec = MigSpec { gpu: GpuIndex(0), profile: ProfileId(999), start: Slice(0) };
    let placement =
        JobPlacement { job: JobId(1), nodes: vec![("n".to_owned(), Grant::Mig(vec![spec]).into())] };
    let text = encode_placement(&placement, &a100);
    assert_eq!(text, "v1 job=1;n=mig:0/#999@0");
    assert!(parse_placement(&text, &a100).is_err());
}

#[test]
fn a_reason_is_one_short_line() {
    assert_eq!(plain_why(" smallest; leaves 3\nplacements\t"), "smallest; leaves 3 placements");
    assert_eq!(plain_why("as named; asks v1 iso=mig"), "as named, asks v1 iso=mig");
    let long = plain_why(&"ä".repeat(200));
    assert!(long.len() <= MAX_WHY && long.ends_with("ä..."), "{long}");
    assert_eq!(plain_why(&"x".repeat(200)).len(), 200);
}

#[test]
fn a_reason_for_the_node_is_read_again() {
    let why = with_node("as named; 14 of 108 SMs", "300 GB/s, 52 GB/s on n1");
    assert_eq!(why, "as named; 14 of 108 SMs; node: 300 GB/s, 52 GB/s on n1");
    assert_eq!(split_node(&why), ("as named; 14 of 108 SMs", Some("300 GB/s, 52 GB/s on n1")));
    assert_eq!(split_node("as named"), ("as named", None));
    let comment = AdminComment::parse(&format!("tessera: n1=mig:3/2g.10gb@4: {why}; asks v1 iso=mig"));
    assert_eq!(comment.started().unwrap().why, why);
    assert!(with_node("x", &"y".repeat(400)).len() <= MAX_WHY);
}

#[test]
fn seats_read_as_documented() {
    let text = "v1 job=12;n1=tasks:0/1g.5gb@0*2,0/2g.10gb@2*0/mem=2862;n2=tasks:1*4/probes;\
                n3=tasks:whole*8:0,3/mem=100/probes;n4=tasks:whole*1:2";
    let placement = parse_placement(text, &a100).unwrap();
    assert_eq!(encode_placement(&placement, &a100), text);
    let Some(Grant::Tasks(tasks)) = placement.on("n1").map(|on| &on.grant) else { panic!("{placement:?}") };
    assert_eq!((tasks.seats(), tasks.devices().count(), tasks.mem_mib), (2, 2, Some(2862)));
    let Some(Grant::Tasks(tasks)) = placement.on("n3").map(|on| &on.grant) else { panic!("{placement:?}") };
    assert_eq!((tasks.seats(), tasks.devices().count(), tasks.probes), (8, 2, true));
    let error = |text| parse_placement(text, &a100).unwrap_err().to_string();
    assert_eq!(error("v1 job=1;n1=tasks:0"), "no seats in \"0\"");
    assert_eq!(error("v1 job=1;n1=tasks:8*1"), "a GPU this node does not have in \"8\"");
    assert_eq!(error("v1 job=1;n1=tasks:whole*0:1"), "a number out of range in \"0\"");
    assert_eq!(error("v1 job=1;n1=tasks:whole*2"), "no list of GPUs in \"2\"");
    assert_eq!(error("v1 job=1;n1=tasks:0*1/mem=0"), "a number out of range in \"0\"");
    assert_eq!(error("v1 job=1;n1=tasks:0*1/probes/mem=5"), "a number out of range in \"1/probes\"");
}
