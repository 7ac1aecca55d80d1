//! The harness itself, on Slurm alone.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use lab::command::{PATIENCE, run, wait_for};
use lab::config::{Templates, foreign_paths};
use lab::{Cluster, Daemon, User};
use slurm_releases::Release;

/// Asks for GPUs as plain Slurm does, on the DGX-1V node.
fn gpus(cluster: &Cluster, count: u32) -> String {
    let gres = format!("--gres=gpu:{count}");
    let script = "echo $CUDA_VISIBLE_DEVICES";
    cluster.complete(User::Alice, &["-w", "n1", &gres], script).unwrap().trim().to_owned()
}

#[test]
fn stock_picks_the_sets_measured_before_22_05() {
    let mut cluster = common::builder().slurm(Release::V22_05).stock(true).start().unwrap();
    assert_eq!(gpus(&cluster, 2), "0,3");
    assert_eq!(gpus(&cluster, 3), "0,3,4");
    assert_eq!(gpus(&cluster, 4), "0,1,3,4");

    let jobs = cluster.layout().jobs();
    assert!(jobs.is_dir());
    let processes: Vec<_> = [Daemon::Munged, Daemon::Slurmctld, Daemon::Slurmd("n1".to_owned())]
        .iter()
        .map(|daemon| cluster.process(daemon).unwrap())
        .collect();
    cluster.down();
    assert!(processes.iter().all(|process| !process.is_alive()), "{processes:?}");
    assert!(!jobs.exists());
}

#[test]
fn stock_picks_the_worst_linked_pair_24_11() {
    let mut cluster = common::builder().slurm(Release::V24_11).stock(true).start().unwrap();
    assert_eq!(gpus(&cluster, 2), "0,5");
    commands_share_a_namespace_and_do_without_it(&mut cluster);
}

fn commands_share_a_namespace_and_do_without_it(cluster: &mut Cluster) {
    let look = |cluster: &Cluster| {
        let mut shell = cluster.command(User::Bob, "sh").unwrap();
        let by = shell.get_program().to_str().unwrap().to_owned();
        (by, run(shell.args(["-c", "pwd; id -u; id -G; sinfo -ho %D"])).unwrap().ok().unwrap())
    };
    let (uid, gid) = User::Bob.ids().unwrap();
    let said = format!("{}\n{uid}\n{gid}\n2\n", cluster.layout().jobs().display());
    assert_eq!(look(cluster), ("nsenter".to_owned(), said.clone()));
    cluster.kill9(&Daemon::Namespace).unwrap();
    assert_eq!(look(cluster), ("unshare".to_owned(), said));
}

#[test]
fn a_killed_slurmd_comes_back() {
    let mut cluster = common::builder().stock(true).start().unwrap();
    let daemon = Daemon::Slurmd("n2".to_owned());
    cluster.kill9(&daemon).unwrap();
    assert!(cluster.process(&daemon).is_none());
    cluster.start(&daemon).unwrap();
    cluster.wait_ready(PATIENCE).unwrap();
    let done = cluster.complete(User::Bob, &["-w", "n2"], "id -un").unwrap();
    assert_eq!(done.trim(), "tessera-bob");
}

#[test]
fn the_guardian_ends_a_cluster_whose_starter_is_gone() {
    let mut cluster = common::builder().stock(true).start().unwrap();
    let slurmctld = cluster.process(&Daemon::Slurmctld).unwrap();
    cluster.abandon();
    wait_for("slurmctld to be ended", PATIENCE, || {
        cluster.reap();
        if slurmctld.is_alive() { Err("alive".to_owned()) } else { Ok(()) }
    })
    .unwrap();
}

#[test]
fn only_places_differ_from_the_shipped_files() {
    let cluster = common::builder().stock(true).lay_out().unwrap();
    let shipped = Templates::shipped().unwrap();
    let written = fs::read_to_string(cluster.layout().etc("slurm.conf")).unwrap();
    assert_eq!(foreign_paths(&written, cluster.layout().dir()), Vec::<String>::new());
    let keys = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        lines.map(|line| line.split('=').next().unwrap().to_owned()).collect()
    };
    let mut wanted = keys(&shipped.slurm);
    // This cluster is Slurm alone, without slurmdbd.
    let left_out = ["JobSubmitPlugins", "HealthCheck", "AccountingStorage"];
    wanted.retain(|key| !left_out.iter().any(|prefix| key.starts_with(prefix)));
    // Only the simulated driver needs a variable in every task.
    wanted.push("TaskProlog".to_owned());
    wanted.extend(keys(common::STALLS).into_iter().chain(keys(common::SOON)));
    assert_eq!(keys(&written), wanted);
}

fn machine_time() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().try_into().unwrap()
}

/// Prints wall clock, monotonic clock, and when a new file was written; once more when the file `go` is there.
const READER: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
static void look(const char *file)
{
    struct timespec mono;
    struct stat seen;
    close(open(file, O_CREAT | O_WRONLY, 0600));
    stat(file, &seen);
    clock_gettime(CLOCK_MONOTONIC, &mono);
    printf("%ld %ld %ld\n", (long)time(NULL), (long)mono.tv_sec, (long)seen.st_mtime);
    fflush(stdout);
}
int main(void)
{
    look("new.a");
    while (access("go", F_OK) != 0)
        usleep(50000);
    look("new.b");
}
"#;

/// Compiles [`READER`] on the machine; its libc is not newer than any chroot's.
fn build_reader(cluster: &Cluster) -> String {
    let (source, program) =
        (cluster.layout().jobs().join("reader.c"), cluster.layout().jobs().join("reader"));
    fs::write(&source, READER).unwrap();
    run(Command::new("cc").arg("-o").args([&program, &source])).unwrap().ok().unwrap();
    program.display().to_string()
}

fn a_node_has_its_own_clock(release: Release) {
    let dir = tempfile::tempdir().unwrap();
    let jobs = dir.path().join("jobs");
    let conf = format!("Prolog={}/prolog\n", jobs.display());
    let cluster =
        common::builder().dir(dir.path()).slurm(release).stock(true).clocks().slurm_conf(&conf).start();
    let cluster = cluster.unwrap();
    let prolog = jobs.join("prolog");
    fs::write(&prolog, format!("#!/bin/sh\ndate +%s > {}/prolog.$SLURM_JOB_ID\n", jobs.display())).unwrap();
    fs::set_permissions(&prolog, PermissionsExt::from_mode(0o755)).unwrap();
    let numbers = |text: &str| -> Vec<i64> { text.split_whitespace().map(|n| n.parse().unwrap()).collect() };

    let reader = format!("exec {}", build_reader(&cluster));
    let id = cluster.sbatch(User::Alice, &["-w", "n1"], &reader).unwrap();
    let first = wait_for("the first look", PATIENCE, || {
        let said = cluster.output(id);
        if said.ends_with('\n') { Ok(said) } else { Err(said) }
    });
    let first = numbers(&first.unwrap());
    let begin = machine_time();
    cluster.set_clock(Some("n1"), -300).unwrap();
    fs::write(jobs.join("go"), "").unwrap();
    cluster.wait_end(id).unwrap();
    let second = numbers(cluster.output(id).lines().nth(1).unwrap());
    let gone = machine_time() - begin;
    assert!((begin - 301..=begin - 299 + gone).contains(&second[0]), "{first:?} {second:?} at {begin}");
    assert!((first[1]..=first[1] + gone + 60).contains(&second[1]), "monotonic: {first:?} {second:?}");
    assert!((second[0] - 2..=second[0]).contains(&second[2]), "a new file: {second:?}");

    // A prolog, whose environment Slurm makes anew, and the other node.
    for (node, offset) in [("n1", 300), ("n2", 0)] {
        let begin = machine_time() - offset;
        let id = cluster.sbatch(User::Alice, &["-w", node], "date +%s").unwrap();
        cluster.wait_end(id).unwrap();
        let said = fs::read_to_string(jobs.join(format!("prolog.{id}"))).unwrap();
        let times = numbers(&format!("{said} {}", cluster.output(id)));
        let end = machine_time() - offset;
        assert!(times.iter().all(|time| (begin..=end).contains(time)), "{node}: {times:?}, {begin} to {end}");
    }
}

#[test]
fn each_node_has_its_own_clock() {
    a_node_has_its_own_clock(common::release());
}
