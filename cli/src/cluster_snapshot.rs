//! The cluster at one moment, for those who look at it again and again: the exporter and `tessera top`.

use std::collections::HashMap;
use std::time::Instant;

use geometry::size::display_gb;
use geometry::{JobId, Model};
use node_layout::Layout;
use node_layout::parse_layout;
use node_layout::{ConfigInForce, GpuLayout};
use node_state::slices::slices_for_gpu;
use node_state::{Gpu, MigPolicy, Purpose};
use protocol::node_word::UNFIT;
use protocol::wire::parse_request;
use protocol::{AdminComment, CommentBody, IdleWord, Isolation, Request, SickGpu, Standing};
use site_config::{NodeSpec, SiteConfig};
use site_limits::tres::Tres;

use crate::gpu_pieces::{self, Owner, Piece, PieceJob};
use crate::outcome::Failure;
use crate::sick_words::sick_list;
use crate::slurm::squeue::QueuedJob;
use crate::slurm::{scontrol, sinfo, squeue};
use crate::{clock, layout_line};

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
    fn of(line: &str) -> Self {
        let layout = parse_layout(line.trim()).unwrap_or_default();
        let fit = !line.trim_start().starts_with(UNFIT);
        Self { fit, config_good: layout.config == ConfigInForce::Current, ending: layout.ending }
    }
}

/// A GPU and the jobs on it.
pub(crate) struct GpuSeen {
    pub(crate) model: &'static Model,
    /// Memory slices in order, without gaps.
    pub(crate) pieces: Vec<Piece>,
    /// The part of it that jobs may have.
    pub(crate) can: Can,
    /// It is unhealthy, and gets no new jobs.
    pub(crate) sick: bool,
}

/// Ways in which jobs may have a GPU, whoever has it now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Can {
    /// New instances.
    pub(crate) be_cut: bool,
    /// All of it.
    pub(crate) be_whole: bool,
}

impl Can {
    /// As the site uses the GPU.
    fn of(gpu: &Gpu) -> Self {
        Self {
            be_cut: gpu.policy != MigPolicy::Off && gpu.purpose == Purpose::Any,
            be_whole: gpu.is_ever_whole(),
        }
    }
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

/// The GPUs of a layout.
pub(crate) fn gpus(models: impl IntoIterator<Item = &'static Model>, layout: &Layout) -> Vec<GpuSeen> {
    let seen = |(model, gpu): (&'static Model, &GpuLayout)| GpuSeen {
        model,
        pieces: gpu_pieces::of(model, gpu),
        can: Can::of(&Gpu::new(model, MigPolicy::Dynamic)),
        sick: false,
    };
    models.into_iter().zip(&layout.gpus).map(seen).collect()
}

/// The GPUs of a node, with what the site lets jobs have of them.
fn used_as(spec: &NodeSpec, mut gpus: Vec<GpuSeen>) -> Vec<GpuSeen> {
    for (seen, gpu) in gpus.iter_mut().zip(&spec.to_node().gpus) {
        seen.can = Can::of(gpu);
    }
    gpus
}

/// Names the jobs that still have GPUs although Slurm has ended or forgotten them.
pub(crate) fn ending_note(ending: impl Iterator<Item = JobId>) -> Option<String> {
    let mut jobs: Vec<String> = ending.map(|job| job.to_string()).collect();
    jobs.sort_unstable_by_key(|job| (job.len(), job.clone()));
    (!jobs.is_empty()).then(|| format!("ending: job {}", jobs.join(", ")))
}

/// How much of a node's GPUs jobs have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Use {
    Free,
    Partly,
    Full,
    /// The node takes no jobs, whatever it has.
    Away,
    /// No layout could be read.
    Unknown,
}

impl Use {
    pub(crate) const ALL: [Self; 5] = [Self::Free, Self::Partly, Self::Full, Self::Away, Self::Unknown];

    /// In a link, and as a class of the page.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Partly => "partly",
            Self::Full => "full",
            Self::Away => "away",
            Self::Unknown => "unknown",
        }
    }

    /// True if nothing is free there for jobs, or nothing known.
    pub(crate) fn is_away(self) -> bool {
        matches!(self, Self::Away | Self::Unknown)
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Partly => "partly used",
            Self::Full => "fully used",
            Self::Away => "taking no jobs",
            Self::Unknown => "not known",
        }
    }
}

/// Compute slices: those that no job has, and all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slices {
    pub(crate) free: u32,
    pub(crate) all: u32,
}

impl std::iter::Sum for Slices {
    fn sum<I: Iterator<Item = Self>>(slices: I) -> Self {
        slices.fold(Self::default(), |sum, s| Self { free: sum.free + s.free, all: sum.all + s.all })
    }
}

impl Slices {
    pub(crate) fn in_use(self) -> Use {
        match self.free {
            0 => Use::Full,
            free if free == self.all => Use::Free,
            _ => Use::Partly,
        }
    }
}

/// The nodes that take jobs and whose GPUs are known, and what is free there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FreeRoom {
    pub(crate) slices: Slices,
    pub(crate) gpus: usize,
    pub(crate) nodes: usize,
    /// All nodes, these included.
    pub(crate) of_nodes: usize,
}

pub(crate) fn room(nodes: &[&NodeSeen]) -> FreeRoom {
    let able = || nodes.iter().filter(|node| !node.in_use().is_away());
    FreeRoom {
        slices: able().map(|node| node.slices()).sum(),
        gpus: able().map(|node| node.gpus.iter().flatten().count()).sum(),
        nodes: able().count(),
        of_nodes: nodes.len(),
    }
}

impl FreeRoom {
    /// `5 of 16 compute slices free on 4 GPUs of 3 nodes`; where not all nodes take jobs, `of 3 of the 4 nodes`.
    pub(crate) fn words(self) -> String {
        let n = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let Slices { free, all } = self.slices;
        let nodes = match self.of_nodes {
            of if of == self.nodes => n(of, "node"),
            of => format!("{} of the {}", self.nodes, n(of, "node")),
        };
        format!("{free} of {all} compute slices free on {} of {nodes}", n(self.gpus, "GPU"))
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

impl GpuSeen {
    /// Counts the slices; an idle instance counts as free.
    pub(crate) fn both(&self) -> Slices {
        let open = |owner: Owner| matches!(owner, Owner::Free | Owner::Idle);
        let one = |(owner, n): (Owner, u32)| Slices { free: if open(owner) { n } else { 0 }, all: n };
        self.slices().into_iter().map(one).sum()
    }

    /// Names the state of the whole GPU: an owner's name, or `instances`.
    pub(crate) fn state(&self) -> &'static str {
        match &self.pieces[..] {
            [piece] if piece.profile.is_none() => piece.owner.name(),
            _ => "instances",
        }
    }

    /// Compute slices by owner: of an instance its own, of free units what the instances leave, as Slurm bills them.
    pub(crate) fn slices(&self) -> Vec<(Owner, u32)> {
        let total = slices_of_gpu(self.model);
        let mut left = total;
        let mut all = Vec::new();
        for piece in &self.pieces {
            let profile = piece.profile.as_deref().and_then(|name| self.model.profile(name));
            match profile {
                Some(profile) => {
                    let slices = u32::from(profile.compute_slices).min(left);
                    left -= slices;
                    all.push((piece.owner, slices));
                }
                None if self.pieces.len() == 1 => {
                    all.push((piece.owner, total));
                    left = 0;
                }
                None => {}
            }
        }
        if left > 0 {
            all.push((if self.sick { Owner::Sick } else { Owner::Free }, left));
        }
        all
    }

    /// Compute slices that no job has, and those of the largest instance or whole GPU that could be made of them.
    pub(crate) fn free(&self) -> (u32, u32) {
        let open = |owner: Owner| matches!(owner, Owner::Free | Owner::Idle);
        let free = self.slices().iter().filter(|(owner, _)| open(*owner)).map(|(_, n)| n).sum();
        let units = self.free_units();
        let fits = |start| move |profile: &&geometry::Profile| profile.at(start).mask() & !units == 0;
        let largest = self.model.profiles.iter().filter(|p| p.starts.iter().any(|s| fits(*s)(p)));
        let largest = largest.map(|p| u32::from(p.compute_slices)).max();
        let whole = u32::from(units.count_ones() == u32::from(self.model.placement_units));
        (free, largest.unwrap_or(whole * slices_of_gpu(self.model)))
    }

    /// Placement units that no job has, bit 0 for unit 0.
    pub(crate) fn free_units(&self) -> u16 {
        let open = self.pieces.iter().filter(|p| matches!(p.owner, Owner::Free | Owner::Idle));
        open.flat_map(|p| p.start..p.start + p.size).fold(0_u16, |mask, unit| mask | 1 << unit)
    }

    /// Tells whether no job has anything of it.
    pub(crate) fn is_free(&self) -> bool {
        self.pieces.iter().all(|p| matches!(p.owner, Owner::Free | Owner::Idle))
    }

    /// Lists the instances: profile, first memory slice, and whether a job has it.
    pub(crate) fn instances(&self) -> impl Iterator<Item = (&str, u8, bool)> {
        self.pieces.iter().filter_map(|p| Some((p.profile.as_deref()?, p.start, p.owner != Owner::Idle)))
    }
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

/// Says in a few characters what a job asked for: `2 x 1g.5gb`, `mps 5.0 GB`, `4 GPUs`, `2 x 8 GPUs` on two nodes; `None`: no GPUs.
pub(crate) fn asks(job: &QueuedJob) -> Option<String> {
    ours(job).or_else(|| {
        let entries = tres(job).gpu_entries();
        let count = |name: &str| {
            let of_name = entries.iter().filter(|entry| entry.name == name);
            of_name.map(|entry| entry.count).fold(0, u64::saturating_add)
        };
        let asked = match (count("gpu"), count("shard")) {
            (0, 0) => return None,
            (0, shards) => format!("{shards} shard{}", if shards == 1 { "" } else { "s" }),
            (gpus, _) => whole(gpus),
        };
        let per = entries.iter().find(|entry| !entry.per_node).map(|entry| entry.option);
        Some(match (per, job.n_nodes.split('-').next().and_then(|n| n.parse::<u32>().ok())) {
            (None, Some(nodes)) if nodes > 1 => format!("{nodes} x {asked}"),
            (Some("--gpus-per-task"), _) => format!("{asked}/task"),
            (Some("--gpus-per-socket"), _) => format!("{asked}/socket"),
            _ => asked,
        })
    })
}

/// The lists of GRES that a job asked Slurm for.
fn tres(job: &QueuedJob) -> Tres {
    let [per_job, per_node, per_socket, per_task] = job.gres.clone().map(Some);
    Tres { per_job, per_node, per_socket, per_task, tasks_per_gpu: None }
}

fn whole(gpus: u64) -> String {
    format!("{gpus} GPU{}", if gpus == 1 { "" } else { "s" })
}

/// Returns the request of a job that asked Tessera.
fn ours(job: &QueuedJob) -> Option<String> {
    let request = request(job)?;
    let size = request.mem_mib.map_or_else(String::new, |mib| format!(" {}", display_gb(mib)));
    Some(match (&request.isolation, request.gpus) {
        (Isolation::Mig(Some(profile)), _) if request.instances > 1 => {
            format!("{} x {profile}", request.instances)
        }
        (Isolation::Mig(Some(profile)), _) => profile.clone(),
        (Isolation::Whole, n) => whole(n.unwrap_or(1).into()),
        _ => format!("{}{size}", kind(job)?),
    })
}

/// Names Tessera's rule that keeps a job waiting: a planner's plan, a wait for better GPUs, a limit of the site, power, or
/// slices that are not free.
pub(crate) fn held_by(job: &QueuedJob) -> &'static str {
    match AdminComment::parse(&job.comment).says {
        CommentBody::Plan(_) => "plan",
        CommentBody::Waits(_) => "better_gpus",
        CommentBody::Limited(_) => "limit",
        CommentBody::Power(_) => "power",
        CommentBody::Slices(_) => "slices",
        CommentBody::Nodes(_) => "node",
        _ => "none",
    }
}

/// Compute slices of a whole GPU, as Slurm bills it: 7 for one that cannot be cut.
pub(crate) fn slices_of_gpu(model: &Model) -> u32 {
    u32::try_from(slices_for_gpu(Some(model))).unwrap_or(u32::MAX)
}

/// Reads a job's request of Tessera; `None`: it asked for nothing.
pub(crate) fn request(job: &QueuedJob) -> Option<Request> {
    parse_request(&AdminComment::parse(&job.comment).asks?).ok()
}

/// Kind of GPUs that a job asked Tessera for; `plain`: it asked Slurm alone for GPUs or shards; `None`: for none at all.
pub(crate) fn kind(job: &QueuedJob) -> Option<&'static str> {
    Some(match request(job).map(|request| request.isolation) {
        Some(Isolation::Auto) => "auto",
        Some(Isolation::Mig(_)) => "mig",
        Some(Isolation::Mps) => "mps",
        Some(Isolation::Tasks { .. }) => "gpu-tasks",
        Some(Isolation::Whole) => "whole",
        Some(Isolation::None) | None if tres(job).gpu_entries().is_empty() => return None,
        Some(Isolation::None) | None => "plain",
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

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

    /// A job that asks Slurm alone, per job and per node.
    fn plain_job([per_job, per_node]: [String; 2], n_nodes: &str) -> QueuedJob {
        let gres = [per_job, per_node, String::new(), String::new()];
        QueuedJob { gres, n_nodes: n_nodes.to_owned(), ..QueuedJob::default() }
    }

    #[test]
    fn jobs_with_gpus_have_a_kind() {
        let plain = |gres: &str, comment: &str| {
            let job = plain_job([String::new(), gres.to_owned()], "1");
            kind(&QueuedJob { comment: comment.to_owned(), ..job })
        };
        assert_eq!([plain("gres:gpu:8", ""), plain("gres:shard:8", "a note")], [Some("plain"); 2]);
        assert_eq!(plain("gres:gpu:8", "tessera: n1=whole:0: the only free GPU"), Some("plain"));
        assert_eq!(plain("gres:gpu:1", "tessera: asks v1 iso=none"), Some("plain"));
        assert_eq!(plain("gres:shard:5", "tessera: asks v1 iso=mig:1g.5gb"), Some("mig"));
        assert_eq!([plain("gres:nic:1", ""), plain("", "tessera: asks v1 iso=none")], [None; 2]);
    }

    #[test]
    fn watts_become_kilowatts_and_megawatts() {
        assert_eq!([999, 1250, 999_999, 1_242_700].map(power), ["999 W", "1.2 kW", "999.9 kW", "1.2 MW"]);
    }

    #[test]
    fn a_request_is_short_in_lists() {
        let of = |asked: &str| asks(&job(1, "alice", "PENDING", asked)).unwrap();
        let requests = [
            "iso=mig:1g.5gb inst=2",
            "iso=mig:3g.20gb",
            "iso=mig mem=9537",
            "iso=mps mem=4769",
            "iso=whole gpus=4",
        ];
        assert_eq!(requests.map(of), ["2 x 1g.5gb", "3g.20gb", "mig 10.0 GB", "mps 5.0 GB", "4 GPUs"]);
        assert_eq!(asks(&QueuedJob::default()), None);
        let plain = |lists: [&str; 2]| asks(&plain_job(lists.map(str::to_owned), "1"));
        assert_eq!(plain(["", "gres:gpu:8"]).as_deref(), Some("8 GPUs"));
        assert_eq!(plain(["gres/gpu:a100:1", ""]).as_deref(), Some("1 GPU"));
        assert_eq!(plain(["", "gres:shard:3"]).as_deref(), Some("3 shards"));
        assert_eq!(plain(["", "gres:nic:1"]), None);
        let on_two = |lists: [&str; 2]| asks(&plain_job(lists.map(str::to_owned), "2-4"));
        assert_eq!(on_two(["", "gres:gpu:8"]).as_deref(), Some("2 x 8 GPUs"));
        assert_eq!(on_two(["gres:gpu:8", ""]).as_deref(), Some("8 GPUs"));
        let per_task = ["", "", "", "gres:gpu:1"].map(str::to_owned);
        assert_eq!(
            asks(&QueuedJob { gres: per_task, ..QueuedJob::default() }).as_deref(),
            Some("1 GPU/task")
        );
        // Slurm takes such a job where it does not look at it yet.
        let half = u64::MAX / 2 + 1;
        assert!(plain(["", &format!("gres:gpu:a100:{half},gpu:h100:{half}")]).is_some());
    }

    #[test]
    fn idle_instances_are_free() {
        let seen = seen();
        let of: Vec<(u32, u32, Use)> =
            seen.nodes.iter().map(|n| (n.slices().free, n.slices().all, n.in_use())).collect();
        assert_eq!(of, [(4, 7, Use::Partly), (0, 7, Use::Full), (14, 14, Use::Away), (7, 14, Use::Partly)]);
    }
}
