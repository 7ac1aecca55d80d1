//! The nodes as they are now: what the controller publishes, on the nodes that `tessera.toml` describes.

use std::collections::HashMap;
use std::fmt::Write as _;

use geometry::{JobId, Uid};
use node_state::Node;
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
    /// Equal for nodes that are in the same state, with the same jobs.
    pub(crate) state: usize,
    /// Equal for nodes that differ in their jobs' numbers alone: they have room for the same further jobs of the caller.
    pub(crate) alike: usize,
}

/// Nodes as they are now.
pub(crate) struct Live {
    pub(crate) nodes: Vec<Present>,
    /// The names of those that take no jobs: drained, down, reserved or in maintenance.
    pub(crate) not_taking: Vec<String>,
    /// The names of those that publish no layout: their GPUs are Slurm's alone.
    pub(crate) unpublished: Vec<String>,
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
    /// The nodes that take jobs, with their partitions.
    usable: HashMap<String, Vec<String>>,
}

impl Published {
    /// What Slurm says now.
    pub(crate) fn by_slurm() -> Result<Self, Failure> {
        let layouts = scontrol::layouts()?;
        Ok(Self { layouts, slurm: Some(Known { owners: squeue::owners()?, usable: sinfo::usable()? }) })
    }

    /// Layouts by node, without a Slurm.
    pub(crate) fn in_file(layouts: HashMap<String, String>) -> Self {
        Self { layouts, slurm: None }
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
    let mut live = Live { nodes: Vec::new(), not_taking: Vec::new(), unpublished: Vec::new() };
    let (mut states, mut kinds) = (HashMap::new(), HashMap::new());
    let named = config.nodes.iter().enumerate().flat_map(|(set, s)| s.names.iter().map(move |n| (set, s, n)));
    for (set, spec, name) in named {
        if wanted.is_some_and(|wanted| !wanted.contains(name)) {
            continue;
        }
        match published.slurm.as_ref().map(|known| known.usable.get(name)) {
            Some(None) => {
                live.not_taking.push(name.clone());
                continue;
            }
            Some(Some(all)) if !partitions.is_empty() && !all.iter().any(|p| partitions.contains(p)) => {
                continue;
            }
            _ => {}
        }
        let Some(line) = published.layouts.get(name) else {
            live.unpublished.push(name.clone());
            continue;
        };
        let layout = published::read(line, &spec.gpus)
            .map_err(|why| Failure::new(format!("layout of {name}: {why}")))?;
        let mut node = spec.to_node();
        published::take_over(&layout, &mut node, &owner);
        let fresh = states.len();
        let state = *states.entry((set, line.clone())).or_insert(fresh);
        let fresh = kinds.len();
        let kind = (set, without_numbers(line, &|job| owner(job) == own));
        let alike = *kinds.entry(kind).or_insert(fresh);
        live.nodes.push(Present { name: name.clone(), node, state, alike });
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
