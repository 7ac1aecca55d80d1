use proptest::prelude::*;

use super::*;
use crate::wire::parse_request;
use geometry::{GpuIndex, Slice};

const FULL: &str =
    "tessera: plan v1 size=2g.10gb place=n1:3@4 begin=1790000000 end=1790000035 until=1790000600";

fn plan(text: &str) -> Plan {
    parse_plan(text).unwrap().unwrap()
}

fn request(text: &str) -> Request {
    parse_request(text).unwrap()
}

#[test]
fn plans_read_as_documented() {
    let read = plan(FULL);
    assert_eq!(encode_plan(&read), FULL);
    assert_eq!(read.start_on("n1").unwrap().to_string(), "3@4");
    assert_eq!(read.start_on("n2"), None);
    let short = "tessera: plan v1 size=1g.5gb until=1";
    assert_eq!(encode_plan(&plan(short)), short);
    assert!(read.counts_at(1_790_000_599) && !read.counts_at(1_790_000_600));
}

#[test]
fn a_plan_keeps_the_request_behind_it() {
    let request = "v1 iso=mig times=1g:60,2g:35";
    assert_eq!(asks(&encode_asks(request)), Some(request));
    assert_eq!(parse_plan(&encode_asks(request)), Ok(None), "a request is no plan");
    let both = encode_plan_asks(&plan(FULL), request);
    assert_eq!(both, format!("{FULL}; asks {request}"));
    assert_eq!((asks(&both), plan(&both)), (Some(request), plan(FULL)));
    assert!(is_ours(&both) && is_ours(&encode_asks(request)));
    let started = "tessera: n1=mig:3/2g.10gb@4: why";
    let requeued = with_asks(started, request);
    assert_eq!((asks(&requeued), parse_plan(&requeued)), (Some(request), Ok(None)));
    assert_eq!(parse_started(&requeued), parse_started(started));
    for other in ["", FULL, started, "; asks v1", "benchmark; asks v1"] {
        assert_eq!(asks(other), None, "{other}");
    }
}

#[test]
fn what_is_no_plan_means_none() {
    for text in
        ["", "benchmark of June", "tessera: n1=mig:3/2g.10gb@4: why", "tessera: planned", "Tessera: plan v1"]
    {
        assert_eq!(parse_plan(text), Ok(None), "{text}");
    }
    assert!(is_ours("") && is_ours(FULL) && is_ours("tessera: n1=whole:0: why"));
    assert!(!is_ours("benchmark of June") && !is_ours("tessera"));
}

#[test]
fn bad_plans_name_the_part() {
    let long = format!("{FULL} {}", "x".repeat(400));
    for (rest, why) in [
        ("", "not version 1 in \"\""),
        ("v2 size=1g.5gb until=1", "not version 1 in \"v2 size=1g.5gb until=1\""),
        ("v1", "no size in \"v1\""),
        ("v1 until=5", "no size in \"v1 until=5\""),
        ("v1 size=1g.5gb", "no until in \"v1 size=1g.5gb\""),
        ("v1 size=1g.5gb until=0", "a number out of range in \"0\""),
        ("v1 size=1g.5gb until=99999999999", "a number out of range in \"99999999999\""),
        ("v1 size=1g.5gb until=-1", "a number out of range in \"-1\""),
        ("v1 size=$(reboot) until=1", "not a profile's name in \"$(reboot)\""),
        ("v1 size=1g.5gb place=3@4 until=1", "not NODE:GPU@START in \"3@4\""),
        ("v1 size=1g.5gb place=n/1:3@4 until=1", "not NODE:GPU@START in \"n/1:3@4\""),
        ("v1 size=1g.5gb place=n1:3@99 until=1", "not NODE:GPU@START in \"n1:3@99\""),
        ("v1 size=1g.5gb size=2g.10gb until=1", "a key repeated or out of order in \"size=2g.10gb\""),
        ("v1 until=1 size=1g.5gb", "a key repeated or out of order in \"size=1g.5gb\""),
        ("v1 size=1g.5gb colour=red until=1", "unknown key in \"colour=red\""),
        ("v1 size=1g.5gb  until=1", "not key=value in \"\""),
        ("v1 size=1g.5gb until=1 ", "not key=value in \"\""),
    ] {
        let text = format!("tessera: plan {rest}");
        assert_eq!(parse_plan(&text).unwrap_err().to_string(), why, "{text}");
    }
    assert_eq!(parse_plan("tessera: plan").unwrap_err().to_string(), "an empty plan in \"tessera: plan\"");
    assert!(parse_plan(&long).unwrap_err().to_string().starts_with("too long a plan"));
}

#[test]
fn a_plan_is_only_for_a_moldable_job_that_lists_its_size() {
    let p = plan(FULL);
    let apply = |text: &str| p.apply(&request(text)).map(|r| crate::wire::encode_request(&r));
    let why = |text: &str| apply(text).unwrap_err().to_string();
    assert_eq!(
        apply("v1 iso=mig times=1g:60,2g:35 place=0@0").unwrap(),
        "v1 iso=mig:2g.10gb times=1g:60,2g:35"
    );
    assert_eq!(
        apply("v1 iso=mig:1g.5gb typed=1 job-profile=bert").unwrap(),
        "v1 iso=mig:2g.10gb typed=1 job-profile=bert"
    );
    assert_eq!(
        why("v1 iso=mig:2g.10gb"),
        "the job is not moldable: it has neither --gpu-times nor --gpu-profile"
    );
    assert_eq!(why("v1 iso=mig times=1g:60,3g:35"), "2g.10gb is not among the sizes of the job, 1g, 3g");
    assert_eq!(
        why("v1 iso=mig mem=20000 times=1g:60,2g:35"),
        "no GPU has a profile 2g.10gb with the memory and multiprocessors that the job asks for"
    );
    for size in ["9g.90gb", "1g.5gb+me"] {
        let p = Plan { size: size.to_owned(), ..p.clone() };
        assert!(p.apply(&request("v1 iso=mig times=1g:60,2g:35")).is_err(), "{size}");
    }
}

#[test]
fn a_plan_counts_until_it_lapses() {
    let moldable = request("v1 iso=mig times=1g:60,2g:35");
    assert!(plan_of(&moldable, FULL, 1_790_000_000).is_some());
    assert_eq!(plan_of(&moldable, FULL, 1_790_000_600), None);
    assert_eq!(plan_of(&moldable, "tessera: plan v1 rubbish", 0), None);
    assert_eq!(plan_of(&request("v1 iso=mig mem=10"), FULL, 0), None);
}

#[test]
fn words_name_the_choice_its_alternatives_and_the_end() {
    let moldable = request("v1 iso=mig times=1g:60,2g:35");
    assert_eq!(
        plan(FULL).in_words(&moldable),
        "2g.10gb chosen by the planner out of 1g, 2g; end expected 2026-09-21T14:13:55Z"
    );
    let learnt = request("v1 iso=mig job-profile=bert");
    assert_eq!(
        plan("tessera: plan v1 size=2g.10gb until=1").in_words(&learnt),
        "2g.10gb chosen by the planner"
    );
}

#[test]
fn sizes_and_least_work_by_model() {
    let sizes = |text: &str, model: &str| {
        let request = request(text);
        let model = Model::find(model).unwrap();
        let list: Vec<&str> = request.sizes_on(model).iter().map(|s| s.profile.name.as_str()).collect();
        (list.join(" "), request.least_work(model).map(|p| p.name.as_str()))
    };
    let all = "v1 iso=mig times=1g:60,2g:35,3g:20,4g:15,7g:10";
    assert_eq!(
        sizes(all, "a100-40gb"),
        ("1g.5gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb".to_owned(), Some("1g.5gb"))
    );
    assert_eq!(sizes(all, "a30-24gb"), ("1g.6gb 2g.12gb 4g.24gb".to_owned(), Some("1g.6gb")));
    let ten = "v1 iso=mig mem=9537 times=1g:60,2g:35,3g:20";
    assert_eq!(sizes(ten, "a100-40gb"), ("2g.10gb 3g.20gb".to_owned(), Some("3g.20gb")), "60 < 70 slices s");
    assert_eq!(
        sizes("v1 iso=mig times=2g:30,3g:20", "a100-40gb").1,
        Some("2g.10gb"),
        "of two alike the smaller"
    );
    assert_eq!(sizes("v1 iso=mig times=3g:1", "a30-24gb"), (String::new(), None));
    assert_eq!(sizes("v1 iso=mig job-profile=x", "a30-24gb"), ("1g.6gb 2g.12gb 4g.24gb".to_owned(), None));
    assert_eq!(sizes("v1 iso=mig mem=10", "a100-40gb"), (String::new(), None), "not moldable");
}

#[test]
fn what_a_started_job_says_is_read_back() {
    let text =
        "tessera: n1=mig:3/2g.10gb@4 job-profile=bert planned=1790000000-1790000035: 2g.10gb chosen: so";
    let started = parse_started(text).unwrap();
    assert_eq!(encode_started(&started), text);
    assert_eq!(started.planned, Some((1_790_000_000, 1_790_000_035)));
    assert_eq!(started.got, "n1=mig:3/2g.10gb@4");
    let plain = "tessera: n1=whole:0,3;n2=whole:1: largest sum of links";
    assert_eq!(encode_started(&parse_started(plain).unwrap()), plain);
    for other in ["", FULL, "benchmark of June", "tessera: hello", "tessera: n1=whole:0 colour=red: x"] {
        assert_eq!(parse_started(other), None, "{other}");
    }
}

#[test]
fn instants_are_those_of_the_calendar() {
    // date -u -d @N +%FT%TZ
    for (seconds, text) in [
        (0, "1970-01-01T00:00:00Z"),
        (951_782_399, "2000-02-28T23:59:59Z"),
        (951_782_400, "2000-02-29T00:00:00Z"),
        (951_868_800, "2000-03-01T00:00:00Z"),
        (1_790_000_035, "2026-09-21T14:13:55Z"),
        (4_107_542_400, "2100-03-01T00:00:00Z"),
        (9_999_999_999, "2286-11-20T17:46:39Z"),
    ] {
        assert_eq!(instant(seconds), text);
    }
}

fn any_plan() -> impl Strategy<Value = Plan> {
    let place = ("[A-Za-z0-9._-]{1,64}", 0u16..64, 0u8..16);
    let place = place.prop_map(|(node, gpu, start)| PlannedPlace {
        node,
        start: PlannedStart { gpu: GpuIndex(gpu), start: Slice(start) },
    });
    (
        "[0-9]g\\.[0-9]{1,3}gb(\\+me)?",
        prop::option::of(place),
        prop::option::of(0..=MAX_INSTANT),
        prop::option::of(0..=MAX_INSTANT),
        1..=MAX_INSTANT,
    )
        .prop_map(|(size, place, begin, end, until)| Plan { size, place, begin, end, until })
}

proptest! {
    #[test]
    fn plans_round_trip(plan in any_plan()) {
        prop_assert_eq!(parse_plan(&encode_plan(&plan)), Ok(Some(plan)));
    }

    #[test]
    fn no_text_makes_the_parsers_panic(text in "(tessera: )?(plan )?(v1 )?(size=1g.5gb )?[a-z0-9=:;,/@. \\PC]{0,80}") {
        let _ = parse_plan(&text);
        let _ = parse_started(&text);
    }
}
