//! Report of the pass on a shape.

use std::fmt::Write as _;

use serde_json::Value;

use crate::compiled::Compiled;

/// The report of a shape, compiled with `-O2`, a line per task: file names are left out of places.
pub(crate) fn of(shape: &Compiled) -> String {
    let name = shape.name;
    let mut text = String::new();
    for line in shape.report().lines() {
        let function: Value = serde_json::from_str(line).unwrap();
        assert!(function["file"].as_str().unwrap().ends_with(&format!("{name}.cu")));
        writeln!(text, "{}:{}", function["function"].as_str().unwrap(), function["line"]).unwrap();
        for task in function["tasks"].as_array().unwrap() {
            writeln!(text, "  {}", describe(task)).unwrap();
        }
        for unused in function["unused"].as_array().unwrap() {
            writeln!(
                text,
                "  no task: {} {}: {}",
                unused["call"].as_str().unwrap(),
                line_of(&unused["alloc"]),
                why(unused)
            )
            .unwrap();
        }
    }
    text
}

fn describe(task: &Value) -> String {
    let list = |key: &str, item: fn(&Value) -> String| -> String {
        task[key].as_array().unwrap().iter().map(item).collect::<Vec<_>>().join(" ")
    };
    let launches = list("launches", |l| format!("{}:{}", l["kernel"].as_str().unwrap(), line_of(&l["at"])));
    let objects = list("objects", |o| {
        format!("{}:{}={}", o["name"].as_str().unwrap(), line_of(&o["alloc"]), o["bytes"])
    });
    if task["bound"] == "lazy" {
        for key in ["begin", "mem", "threads", "blocks"] {
            assert!(task[key].is_null(), "{task}");
        }
        return format!("lazy [{launches}] [{objects}]: {}", why(task));
    }
    assert_eq!(task["bound"], "static");
    assert!(task["why"].is_null(), "{task}");
    let held = if task["held_to_exit"] == true { ", held to exit" } else { "" };
    format!(
        "static [{launches}] [{objects}] begin {} free [{}]{held} mem {} threads {} blocks {}",
        line_of(&task["begin"]),
        list("free", line_of),
        task["mem"],
        task["threads"],
        task["blocks"]
    )
}

/// The line of `FILE:LINE`.
fn line_of(place: &Value) -> String {
    place.as_str().unwrap().rsplit_once(':').unwrap().1.to_owned()
}

/// The reason, without the directory in places.
fn why(of: &Value) -> String {
    let directory = format!("{}/", lab::case_pass::source().join("tests/shapes").display());
    of["why"].as_str().unwrap().replace(&directory, "")
}
