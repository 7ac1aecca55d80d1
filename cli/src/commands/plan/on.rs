//! The GPUs that `--on` names: their present state, and which jobs hold what.

use std::collections::HashMap;

use far::{Micros, Present};
use geometry::{GpuIndex, JobId, Model};
use node_layout::{GpuLayout, HolderLayout, Layout, Seats, Shares};
use protocol::{SickGpu, Standing};
use site_config::{LearnFrom, SiteConfig};

use crate::globals::Globals;
use crate::options::range;
use crate::outcome::Failure;
use crate::runtimes::{Learnt, ends};
use crate::slurm::{sacct, scontrol, sinfo, squeue};
use crate::{layout_line, site};

/// How far back past jobs are looked at, seconds: 30 days.
const LEARN_S: u64 = 30 * 86_400;

/// GPUs of one model, in the order of the plan.
pub(super) struct On {
    pub(super) present: Present,
    /// Allocations of jobs, per GPU.
    pub(super) holdings: Vec<Vec<Holding>>,
}

/// Units of a GPU that a job has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holding {
    pub(super) job: JobId,
    /// Bit 0 for unit 0.
    pub(super) mask: u16,
}

/// A GPU of the site, by node and number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct GpuAt {
    node: String,
    gpu: usize,
}

impl On {
    pub(super) fn model(&self) -> &'static Model {
        self.present.model()
    }

    /// True if no job has any of the GPUs; idle instances may be there.
    pub(super) fn is_idle(&self) -> bool {
        self.holdings.iter().all(Vec::is_empty)
            && self.present.gpus().iter().all(|g| g.usable_from == Some(0))
    }
}

/// The GPUs of one node or more, of one model; clap has asked for a name.
pub(super) fn resolve(names: &[String], globals: &Globals) -> Result<On, Failure> {
    let config = site::load(globals.config.as_deref())?;
    let mut gpus: Vec<GpuAt> = Vec::new();
    let mut models: Vec<&'static Model> = Vec::new();
    for text in names {
        let (node, list) = text.split_once(':').unwrap_or((text, ""));
        let spec = config.node(node).ok_or_else(|| site::unknown_node(node, &config))?;
        let wrong = || {
            let has = format!("{node} has GPUs 0 to {}", spec.gpus.len() - 1);
            Failure::new(format!("--on {text}: not a list of {node}'s GPUs such as 0-3,5")).hint(has)
        };
        let indices = if list.is_empty() { Some((0..spec.gpus.len()).collect()) } else { index_list(list) };
        for gpu in indices.ok_or_else(wrong)? {
            models.push(spec.gpus.get(gpu).ok_or_else(wrong)?);
            if !site::makes_instances(spec, gpu) {
                let what = format!("--on {text}: no instances are made on GPU {gpu} of {node}");
                return Err(Failure::new(what).hint("tessera.toml says so: mig, gpu_use or static"));
            }
            gpus.push(GpuAt { node: node.to_owned(), gpu });
        }
    }
    let &model = models.first().ok_or_else(|| Failure::new("--on names no GPU"))?;
    if let Some(other) = models.iter().find(|m| m.key != model.key) {
        let what = format!("--on: {} and {} in one plan", model.key, other.key);
        return Err(Failure::new(what).hint("a plan is for GPUs of one model: make a plan for each"));
    }
    if let Some(k) = (1..gpus.len()).find(|&k| gpus[..k].contains(&gpus[k])) {
        return Err(Failure::new(format!("--on: GPU {} of {} is named twice", gpus[k].gpu, gpus[k].node)));
    }
    state(&config, model, gpus)
}

fn state(config: &SiteConfig, model: &'static Model, gpus: Vec<GpuAt>) -> Result<On, Failure> {
    let usable = sinfo::usable()?;
    if let Some(at) = gpus.iter().find(|at| !usable.contains_key(&at.node)) {
        let what = format!("--on: {} takes no jobs now", at.node);
        return Err(
            Failure::new(what).hint("`sinfo` says why; a plan starts at once, so its nodes must take jobs")
        );
    }
    let shown = scontrol::nodes()?;
    if let Some(unhealthy) = unhealthy(&scontrol::sick_in(&shown), &gpus) {
        return Err(unhealthy);
    }
    let layouts = layouts(config, &gpus, &shown)?;
    let ends = ends(config.learn_from)?;
    let end = |job: JobId| ends.get(&job).copied();
    let (mut present, mut holdings) = (Vec::new(), Vec::new());
    for at in &gpus {
        let index = GpuIndex(u16::try_from(at.gpu).unwrap_or(u16::MAX));
        let layout = layouts.get(&at.node).ok_or_else(|| {
            Failure::new(format!("--on: Tessera places no jobs on {}", at.node))
                .hint("`tessera doctor` on that node says where Slurm and tessera.toml differ")
        })?;
        let layout = layout.gpus.get(at.gpu).unwrap_or(&GpuLayout::Free);
        present.push(crate::plan_inputs::of_layout(&at.node, index, layout, &end));
        holdings.push(held(model, layout));
    }
    let present = Present::new(model, present).map_err(|e| Failure::new(format!("--on: {e}")))?;
    Ok(On { present, holdings })
}

/// Names the first of the GPUs that is unhealthy.
fn unhealthy(sick: &HashMap<String, Vec<SickGpu>>, gpus: &[GpuAt]) -> Option<Failure> {
    let why = |at: &GpuAt| {
        let here = sick.get(&at.node)?.iter().find(|sick| usize::from(sick.gpu.0) == at.gpu)?;
        Some(Failure::new(format!("--on: GPU {} of {} is unhealthy: {}", at.gpu, at.node, here.why)))
    };
    let hint = "it gets no new jobs until the node's health check passes: name other GPUs";
    gpus.iter().find_map(why).map(|failure| failure.hint(hint))
}

/// Reads from `scontrol show nodes` the layouts of the nodes of these GPUs, but not of those to which slurmctld gives no jobs of Tessera's.
fn layouts(config: &SiteConfig, gpus: &[GpuAt], shown: &str) -> Result<HashMap<String, Layout>, Failure> {
    let (lines, standings) = (scontrol::layouts_in(shown), scontrol::standings_in(shown));
    let is_away = |node: &str| standings.get(node).is_some_and(|standing| *standing != Standing::Same);
    let mut layouts = HashMap::new();
    for node in gpus.iter().map(|at| &at.node).filter(|node| !is_away(node)) {
        let Some((line, spec)) = lines.get(node).zip(config.node(node)) else { continue };
        let layout = layout_line::read(line, &spec.gpus)
            .map_err(|why| Failure::new(format!("layout of {node}: {why}")))?;
        layouts.insert(node.clone(), layout);
    }
    Ok(layouts)
}

/// Who has which units of a GPU.
fn held(model: &Model, gpu: &GpuLayout) -> Vec<Holding> {
    let all = |jobs: Vec<JobId>, mask| jobs.into_iter().map(move |job| Holding { job, mask });
    let ids = |shares: &Shares| shares.listed.iter().map(|s| s.job).collect::<Vec<_>>();
    let seated = |pool: &Seats| pool.listed.iter().map(|(job, _)| *job).collect::<Vec<_>>();
    match gpu {
        GpuLayout::Free | GpuLayout::Slurm => Vec::new(),
        GpuLayout::Whole(job) => all(vec![*job], u16::MAX).collect(),
        GpuLayout::Mps(shares) => all(ids(shares), u16::MAX).collect(),
        GpuLayout::Tasks(pool) => all(seated(pool), u16::MAX).collect(),
        GpuLayout::Mig(instances) => instances
            .iter()
            .flat_map(|i| {
                let mask = model.profile(&i.profile).map_or(0, |p| p.at(i.start).mask());
                let jobs = match &i.holder {
                    HolderLayout::Idle => Vec::new(),
                    HolderLayout::Job(job) => vec![*job],
                    HolderLayout::Mps(shares) => ids(shares),
                    HolderLayout::Compute(parts) => parts.iter().map(|p| p.job).collect(),
                    HolderLayout::Tasks(pool) => seated(pool),
                };
                all(jobs, mask)
            })
            .collect(),
    }
}

/// How much longer running jobs run, µs, for those whose end is known or expected.
fn ends(from: LearnFrom) -> Result<HashMap<JobId, Micros>, Failure> {
    let jobs = squeue::jobs(None)?;
    // Without accounting, or a user who may not ask, time limits have to do.
    let past = if jobs.iter().any(ends::needs_learnt) {
        sacct::completed(LEARN_S).unwrap_or_default()
    } else {
        Vec::new()
    };
    Ok(ends::ends(&jobs, &Learnt::of(past, from), crate::clock::epoch_seconds()))
}

/// Reads `0,3-5`.
fn index_list(text: &str) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for part in text.split(',') {
        all.extend(range(part).filter(|r| *r.end() <= 1023)?.filter_map(|g| usize::try_from(g).ok()));
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use node_layout::parse_layout;

    #[test]
    fn who_has_which_units() {
        let model = Model::find("a100-40gb").unwrap();
        let held = |line: &str| -> Vec<(u32, u16)> {
            let layout = parse_layout(line).unwrap();
            held(model, &layout.gpus[0]).iter().map(|h| (h.job.0, h.mask)).collect()
        };
        let line = "tessera gpu0=mig[2g.10gb@0:job12,1g.5gb@2:idle,3g.20gb@4:mps[job3:9M/5%,job4:9M/5%]]";
        assert_eq!(held(line), [(12, 0b11), (3, 0b1111_0000), (4, 0b1111_0000)]);
        assert_eq!(held("tessera gpu0=whole[job13]"), [(13, u16::MAX)]);
        assert_eq!(held("tessera gpu0=free"), []);
    }

    #[test]
    fn a_list_of_gpus_reads_numbers_and_ranges() {
        assert_eq!(index_list("0,3-5"), Some(vec![0, 3, 4, 5]));
        for bad in ["", "a", "3-1", "0,", "0-99999"] {
            assert_eq!(index_list(bad), None, "{bad}");
        }
    }
}
