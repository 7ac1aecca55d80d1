//! The file `counters.csv`: what is read, and how a bad line is refused.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests")]

use power::{Basis, CounterTable, Inputs, ProfileError};
use proptest::prelude::*;

const HEAD: &str = "app,gpu,source,f1,f2,f3,f4,f5,f6,f7,f8\n";
const GPU: &str = "a100-40gb";

fn refused<T>(result: Result<T, power::CsvError>) -> String {
    result.err().map_or_else(|| "read".to_owned(), |e| e.to_string())
}

fn counters(lines: &str) -> String {
    refused(CounterTable::parse("c.csv", &format!("{HEAD}{lines}\n")))
}

fn of<'m>(gpu: &'m str, source: &'m str) -> Inputs<'m> {
    Inputs { gpu, source, basis: Basis::Arima2022 }
}

#[test]
fn counters_are_found_by_gpu_source_and_application() {
    let text = format!(
        "\u{feff}# a comment\r\n{HEAD}stream,{GPU},ncu,20,90,88,30.5,60,0,0,0\r\n\r\n\
         stream,{GPU},ncu,20.0,90,88,30.50,60,0,0,0\nstream,{GPU},dcgm,20,,88,,60,0,0,0\n"
    );
    let table = CounterTable::parse("c.csv", &text).unwrap();
    let features = [20.0, 90.0, 88.0, 30.5, 60.0, 0.0, 0.0, 0.0];
    assert_eq!(table.features(of(GPU, "ncu"), "stream"), Ok(features));
    assert_eq!(table.sources(GPU), ["dcgm", "ncu"]);
    let missing = |gpu, source, app| table.features(of(gpu, source), app).unwrap_err();
    assert!(matches!(missing(GPU, "dcgm", "stream"), ProfileError::NoCounter { counter: "f2", .. }));
    assert!(matches!(missing(GPU, "ncu", "lud"), ProfileError::NoProfile { .. }));
    assert_eq!(
        missing("h100-80gb-sxm", "ncu", "stream").to_string(),
        "no counters of `stream` on h100-80gb-sxm; those of a100-40gb cannot replace them"
    );
    assert_eq!(
        missing(GPU, "gpm", "stream").to_string(),
        "no counters of `stream` on a100-40gb from gpm; those from dcgm, ncu cannot replace them"
    );
}

#[test]
fn a_bad_line_of_counters_is_named() {
    for (line, want) in [
        ("a,g,ncu,x,2,3,4,5,6,7,8", "c.csv:2:f1: `x` is not a number"),
        ("a,g,ncu,NaN,2,3,4,5,6,7,8", "c.csv:2:f1: `NaN` is not a number"),
        ("a,g,ncu,1,inf,3,4,5,6,7,8", "c.csv:2:f2: `inf` is not a number"),
        ("a,g,ncu,0,2,3,4,5,6,7,8", "c.csv:2:f1: compute throughput is 0: profile the whole application"),
        ("a,g,ncu,1,2,3,4,5,6,7,-1", "c.csv:2:f8: -1 is not a percentage: expected 0 to 100"),
        ("a,g,ncu,1,2,100.5,4,5,6,7,8", "c.csv:2:f3: 100.5 is not a percentage: expected 0 to 100"),
        ("a,g,ncu,1,,3,4,5,6,7,8", "c.csv:2:f2: the counter is missing"),
        ("a,g,dcgm,1,,,4,5,6,7,8", "c.csv:2:f3: the counter is missing"),
        ("a,g,ncu,1,2,3,4,5,6,7", "c.csv:2:f8: the line has 10 fields, expected 11"),
        ("a,g,ncu,1,2,3,4,5,6,7,8,9", "c.csv:2:f8: the line has 12 fields, expected 11"),
        ("a+b,g,ncu,1,2,3,4,5,6,7,8", "c.csv:2:app: `a+b` is not one name"),
        (",g,ncu,1,2,3,4,5,6,7,8", "c.csv:2:app: `` is not a name: use letters, digits, . _ - : /"),
        ("a,g h,ncu,1,2,3,4,5,6,7,8", "c.csv:2:gpu: `g h` is not a name: use letters, digits, . _ - : /"),
        (
            "a,g,ncu,1,2,3,4,5,6,7,8\n#\na,g,ncu,1,2,3,4,5.1,6,7,8",
            "c.csv:4:f5: disagrees with line 2 for the same application",
        ),
    ] {
        assert_eq!(counters(line), want, "{line}");
    }
    assert_eq!(
        refused(CounterTable::parse("c.csv", "app,gpu,f1\n")),
        "c.csv:1:source: the first line must be the header app,gpu,source,f1,f2,f3,f4,f5,f6,f7,f8"
    );
    assert_eq!(refused(CounterTable::parse("c.csv", "")).split(": ").next(), Some("c.csv:1:app"));
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_by_line_and_field(
        text in "([0-9a-z+.,-]{0,12}[,\n]){0,20}[^\n]{0,6}",
    ) {
        if let Err(error) = CounterTable::parse("f", &format!("{HEAD}{text}")) {
            prop_assert!(error.line >= 2 && error.line <= 1 + text.lines().count(), "{}", error);
        }
    }
}
