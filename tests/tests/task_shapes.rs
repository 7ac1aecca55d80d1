//! CUDA programs in jobs of GPU tasks: the shapes of `contrib/case-pass`, unmodified under the preloaded library and compiled
//! by `tessera-clang++`, print what they print alone on a GPU. So does a program of the driver's interface.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::process::Command;

use common::{builder, on};
use lab::case_pass::Shapes;
use lab::command::run;
use lab::config::Templates;
use lab::{Cluster, User, paths};

const NODES: &str = "[[nodes]]\nnames = \"n1\"\ngpu = \"v100-16gb\"\ncount = 2\nmig = \"off\"\n";

/// A script that runs each program, and writes what it prints to a file with this ending.
fn runs(shapes: &Shapes, programs: &str, ending: &str) -> String {
    let of = |name: &String| format!("{name}.{programs} > {name}.{ending}; echo $? >> {name}.{ending}\n");
    shapes.names.iter().map(of).collect()
}

/// A program of the driver's interface, linked with the driver: cuda-sim's test client.
const DRIVER: &str = "driver-client init count context 0 alloc 1000000000 alloc 3000000000 threads";

fn print_the_same(cluster: &Cluster) {
    let shapes = &Shapes::build().unwrap();
    let bin = cluster.layout().at("bin");
    for name in &shapes.names {
        std::fs::copy(shapes.plain(name), bin.join(format!("{name}.plain"))).unwrap();
        std::fs::copy(shapes.with_pass(name, "-O2"), bin.join(format!("{name}.tasks"))).unwrap();
    }
    let crate_dir = paths::workspace().join("crates/sim/cuda-sim");
    let mut cc = Command::new("cc");
    cc.arg("-I").arg(crate_dir.join("include")).arg(crate_dir.join("tests/client.c")).arg("-pthread");
    cc.arg(cluster.layout().at("lib").join("libcuda.so.1")).arg("-o").arg(bin.join("driver-client"));
    run(&mut cc).unwrap().ok().unwrap();
    let complete = |options: &[&str], script: &str| {
        let options = [&["-t10", "-w", "n1"], options].concat();
        cluster.complete(User::Alice, &options, script).unwrap()
    };
    let driver = |ending: &str| format!("{DRIVER} > driver.{ending} 2>&1\n");
    complete(&["--gpu-isolation=whole"], &(runs(shapes, "plain", "alone") + &driver("alone")));
    let preloaded = runs(shapes, "plain", "preloaded") + &driver("preloaded");
    complete(&["--gpu-isolation=gpu-tasks", "--gpu-mem=6G"], &preloaded);
    complete(&["--gpu-isolation=gpu-tasks"], &runs(shapes, "plain", "undeclared"));
    complete(&["--gpu-isolation=gpu-tasks:probes"], &runs(shapes, "tasks", "probed"));
    // The library that is preloaded counts nothing in a program with probes.
    complete(&["--gpu-isolation=gpu-tasks"], &runs(shapes, "tasks", "both"));
    let read = |name: &str, ending: &str| {
        std::fs::read_to_string(cluster.layout().jobs().join(format!("{name}.{ending}"))).unwrap()
    };
    assert!(read("driver", "alone").contains("alloc: 0\n"), "{}", read("driver", "alone"));
    assert_eq!(read("driver", "preloaded"), read("driver", "alone"));
    for name in &shapes.names {
        let alone = read(name, "alone");
        assert!(alone.ends_with("0\n") && alone.len() > 2, "{name}: {alone}");
        for ending in ["preloaded", "undeclared", "probed", "both"] {
            assert_eq!(read(name, ending), alone, "{name} {ending}");
        }
    }
}

/// What the node's broker decided is legal.
fn the_log_is_sound(cluster: &Cluster) {
    let log = cluster.layout().log("tasks-n1");
    let checked =
        cluster.run(User::Root, "tessera", &["simulate", "case", "--audit", &log.display().to_string()]);
    checked.unwrap().ok().unwrap();
    let grants = std::fs::read_to_string(log).unwrap().matches("\"ev\":\"grant\"").count();
    assert!(grants > 100, "{grants}");
}

#[test]
fn shapes_print_in_jobs_of_gpu_tasks_what_they_print_alone() {
    let mut templates = Templates::for_nodes(NODES).unwrap();
    templates.tessera = templates.tessera.replace("[mps]\n", "[tasks]\nlog = \"/the/clusters/own\"\n[mps]\n");
    let mut cluster = builder().templates(templates).start().unwrap();
    on(&mut cluster, |cluster| {
        print_the_same(cluster);
        the_log_is_sound(cluster);
    });
}
