//! The cluster at one moment, for those who look at it again and again: the exporter and `tessera top`.

mod asked;
mod gpu;
mod node;
mod room;
mod usage;

use std::collections::HashMap;
use std::time::Instant;

use protocol::IdleWord;
use site_config::SiteConfig;

use crate::clock;
use crate::gpu_pieces::PieceJob;
use crate::outcome::Failure;
use crate::slurm::squeue::QueuedJob;
use crate::slurm::{scontrol, sinfo, squeue};
pub(crate) use asked::{asks, held_by, kind, request};
pub(crate) use gpu::{GpuSeen, gpus, slices_of_gpu};
pub(crate) use node::{Health, NodeSeen, ending_note};
pub(crate) use room::{FreeRoom, room};
pub(crate) use usage::{Slices, Use};

/// The cluster at one moment.
pub(crate) struct ClusterSnapshot {
    /// The nodes of tessera.toml in its order.
    pub(crate) nodes: Vec<NodeSeen>,
    /// All jobs that Slurm knows, ended ones included.
    pub(crate) jobs: Vec<QueuedJob>,
    /// Jobs that nodes call idle; `None`: the site does not want to know.
    pub(crate) idle_words: Option<HashMap<String, IdleWord>>,
    /// Seconds since 1970.
    pub(crate) at: u64,
    /// Seconds that looking took.
    pub(crate) took_s: f64,
}

/// Asks Slurm.
pub(crate) fn look(config: &SiteConfig) -> Result<ClusterSnapshot, Failure> {
    let begin = Instant::now();
    let shown = scontrol::nodes()?;
    let (layouts, standings) = (scontrol::layouts_in(&shown), scontrol::standings_in(&shown));
    let mut sick = scontrol::sick_in(&shown);
    let watts = scontrol::watts_in(&shown);
    let mut slurms = sinfo::nodes()?;
    let jobs = squeue::jobs(None)?;
    let named = config.nodes.iter().flat_map(|spec| spec.names.iter().map(move |name| (spec, name)));
    let nodes = named.map(|(spec, name)| {
        let slurms = slurms.remove(name).unwrap_or_default();
        let node = NodeSeen::of(spec, name, slurms, layouts.get(name).map(String::as_str));
        NodeSeen { standing: standings.get(name).copied(), watts: watts.get(name).copied(), ..node }
            .with_sick(sick.remove(name).unwrap_or_default())
    });
    let nodes: Vec<NodeSeen> = nodes.collect();
    let (took_s, at) = (begin.elapsed().as_secs_f64(), clock::epoch_seconds());
    let idle_words = config.idle.as_ref().map(|_| scontrol::idle_in(&shown));
    let mut seen = ClusterSnapshot { nodes, jobs, idle_words, at, took_s };
    seen.number_tasks();
    Ok(seen)
}

impl ClusterSnapshot {
    /// Counts the GPUs, slices and memory that jobs can have.
    pub(crate) fn room(&self) -> FreeRoom {
        room(&self.nodes.iter().collect::<Vec<_>>())
    }

    /// Watts that all nodes draw which measure; `None` if none does.
    pub(crate) fn watts(&self) -> Option<u64> {
        let known = self.nodes.iter().filter_map(|node| node.watts);
        known.map(u64::from).reduce(|a, b| a + b)
    }

    /// Names the users of the jobs on all nodes.
    pub(crate) fn name_users(&mut self) {
        let users: HashMap<u32, &str> = self.jobs.iter().map(|job| (job.id, job.user.as_str())).collect();
        for job in jobs_on(&mut self.nodes) {
            job.user = users.get(&job.id.0).map(|user| (*user).to_owned());
        }
    }

    /// Gives the tasks of arrays on all nodes the numbers that Slurm's commands show.
    pub(crate) fn number_tasks(&mut self) {
        let tasks = self.jobs.iter().filter(|job| job.array.is_some());
        let tasks: HashMap<u32, String> = tasks.map(|job| (job.id, job.number())).collect();
        for job in jobs_on(&mut self.nodes) {
            job.task = tasks.get(&job.id.0).cloned();
        }
    }
}

/// The jobs on these nodes.
fn jobs_on(nodes: &mut [NodeSeen]) -> impl Iterator<Item = &mut PieceJob> {
    let gpus = nodes.iter_mut().flat_map(|node| node.gpus.iter_mut().flatten());
    gpus.flat_map(|gpu| &mut gpu.pieces).flat_map(|piece| &mut piece.jobs)
}

/// `850 W`, `3.2 kW`, `1.2 MW`.
pub(crate) fn power(watts: u64) -> String {
    let tenths = |unit: u64, name: &str| format!("{}.{} {name}", watts / unit, watts % unit / (unit / 10));
    match watts {
        0..1000 => format!("{watts} W"),
        1000..1_000_000 => tenths(1000, "kW"),
        _ => tenths(1_000_000, "MW"),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::layout_line;
    use geometry::Model;
    use protocol::Standing;

    /// A node with this layout, in partitions that commas separate.
    pub(crate) fn node(
        name: &str,
        partitions: &str,
        takes_jobs: bool,
        models: &[&str],
        line: &str,
    ) -> NodeSeen {
        let models: Vec<&'static Model> = models.iter().map(|key| Model::find(key).unwrap()).collect();
        NodeSeen {
            name: name.to_owned(),
            links: "pcie".to_owned(),
            takes_jobs,
            partitions: partitions.split(',').map(str::to_owned).collect(),
            health: Health::of(line),
            standing: Some(Standing::Same),
            sick: Vec::new(),
            watts: None,
            gpus: layout_line::read(line, &models).map(|layout| gpus(models.iter().copied(), &layout)),
            note: None,
        }
    }

    /// A job of a user; it asks for `asks` of Tessera.
    pub(crate) fn job(id: u32, user: &str, state: &str, asks: &str) -> QueuedJob {
        QueuedJob {
            id,
            user: user.to_owned(),
            partition: "gpu".to_owned(),
            state: state.to_owned(),
            reason: if state == "PENDING" { "Resources" } else { "" }.to_owned(),
            priority: u64::from(id),
            submit: Some(9_000),
            start: (state == "RUNNING").then_some(9_400),
            end: (state == "RUNNING").then_some(13_000),
            comment: format!("tessera: asks v1 {asks}"),
            ..QueuedJob::default()
        }
    }

    /// Four nodes, two jobs that run and two that wait, at second 10,000.
    pub(crate) fn seen() -> ClusterSnapshot {
        let a100 = |n| vec!["a100-40gb"; n];
        ClusterSnapshot {
            nodes: vec![
                node("n1", "gpu", true, &a100(1), "tessera gpu0=mig[3g.20gb@0:job11,1g.5gb@4:idle]"),
                node("n2", "gpu,debug", true, &a100(1), "tessera gpu0=whole[job13]"),
                node("n3", "gpu", false, &a100(2), "tessera gpu0-1=free"),
                node("n4", "gpu", true, &["t4-16gb"; 2], "tessera gpu0=free gpu1=mps[job13:3815M/25%]"),
            ],
            jobs: vec![
                job(11, "alice", "RUNNING", "iso=mig:3g.20gb"),
                job(13, "bob", "RUNNING", "iso=whole gpus=1"),
                job(20, "alice", "PENDING", "iso=mig:4g.20gb"),
                job(21, "bob", "PENDING", "iso=mps mem=4769"),
            ],
            idle_words: None,
            at: 10_000,
            took_s: 0.1,
        }
    }

    #[test]
    fn watts_become_kilowatts_and_megawatts() {
        assert_eq!([999, 1250, 999_999, 1_242_700].map(power), ["999 W", "1.2 kW", "999.9 kW", "1.2 MW"]);
    }

    #[test]
    fn idle_instances_are_free() {
        let seen = seen();
        let of: Vec<(u32, u32, Use)> =
            seen.nodes.iter().map(|n| (n.slices().free, n.slices().all, n.in_use())).collect();
        assert_eq!(of, [(4, 7, Use::Partly), (0, 7, Use::Full), (14, 14, Use::Away), (7, 14, Use::Partly)]);
    }
}
