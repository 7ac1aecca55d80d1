//! CASE-MIG's batches on system A: 32 jobs, isolated and not, on one A30, against MIG as an administrator sets it up under Slurm
//! alone, and beside what `tessera lab simulate case` predicts for the same jobs.

use std::fs;
use std::thread;

use lab::command::run;
use lab::config::Templates;
use lab::{Cluster, HarnessError, User};
use slurm_releases::Release;

use super::Bench;
use super::batch::{Batch, Ran, Submission, compile, play, predict, row, simulate};
use super::table::{self, Row};
use crate::cluster::guardian;
use crate::command::{TaskError, at};
use crate::setup;

/// The node, one GPU with MIG switched on.
const NODE: &str = "[[nodes]]\nnames = \"g1\"\ngpu = \"a30-24gb\"\ncount = 1\nmig = \"on\"\n";
/// Names the node and its layout for the simulator.
const SIMULATED: [&str; 2] = ["--gpu", "a30-24gb,1/1g.6gb*4"];
const INSTANCES: usize = 4;

/// How the batch is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// Slurm alone with four instances as four GPUs.
    Static,
    /// Tessera with one queue.
    OneQueue,
    /// Tessera with a partition for each of CASE-MIG's two queues, isolated jobs first.
    TwoQueues,
    /// As above, with the memory of an MPS client's context on the simulated GPU as `context_mib`.
    SmallContexts,
}

impl Way {
    const TESSERA: [Way; 3] = [Way::OneQueue, Way::TwoQueues, Way::SmallContexts];

    fn name(self) -> &'static str {
        match self {
            Way::Static => "static MIG",
            Way::OneQueue => "one queue",
            Way::TwoQueues => "two queues",
            Way::SmallContexts => "two queues, context_mib 64",
        }
    }

    fn templates(self) -> Result<Templates, HarnessError> {
        let mut templates = Templates::for_nodes(NODE)?;
        match self {
            Way::Static => {
                let with = |text: &str| text.replace("gpu:a30:1,shard:24", "gpu:1g.6gb:4");
                templates.slurm = with(&templates.slurm).replace("GresTypes=gpu,shard", "GresTypes=gpu");
                templates.gres = "NodeName=g1 Name=gpu Type=1g.6gb File=/dev/nvidia[0-3]\n".to_owned();
            }
            Way::OneQueue => {}
            Way::TwoQueues | Way::SmallContexts => {
                templates.slurm += "PartitionName=isolated Nodes=ALL PriorityTier=2 State=UP\n\
                                    PartitionName=shared Nodes=ALL PriorityTier=1 State=UP\n";
            }
        }
        let context = if self == Way::SmallContexts { "context_mib = 64\n" } else { "" };
        templates.tessera = templates.tessera.replace("\n[mps]\n", &format!("\n[tasks]\n{context}\n[mps]\n"));
        Ok(templates)
    }

    fn partitions(self) -> &'static [&'static str] {
        match self {
            Way::Static | Way::OneQueue => &["gpu"],
            Way::TwoQueues | Way::SmallContexts => &["isolated", "shared"],
        }
    }

    fn options(self, is_isolated: bool) -> Vec<&'static str> {
        let kind =
            if is_isolated { "--gpu-isolation=mig:1g.6gb" } else { "--gpu-isolation=gpu-tasks:probes" };
        let mut options = vec!["-t2", if self == Way::Static { "--gres=gpu:1" } else { kind }];
        if self.partitions().len() > 1 {
            options.push(if is_isolated { "--partition=isolated" } else { "--partition=shared" });
        }
        options
    }

    fn cluster(self, bench: &Bench, release: Release) -> Result<Cluster, TaskError> {
        let builder = Cluster::builder().slurm(release).templates(self.templates()?);
        let builder = builder.slurm_conf("MinJobAge=86400").guardian(guardian()?);
        let builder = if self == Way::Static { builder.stock(true).simulated() } else { builder };
        let cluster = if bench.debug { builder } else { builder.release() }.start()?;
        compile(&cluster, self != Way::Static)?;
        if self == Way::Static {
            cut(&cluster)?;
        }
        Ok(cluster)
    }
}

/// Cuts the GPU as an administrator does, and writes the instances' UUIDs where jobs find them: Slurm only counts them.
fn cut(cluster: &Cluster) -> Result<(), TaskError> {
    let smi = |args: &[&str]| -> Result<String, HarnessError> {
        run(cluster.command_on("g1", User::Root, "nvidia-smi")?.args(args))?.ok()
    };
    smi(&["mig", "-cgi", &["1g.6gb"; INSTANCES].join(","), "-C"])?;
    let listed = smi(&["-L"])?;
    let uuids: Vec<&str> =
        listed.lines().filter_map(|l| Some(&l[l.find("MIG-")?..]).map(|u| u.trim_end_matches(')'))).collect();
    if uuids.len() != INSTANCES {
        return Err(TaskError::Other(format!("nvidia-smi -L: {listed}")));
    }
    let path = cluster.layout().jobs().join("uuids");
    at(&path, fs::write(&path, uuids.join("\n") + "\n"))
}

/// Runs `repeat` batches from `seed` on in every way, on both Slurms.
pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>, TaskError> {
    let mut rows = Vec::new();
    let mix = format!("mig:A:{}", bench.ratio);
    for release in [Release::V22_05, Release::V24_11] {
        setup::run(Some(release), setup::Purpose::Tests)?;
        let clusters: Vec<(Way, Cluster)> = std::iter::once(Way::Static)
            .chain(Way::TESSERA)
            .map(|way| Ok((way, way.cluster(bench, release)?)))
            .collect::<Result<_, TaskError>>()?;
        for seed in (bench.seed..).take(bench.repeat) {
            eprintln!("bench: case-mig: Slurm {release}, {mix}, seed {seed}");
            let new = of_seed(&clusters, &mix, release, &seed.to_string())?;
            // A run takes long: nothing is lost if a later one fails.
            eprint!("{}", table::text(&new, &table::load()));
            rows.extend(new);
        }
    }
    Ok(rows)
}

/// Runs a batch on all clusters side by side: its jobs mostly sleep.
fn of_seed(
    clusters: &[(Way, Cluster)],
    mix: &str,
    release: Release,
    seed: &str,
) -> Result<Vec<Row>, TaskError> {
    let any = &clusters[0].1;
    let args = [&SIMULATED[..], &["--mix", mix, "--seed", seed]].concat();
    let jobs = simulate(any, &[&args[..], &["--print-jobs"]].concat())?;
    let predicted = predict(any, &args, "slurm,case-mig", "slurm")?;
    let ran = thread::scope(|scope| -> Result<Vec<(Way, Ran)>, TaskError> {
        let running: Vec<_> = clusters
            .iter()
            .map(|(way, cluster)| (*way, scope.spawn(|| batch(cluster, *way, &jobs))))
            .collect();
        let failed = || TaskError::Other("a batch's thread panicked".to_owned());
        running.into_iter().map(|(way, thread)| Ok((way, thread.join().map_err(|_| failed())??))).collect()
    })?;
    let Some((_, base)) = ran.first() else { return Ok(Vec::new()) };
    let case = |way: Way| format!("{release}, {mix}, seed {seed}, {}", way.name());
    let mut rows = Vec::new();
    let static_case = format!("{}: makespan", case(Way::Static));
    rows.extend(row("case-mig", static_case, "s", base.makespan(), predicted.makespans[0]));
    for (way, own) in &ran[1..] {
        let batch = Batch { bench: "case-mig", case: case(*way), over: Way::Static.name() };
        rows.extend(batch.rows(own, base, &predicted));
    }
    Ok(rows)
}

fn batch(cluster: &Cluster, way: Way, jobs: &str) -> Result<Ran, TaskError> {
    // As Slurm's own plugin for NVML would, which reads the instances of a real driver.
    let own = "export CUDA_VISIBLE_DEVICES=$(sed -n \"$((CUDA_VISIBLE_DEVICES + 1))p\" uuids)\n";
    let prelude = if way == Way::Static { own } else { "" };
    let options = |is_isolated| way.options(is_isolated);
    play(cluster, &Submission { partitions: way.partitions(), options: &options, prelude }, jobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_static_node_counts_instances() {
        let templates = Way::Static.templates().unwrap();
        assert!(templates.slurm.contains("Gres=gpu:1g.6gb:4\n"), "{}", templates.slurm);
        assert!(Way::TwoQueues.templates().unwrap().tessera.contains("\n[tasks]\n\n[mps]"));
    }
}
