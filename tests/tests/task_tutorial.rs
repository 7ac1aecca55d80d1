//! The commands of docs/gpu-tasks.md, one after another, as they stand there.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::path::Path;
use std::process::Command;

use common::{builder, on};
use lab::command::{PATIENCE, run, wait_for};
use lab::config::Templates;
use lab::{Cluster, JobId, User, paths};
use slurm_releases::Release;
use task_control::status::TaskState;

const NODES: &str = "[[nodes]]\nnames = \"n1\"\ngpu = \"v100-16gb\"\ncount = 2\nmig = \"off\"\n";

/// Stands for an installed CUDA toolkit: compiles a program's kernels for the simulator, and the rest against its headers.
const COMPILER: &str = r#"#!/bin/sh -e
export PATH="$MACHINES_PATH"
for word; do case $word in *.cu) source=$word ;; esac; done
image=$(mktemp)
"$TOOLS/debug/cuda-sim-cc" --kernels -O1 "$source" -o "$image"
exec "$COMPILER" -x cuda --cuda-host-only -nocudainc -nocudalib -Xclang -target-sdk-version=12.5 -I "$HEADERS" \
  -Xclang -fcuda-include-gpubinary -Xclang "$image" -L "$TOOLKIT" -Wl,-rpath-link,"$TOOLKIT" "$@"
"#;

/// The page's commands: the lines of its blocks without a language.
fn commands() -> Vec<String> {
    let page = std::fs::read_to_string(paths::workspace().join("docs/gpu-tasks.md")).unwrap();
    let blocks = page.split("```").skip(1).step_by(2).filter_map(|block| block.strip_prefix('\n'));
    blocks.flat_map(str::lines).map(str::to_owned).collect()
}

/// Runs a compiler's line on the machine: the chroots of other series have no compiler.
fn compile(cluster: &Cluster, line: &str) {
    let toolkit = cluster.layout().at("toolkit");
    let pass = paths::target_dir().join("case-pass");
    if !toolkit.exists() {
        std::fs::create_dir(&toolkit).unwrap();
        let lib = cluster.layout().at("lib");
        std::os::unix::fs::symlink(lib.join("libcudart.so.12"), toolkit.join("libcudart.so")).unwrap();
        std::os::unix::fs::symlink(lib.join("libcuda.so.1"), toolkit.join("libcuda.so.1")).unwrap();
        for (name, compiler) in
            [("tessera-clang++", pass.join("tessera-clang++")), ("clang++-19", "/usr/bin/clang++-19".into())]
        {
            let script = COMPILER.replacen("-e\n", &format!("-e\nCOMPILER={}\n", compiler.display()), 1);
            std::fs::write(toolkit.join(name), script).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(toolkit.join(name), mode).unwrap();
        }
        let example = cluster.layout().jobs().join("contrib/example");
        std::fs::create_dir_all(&example).unwrap();
        std::fs::copy(paths::workspace().join("contrib/example/app.cu"), example.join("app.cu")).unwrap();
        lab::case_pass::build().unwrap();
    }
    let machines = std::env::var("PATH").unwrap();
    let path = format!("{}:{machines}", toolkit.display());
    let mut shell = Command::new("sh");
    shell
        .args(["-ec", line])
        .current_dir(cluster.layout().jobs())
        .env("PATH", path)
        .env("MACHINES_PATH", machines);
    shell
        .env("TOOLS", paths::target_dir())
        .env("TOOLKIT", &toolkit)
        .env("TESSERA_CLANG", "/usr/bin/clang++-19");
    shell.env("HEADERS", paths::workspace().join("crates/sim/cuda-sim/include"));
    shell.env("TESSERA_TASK_LIB_DIR", cluster.layout().at("lib"));
    run(&mut shell).unwrap().ok().unwrap();
}

/// Waits until so many tasks hold their memory.
fn until_tasks_run(cluster: &Cluster, many: usize) {
    let broker = task_control::Broker::at(&cluster.layout().node("n1").join("run"), PATIENCE);
    wait_for("the tasks to run", PATIENCE, || {
        let status = broker.status().map_err(|e| e.to_string())?;
        let running = |t: &&task_control::status::TaskStatus| t.state == TaskState::Running;
        let running = status.jobs.iter().flat_map(|job| &job.tasks).filter(running).count();
        if running == many { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .unwrap();
}

fn the_page_holds(cluster: &Cluster) {
    let (mut jobs, mut seen) = (Vec::<JobId>::new(), Vec::new());
    // The first job must not end while a busy machine compiles for the second.
    let (compiled, others): (Vec<_>, Vec<_>) =
        commands().into_iter().partition(|line| line.contains("clang++"));
    compiled.iter().for_each(|line| compile(cluster, line));
    for line in others {
        let as_user = |user: User, line: &str| {
            let mut shell = cluster.command_on("n1", user, "sh").unwrap();
            run(shell.args(["-ec", line])).unwrap().ok().unwrap()
        };
        let said = match line.split_whitespace().next().unwrap() {
            "sbatch" => {
                let said = as_user(User::Alice, &line);
                jobs.push(JobId(said.trim().rsplit(' ').next().unwrap().parse().unwrap()));
                until_tasks_run(cluster, if jobs.len() == 1 { 4 } else { 5 });
                continue;
            }
            "cat" => {
                jobs.iter().for_each(|job| drop(cluster.wait_end(*job).unwrap()));
                as_user(User::Alice, &line)
            }
            "sudo" => as_user(User::Root, line.strip_prefix("sudo ").unwrap()),
            _ => as_user(User::Alice, &line),
        };
        seen.push((line, said));
    }
    let said = |begin: &str| {
        let found = seen.iter().find(|(line, _)| line.starts_with(begin));
        &found.unwrap_or_else(|| panic!("no command `{begin}` in the page: {seen:?}")).1
    };
    assert!(said("sinfo ").contains("=tasks[job"), "{seen:?}");
    assert!(said("tessera layout").contains("tasks "), "{seen:?}");
    let table = said("sudo tessera tasks");
    assert!(table.matches(" running ").count() == 5 && table.matches(" 1032M ").count() == 4, "{table}");
    assert!(table.contains(" 2862M "), "3 GB: {table}");
    every_field(said("sudo tessera tasks --json"));
    let logs = said("cat tasks.log plain.log");
    assert_eq!(logs.matches("y[1023] = 3069").count(), 5, "{logs}");
    assert!(logs.contains(&format!("job {} on n1: ", jobs[0])), "{logs}");
}

/// What `tessera tasks --json` says of each device, job and task.
fn every_field(text: &str) {
    let all: serde_json::Value = serde_json::from_str(text).unwrap();
    let numbers = |of: &serde_json::Value, names: &[&str]| {
        names.iter().for_each(|name| assert!(of[*name].is_u64(), "{name}: {of}"));
    };
    for device in all["devices"].as_array().unwrap() {
        assert!(device["uuid"].is_string());
        numbers(device, &["mem_mib", "leased_mib", "overhead_mib", "quarantined_mib", "warps", "workers"]);
    }
    for job in all["jobs"].as_array().unwrap() {
        numbers(job, &["job", "uid"]);
        for task in job["tasks"].as_array().unwrap() {
            numbers(task, &["task", "pid", "mem_mib", "warps", "since_s"]);
            assert!(task["device"].is_string() && task["state"] == "running", "{task}");
        }
    }
    assert_eq!(all["jobs"].as_array().unwrap().len(), 2, "{all}");
}

fn on_a_cluster_of(release: Release) {
    let mut templates = Templates::for_nodes(NODES).unwrap();
    templates.tessera = templates.tessera.replace("[mps]\n", "[tasks]\n[mps]\n");
    let mut cluster = builder().slurm(release).templates(templates).start().unwrap();
    on(&mut cluster, |cluster| the_page_holds(cluster));
}

#[test]
fn from_a_source_file_to_tessera_tasks_22_05() {
    assert!(Path::new("/usr/bin/clang++-19").exists(), "cargo xtask setup installs it");
    on_a_cluster_of(Release::V22_05);
}
