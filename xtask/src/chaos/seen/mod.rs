//! State at one moment, read without any of Tessera's code: from `nvidia-smi`, `/dev`, `/proc`, Slurm's commands,
//! the journal's files and the layout line. The types hold no live thing, so that tests can forge a state.

mod driver;
mod layout;
mod node_files;
mod processes;
pub(super) mod report;
mod slurm;

use lab::{Cluster, HarnessError};

pub(super) use layout::{Holder, Place};
pub(super) use node_files::JournalEntry;
pub(super) use node_files::journal;
pub(super) use processes::{BrokerProcess, MpsDaemon, Processes, StepDaemon, Task, scan, ticks};
pub(super) use slurm::{Job, name_of};

/// State of the cluster at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) nodes: Vec<SeenNode>,
    /// All jobs that slurmctld knows, ended ones too.
    pub(super) jobs: Vec<Job>,
    /// Live processes of jobs.
    pub(super) tasks: Vec<Task>,
}

/// State of a node.
#[derive(Clone, Debug, Default)]
pub(super) struct SeenNode {
    pub(super) name: String,
    /// As sinfo says, `idle` for instance.
    pub(super) state: String,
    /// Why it is drained or down; empty or `none` otherwise.
    pub(super) reason: String,
    /// When it got this reason, as sinfo writes it.
    pub(super) reason_since: String,
    /// Who has what, as slurmctld publishes it.
    pub(super) layout: Vec<Place>,
    /// The reason stands in its place.
    pub(super) takes_no_gpu_jobs: bool,
    /// Numbers of the GPUs that it has named as unhealthy.
    pub(super) left_out: Vec<u32>,
    pub(super) gpus: Vec<SeenGpu>,
    pub(super) journal: Vec<JournalEntry>,
    /// Files in the journal that say something other than a job.
    pub(super) journal_rest: Vec<String>,
    pub(super) mps: Vec<MpsDaemon>,
    pub(super) brokers: Vec<BrokerProcess>,
    pub(super) steps: Vec<StepDaemon>,
}

/// A GPU, as the driver says. A GPU that the driver has lost is not listed.
#[derive(Clone, Debug, Default)]
pub(super) struct SeenGpu {
    pub(super) index: u32,
    pub(super) uuid: String,
    /// Access to its device node.
    pub(super) access: Access,
    pub(super) instances: Vec<Instance>,
    /// Processes that use it or an instance of it.
    pub(super) processes: Vec<u32>,
}

/// A GPU instance.
#[derive(Clone, Debug, Default)]
pub(super) struct Instance {
    /// Id on the GPU.
    pub(super) id: u32,
    /// `1g.5gb` for instance.
    pub(super) profile: String,
    /// First placement unit.
    pub(super) start: u32,
    /// Compute instances. A user's jobs may have one each.
    pub(super) parts: Vec<Part>,
    /// Access to its own capability node; `None` if the driver has no entry for it, because the process that was its simulated driver
    /// was killed just there.
    pub(super) access: Option<Access>,
}

impl Instance {
    /// True if the MIG device is in it.
    pub(super) fn has(&self, uuid: &str) -> bool {
        self.parts.iter().any(|part| part.uuid == uuid)
    }
}

/// A compute instance.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
    /// Id in the GPU instance.
    pub(super) id: u32,
    /// `MIG-…`
    pub(super) uuid: String,
    /// Access to its capability node, as that of the [`Instance`].
    pub(super) access: Option<Access>,
}

/// Who may open a device node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Access {
    pub(super) uid: u32,
    pub(super) mode: u32,
}

/// Looks at everything. The parts are read one after the other: while jobs begin and end, they may disagree.
pub(super) fn look(cluster: &Cluster) -> Result<Seen, HarnessError> {
    let Processes { tasks, mps, brokers, steps } = scan(cluster);
    let states = slurm::nodes(cluster)?;
    let layouts = cluster.published_layouts()?;
    let left_out = slurm::left_out(cluster)?;
    let mut nodes = Vec::new();
    for name in cluster.nodes() {
        let slurm::NodeState { state, reason, reason_since } = states.get(name).cloned().unwrap_or_default();
        let line = layouts.iter().find(|(node, _)| node == name).map_or("", |(_, line)| line);
        let of = |at: &Option<String>| at.as_deref() == Some(name);
        let (journal, journal_rest) = journal(&cluster.layout().node(name));
        nodes.push(SeenNode {
            name: name.clone(),
            state,
            reason,
            reason_since,
            layout: layout::parse(line),
            takes_no_gpu_jobs: line.starts_with("tessera unfit: "),
            left_out: left_out.get(name).cloned().unwrap_or_default(),
            gpus: driver::gpus(cluster, name)?,
            journal,
            journal_rest,
            mps: mps.iter().filter(|daemon| of(&daemon.node)).cloned().collect(),
            brokers: brokers.iter().filter(|broker| of(&broker.node)).cloned().collect(),
            steps: steps.iter().filter(|step| of(&step.node)).cloned().collect(),
        });
    }
    Ok(Seen { nodes, jobs: slurm::jobs(cluster)?, tasks })
}
