//! The nodes as they are now: what the controller publishes, on the nodes that `tessera.toml` describes.

pub(crate) mod away;
mod known;

use std::collections::HashMap;
use std::fmt::Write as _;

use geometry::{JobId, Uid};
use node_state::Node;
use protocol::{SickGpu, sick};
use site_config::SiteConfig;

use crate::outcome::Failure;
use crate::{clock, layout_line};
use away::NotTaking;
pub(crate) use known::{Among, Published};

/// The user whose shares nobody else may join: no real user has this id.
const SOMEBODY: Uid = Uid(u32::MAX);

/// A node as it is now.
pub(crate) struct Present {
    pub(crate) name: String,
    pub(crate) node: Node,
    /// Unhealthy GPUs, which get no new jobs.
    pub(crate) sick: Vec<SickGpu>,
    /// No job is there, with GPUs or without.
    pub(crate) idle: bool,
    /// `Weight` in Slurm, which takes nodes with less first; 0 if it is not known.
    pub(crate) weight: u64,
    /// Equal for nodes that are in the same state, with the same jobs.
    pub(crate) state: usize,
    /// Equal for nodes that differ in their jobs' numbers alone: they have room for the same further jobs of the user who is asked for.
    pub(crate) alike: usize,
}

/// Nodes as they are now.
#[derive(Default)]
pub(crate) struct Live {
    pub(crate) nodes: Vec<Present>,
    /// Nodes that start no job of the caller now: drained, down, reserved or in maintenance.
    pub(crate) not_taking: Vec<NotTaking>,
    /// Nodes where Tessera places no job now.
    pub(crate) aside: Vec<Aside>,
}

/// A node where Tessera places no job now.
pub(crate) struct Aside {
    pub(crate) name: String,
    pub(crate) whose: Whose,
    pub(crate) why: String,
    /// As [`Present::weight`].
    pub(crate) weight: u64,
}

/// Whose the GPUs of such a node are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Slurm gives them to jobs without Tessera's options. No other job ever starts there.
    Slurms,
    /// So does Slurm, until slurmctld has a `tessera.toml` that it can read: other jobs wait.
    SlurmsForNow,
    /// Nobody's: jobs with GPUs wait until an administrator fixes the node.
    Nobodys,
}

impl Live {
    /// The nodes that are left to Slurm, with the reason.
    pub(crate) fn left_to_slurm(&self) -> impl Iterator<Item = &Aside> {
        self.aside.iter().filter(|aside| aside.whose != Whose::Nobodys)
    }
}

/// The nodes with a published layout that a job may run on.
pub(crate) fn nodes(config: &SiteConfig, published: &Published, among: Among<'_>) -> Result<Live, Failure> {
    let now = clock::epoch_seconds();
    let own = among.user.unwrap_or_else(|| Uid(rustix::process::getuid().as_raw()));
    let owner = |job: JobId| match &published.slurm {
        Some(known) => known.owners.get(&job).copied().unwrap_or(SOMEBODY),
        None => own,
    };
    let mut live = Live::default();
    let (mut states, mut kinds) = (HashMap::new(), HashMap::new());
    let named = config.nodes.iter().enumerate().flat_map(|(set, s)| s.names.iter().map(move |n| (set, s, n)));
    for (set, spec, name) in named {
        if among.names.is_some_and(|wanted| !wanted.contains(name)) || among.excluded.contains(name) {
            continue;
        }
        if let Some(known) = &published.slurm {
            if !known.allows(name, &among) {
                continue;
            }
            if let Some(why) = known.away(name, &among, now) {
                live.not_taking.push(NotTaking { name: name.clone(), why });
                continue;
            }
        }
        let weight = published.weight(name);
        if let Some((whose, why)) = published.aside(name, spec.gpus.len()) {
            live.aside.push(Aside { name: name.clone(), whose, why, weight });
            continue;
        }
        let Some(line) = published.layouts.get(name) else { continue };
        let layout = layout_line::read(line, &spec.gpus)
            .map_err(|why| Failure::new(format!("layout of {name}: {why}")))?;
        let mut node = site_limits::node_of(spec);
        layout_line::take_over(&layout, &mut node, &owner);
        let sick =
            published.slurm.as_ref().and_then(|known| known.sick.get(name)).cloned().unwrap_or_default();
        for (gpu, i) in node.gpus.iter_mut().zip(0..) {
            gpu.left_out = sick.iter().any(|sick| sick.gpu.0 == i);
        }
        let left_out = sick::encode(&sick);
        let slurms = published.slurm.as_ref().and_then(|known| known.nodes.get(name));
        let idle = slurms.map_or_else(
            || node_layout::layout_of(&node).gpus.iter().all(|gpu| gpu.jobs().next().is_none()),
            |node| node.idle,
        );
        let fresh = states.len();
        let state = *states.entry((set, line.clone(), left_out.clone())).or_insert(fresh);
        let fresh = kinds.len();
        let kind = (set, idle, left_out, without_numbers(line, &|job| owner(job) == own));
        let alike = *kinds.entry(kind).or_insert(fresh);
        live.nodes.push(Present { name: name.clone(), node, sick, idle, weight, state, alike });
    }
    Ok(live)
}

/// A layout with its jobs counted from 0 in the order of the line, and the user's own marked.
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
