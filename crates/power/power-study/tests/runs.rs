//! The file `runs.csv`: what is read, and how a bad line is refused.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests")]

use power::CounterTable;
use power_study::runs;
use proptest::prelude::*;

const HEAD: &str = "app,gpu,source,f1,f2,f3,f4,f5,f6,f7,f8\n";
const GPU: &str = "a100-40gb";

fn refused<T>(result: Result<T, power::CsvError>) -> String {
    result.err().map_or_else(|| "read".to_owned(), |e| e.to_string())
}

fn runs(lines: &str) -> String {
    refused(runs::parse("r.csv", &format!("state,cap_w,apps,rperf\n{lines}\n")))
}

fn timed(lines: &str) -> Result<Vec<power_study::Run>, power::CsvError> {
    runs::parse("r.csv", &format!("state,cap_w,apps,seconds\n{lines}\n"))
}

#[test]
fn runs_are_read_in_the_order_of_the_file_and_duplicates_count_once() {
    let text = "state,cap_w,apps,rperf\n4c+3c,230,igemm4+stream,0.52+0.93\n4c,150,stream,0.98\n\
                3c+4c,230,stream+igemm4,0.93+0.520\nfull,250,stream,1\nfull,250,lud,1\n";
    let runs = runs::parse("r.csv", text).unwrap();
    let states: Vec<String> = runs.iter().map(|r| r.state.to_string()).collect();
    assert_eq!(states, ["4c+3c", "4c", "full", "full"]);
    assert_eq!((runs[0].cap.watts(), &runs[0].rperf), (230, &vec![0.52, 0.93]));
    assert!(runs[0].is_corun() && runs[1].is_solo() && !runs[2].is_solo() && !runs[2].is_corun());
}

#[test]
fn a_bad_line_of_runs_is_named() {
    let part = "is not a part: expected compute slices and g (private memory) or c (shared), such as 4g";
    for (line, want) in [
        ("4x,150,a,0.5", format!("r.csv:2:state: `4x` {part}")),
        (
            "4g+3c,150,a+b,0.5+0.5",
            "r.csv:2:state: `4g+3c` mixes private and shared parts: use one kind, such as 4g+3g or 4c+3c"
                .to_owned(),
        ),
        (
            "4g,150.5,a,0.5",
            "r.csv:2:cap_w: `150.5` is not a power cap: expected whole watts from 50 to 2000".to_owned(),
        ),
        ("4g,150,a+b,0.5", "r.csv:2:apps: 2 applications for the state 4g, expected 1".to_owned()),
        ("full,150,a+b,0.5+0.5", "r.csv:2:apps: 2 applications for the state full, expected 1".to_owned()),
        ("4g+3g,150,a+b,0.5", "r.csv:2:rperf: 1 numbers for 2 applications".to_owned()),
        ("4g,150,a,0", "r.csv:2:rperf: 0 is not above 0".to_owned()),
        ("4g,150,a,-0.5", "r.csv:2:rperf: -0.5 is not above 0".to_owned()),
        ("4g,150,a,nan", "r.csv:2:rperf: `nan` is not a number".to_owned()),
        ("4g,150,a", "r.csv:2:rperf: the line has 3 fields, expected 4".to_owned()),
        (
            "4g+3g,150,a+b,0.5+0.6\n3g+4g,150,b+a,0.5+0.6",
            "r.csv:3:rperf: disagrees with line 2 for the same configuration".to_owned(),
        ),
        (
            "full,250,a,1\nfull,250,a,0.9",
            "r.csv:3:rperf: disagrees with line 2 for the same configuration".to_owned(),
        ),
    ] {
        assert_eq!(runs(line), want, "{line}");
    }
    assert_eq!(
        refused(runs::parse("r.csv", "state,cap_w,apps,speed\n")),
        "r.csv:1:rperf: the first line must be the header state,cap_w,apps,rperf or state,cap_w,apps,seconds"
    );
}

#[test]
fn two_copies_on_equal_parts_are_interchangeable() {
    assert_eq!(runs("3g+3g,150,a+a,0.5+0.6\n3g+3g,150,a+a,0.6+0.5"), "read");
    assert_ne!(runs("3g+3g,150,a+a,0.5+0.6\n3g+3g,150,a+a,0.6+0.6"), "read");
}

#[test]
fn seconds_are_compared_with_the_full_line_at_the_highest_cap() {
    let runs = timed("full,150,a,20\nfull,250,a,10\nfull,250,b,3\n4g+3g,150,a+b,40+4\n4g,150,a,16").unwrap();
    let rperf: Vec<&[f64]> = runs.iter().map(|r| r.rperf.as_slice()).collect();
    assert_eq!(rperf, [&[0.5][..], &[1.0], &[1.0], &[0.25, 0.75], &[0.625]]);
    assert_eq!(
        refused(timed("4g,150,a,16")),
        "r.csv:2:apps: `a` has seconds but no `full` line to compare with"
    );
}

/// Text that looks like lines of both files.
fn text() -> impl Strategy<Value = String> {
    let word =
        prop_oneof!["[0-9gc+.,a-z-]{0,12}", "4g\\+3g", "full", "150", "a\\+b", "NaN", "1e999", "[^\n]{0,6}"];
    let line = proptest::collection::vec(word, 0..13).prop_map(|words| words.join(","));
    proptest::collection::vec(line, 0..6).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_by_line_and_field(text in text()) {
        let counters = CounterTable::parse("f", &format!("{HEAD}{text}")).err();
        let runs = runs::parse("f", &format!("state,cap_w,apps,rperf\n{text}"));
        for error in [counters, runs.as_ref().err().cloned()].into_iter().flatten() {
            prop_assert!(error.line >= 2 && error.line <= 1 + text.lines().count(), "{}", error);
        }
        for run in runs.into_iter().flatten() {
            prop_assert_eq!(run.state.to_string().parse(), Ok(run.state.clone()));
            prop_assert_eq!(run.apps.len(), run.state.applications());
            prop_assert!(run.rperf.iter().all(|r| r.is_finite() && *r > 0.0));
        }
    }

    #[test]
    fn a_line_of_any_numbers_comes_back(
        watts in 50..=2000_u32,
        first in 1..=9_u8,
        second in 1..=9_u8,
        shared in any::<bool>(),
        rperf in [1e-3..2.0_f64, 1e-3..2.0_f64],
    ) {
        let kind = if shared { 'c' } else { 'g' };
        let state = format!("{first}{kind}+{second}{kind}");
        let line = format!("state,cap_w,apps,rperf\n{state},{watts},x+y,{}+{}\n", rperf[0], rperf[1]);
        let read = runs::parse("f", &line).unwrap();
        prop_assert_eq!((read[0].state.to_string(), read[0].cap.watts()), (state, watts));
        prop_assert_eq!(&read[0].rperf, &rperf);
    }
}

#[test]
fn a_state_that_the_gpu_cannot_have_is_named_by_its_line() {
    let on = |gpu: &str, lines: &str| {
        let text = format!("state,cap_w,apps,rperf\n{lines}\n");
        refused(runs::parse_on(geometry::Model::find(gpu).unwrap(), "r.csv", &text))
    };
    let lines = "4g+3g,250,a+b,0.5+0.5\n# later\n4g+4g,250,a+b,0.5+0.5";
    assert_eq!(on(GPU, lines), "r.csv:4:state: `4g+4g` does not fit on one a100-40gb");
    assert_eq!(
        on("a30-24gb", lines),
        "r.csv:2:state: `4g+3g`: a30-24gb has no instance with 3 compute slices"
    );
    assert_eq!(on(GPU, "full,250,a,1\n7g,250,a,1"), "read");
}
