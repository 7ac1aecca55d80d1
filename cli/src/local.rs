//! The node this command runs on.

use std::collections::HashSet;

use geometry::JobId;
use gpu_node::journal::{Entry, Journal};
use gpu_node::{Inspection, Settings};
use site_config::{NodeSpec, SiteConfig};

use crate::outcome::Failure;
use crate::render::layout::Drawn;
use crate::site;
use crate::slurm::squeue;

/// A node with what its configuration says.
pub(crate) struct Local<'c> {
    pub(crate) name: String,
    pub(crate) spec: &'c NodeSpec,
    pub(crate) settings: Settings,
}

impl<'c> Local<'c> {
    /// The node of this name, or the one this machine is.
    pub(crate) fn new(config: &'c SiteConfig, named: Option<&str>) -> Result<Self, Failure> {
        let name = named.map(str::to_owned).or_else(this_node).unwrap_or_default();
        let spec = config.node(&name).ok_or_else(|| site::unknown_node(&name, config))?;
        let settings = Settings::new(&config.node.for_node(&name), &config.mps, &spec.to_node());
        Ok(Self { name, spec, settings })
    }

    /// The node as it is, for drawing.
    pub(crate) fn drawn(&self, inspection: &Inspection) -> Drawn {
        let layout = node_state::layout_of(&inspection.node);
        let models = inspection.node.gpus.iter().map(|g| g.model);
        Drawn {
            name: self.name.clone(),
            links: self.spec.interconnect.clone(),
            gpus: models.zip(layout.gpus).collect(),
            note: None,
        }
    }
}

/// This machine's node name: `SLURMD_NODENAME`, which tells several slurmds on one machine apart, else the host name
/// up to its first dot, as slurmd does it.
pub(crate) fn this_node() -> Option<String> {
    let named = std::env::var("SLURMD_NODENAME").ok().filter(|n| !n.is_empty());
    named.or_else(|| {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
        host.trim().split('.').next().filter(|n| !n.is_empty()).map(str::to_owned)
    })
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

/// The same without completing jobs. A slurmd killed after it was told to end a job never runs that job's epilog:
/// started again, it answers that the job is over. Giving back before the controller has freed the node is safe.
const STILL_RUNNING: &str = "R,CF,S,SI,SO,ST,RS";

/// The jobs that Slurm has on a node now.
pub(crate) fn jobs_on(node: &str) -> Result<HashSet<JobId>, Failure> {
    squeue::on_node(node, ON_THE_NODE)
}

/// The journal's jobs beside Slurm's.
#[derive(Default)]
pub(crate) struct Compared {
    /// Jobs that the journal has and that do not run on this node any more.
    pub(crate) dead: Vec<Entry>,
    /// Jobs that ran on this node when Slurm was asked; none where there was nothing to compare.
    pub(crate) live: HashSet<JobId>,
}

/// Compares the journal with Slurm. The journal is read first: a job that starts in between is in neither answer, and so
/// never taken for dead. `entries_only`: Slurm is not asked for the sake of damaged files.
pub(crate) fn compare(local: &Local<'_>, entries_only: bool) -> Result<Compared, Failure> {
    let journal = Journal::open(&local.settings.state_dir).map_err(|e| Failure::of(&e))?;
    // The reconciliation that follows sets damaged files aside and reports them.
    let (entries, damaged) = journal.jobs().map_err(|e| Failure::of(&e))?.into_parts();
    let lost = !damaged.is_empty() || journal.has_lost_files().map_err(|e| Failure::of(&e))?;
    if entries.is_empty() && (entries_only || !lost) {
        return Ok(Compared::default());
    }
    let live = squeue::on_node(&local.name, STILL_RUNNING)?;
    let dead = entries.into_iter().filter(|e| !live.contains(&e.job())).collect();
    Ok(Compared { dead, live })
}
