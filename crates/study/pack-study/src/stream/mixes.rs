//! Streams that are drawn: what jobs ask, how often they come, and how long they run.

use geometry::Model;
use node_state::{Gpu, MigPolicy, Node, Policy};
use protocol::{Bandwidth, Isolation, Request};
use topology::{HardwareGraph, System};

use crate::draw::Draw;

use super::site::{StreamJob, StreamNode, StreamSite};

/// Names of the drawn sites.
pub const STREAM_SITES: [&str; 3] = ["13x8-a100-80", "50x8-a100-40", "25x4-h100"];
/// Mean run time, ms.
const RUN_MS: f64 = 3_600_000.0;
/// Shortest and longest run time, ms.
const RUN_LIMITS_MS: (f64, f64) = (60_000.0, 36_000_000.0);
/// Cores of a node, for each of its GPUs.
const CPUS_PER_GPU: u32 = 16;

/// How the GPU time that is asked for divides among kinds of jobs, in hundredths: instances of 1, 2, 3, 4 and 7 slices, then one
/// GPU, two, half a node's and all of a node's.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Name.
    pub name: &'static str,
    percent: [u32; 9],
}

/// The five mixes. The first four have mostly instances, small, even, large or of both ends, as papers on MIG compare them.
pub const MIXES: [Mix; 5] = [
    Mix { name: "small", percent: [34, 22, 12, 8, 4, 8, 5, 4, 3] },
    Mix { name: "even", percent: [16, 16, 16, 16, 16, 8, 5, 4, 3] },
    Mix { name: "large", percent: [5, 10, 17, 18, 30, 8, 5, 4, 3] },
    Mix { name: "two-ends", percent: [36, 4, 2, 2, 36, 8, 5, 4, 3] },
    Mix { name: "sets", percent: [12, 8, 5, 2, 3, 25, 20, 15, 10] },
];

/// The first four of [`MIXES`] without whole GPUs and sets, nearest to what MFI was published for.
pub const INSTANCE_MIXES: [Mix; 4] = [
    Mix { name: "small-mig", percent: [42, 28, 15, 10, 5, 0, 0, 0, 0] },
    Mix { name: "even-mig", percent: [20, 20, 20, 20, 20, 0, 0, 0, 0] },
    Mix { name: "large-mig", percent: [6, 12, 21, 23, 38, 0, 0, 0, 0] },
    Mix { name: "two-ends-mig", percent: [45, 5, 3, 2, 45, 0, 0, 0, 0] },
];

/// Builds a site of [`STREAM_SITES`]: A100s of 80 GB are PCIe cards in bridged pairs, the other nodes have links that are all
/// alike.
#[must_use]
pub fn named_site(name: &str) -> Option<StreamSite> {
    let system = |name: &str| System::find(name)?.graph(8);
    let (nodes, gpus, key, links) = match name {
        "13x8-a100-80" => (13, 8, "a100-80gb", system("pcie-8-bridged")?),
        "50x8-a100-40" => (50, 8, "a100-40gb", system("dgx-a100")?),
        // Six NVLinks of 25 GB/s between each two.
        "25x4-h100" => (25, 4, "h100-80gb-sxm", HardwareGraph::uniform(4, 150.0)),
        _ => return None,
    };
    let model = Model::find(key)?;
    let node = Node::new(vec![Gpu::new(model, MigPolicy::Dynamic); gpus], links);
    let cpus = CPUS_PER_GPU * u32::try_from(gpus).ok()?;
    let spec = |i: usize| StreamNode {
        name: format!("n{i}"),
        node: node.clone(),
        cpus,
        mem_mib: u64::from(cpus) * 8192,
    };
    Some(StreamSite { nodes: (1..=nodes).map(spec).collect(), policy: Policy::default() })
}

/// Draws `count` jobs, which ask for `load` of the site's GPUs on average. Seed, site, mix and load decide everything.
#[must_use]
pub fn stream(site: &StreamSite, mix: &Mix, load: f64, (seed, count): (u64, usize)) -> Vec<StreamJob> {
    let Some(gpu) = site.nodes.first().and_then(|node| node.node.gpus.first()) else { return Vec::new() };
    let per_node = site.nodes.first().map_or(1, |node| node.node.gpus.len());
    let kinds = kinds(gpu.model, narrow(per_node), mix);
    // Jobs for each GPU that is asked for all the time, which is the inverse of what a job asks for on average.
    let jobs_per_gpu: f64 = kinds.iter().map(|kind| kind.jobs).sum();
    let gap_ms = RUN_MS / (load * f64::from(narrow(site.gpus())) * jobs_per_gpu);
    let mut draw = Draw::new(seed);
    let mut now_ms = 0.0;
    let one = |at: usize| {
        now_ms += draw.exponential() * gap_ms;
        let run_ms = (draw.exponential() * RUN_MS).clamp(RUN_LIMITS_MS.0, RUN_LIMITS_MS.1);
        let kind = pick(&kinds, draw.uniform() * jobs_per_gpu);
        let cpus = kind.cpus_each * (1 + narrow(draw.below(kind.cpus_times)));
        let mut request = kind.request.clone();
        if draw.below(2) == 0 && request.gpus.is_some() {
            request.bandwidth = Some(Bandwidth::Insensitive);
        }
        StreamJob {
            id: format!("j{at}"),
            submit_ms: whole_ms(now_ms),
            run_ms: whole_ms(run_ms),
            cpus,
            mem_mib: u64::from(cpus) * 4096,
            nodes: 1,
            request,
            plain: false,
        }
    };
    (0..count).map(one).collect()
}

/// Compute slices of the kinds that are instances.
const SLICES: [u8; 5] = [1, 2, 3, 4, 7];

/// A kind of job.
struct JobKind {
    request: Request,
    /// How many come in the mean run time for each GPU that is asked for.
    jobs: f64,
    /// A job has 1 to `cpus_times` times so many cores.
    cpus_each: u32,
    cpus_times: usize,
}

fn kinds(model: &'static Model, gpus: u32, mix: &Mix) -> Vec<JobKind> {
    let instances = SLICES.into_iter().map(|slices| {
        // Of several with so many slices, the one with the least memory.
        let profile = model.profiles.iter().find(|p| p.compute_slices == slices && !p.is_variant());
        let part = profile.map_or(1.0, |p| f64::from(p.size) / f64::from(model.placement_units));
        let isolation = Isolation::Mig(profile.map(|p| p.name.clone()));
        (Request::new(isolation), part, 1, 2 * usize::from(slices))
    });
    let whole = |n: u32| (Request { gpus: Some(n), ..Request::new(Isolation::Whole) }, f64::from(n), n, 12);
    let all = instances.chain([1, 2, gpus / 2, gpus].map(whole));
    all.zip(mix.percent)
        .map(|((request, part, cpus_each, cpus_times), percent)| {
            let request = Request { isolation_typed: true, ..request };
            JobKind { request, jobs: f64::from(percent) / 100.0 / part, cpus_each, cpus_times }
        })
        .collect()
}

/// Finds the kind at a point of the line on which each kind is as long as its `jobs`.
fn pick(kinds: &[JobKind], mut at: f64) -> &JobKind {
    let mut chosen = &kinds[0];
    for kind in kinds {
        chosen = kind;
        if at < kind.jobs {
            break;
        }
        at -= kind.jobs;
    }
    chosen
}

fn narrow(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times of a stream are positive and below 2^52 ms"
)]
fn whole_ms(ms: f64) -> u64 {
    ms as u64
}
