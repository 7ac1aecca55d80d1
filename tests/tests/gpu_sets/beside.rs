//! Compares the sets that Tessera and Slurm alone give.

use lab::{Cluster, JobId, User};

use super::common;
use super::dgx::{cancel, occupy, templates};

/// For each occupancy, the sets for 2, 3 and 4 GPUs.
fn sets(cluster: &Cluster, occupancies: &[&[u32]]) -> Vec<Vec<u32>> {
    let mut sets = Vec::new();
    for busy in occupancies {
        let taken = occupy(cluster, busy);
        for n in 2..=4 {
            let options = ["-w", "n1", &format!("--gres=gpu:{n}")];
            let job = cluster.sbatch(User::Alice, &options, "exec sleep 600").unwrap();
            cluster.wait_running(job).unwrap();
            sets.push(cluster.gpus_of(job).unwrap());
            cancel(cluster, &[job]);
        }
        cancel_all(cluster, &taken);
    }
    sets
}

fn cancel_all(cluster: &Cluster, jobs: &[JobId]) {
    if !jobs.is_empty() {
        cancel(cluster, jobs);
    }
}

/// GPUs in use.
const BUSY: [&[u32]; 4] = [&[], &[0, 3], &[0, 1], &[2, 5]];

/// The table of docs/figures/mapa.md: `TESSERA_ALL_OCCUPANCIES=1 cargo test -p e2e --test gpu_sets -- --nocapture
/// --test-threads=1 beside_slurm_alone`. Without the variable only the idle node, which is a minute's work less.
#[test]
fn beside_slurm_alone() {
    let release = common::release();
    let occupancies =
        if std::env::var_os("TESSERA_ALL_OCCUPANCIES").is_some() { &BUSY[..] } else { &BUSY[..1] };
    let start = |stock| common::builder().templates(templates()).stock(stock).start().unwrap();
    let stock = start(true);
    let theirs = sets(&stock, occupancies);
    drop(stock);
    let cluster = start(false);
    let ours = sets(&cluster, occupancies);
    let predicted = |gpus: &[u32]| predicted(&cluster, gpus);
    let mut rows = Vec::new();
    for (i, (theirs, ours)) in theirs.iter().zip(&ours).enumerate() {
        let (busy, n) = (BUSY[i / 3], i % 3 + 2);
        rows.push((predicted(theirs), predicted(ours)));
        eprintln!(
            "| {release} | {busy:?} | {n} | {theirs:?} | {:.1} | {ours:?} | {:.1} |",
            rows[i].0, rows[i].1
        );
    }
    for (i, (theirs, ours)) in rows.into_iter().enumerate() {
        assert!(ours + 0.05 >= theirs, "row {i}: {ours} GB/s, Slurm alone {theirs}");
    }
    assert_eq!(ours[..3], [vec![0, 3], vec![0, 2, 3], vec![0, 1, 2, 3]]);
}

/// GB/s predicted for the best ring on exactly these GPUs.
fn predicted(cluster: &Cluster, gpus: &[u32]) -> f64 {
    let busy: Vec<String> = (0..8).filter(|g| !gpus.contains(g)).map(|g| g.to_string()).collect();
    let (n, busy) = (gpus.len().to_string(), busy.join(","));
    let args = ["score", "--topology", "dgx-v", "--gpus", &n, "--busy", &busy, "--json"];
    let out = cluster.run(User::Root, "tessera", &args).unwrap().ok().unwrap();
    serde_json::from_str::<serde_json::Value>(&out).unwrap()["eff_bw"].as_f64().unwrap()
}
