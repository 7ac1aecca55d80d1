//! A node of tessera.toml, as Slurm and its layout show it.

use geometry::JobId;
use node_layout::{ConfigInForce, parse_layout};
use protocol::node_word::UNFIT;
use protocol::{SickGpu, Standing};
use site_config::NodeSpec;

use super::gpu::{GpuSeen, gpus, used_as};
use super::usage::{Slices, Use};
use crate::gpu_pieces::{Owner, Piece};
use crate::layout_line;
use crate::sick_words::sick_list;
use crate::slurm::sinfo;

/// A node as Slurm, its layout and the configuration show it.
pub(crate) struct NodeSeen {
    pub(crate) name: String,
    /// The interconnect's name.
    pub(crate) links: String,
    /// True if Slurm starts jobs there.
    pub(crate) takes_jobs: bool,
    pub(crate) partitions: Vec<String>,
    pub(crate) health: Health,
    /// How slurmctld judges what the node says of itself; `None`: it has not.
    pub(crate) standing: Option<Standing>,
    /// Unhealthy GPUs, which get no new jobs.
    pub(crate) sick: Vec<SickGpu>,
    /// Watts that it draws now, as the site's energy plugin measures: of all of the node or of its GPUs.
    pub(crate) watts: Option<u32>,
    /// GPUs of the node; the error says why their state is not known.
    pub(crate) gpus: Result<Vec<GpuSeen>, String>,
    /// A note for the reader of a picture.
    pub(crate) note: Option<String>,
}

/// Health of a node, from the words of its layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Health {
    /// True if its driver shows the GPUs that tessera.toml describes and its journal can be used.
    pub(crate) fit: bool,
    /// slurmctld works with tessera.toml as it is, not with an earlier version or none.
    pub(crate) config_good: bool,
    /// Jobs that were told to end and whose epilogs are not over.
    pub(crate) ending: Vec<JobId>,
}

impl Default for Health {
    fn default() -> Self {
        Self { fit: true, config_good: true, ending: Vec::new() }
    }
}

impl Health {
    pub(super) fn of(line: &str) -> Self {
        let layout = parse_layout(line.trim()).unwrap_or_default();
        let fit = !line.trim_start().starts_with(UNFIT);
        Self { fit, config_good: layout.config == ConfigInForce::Current, ending: layout.ending }
    }
}

impl NodeSeen {
    /// A node of tessera.toml, as Slurm knows it and with the layout that it publishes.
    pub(crate) fn of(spec: &NodeSpec, name: &str, slurms: sinfo::SinfoNode, line: Option<&str>) -> Self {
        let layout = line.map_or_else(
            || Err("no layout published".to_owned()),
            |line| layout_line::read(line, &spec.gpus),
        );
        let unknown = layout.as_ref().err().cloned();
        let away = (!slurms.takes_jobs).then(|| "takes no jobs now".to_owned());
        let cut = layout.as_ref().is_ok_and(|l| l.cut).then(|| "the published line ended early".to_owned());
        let ending = layout.as_ref().ok().and_then(|l| ending_note(l.ending.iter().copied()));
        let notes: Vec<String> = [unknown, away, cut, ending].into_iter().flatten().collect();
        Self {
            name: name.to_owned(),
            links: spec.interconnect.clone(),
            takes_jobs: slurms.takes_jobs,
            partitions: slurms.partitions,
            health: line.map(Health::of).unwrap_or_default(),
            standing: None,
            sick: Vec::new(),
            watts: None,
            gpus: layout.map(|layout| used_as(spec, gpus(spec.gpus.iter().copied(), &layout))),
            note: (!notes.is_empty()).then(|| notes.join("; ")),
        }
    }

    /// Marks the GPUs that get no new jobs: what no job has of them is not free.
    pub(crate) fn with_sick(mut self, sick: Vec<SickGpu>) -> Self {
        for one in &sick {
            let gpus = self.gpus.as_mut().ok();
            let Some(gpu) = gpus.and_then(|gpus| gpus.get_mut(usize::from(one.gpu.0))) else { continue };
            gpu.sick = true;
            let open = |piece: &&mut Piece| matches!(piece.owner, Owner::Free | Owner::Idle);
            gpu.pieces.iter_mut().filter(open).for_each(|piece| piece.owner = Owner::Sick);
        }
        self.note =
            [self.note.take(), sick_list(&sick)].into_iter().flatten().reduce(|a, b| format!("{a}; {b}"));
        self.sick = sick;
        self
    }

    pub(crate) fn slices(&self) -> Slices {
        self.gpus.iter().flatten().map(GpuSeen::both).sum()
    }

    pub(crate) fn in_use(&self) -> Use {
        match &self.gpus {
            _ if !self.takes_jobs => Use::Away,
            Err(_) => Use::Unknown,
            Ok(_) => self.slices().in_use(),
        }
    }

    /// The jobs that its layout lists.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = u32> {
        let pieces = self.gpus.iter().flatten().flat_map(|gpu| &gpu.pieces);
        pieces.flat_map(|piece| piece.jobs.iter().map(|job| job.id.0))
    }
}

/// Names the jobs that still have GPUs although Slurm has ended or forgotten them.
pub(crate) fn ending_note(ending: impl Iterator<Item = JobId>) -> Option<String> {
    let mut jobs: Vec<String> = ending.map(|job| job.to_string()).collect();
    jobs.sort_unstable_by_key(|job| (job.len(), job.clone()));
    (!jobs.is_empty()).then(|| format!("ending: job {}", jobs.join(", ")))
}
