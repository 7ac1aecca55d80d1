//! The nodes as they are now: what the controller publishes, on the nodes that `tessera.toml` describes.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use admission::{Counted, Submission};
use geometry::{JobId, Uid};
use node_state::Node;
use protocol::layout::{ConfigInForce, UNFIT};
use protocol::parse_layout;
use site_config::SiteConfig;

use crate::outcome::Failure;
use crate::published;
use crate::slurm::{scontrol, sinfo, squeue};

/// The user whose shares the caller may not join: no real user has this id.
const SOMEBODY: Uid = Uid(u32::MAX);

/// A node as it is now.
pub(crate) struct Present {
    pub(crate) name: String,
    pub(crate) node: Node,
    /// No job is there, with GPUs or without.
    pub(crate) idle: bool,
    /// Equal for nodes that are in the same state, with the same jobs.
    pub(crate) state: usize,
    /// Equal for nodes that differ in their jobs' numbers alone: they have room for the same further jobs of the caller.
    pub(crate) alike: usize,
}

/// Nodes as they are now.
#[derive(Default)]
pub(crate) struct Live {
    pub(crate) nodes: Vec<Present>,
    /// The names of those that take no jobs: drained, down, reserved or in maintenance.
    pub(crate) not_taking: Vec<String>,
    /// Nodes where Tessera places no job now.
    pub(crate) aside: Vec<Aside>,
}

/// A node where Tessera places no job now.
pub(crate) struct Aside {
    pub(crate) name: String,
    pub(crate) whose: Whose,
    pub(crate) why: String,
}

/// Whose the GPUs of such a node are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Slurm gives them to jobs without Tessera's options. No other job ever starts there.
    Slurms,
    /// So does Slurm, until slurmctld has a `tessera.toml` that it can read: other jobs wait.
    SlurmsForNow,
    /// Nobody's: jobs with GPUs wait until an administrator mends the node.
    Nobodys,
}

impl Live {
    /// The nodes that are left to Slurm, with the reason.
    pub(crate) fn left_to_slurm(&self) -> impl Iterator<Item = &Aside> {
        self.aside.iter().filter(|aside| aside.whose != Whose::Nobodys)
    }
}

/// Where the layouts come from.
pub(crate) struct Published {
    layouts: HashMap<String, String>,
    /// `None`: every job is the caller's own, and every node takes jobs of every partition.
    slurm: Option<Known>,
}

/// What else Slurm knows.
struct Known {
    owners: HashMap<JobId, Uid>,
    nodes: HashMap<String, sinfo::Node>,
    /// Each node's `Gres`.
    gres: HashMap<String, String>,
}

impl Published {
    /// What Slurm says now.
    pub(crate) fn by_slurm() -> Result<Self, Failure> {
        let shown = scontrol::nodes()?;
        let (layouts, gres) = (scontrol::layouts_in(&shown), scontrol::field_by_node(&shown, "Gres="));
        Ok(Self { layouts, slurm: Some(Known { owners: squeue::owners()?, nodes: sinfo::nodes()?, gres }) })
    }

    /// Layouts by node, without a Slurm.
    pub(crate) fn in_file(layouts: HashMap<String, String>) -> Self {
        Self { layouts, slurm: None }
    }

    /// Whether Slurm shows a node of this partition.
    pub(crate) fn has_node_in(&self, partition: &str) -> bool {
        let nodes = self.slurm.iter().flat_map(|known| known.nodes.values());
        nodes.flat_map(|node| &node.partitions).any(|name| name == partition)
    }

    /// A job of these partitions and this account, with what slurmctld knows of the nodes that it may run on.
    pub(crate) fn submission(
        &self,
        config: &SiteConfig,
        partitions: Vec<String>,
        account: Option<String>,
    ) -> Submission {
        let job = Submission { partitions, account, ..Submission::default() };
        let Some(known) = self.slurm.as_ref().filter(|_| !job.partitions.is_empty()) else { return job };
        let within = known.nodes.iter().filter(|(_, node)| node.is_in(&job.partitions));
        let within: BTreeSet<String> = within.map(|(name, _)| name.clone()).collect();
        let mut whole = known.nodes.values().flat_map(|node| &node.whole_in);
        let exclusive = whole.any(|name| job.partitions.contains(name));
        let job = Submission { partition_nodes: Some(within), exclusive, ..job };
        let left_to_slurm = admission::left_to_slurm(&job, config, &|name| known.gres.get(name).cloned());
        Submission { left_to_slurm, ..job }
    }

    /// Why Tessera places no job on a node for which `tessera.toml` describes so many GPUs; `None`: it does.
    fn aside(&self, name: &str, described: usize) -> Option<(Whose, String)> {
        let known = self.slurm.as_ref();
        let gres = known.and_then(|known| known.gres.get(name));
        if let Some(why) = gres.and_then(|gres| Counted::of_gres(gres).left_to_slurm(described as u64)) {
            return Some((Whose::Slurms, why));
        }
        let Some(line) = self.layouts.get(name) else {
            return Some((Whose::Slurms, "it publishes no layout".to_owned()));
        };
        if let Some(why) = line.trim_start().strip_prefix(UNFIT) {
            return Some((Whose::Nobodys, why.trim().to_owned()));
        }
        let bad = parse_layout(line.trim()).is_ok_and(|layout| layout.config == ConfigInForce::Bad);
        bad.then(|| (Whose::SlurmsForNow, "slurmctld knows no good version of tessera.toml".to_owned()))
    }
}

/// The nodes with a published layout that are in one of these partitions; all for an empty list. `wanted`: only these names.
pub(crate) fn nodes(
    config: &SiteConfig,
    published: &Published,
    wanted: Option<&[String]>,
    partitions: &[String],
) -> Result<Live, Failure> {
    let own = Uid(rustix::process::getuid().as_raw());
    let owner = |job: JobId| match &published.slurm {
        Some(known) => known.owners.get(&job).copied().unwrap_or(SOMEBODY),
        None => own,
    };
    let mut live = Live::default();
    let (mut states, mut kinds) = (HashMap::new(), HashMap::new());
    let named = config.nodes.iter().enumerate().flat_map(|(set, s)| s.names.iter().map(move |n| (set, s, n)));
    for (set, spec, name) in named {
        if wanted.is_some_and(|wanted| !wanted.contains(name)) {
            continue;
        }
        if let Some(known) = &published.slurm {
            let node = known.nodes.get(name).filter(|node| node.takes_jobs);
            let Some(node) = node else {
                live.not_taking.push(name.clone());
                continue;
            };
            if !partitions.is_empty() && !node.is_in(partitions) {
                continue;
            }
        }
        if let Some((whose, why)) = published.aside(name, spec.gpus.len()) {
            live.aside.push(Aside { name: name.clone(), whose, why });
            continue;
        }
        let Some(line) = published.layouts.get(name) else { continue };
        let layout = published::read(line, &spec.gpus)
            .map_err(|why| Failure::new(format!("layout of {name}: {why}")))?;
        let mut node = spec.to_node();
        published::take_over(&layout, &mut node, &owner);
        let slurms = published.slurm.as_ref().and_then(|known| known.nodes.get(name));
        let idle = slurms.map_or_else(
            || node_state::layout_of(&node).gpus.iter().all(|gpu| gpu.jobs().next().is_none()),
            |node| node.idle,
        );
        let fresh = states.len();
        let state = *states.entry((set, line.clone())).or_insert(fresh);
        let fresh = kinds.len();
        let kind = (set, idle, without_numbers(line, &|job| owner(job) == own));
        let alike = *kinds.entry(kind).or_insert(fresh);
        live.nodes.push(Present { name: name.clone(), node, idle, state, alike });
    }
    Ok(live)
}

/// A layout with its jobs counted from 0 in the order of the line, and the caller's own marked.
fn without_numbers(line: &str, own: &dyn Fn(JobId) -> bool) -> String {
    let (mut text, mut seen) = (String::with_capacity(line.len()), Vec::new());
    let mut parts = line.split("job");
    text.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, rest) = part.split_at(digits);
        let Ok(job) = number.parse().map(JobId) else {
            text.push_str("job");
            text.push_str(part);
            continue;
        };
        let n = seen.iter().position(|known| *known == job).unwrap_or_else(|| {
            seen.push(job);
            seen.len() - 1
        });
        let _ = write!(text, "{}{n}{rest}", if own(job) { "own" } else { "job" });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_which_jobs_are_the_same_and_whose_matters() {
        let of = |line: &str| without_numbers(line, &|job| job.0 == 7);
        let line = "tessera ending=job12 gpu0=mig[2g.10gb@0:job12,1g.5gb@2:mps[job7:1M/5%,job30:1M/5%]] gpu1=whole[job30]";
        assert_eq!(
            of(line),
            "tessera ending=job0 gpu0=mig[2g.10gb@0:job0,1g.5gb@2:mps[own1:1M/5%,job2:1M/5%]] gpu1=whole[job2]"
        );
        assert_eq!(of("gpu0=whole[job4] gpu1=whole[job4]"), of("gpu0=whole[job9] gpu1=whole[job9]"));
        assert_ne!(of("gpu0=whole[job4] gpu1=whole[job4]"), of("gpu0=whole[job4] gpu1=whole[job9]"));
        assert_ne!(of("gpu0=mps[job7:1M/5%]"), of("gpu0=mps[job8:1M/5%]"));
        assert_eq!(of("tessera unfit: no job"), "tessera unfit: no job");
    }
}
