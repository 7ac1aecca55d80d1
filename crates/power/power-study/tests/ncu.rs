//! Profiles of Nsight Compute: what is read, and how a bad one is refused.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests")]

use power_study::ncu;
use proptest::prelude::*;

const METRICS: [&str; 9] = [
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__time_duration.sum",
    "lts__t_sector_hit_rate.pct",
    "sm__pipe_tensor_op_dmma_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "sm__pipe_tensor_op_imma_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
];

/// Two kernels: the second takes three times as long.
const VALUES: [[&str; 9]; 2] = [
    ["40", "20", "1,000", "60", "0", "80", "4", "80", "25"],
    ["80", "60", "3,000", "20", "0", "0", "0", "40", "45"],
];

/// Of `VALUES`, F1 to F8.
const FEATURES: [f64; 8] = [50.0, 70.0, 50.0, 30.0, 40.0, 20.0, 0.0, 1.0];

fn quoted(fields: &[&str]) -> String {
    fields.iter().map(|field| format!("\"{field}\"")).collect::<Vec<_>>().join(",") + "\n"
}

fn unit(metric: &str) -> &str {
    if metric.starts_with("gpu__time") { "nsecond" } else { "%" }
}

fn raw() -> String {
    let own = ["ID", "Process ID", "Kernel Name", "CC"];
    let mut text = "==PROF== Connected to process 42\nhello, world\n".to_owned();
    text += &quoted(&[&own[..], &METRICS].concat());
    text += &quoted(&[&["", "", "", ""][..], &METRICS.map(unit)].concat());
    for (at, values) in VALUES.iter().enumerate() {
        let id = at.to_string();
        text += &quoted(&[&[id.as_str(), "42", "void f<int, 2>(\"\"x\"\")", "8.0"][..], values].concat());
    }
    text
}

fn details() -> String {
    let head = [
        "ID",
        "Process ID",
        "Kernel Name",
        "CC",
        "Section Name",
        "Metric Name",
        "Metric Unit",
        "Metric Value",
    ];
    let mut text = quoted(&head);
    for (at, values) in VALUES.iter().enumerate() {
        let id = at.to_string();
        for (metric, value) in METRICS.iter().zip(values) {
            // Sections have names of their own for some, and another metric of the same name.
            let (name, unit, value) = match *metric {
                "gpu__time_duration.sum" => ("Duration", "usecond", if at == 0 { "1" } else { "3" }),
                "sm__throughput.avg.pct_of_peak_sustained_elapsed" => {
                    ("Compute (SM) Throughput", "%", *value)
                }
                "sm__warps_active.avg.pct_of_peak_sustained_active" => ("Achieved Occupancy", "%", *value),
                other => (other, unit(other), *value),
            };
            text += &quoted(&[&id, "42", "f", "8.0", "section", name, unit, value]);
        }
        text += &quoted(&[&id, "42", "f", "8.0", "section", "Memory Throughput", "Gbyte/second", "1,200.5"]);
    }
    text
}

fn refused(text: &str) -> String {
    ncu::parse("p.csv", text).unwrap_err().to_string()
}

#[test]
fn both_pages_are_read_and_kernels_weighted_by_time() {
    for text in [raw(), details()] {
        let profile = ncu::parse("p.csv", &text).unwrap();
        assert_eq!((profile.kernels, profile.compute_capability.as_deref()), (2, Some("8.0")));
        let near = profile.features.iter().zip(FEATURES).all(|(a, b)| (a - b).abs() < 1e-9);
        assert!(near, "{:?}", profile.features);
    }
}

#[test]
fn the_command_asks_for_every_metric() {
    assert!(METRICS.iter().all(|metric| ncu::command().contains(metric)));
}

#[test]
fn a_missing_metric_is_an_error_and_never_0() {
    for metric in METRICS {
        let error = refused(&raw().replace(metric, "other"));
        assert_eq!(
            error,
            format!("p.csv:5:{metric}: the metric is missing: profile again with all of --command")
        );
    }
    let absent = refused(&raw().replace("\"60\",\"0\",\"80\"", "\"60\",\"n/a\",\"80\""));
    assert!(absent.starts_with("p.csv:5:sm__pipe_tensor_op_dmma_cycles_active."), "{absent}");
    let empty = refused(&raw().replace("\"20\",\"0\",\"0\"", "\"\",\"0\",\"0\""));
    assert!(empty.starts_with("p.csv:6:lts__t_sector_hit_rate.pct: the metric is missing"), "{empty}");
    let only_one = details().replacen("Achieved Occupancy", "other", 1);
    assert!(refused(&only_one).starts_with("p.csv:2:sm__warps_active."), "the kernel's first line");
}

#[test]
fn a_bad_profile_is_named() {
    let hit = "lts__t_sector_hit_rate.pct";
    for (text, want) in [
        (
            String::new(),
            "p.csv:1:Kernel Name: no table of kernels: expected the CSV that ncu --csv prints".to_owned(),
        ),
        (quoted(&["ID", "Kernel Name"]), "p.csv:1:Kernel Name: no kernel ran".to_owned()),
        (
            raw().replace("\"3,000\",\"20\"", "\"3,000\",\"x\""),
            format!("p.csv:6:{hit}: `x` is not a number of at least 0"),
        ),
        (
            raw().replace("\"3,000\",\"20\"", "\"3,000\",\"-1\""),
            format!("p.csv:6:{hit}: `-1` is not a number of at least 0"),
        ),
        (
            raw().replace("\"3,000\",\"20\"", "\"3,000\",\"NaN\""),
            format!("p.csv:6:{hit}: `NaN` is not a number of at least 0"),
        ),
        (
            raw().replace("\"3,000\",\"20\"", "\"3,000\",\"900\""),
            format!("p.csv:3:{hit}: the mean of 690 is above 100 %"),
        ),
        (
            raw().replace(",000\"", "\"").replace("\"1\"", "\"0\"").replace("\"3\"", "\"0\""),
            "p.csv:3:gpu__time_duration.sum: the kernels took no time".to_owned(),
        ),
        (
            raw().replace("nsecond", "fortnight"),
            "p.csv:5:gpu__time_duration.sum: the unit `fortnight` is unknown".to_owned(),
        ),
    ] {
        assert_eq!(refused(&text), want);
    }
    let twice = details() + &quoted(&["1", "42", "f", "8.0", "s", "L2 Hit Rate", "%", "21"]);
    assert!(
        refused(&twice).ends_with(": 21 disagrees with another value of this kernel"),
        "{}",
        refused(&twice)
    );
}

proptest! {
    /// Whatever stands in a profile, it is read or refused.
    #[test]
    fn any_text_is_read_or_refused(text in ".{0,200}", at in 0..2000_usize) {
        for whole in [raw(), details()] {
            let (before, after) = whole.split_at(at.min(whole.len()));
            let _ = ncu::parse("p.csv", &format!("{before}{text}{after}"));
        }
        let _ = ncu::parse("p.csv", &text);
    }
}
