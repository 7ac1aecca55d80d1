use super::*;
use crate::wire::parse_request;

const FULL: &str = "v1 size=2g.10gb place=n1:3@4 begin=1790000000 end=1790000035 until=1790000600";

fn plan(text: &str) -> Plan {
    Plan::parse(text).unwrap()
}

fn request(text: &str) -> Request {
    parse_request(text).unwrap()
}

#[test]
fn plans_read_as_documented() {
    let read = plan(FULL);
    assert_eq!(read.to_string(), format!("plan {FULL}"));
    assert_eq!(read.start_on("n1").unwrap().to_string(), "3@4");
    assert_eq!(read.start_on("n2"), None);
    let short = "v1 size=1g.5gb until=1";
    assert_eq!(plan(short).to_string(), format!("plan {short}"));
    assert!(read.counts_at(1_790_000_599) && !read.counts_at(1_790_000_600));
}

#[test]
fn bad_plans_name_the_part() {
    let long = format!("{FULL} {}", "x".repeat(500));
    for (text, why) in [
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
        assert_eq!(Plan::parse(text).unwrap_err().to_string(), why, "{text}");
    }
    assert!(Plan::parse(&long).unwrap_err().to_string().starts_with("too long a plan"));
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
        "the job is not moldable: it has neither --gpu-times nor --gpu-app"
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
fn words_name_the_choice_its_alternatives_and_the_end() {
    let moldable = request("v1 iso=mig times=1g:60,2g:35");
    assert_eq!(
        plan(FULL).in_words(&moldable),
        "2g.10gb chosen by the planner out of 1g, 2g; end expected 2026-09-21T14:13:55Z"
    );
    let learnt = request("v1 iso=mig job-profile=bert");
    assert_eq!(plan("v1 size=2g.10gb until=1").in_words(&learnt), "2g.10gb chosen by the planner");
}

const BESIDE: &str = "v1 size=4c.7g.40gb place=n1:0@0 cap=190 with=18+19 speed=81 low=74 until=5";

#[test]
fn a_plan_beside_others_is_for_who_states_his_memory() {
    let p = plan(BESIDE);
    assert_eq!(p.to_string(), format!("plan {BESIDE}"));
    assert!(p.is_bound() && !plan("v1 size=7g.40gb alone=unprofiled until=5").is_bound());
    let apply = |text: &str| p.apply(&request(text)).map(|r| crate::wire::encode_request(&r));
    assert_eq!(
        apply("v1 iso=mig mem=19000 job-profile=lud").unwrap(),
        "v1 iso=mig:4c.7g.40gb mem=19000 job-profile=lud cap=190"
    );
    assert!(apply("v1 iso=mig job-profile=lud").is_err());
    assert!(apply("v1 iso=mig mem=99000 job-profile=lud").is_err());
    assert_eq!(
        p.in_words(&request("v1 iso=mig mem=19000 job-profile=lud")),
        "4c.7g.40gb chosen by the planner to share a GPU with job 18, job 19 at 190 W; predicted speed 81 % of that alone"
    );
    assert_eq!(
        plan("v1 size=7g.40gb alone=unprofiled until=5").in_words(&request("v1 iso=mig job-profile=lud")),
        "7g.40gb chosen by the planner to run alone: lud has no counters on this GPU model: profile it, see tessera \
         lab power import"
    );
    for bad in ["cap=0", "with=", "with=1+2+3+4+5+6+7", "with=-1", "alone=so", "speed=300", "limit=60"] {
        assert!(Plan::parse(&format!("v1 size=7g.40gb {bad} until=5")).is_err(), "{bad}");
    }
}
