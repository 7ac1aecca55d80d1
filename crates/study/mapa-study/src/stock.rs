//! Slurm's own choice when gres.conf has `Links`, for comparison.
//!
//! Source: `select/cons_common` of 22.05.8 and `select/cons_tres` of 24.11.5, `gres_select_filter.c`, as read, and as
//! measured on a DGX-1V's links: `gpu:2`, `gpu:3` and `gpu:4` give the sets of the tests below. Sockets, cores and
//! tasks are left out: the rule for GPUs per node with every socket in use.

use geometry::GpuIndex;
use topology::{GpuSet, HardwareGraph, LinkKind};

/// The rule of a Slurm release for picking GPUs by links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StockRule {
    /// Up to 23.11: the first free GPU, then those with most links to it.
    MostLinks,
    /// From 24.05: the first free GPU, then, one by one, those with fewest links to the ones picked.
    FewestLinks,
}

/// Lanes as gres.conf has them: 0 without NVLink, and 0 everywhere behind an NVSwitch.
fn links(graph: &HardwareGraph, a: GpuIndex, b: GpuIndex) -> u32 {
    let behind_switch = graph.link(a, b).is_some_and(|l| l.mb_s >= graph.sends_mb_s(a));
    match graph.link(a, b).map(|l| l.kind) {
        Some(LinkKind::NvLink { lanes, .. }) if !behind_switch => u32::from(lanes),
        _ => 0,
    }
}

/// The GPUs that Slurm picks; `None` if fewer than `n` are free or `n` is 0.
#[must_use]
pub fn stock(graph: &HardwareGraph, free: GpuSet, n: usize, rule: StockRule) -> Option<GpuSet> {
    let free: Vec<GpuIndex> = free.iter().collect();
    let first = *free.first().filter(|_| n > 0 && n <= free.len())?;
    let mut picked = vec![first];
    match rule {
        StockRule::MostLinks => {
            let mut rest: Vec<GpuIndex> = free[1..].to_vec();
            rest.sort_by_key(|g| std::cmp::Reverse(links(graph, first, *g)));
            picked.extend(rest.into_iter().take(n - 1));
        }
        StockRule::FewestLinks => {
            let mut sorted: Vec<GpuIndex> = graph.all().iter().collect();
            while picked.len() < n {
                sorted.sort_by_key(|g| picked.iter().map(|p| links(graph, *p, *g)).sum::<u32>());
                // Slurm starts over at the second: the first is one that it picked, or is left to the end.
                let can = |g: &&GpuIndex| free.contains(g) && !picked.contains(g);
                let next = sorted[1..].iter().find(can).or_else(|| sorted.iter().find(can)).copied()?;
                picked.push(next);
            }
        }
    }
    Some(picked.into_iter().collect())
}
