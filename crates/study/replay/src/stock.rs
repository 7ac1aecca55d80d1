//! Stock Slurm's choice: whole GPUs, or instances that the site has cut once and for all.
//!
//! Under stock Slurm a user names a type of GPU. A job that asks for part of a GPU is taken to name the smallest instance of the
//! site's fixed cut that is enough for it, and a whole GPU for each instance where none is. Slurm gives a job that type or
//! nothing, whatever else is free.

use geometry::{Model, Profile, split_compute_name};
use node_state::{Gpu, GpuState, Kind, MigPolicy, Node, Policy, Purpose, SetPolicy};
use protocol::{Bandwidth, Isolation, Request};
use topology::Selection;

use crate::{Job, NodeChoice, Site};

/// The site under stock Slurm. GPUs with the administrator's own instances keep them, all others are whole.
#[must_use]
pub fn site(nodes: &[Node]) -> Site {
    let sets = SetPolicy {
        selection: Selection::Baseline,
        bandwidth: Bandwidth::Insensitive,
        wait: None,
        ..SetPolicy::default()
    };
    let policy =
        Policy { auto: vec![Kind::Whole], tasks: None, default_mem_mib: None, sets, ..Policy::default() };
    Site { nodes: nodes.iter().map(uncut).collect(), hosts: Vec::new(), choice: NodeChoice::Slurm, policy }
}

fn uncut(node: &Node) -> Node {
    let of = |gpu: &Gpu| match gpu.purpose {
        Purpose::Static => gpu.clone(),
        _ => Gpu { purpose: Purpose::Any, ..Gpu::new(gpu.model, MigPolicy::Off) },
    };
    Node::new(node.gpus.iter().map(of).collect(), node.links.clone())
}

/// The job as a user of stock Slurm would have submitted it to this site.
#[must_use]
pub fn job(job: &Job, site: &Site) -> Job {
    Job { request: request(&job.request, site), plain: true, ..job.clone() }
}

fn request(asked: &Request, site: &Site) -> Request {
    let whole = |gpus, mem_mib| Request { gpus: Some(gpus), mem_mib, ..Request::new(Isolation::Whole) };
    if asked.isolation == Isolation::Whole || asked.gpus.is_some() {
        return whole(asked.gpus.unwrap_or(1), asked.mem_mib);
    }
    let need = Need::of(asked);
    let all = cut(site);
    let enough = all.iter().filter(|(model, profile)| need.is_met(model, profile));
    let smallest = enough.min_by_key(|(_, p)| (p.memory_mib, p.compute_slices));
    match smallest {
        Some((_, profile)) => {
            let isolation = Isolation::Mig(Some(profile.name.clone()));
            Request { instances: asked.instances, ..Request::new(isolation) }
        }
        None => whole(asked.instances, asked.mem_mib),
    }
}

/// The instances of the site's fixed cut, each kind once.
fn cut(site: &Site) -> Vec<(&'static Model, &'static Profile)> {
    let mut all: Vec<(&'static Model, &'static Profile)> = Vec::new();
    for gpu in site.nodes.iter().flat_map(|node| &node.gpus) {
        let GpuState::Mig(instances) = &gpu.state else { continue };
        for profile in instances.iter().filter_map(|instance| gpu.profile_of(instance)) {
            if !all.iter().any(|(model, other)| model.key == gpu.model.key && other.id == profile.id) {
                all.push((gpu.model, profile));
            }
        }
    }
    all
}

/// Needs of a job that an instance must meet.
struct Need<'a> {
    mem_mib: u64,
    sm_percent: u8,
    /// The profile that the job names. A compute instance is taken for its GPU instance's slices and memory.
    named: Option<(&'a str, u8)>,
}

impl<'a> Need<'a> {
    fn of(asked: &'a Request) -> Self {
        let name = if let Isolation::Mig(Some(name)) = &asked.isolation { Some(name.as_str()) } else { None };
        let named = name.map(|name| split_compute_name(name).map_or((name, 0), |(slices, of)| (of, slices)));
        let least = matches!(asked.isolation, Isolation::Mig(_)).then_some(asked.threads).flatten();
        Self { mem_mib: asked.mem_mib.unwrap_or(0), sm_percent: least.unwrap_or(0), named }
    }

    fn is_met(&self, model: &Model, profile: &Profile) -> bool {
        let sms = profile.sm >= model.least_sm(self.sm_percent);
        let named = match self.named {
            None => true,
            // Only the part's slices and the stated memory are needed.
            Some((_, slices @ 1..)) => profile.compute_slices >= slices,
            Some((name, 0)) => model.profile(name).is_some_and(|wanted| {
                profile.memory_mib >= wanted.memory_mib && profile.compute_slices >= wanted.compute_slices
            }),
        };
        sms && named && profile.memory_mib >= self.mem_mib
    }
}
