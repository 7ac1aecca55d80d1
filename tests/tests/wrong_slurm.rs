//! Plugins that do not fit the Slurm that loads them.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::path::Path;

use common::{LOOK, builder};
use lab::command::{Done, PATIENCE, run};
use lab::{Cluster, Daemon, User};
use slurm_tables::Version;

/// Makes a plugin look up a symbol that no Slurm has.
fn ask_for_another(cluster: &Cluster, plugin: &str, symbol: &str) {
    let file = cluster.layout().at("plugins").join(plugin);
    let mut bytes = std::fs::read(&file).unwrap();
    let name = format!("{symbol}\0");
    let places: Vec<usize> =
        (0..bytes.len()).filter(|at| bytes[*at..].starts_with(name.as_bytes())).collect();
    assert!(!places.is_empty(), "{symbol} is not in {plugin}");
    for at in places {
        bytes[at + symbol.len() - 1] = b'X';
    }
    replace(&file, &bytes);
}

/// Puts another file in the place of one that a daemon may have in its memory.
fn replace(file: &Path, bytes: &[u8]) {
    let other = file.with_extension("new");
    std::fs::write(&other, bytes).unwrap();
    std::fs::set_permissions(&other, std::fs::metadata(file).unwrap().permissions()).unwrap();
    std::fs::rename(&other, file).unwrap();
}

/// Makes a plugin say that it is for Slurm 21.08.5.
fn stamped_for_another(file: &Path) {
    let bytes = plugin_stamp::with_stamp(file, Version::new(21, 8, 5)).unwrap();
    replace(file, &bytes);
}

/// `tessera doctor` on n1.
fn doctor(cluster: &Cluster) -> Done {
    run(cluster.command_on("n1", User::Root, "tessera").unwrap().arg("doctor")).unwrap()
}

#[test]
fn doctor_compares_the_versions_of_what_is_installed() {
    let cluster = builder().start().unwrap();
    let version = lab::Slurm::by_default().unwrap().version().unwrap();
    let fits = format!("of Tessera 0.1.0, with slurmctld {version} and slurmd of n1 {version}\n");
    let said = doctor(&cluster).ok().unwrap();
    assert!(said.contains(&fits), "{said}");
    for plugin in ["select_cons_tres.so", "job_submit_tessera.so", "spank_tessera.so"] {
        let file = cluster.layout().at("plugins").join(plugin);
        let good = std::fs::read(&file).unwrap();
        stamped_for_another(&file);
        let done = doctor(&cluster);
        replace(&file, &good);
        assert_eq!(done.code, Some(1), "{}", done.stdout);
        for daemon in ["slurmctld", "slurmd of n1"] {
            let line = format!(
                "bad  {} is stamped for Slurm 21.08.5; {daemon} is {version} and does not load it: run `tessera setup --plugins-only --apply` there\n",
                file.display()
            );
            assert!(done.stdout.contains(&line), "{line}\n{}", done.stdout);
        }
        assert_eq!(done.stdout.matches("bad  ").count(), 2, "{}", done.stdout);
    }
    cluster.assert_clean().unwrap();
}

#[test]
fn without_a_symbol_plain_slurm_remains() {
    let mut cluster = builder().start().unwrap();
    cluster.stop(&Daemon::Slurmctld).unwrap();
    ask_for_another(&cluster, "select_cons_tres.so", "find_job_record");
    ask_for_another(&cluster, "job_submit_tessera.so", "find_part_record");
    let log = cluster.layout().log("slurmctld");
    std::fs::remove_file(&log).unwrap();
    cluster.start(&Daemon::Slurmctld).unwrap();
    cluster.wait_ready(PATIENCE).unwrap();

    let text = std::fs::read_to_string(&log).unwrap();
    let version = lab::Slurm::by_default().unwrap().version().unwrap();
    let said: Vec<&str> =
        text.lines().filter_map(|line| line.split_once("error: ")).map(|(_, said)| said).collect();
    for (plugin, symbol, then) in [
        ("select", "find_job_recorX", "GPUs are left to Slurm"),
        (
            "job submit",
            "find_part_recorX",
            "requests for GPUs by Tessera's options are refused, all other jobs are left to Slurm",
        ),
    ] {
        let line = format!(
            "tessera: {plugin} plugin: built for Slurm {version}, but this Slurm, which calls itself {version} too, has \
             no symbol {symbol}: {then}"
        );
        assert_eq!(said.iter().filter(|said| **said == line).count(), 1, "{line}\n{text}");
    }

    let saw = cluster.complete(User::Alice, &["--gres=gpu:2", "-w", "n1"], LOOK).unwrap();
    assert_eq!(saw.lines().filter(|line| line.starts_with("GPU ")).count(), 2, "{saw}");
    let asks = ["--gpu-isolation=mig:1g.5gb", "-w", "n1"];
    cluster.try_sbatch(User::Alice, &asks, LOOK).unwrap().refused().unwrap();
}

/// Starts slurmctld on what now lies in the plugins' directory; its log's lines since.
fn started(cluster: &mut Cluster) -> String {
    let log = cluster.layout().log("slurmctld");
    std::fs::remove_file(&log).unwrap();
    cluster.start(&Daemon::Slurmctld).unwrap();
    cluster.wait_ready(PATIENCE).unwrap();
    let saw = cluster.complete(User::Alice, &["--gres=gpu:2", "-w", "n1"], LOOK).unwrap();
    assert_eq!(saw.lines().filter(|line| line.starts_with("GPU ")).count(), 2, "{saw}");
    std::fs::read_to_string(&log).unwrap()
}

#[test]
fn a_plugin_of_another_version_leaves_gpus_to_slurm() {
    let mut cluster = builder().start().unwrap();
    let file = cluster.layout().at("plugins/select_cons_tres.so");
    cluster.stop(&Daemon::Slurmctld).unwrap();
    stamped_for_another(&file);
    let log = started(&mut cluster);
    let path = cluster.layout().at("plugins").display().to_string();
    let said = |line: &&str| line.contains("ncompatible") && line.contains(&path) && line.contains("21.08.5");
    assert!(log.lines().any(|line| said(&line)), "{log}");
    // The page of counters is that of the slurmctld before, which placed GPUs.
    let told = doctor(&cluster).stdout;
    assert!(told.contains("no slurmctld that runs here has loaded Tessera's select plugin"), "{told}");
}
