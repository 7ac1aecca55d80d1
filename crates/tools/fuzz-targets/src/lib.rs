//! Every parser that reads what a user wrote, as a function of bytes.
//!
//! A target must neither panic nor hang, and what it reads must come back as it was written. `fuzz/` runs the targets
//! under libFuzzer; the test of this crate runs them over the corpus in `fuzz/corpus` and over mutations of it, on any
//! toolchain.
#![forbid(unsafe_code)]

mod mutate;
mod site;
mod slurm;
mod tables;
mod tasks;
mod wire;
mod words;

pub use mutate::Mutator;

/// A parser and its corpus.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Name of the parser, which is also that of its corpus.
    pub name: &'static str,
    /// Runs it on one input.
    pub run: fn(&[u8]),
}

/// All of them.
pub const TARGETS: [Target; 19] = [
    Target { name: "options", run: wire::options },
    Target { name: "request", run: wire::request },
    Target { name: "placement", run: wire::placement },
    Target { name: "layout", run: wire::layout },
    Target { name: "node_word", run: wire::node_word },
    Target { name: "admin_comment", run: wire::admin_comment },
    Target { name: "edge_list", run: site::edge_list },
    Target { name: "tessera_toml", run: site::tessera_toml },
    Target { name: "links", run: site::links },
    Target { name: "gres_conf", run: site::gres_conf },
    Target { name: "squeue", run: slurm::squeue },
    Target { name: "sacct", run: slurm::sacct },
    Target { name: "mapa_jobs", run: tables::mapa_jobs },
    Target { name: "plan_tasks", run: tables::plan_tasks },
    Target { name: "case_jobs", run: tables::case_jobs },
    Target { name: "power_csv", run: tables::power_csv },
    Target { name: "power_model", run: tables::power_model },
    Target { name: "task_wire", run: tasks::task_wire },
    Target { name: "words", run: words::words },
];

/// The target of a name.
#[must_use]
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}

/// The input as text: what is not UTF-8 is replaced, as Slurm's texts are.
fn text(input: &[u8]) -> String {
    String::from_utf8_lossy(input).into_owned()
}
