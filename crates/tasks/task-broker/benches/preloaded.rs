//! What the preloaded library costs: each figure beside the same call without it, in the same run.
//!
//! `cargo bench -p task-broker --bench preloaded`. Needs the release builds: `cargo build --release -p nvml-sim`. With `--json`
//! after `--`, the last line is one JSON object.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]
#![allow(dead_code, reason = "the tests use the rest of `node`")]

#[path = "../tests/interposed/node.rs"]
mod node;

use std::process::Command;
use std::time::Instant;

use node::{JOB, Node};
use serde_json::{Value, json};

/// Times of one kind, sorted.
struct Times(Vec<f64>);

impl Times {
    fn of(mut all: Vec<f64>) -> Times {
        all.sort_by(f64::total_cmp);
        Times(all)
    }

    fn least(&self) -> f64 {
        self.0.first().copied().unwrap_or(f64::NAN)
    }

    fn median(&self) -> f64 {
        self.0.get(self.0.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

fn row(rows: &mut Vec<Value>, what: &str, unit: &str, ours: &Times, direct: &Times) {
    let (a, b) = (ours.median(), direct.median());
    let (c, d) = (ours.least(), direct.least());
    println!(
        "{what:52} {a:9.2} {b:9.2} {unit}  ratio {:5.2}, more {:8.2}   best {c:9.2} {d:9.2}  more {:8.2}",
        a / b,
        a - b,
        c - d
    );
    rows.push(json!({ "what": what, "unit": unit, "ours": ours.0, "direct": direct.0 }));
}

fn compile(node: &Node, name: &str, arguments: &[&str]) -> std::path::PathBuf {
    let source = format!("{}/benches/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let out = node.path(name);
    let mut cc = Command::new("cc");
    assert!(cc.args(["-O2", "-o"]).arg(&out).arg(source).args(arguments).status().unwrap().success());
    out
}

/// Runs the C program with the library and returns what it says of one thing.
fn times(node: &Node, arguments: &[&str], what: &str) -> (Times, Times) {
    said(node.command(&node.path("preloaded")).args(arguments), what)
}

fn said(command: &mut Command, what: &str) -> (Times, Times) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let of = |how: &str| {
        let lines = text.lines().filter_map(|line| line.strip_prefix(&format!("{what} {how} ")));
        Times::of(lines.map(|number| number.parse().unwrap()).collect())
    };
    (of("found"), of("direct"))
}

fn main() {
    println!("load: {}", std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim());
    println!("{:52} {:>9} {:>9}", "", "library", "without");
    let node = Node::new(1);
    node.add(Some(1024));
    let mut rows = Vec::new();
    compile(&node, "preloaded", &["-ldl"]);
    let (ours, direct) = times(&node, &["20", "0", "300", "4"], "pair");
    row(&mut rows, "4 MiB allocated and freed, simulated driver", "ns", &ours, &direct);
    // Above what the job declared: each pair asks the broker and gives back.
    let (beyond, _) = times(&node, &["10", "0", "100", "1028"], "pair");
    let (_, direct) = times(&node, &["10", "0", "100", "1028"], "pair");
    row(&mut rows, "4 MiB beyond --gpu-mem, asked for and given back", "ns", &beyond, &direct);
    let quiet = compile(&node, "idle", &["-shared", "-fPIC"]).display().to_string();
    let library = node.path("lib/libtessera_task.so").display().to_string();
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../../../contrib/case-pass/include");
    let mut lazy = node.plain(&compile(&node, "lazy", &[include, &library, "-ldl"]));
    lazy.env("TESSERA_TASK_SOCKET", task_control::socket(&node.path("run"), JOB));
    let (ours, direct) = said(lazy.args(["20", "300000", &quiet]), "launch");
    row(&mut rows, "a launch of lazy objects, driver that does nothing", "ns", &ours, &direct);
    std::fs::remove_file(node.path("lib/libcuda.so.1")).unwrap();
    let idle = compile(&node, "idle", &["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"]);
    std::fs::copy(idle, node.path("lib/libcuda.so.1")).unwrap();
    let (ours, direct) = times(&node, &["20", "3000000", "20000", "4"], "launch");
    row(&mut rows, "a launch, driver that does nothing", "ns", &ours, &direct);
    let (ours, direct) = times(&node, &["20", "3000000", "20000", "4"], "pair");
    row(&mut rows, "4 MiB allocated and freed, driver that does nothing", "ns", &ours, &direct);
    let start = |mut command: Command| {
        let all = (0..200).map(|_| {
            let begin = Instant::now();
            assert!(command.status().unwrap().success());
            begin.elapsed().as_secs_f64() * 1e6
        });
        Times::of(all.collect())
    };
    let (with, without) = (start(node.command("true".as_ref())), start(node.plain("true".as_ref())));
    row(&mut rows, "a process without CUDA, from start to end", "us", &with, &without);
    if std::env::args().any(|word| word == "--json") {
        println!("{}", Value::from(rows));
    }
}
