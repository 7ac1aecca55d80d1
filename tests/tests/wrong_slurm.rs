//! Plugins that do not fit the Slurm that loads them.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{LOOK, builder};
use lab::command::PATIENCE;
use lab::{Cluster, Daemon, User};

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
    // In another file: a slurmd has this one in its memory.
    let other = file.with_extension("new");
    std::fs::write(&other, bytes).unwrap();
    std::fs::set_permissions(&other, std::fs::metadata(&file).unwrap().permissions()).unwrap();
    std::fs::rename(&other, &file).unwrap();
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
