//! The node this command runs on.

use std::collections::HashSet;

use geometry::JobId;
use gpu_node::{Inspection, Numbering, Settings, job_processes};
use node_journal::{Entry, Journal};
use node_slurm::live_steps;
use node_slurm::slurm_conf;
use site_config::{NodeSpec, SiteConfig};

use crate::cluster_snapshot::{self, Health, NodeSeen, ending_note};
use crate::outcome::Failure;
use crate::site;
use crate::slurm::squeue;
use crate::this_machine::this_node;

/// A node with what its configuration says.
pub(crate) struct Local<'c> {
    pub(crate) name: String,
    pub(crate) spec: &'c NodeSpec,
    pub(crate) settings: Settings,
    /// Why Slurm's numbers of its GPUs mean nothing here, if gres.conf names a GPU that it does not have now.
    pub(crate) missing_gpu: Option<String>,
    /// Why it cannot be told which GPUs Slurm's numbers mean here; `None`: it can.
    pub(crate) unnumbered: Option<String>,
}

impl<'c> Local<'c> {
    /// The node of this name, or the one this machine is.
    pub(crate) fn new(config: &'c SiteConfig, named: Option<&str>) -> Result<Self, Failure> {
        let name = named.map(str::to_owned).or_else(this_node).unwrap_or_default();
        let spec = config.node(&name).ok_or_else(|| site::unknown_node(&name, config))?;
        let mut settings = Settings::of(config, &name);
        let gres = slurm_conf::path(&|name| std::env::var(name).ok()).with_file_name("gres.conf");
        // `tessera doctor` says where it cannot be told.
        let numbering = Numbering::read(&settings, &gres, &name);
        let missing_gpu = numbering.as_ref().err().filter(|e| e.gpu_is_missing).map(ToString::to_string);
        let unnumbered = numbering.as_ref().err().map(ToString::to_string);
        settings.numbering = numbering.unwrap_or_default();
        Ok(Self { name, spec, settings, missing_gpu, unnumbered })
    }

    /// The node as it is, for drawing.
    pub(crate) fn drawn(&self, inspection: &Inspection, ending: &HashSet<JobId>) -> NodeSeen {
        let layout = node_layout::layout_of(&inspection.node);
        let models = inspection.node.gpus.iter().map(|g| g.model);
        NodeSeen {
            name: self.name.clone(),
            links: self.spec.interconnect.clone(),
            takes_jobs: true,
            partitions: Vec::new(),
            health: Health::default(),
            standing: None,
            watts: None,
            sick: Vec::new(),
            gpus: Ok(cluster_snapshot::gpus(models, &layout)),
            note: ending_note(ending.iter().copied()),
        }
    }
}

/// Refuses anybody but root, naming what was tried.
pub(crate) fn require_root(what: &str) -> Result<(), Failure> {
    let uid = rustix::process::geteuid();
    if uid.is_root() {
        return Ok(());
    }
    Err(Failure::new(format!("{what} is for root on the node, not for uid {}", uid.as_raw())).hint(
        "users can run `nvidia-smi -L` in a job to see its GPUs, and `tessera layout` to see the cluster's",
    ))
}

/// Job states in which a job has, or may still have, something on its nodes.
const ON_THE_NODE: &str = "R,CG,CF,S,SI,SO,ST,RS";

/// States of jobs that run, without completing ones. A slurmd killed after it was told to end a job never runs that job's epilog: started
/// again, it answers that the job is over. So what counts for them is whether they still live here: [`still_here`].
const STILL_RUNNING: &str = "R,CF,S,SI,SO,ST,RS";

/// The jobs that Slurm has on a node now.
pub(crate) fn jobs_on(node: &str) -> Result<HashSet<JobId>, Failure> {
    squeue::on_node(node, ON_THE_NODE)
}

/// The jobs with a step or, of these entries, a process on a node: whatever Slurm says of them, they use what they have.
/// All of these entries' jobs where the node does not tell.
pub(crate) fn still_here(node: &str, entries: &[Entry]) -> HashSet<JobId> {
    let env = |name: &str| std::env::var(name).ok();
    let Some(mut here) = live_steps::jobs_with_steps(node, &env) else {
        return entries.iter().map(Entry::job).collect();
    };
    let silent: Vec<&Entry> = entries.iter().filter(|e| !here.contains(&e.job())).collect();
    if !silent.is_empty() {
        here.extend(job_processes::jobs_with_processes(node, &env, &silent));
    }
    here
}

/// The jobs of these entries that Slurm has ended, or forgotten, and that still live here; none where Slurm does not answer.
pub(crate) fn ending(node: &str, entries: &[Entry]) -> HashSet<JobId> {
    let Ok(running) = squeue::on_node(node, STILL_RUNNING) else { return HashSet::new() };
    let ended: Vec<Entry> = entries.iter().filter(|e| !running.contains(&e.job())).cloned().collect();
    let here = if ended.is_empty() { HashSet::new() } else { still_here(node, &ended) };
    ended.iter().map(Entry::job).filter(|job| here.contains(job)).collect()
}

/// The journal's jobs beside Slurm's.
#[derive(Default)]
pub(crate) struct Compared {
    /// Jobs that the journal has, that do not run on this node any more and that do not live here either.
    pub(crate) dead: Vec<Entry>,
    /// Jobs that the journal has, that Slurm has ended or forgotten, and that still live here.
    pub(crate) ending: Vec<Entry>,
    /// Jobs that ran on this node when Slurm was asked, or lived here; none where there was nothing to compare.
    pub(crate) live: HashSet<JobId>,
}

/// Compares the journal with Slurm and the node. The journal is read first: a job that starts in between is in neither
/// answer, and so never taken for dead. `entries_only`: Slurm is not asked for the sake of damaged files.
pub(crate) fn compare(local: &Local<'_>, entries_only: bool) -> Result<Compared, Failure> {
    let journal = Journal::open(&local.settings.node.state_dir).map_err(|e| Failure::of(&e))?;
    // The reconciliation that follows sets damaged files aside and reports them.
    let (mut entries, damaged) = journal.jobs().map_err(|e| Failure::of(&e))?.into_parts();
    let lost = !damaged.is_empty() || !journal.lost_files().map_err(|e| Failure::of(&e))?.is_empty();
    if entries.is_empty() && (entries_only || !lost) {
        return Ok(Compared::default());
    }
    let mut live = squeue::on_node(&local.name, STILL_RUNNING)?;
    entries.retain(|e| !live.contains(&e.job()));
    let here = still_here(&local.name, &entries);
    let (ending, dead) = entries.into_iter().partition(|e| here.contains(&e.job()));
    live.extend(here);
    Ok(Compared { dead, ending, live })
}
