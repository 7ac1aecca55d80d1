//! Streams that are drawn: what jobs ask, how often they come, and how long they run.

use geometry::Model;
use node_state::{Gpu, MigPolicy, Node, Policy};
use protocol::{Bandwidth, Isolation, Request};
use topology::{LinkMatrix, System};

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

/// How often jobs of each kind come, in hundredths: instances of 1, 2, 3, 4 and 7 slices, then one GPU, two, half a node's and
/// all of a node's.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Name.
    pub name: &'static str,
    percent: [u32; 9],
}

/// The five mixes.
pub const MIXES: [Mix; 5] = [
    Mix { name: "small", percent: [40, 25, 12, 5, 3, 8, 4, 2, 1] },
    Mix { name: "even", percent: [16, 16, 16, 16, 16, 10, 5, 3, 2] },
    Mix { name: "large", percent: [8, 10, 18, 18, 20, 14, 7, 3, 2] },
    Mix { name: "two-ends", percent: [38, 10, 2, 2, 26, 12, 5, 3, 2] },
    Mix { name: "sets", percent: [20, 12, 8, 4, 6, 20, 15, 10, 5] },
];

/// Builds a site of [`STREAM_SITES`]: A100s of 80 GB are PCIe cards in bridged pairs, the other nodes have links that are all
/// alike.
#[must_use]
pub fn named_site(name: &str) -> Option<StreamSite> {
    let system = |name: &str| System::find(name)?.matrix(8);
    let (nodes, gpus, key, links) = match name {
        "13x8-a100-80" => (13, 8, "a100-80gb", system("pcie-8-bridged")?),
        "50x8-a100-40" => (50, 8, "a100-40gb", system("dgx-a100")?),
        // Six NVLinks of 25 GB/s between each two.
        "25x4-h100" => (25, 4, "h100-80gb-sxm", LinkMatrix::uniform(4, 150.0)),
        _ => return None,
    };
    let model = Model::find(key)?;
    let node = Node::new(vec![Gpu::new(model, MigPolicy::Dynamic); gpus], links);
    let cpus = CPUS_PER_GPU * u32::try_from(gpus).ok()?;
    let spec = |i: usize| StreamNode { name: format!("n{i}"), node: node.clone(), cpus, mem_mib: u64::from(cpus) * 8192 };
    Some(StreamSite { nodes: (1..=nodes).map(spec).collect(), policy: Policy::default() })
}

/// Draws `count` jobs, which ask for `load` of the site's GPUs on average. Seed, site, mix and load decide everything.
#[must_use]
pub fn stream(site: &StreamSite, mix: &Mix, load: f64, (seed, count): (u64, usize)) -> Vec<StreamJob> {
    let Some(node) = site.nodes.first() else { return Vec::new() };
    let gpus = u32::try_from(node.node.gpus.len()).unwrap_or(1);
    let Some(model) = node.node.gpus.first().map(|gpu| gpu.model) else { return Vec::new() };
    let kinds = kinds(model, gpus);
    let share: f64 = kinds.iter().zip(mix.percent).map(|((_, part), n)| part * f64::from(n) / 100.0).sum();
    let all = f64::from(u32::try_from(site.gpus()).unwrap_or(u32::MAX));
    let gap_ms = share * RUN_MS / (load * all);
    let mut draw = Draw::new(seed);
    let mut now_ms = 0.0;
    let one = |at: usize| {
        now_ms += draw.exponential() * gap_ms;
        let run_ms = (draw.exponential() * RUN_MS).clamp(RUN_LIMITS_MS.0, RUN_LIMITS_MS.1);
        let kind = pick(&mix.percent, draw.below(100));
        let (request, part) = &kinds[kind];
        let mut request = request.clone();
        let least_cpus = part.ceil() as u32;
        let cpus = if kind < 5 {
            1 + draw.below(2 * usize::from(SLICES[kind])) as u32
        } else {
            least_cpus * (1 + draw.below(12) as u32)
        };
        if draw.below(2) == 0 && request.gpus.is_some() {
            request.bandwidth = Some(Bandwidth::Insensitive);
        }
        StreamJob {
            id: format!("j{at}"),
            submit_ms: now_ms as u64,
            run_ms: run_ms as u64,
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

fn pick(percent: &[u32; 9], drawn: usize) -> usize {
    let mut below = 0;
    percent.iter().position(|n| {
        below += *n as usize;
        drawn < below
    })
    .unwrap_or(0)
}

/// The requests of a mix's kinds, and the GPUs that each takes.
fn kinds(model: &'static Model, gpus: u32) -> Vec<(Request, f64)> {
    let units = f64::from(model.placement_units);
    let instance = |slices: u8| {
        // The plain profile of so many slices; the one with less memory where there are two.
        let profile = model.profiles.iter().find(|p| p.compute_slices == slices && !p.is_variant());
        let name = profile.map(|p| p.name.clone());
        let part = profile.map_or(1.0, |p| f64::from(p.size) / units);
        (Request { isolation_typed: true, ..Request::new(Isolation::Mig(name)) }, part)
    };
    let whole = |n: u32| {
        (Request { gpus: Some(n), isolation_typed: true, ..Request::new(Isolation::Whole) }, f64::from(n))
    };
    let sets = [1, 2, gpus / 2, gpus].map(whole);
    SLICES.into_iter().map(instance).chain(sets).collect()
}
