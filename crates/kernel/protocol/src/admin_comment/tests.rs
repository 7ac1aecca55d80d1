use geometry::{GpuIndex, Slice};
use proptest::prelude::*;

use super::*;
use crate::moldable::PlannedStart;
use crate::plan::{MAX_INSTANT, PlannedPlace, Sharing};
use crate::wire::parse_request;

const PLANNED: &str =
    "tessera: plan v1 size=2g.10gb place=n1:3@4 begin=1790000000 end=1790000035 until=1790000600";
const REQUEST: &str = "v1 iso=mig times=1g:60,2g:35";
const WAITING: &str = "tessera: waits until 2026-11-21T10:20:00Z for GPUs above 25 GB/s: 20.0 GB/s on n1 now";
const HAD: &str =
    "tessera: n1=mig:3/2g.10gb@4 job-profile=bert planned=1790000000-1790000035: 2g.10gb chosen: so";

fn read(text: &str) -> AdminComment {
    let comment = AdminComment::parse(text);
    assert_eq!(comment.to_string(), text, "what is read is written again");
    comment
}

#[test]
fn each_form_is_told_from_the_others() {
    assert_eq!(read("").says, CommentBody::Nothing);
    assert!(matches!(read(PLANNED).says, CommentBody::Plan(_)));
    assert!(matches!(read(WAITING).says, CommentBody::Waits(_)));
    assert!(matches!(read(HAD).says, CommentBody::Started(_)));
    let limited = "tessera: cannot start: --gres=gpu:1 asks for whole GPUs: use mig";
    assert!(matches!(read(limited).says, CommentBody::Limited(why) if why.starts_with("--gres=gpu:1 asks")));
    let waits = "tessera: waits for slices: no place is free for an instance 4g.20gb";
    assert!(matches!(read(waits).says, CommentBody::Slices(why) if why.ends_with("an instance 4g.20gb")));
    let requeued = "tessera: requeued by n1: GPU 0: 2g.10gb at 4 is held by job 3";
    assert!(matches!(read(requeued).says, CommentBody::Requeued(why) if why.starts_with("by n1: GPU 0")));
    assert!(matches!(read("tessera: plan v1 rubbish").says, CommentBody::UnreadablePlan(..)));
    assert!(matches!(read("tessera: plan").says, CommentBody::UnreadablePlan(..)));
    for unknown in ["tessera: planned", "tessera: hello", "tessera: n1=whole:0 colour=red: x"] {
        assert_eq!(read(unknown).says, CommentBody::Unknown(unknown["tessera: ".len()..].to_owned()));
    }
    for foreign in ["benchmark of June", "tessera", "Tessera: plan v1", "; asks v1", "benchmark; asks v1"] {
        assert_eq!(read(foreign), CommentBody::Foreign(foreign.to_owned()).into());
        assert!(!read(foreign).is_ours());
    }
    for ours in ["", PLANNED, WAITING, HAD, "tessera: hello"] {
        assert!(read(ours).is_ours(), "{ours}");
        assert_eq!(read(ours).asks, None, "{ours}");
    }
}

#[test]
fn the_request_stands_behind_each_of_them() {
    assert_eq!(AdminComment::asking(REQUEST).to_string(), format!("tessera: asks {REQUEST}"));
    assert_eq!(read(&format!("tessera: asks {REQUEST}")), AdminComment::asking(REQUEST));
    for says in [PLANNED, WAITING, HAD, "tessera: plan v1 rubbish", "tessera: hello"] {
        let both = read(&format!("{says}; asks {REQUEST}"));
        assert_eq!((both.says, both.asks.as_deref()), (read(says).says, Some(REQUEST)));
    }
}

#[test]
fn a_note_about_idle_gpus_stands_before_the_request_and_changes_nothing_else() {
    for says in ["", PLANNED, WAITING, HAD, "tessera: plan v1 rubbish", "tessera: hello"] {
        for asks in [None, Some(REQUEST.to_owned())] {
            let without = AdminComment { asks, ..read(says) };
            let with = AdminComment { idle: Some("job 7 ends".to_owned()), ..without.clone() };
            assert_eq!(read(&with.to_string()), with, "{says}");
            assert_eq!(AdminComment { idle: None, ..with }, without);
        }
    }
    let both = read(&format!("tessera: idle: cancelled: it was idle; asks {REQUEST}"));
    assert_eq!((&both.says, both.idle.as_deref()), (&CommentBody::Nothing, Some("cancelled: it was idle")));
    let had = read(&format!("{HAD}; idle: job 7 ends"));
    assert_eq!(had.started().unwrap().why, "2g.10gb chosen: so");
    assert_eq!(read("tessera: idle").says, CommentBody::Unknown("idle".to_owned()));
}

#[test]
fn a_raised_time_limit_stands_first_where_no_other_text_can_pretend_it() {
    let limit = Some(RaisedLimit { own_min: 10, raised_min: 36 });
    for says in ["", PLANNED, WAITING, HAD, "tessera: plan v1 rubbish", "tessera: hello"] {
        for asks in [None, Some(REQUEST.to_owned())] {
            let without = AdminComment { asks, ..read(says) };
            let with = AdminComment { limit, ..without.clone() };
            assert!(with.to_string().starts_with("tessera: limit 10>36"), "{with}");
            assert_eq!(read(&with.to_string()), with, "{says}");
            assert_eq!(AdminComment { limit: None, ..with }, without);
        }
    }
    let pretended = read("tessera: cannot start: a user's text; limit 10>36; asks v1 iso=mig");
    assert_eq!((pretended.limit, pretended.asks.as_deref()), (None, Some("v1 iso=mig")));
    for other in ["tessera: limit 0>36", "tessera: limit 10", "tessera: limit 10>x; asks v1 iso=mig"] {
        assert_eq!(read(other).limit, None, "{other}");
    }
}

#[test]
fn a_plan_is_for_its_job_until_it_lapses() {
    let moldable = parse_request(REQUEST).unwrap();
    let at = |comment: &str, now| read(comment).plan_for(&moldable, now).map(|(_, request)| request);
    let two = parse_request("v1 iso=mig:2g.10gb times=1g:60,2g:35").unwrap();
    assert_eq!(at(PLANNED, 1_790_000_599), Some(two));
    assert_eq!(at(PLANNED, 1_790_000_600), None, "lapsed");
    assert_eq!(at("tessera: plan v1 rubbish", 0), None);
    let fixed = parse_request("v1 iso=mig mem=10").unwrap();
    assert_eq!(read(PLANNED).plan_for(&fixed, 0), None, "not moldable");
}

#[test]
fn what_a_job_had_is_read_back() {
    let comment = read(HAD);
    let started = comment.started().unwrap();
    assert_eq!(started.planned, Some((1_790_000_000, 1_790_000_035)));
    assert_eq!((started.got.as_str(), started.job_profile.as_deref()), ("n1=mig:3/2g.10gb@4", Some("bert")));
}

fn any_sharing() -> impl Strategy<Value = Sharing> {
    use crate::plan::Alone::{NoMemory, NoPartner, Unlike, Unprofiled};
    let alone = prop::sample::select(vec![Unprofiled, Unlike, NoMemory, NoPartner]);
    (
        prop::option::of(1..=2000_u16),
        prop::collection::vec(1..=u32::MAX, 0..=6),
        prop::option::of(any::<u8>()),
        prop::option::of(any::<u8>()),
        prop::option::of(alone),
    )
        .prop_map(|(cap_w, with, speed, low, alone)| Sharing { cap_w, with, speed, low, alone })
}

fn any_plan() -> impl Strategy<Value = Plan> {
    let place = ("[A-Za-z0-9._-]{1,64}", 0u16..64, 0u8..16);
    let place = place.prop_map(|(node, gpu, start)| PlannedPlace {
        node,
        start: PlannedStart { gpu: GpuIndex(gpu), start: Slice(start) },
    });
    (
        "([0-9]c\\.)?[0-9]g\\.[0-9]{1,3}gb",
        prop::option::of(place),
        any_sharing(),
        prop::option::of(0..=MAX_INSTANT),
        prop::option::of(0..=MAX_INSTANT),
        1..=MAX_INSTANT,
    )
        .prop_map(|(size, place, sharing, begin, end, until)| Plan {
            size,
            place,
            sharing,
            begin,
            end,
            until,
        })
}

proptest! {
    #[test]
    fn plans_survive_being_written(
        plan in any_plan(),
        idle in prop::option::of("[a-z0-9:;,. ]{0,20}"),
        learnt in prop::option::of(prop::sample::select(vec![Bandwidth::Sensitive, Bandwidth::Insensitive])),
        asks in prop::option::of("v1 iso=mig times=1g:[1-9]"),
        limit in prop::option::of((1..=u32::MAX, 1..=u32::MAX)),
    ) {
        let limit = limit.map(|(own_min, raised_min)| RaisedLimit { own_min, raised_min });
        let comment = AdminComment { limit, says: CommentBody::Plan(plan), idle, learnt, asks };
        prop_assert_eq!(AdminComment::parse(&comment.to_string()), comment);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "(tessera: )?(limit [0-9]{1,2}>[0-9]{1,2}(; )?)?(plan |waits until |idle: )?(v1 )?(size=1g.5gb )?[a-z0-9=:;,/@. \\PC]{0,80}(; idle: )?[a-z;: ]{0,9}(; asks )?[a-z;: ]{0,9}") {
        let comment = AdminComment::parse(&text);
        prop_assert_eq!(AdminComment::parse(&comment.to_string()), comment);
    }
}
