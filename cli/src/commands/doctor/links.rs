//! Compares the links that the driver has now with those that tessera.toml describes: a link that is down makes a set of
//! GPUs slower than predicted.

use error_chain::with_causes;
use geometry::GpuIndex;
use gpu_node::LinkAnswers;
use node_driver::nvml::Nvml;
use topology::{GpuSet, HardwareGraph, Link, LinkKind, PCIE_GBPS};

use super::findings::Findings;
use crate::local_node::Local;

/// Compares the links of the node that this runs on.
pub(crate) fn check(local: &Local<'_>, findings: &mut Findings) {
    let name = &local.name;
    let described = &local.spec.links;
    if described.len() < 2 {
        return;
    }
    if local.spec.interconnect == "pcie" {
        findings.skipped(format!(
            "{name}: links: tessera.toml does not describe them; `tessera discover` writes them"
        ));
        return;
    }
    let live = Nvml::load(&local.settings.node.nvml_library).and_then(|nvml| LinkAnswers::read(&nvml));
    findings.group(format!("{name}: links are up as tessera.toml describes them"), |f| match live {
        Err(e) => f.bad(format!("{name}: links: {}", with_causes(&e))),
        Ok(live) => {
            for difference in differences(described, &live.graph(), &live.mig) {
                f.bad(format!("{name}: {difference}"));
            }
        }
    });
}

/// Lists the links that are not as described, pairs with the same difference and a GPU in common in one line.
///
/// GPUs in MIG mode are left out: an A100 turns their NVLinks off, and no job gets them whole.
fn differences(described: &HardwareGraph, live: &HardwareGraph, mig: &[bool]) -> Vec<String> {
    if described.len() != live.len() {
        // The count is compared elsewhere, model by model.
        return Vec::new();
    }
    let in_mig = |g: GpuIndex| mig.get(usize::from(g.0)) == Some(&true);
    let mut pairs = Vec::new();
    for a in live.all().iter() {
        for b in live.all().iter().filter(|b| a < *b && !in_mig(a) && !in_mig(*b)) {
            let links = described.link(a, b).zip(live.link(a, b));
            if let Some((was, is)) = links.filter(|(was, is)| !alike(*was, *is)) {
                pairs.push((a, b, was, is));
            }
        }
    }
    let mut lines = Vec::new();
    while let Some(&(_, _, was, is)) = pairs.first() {
        let of = |g: GpuIndex| {
            let mine = pairs.iter().filter(move |p| (p.2, p.3) == (was, is) && (p.0 == g || p.1 == g));
            mine.map(move |p| if p.0 == g { p.1 } else { p.0 }).collect::<GpuSet>()
        };
        // The GPU with most of them; of equals the first.
        let Some(gpu) = live.all().iter().max_by_key(|g| (of(*g).len(), std::cmp::Reverse(*g))) else {
            break;
        };
        let others = of(gpu);
        lines.push(format!(
            "links of GPU {gpu} to {others}: {} by the driver, {} by tessera.toml",
            told(is),
            told(was)
        ));
        pairs.retain(|p| (p.2, p.3) != (was, is) || (p.0 != gpu && p.1 != gpu));
    }
    lines
}

fn told(link: Link) -> String {
    let gbps = link.gbps();
    match link.kind {
        LinkKind::NvLink { generation: 0, .. } => format!("{gbps} GB/s"),
        kind => format!("{kind} ({gbps} GB/s)"),
    }
}

/// True if a link is as described: lanes of NVLink, the level of PCIe; for a mere bandwidth, that.
fn alike(described: Link, live: Link) -> bool {
    match (described.kind, live.kind) {
        (LinkKind::NvLink { generation: 0, .. }, _) => described.mb_s == live.mb_s,
        (LinkKind::NvLink { lanes: a, .. }, LinkKind::NvLink { lanes: b, .. }) => a == b,
        (LinkKind::NvLink { .. }, _) | (_, LinkKind::NvLink { .. }) => false,
        // MAPA's one rate for PCIe says nothing of the path's kind.
        (_, _) if described.mb_s == Link::new(described.kind, PCIE_GBPS).mb_s => true,
        (a, b) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::System;

    fn system(name: &str) -> HardwareGraph {
        let system = System::find(name).unwrap();
        system.graph(system.size).unwrap()
    }

    /// A system with some links replaced.
    fn with(name: &str, changed: &[(u16, u16, Link)]) -> HardwareGraph {
        let graph = system(name);
        HardwareGraph::new(graph.len(), None, graph.socket(), &|a, b| {
            let gpu = |i: usize| GpuIndex(u16::try_from(i).unwrap());
            let other = changed.iter().find(|c| (usize::from(c.0), usize::from(c.1)) == (a, b));
            other.map_or_else(|| graph.link(gpu(a), gpu(b)).unwrap(), |c| c.2)
        })
    }

    fn told(described: &HardwareGraph, live: &HardwareGraph, mig: &[bool]) -> String {
        differences(described, live, mig).join("\n")
    }

    #[test]
    fn lanes_and_levels_that_are_not_as_described() {
        let lane = Link::nvlink(2, 1).unwrap();
        let sys = Link::new(LinkKind::Sys, 12.0);
        let dgx = system("dgx-v");
        assert_eq!(told(&dgx, &dgx, &[]), "");
        insta::assert_snapshot!(told(&dgx, &with("dgx-v", &[(0, 3, lane), (4, 5, sys)]), &[]), @r"
        links of GPU 0 to 3: NV1 (25 GB/s) by the driver, NV2 (50 GB/s) by tessera.toml
        links of GPU 4 to 5: SYS (12 GB/s) by the driver, NV1 (25 GB/s) by tessera.toml
        ");
        // A lane to a switch is a lane to all.
        let eleven: Vec<_> = [(0, 2), (1, 2), (2, 3), (2, 4), (2, 5), (2, 6), (2, 7)]
            .map(|(a, b)| (a, b, Link::nvlink(3, 11).unwrap()))
            .to_vec();
        insta::assert_snapshot!(told(&system("dgx-a100"), &with("dgx-a100", &eleven), &[]), @"links of GPU 2 to 0-1,3-7: NV11 (275 GB/s) by the driver, NV12 (300 GB/s) by tessera.toml");
        // More lanes than described are a difference too, and so is another path over PCIe where one is described.
        let pcie = system("pcie-8");
        insta::assert_snapshot!(told(&pcie, &system("pcie-8-bridged"), &[]), @r"
        links of GPU 0 to 1: NV12 (300 GB/s) by the driver, PIX (24 GB/s) by tessera.toml
        links of GPU 2 to 3: NV12 (300 GB/s) by the driver, PIX (24 GB/s) by tessera.toml
        links of GPU 4 to 5: NV12 (300 GB/s) by the driver, PIX (24 GB/s) by tessera.toml
        links of GPU 6 to 7: NV12 (300 GB/s) by the driver, PIX (24 GB/s) by tessera.toml
        ");
        insta::assert_snapshot!(told(&pcie, &with("pcie-8", &[(0, 1, sys)]), &[]), @"links of GPU 0 to 1: SYS (12 GB/s) by the driver, PIX (24 GB/s) by tessera.toml");
    }

    #[test]
    fn what_is_not_described_is_not_compared() {
        let dgx = system("dgx-v");
        let node = Link::new(LinkKind::Node, 18.0);
        assert_eq!(told(&dgx, &with("dgx-v", &[(0, 5, node)]), &[]), "", "MAPA's 10 GB/s are no level");
        let off = with("dgx-v", &[(0, 3, node)]);
        assert_eq!(told(&dgx, &off, &[true]), "", "in MIG mode");
        assert!(told(&dgx, &off, &[false, true]).contains("GPU 0 to 3"));
        let fifty = HardwareGraph::of_bandwidths(2, &|_, _| 50.0);
        let lanes = |n| HardwareGraph::new(2, None, 1, &|_, _| Link::nvlink(3, n).unwrap());
        assert_eq!(told(&fifty, &lanes(2), &[]), "");
        assert_eq!(
            told(&fifty, &lanes(1), &[]),
            "links of GPU 0 to 1: NV1 (25 GB/s) by the driver, 50 GB/s by tessera.toml"
        );
    }
}
