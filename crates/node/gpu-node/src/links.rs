//! The links between a node's GPUs: the hardware graph from the driver's answers.

use geometry::Model;
use gpu_survey::{NvLink, numa_node, nvlinks, pcie_level, pcie_slot};
use node_driver::NvmlIndex;
use node_driver::nvml::{Nvml, NvmlError};
use topology::{
    HardwareGraph, Link, LinkKind, PCIE_GBPS, PcieSlot, newest_nvlink, nvlink_generation, nvlink_of,
};

/// The driver's answers about a node's links, by GPU in NVML order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkAnswers {
    /// Model names as NVML writes them.
    pub names: Vec<String>,
    /// Active NVLinks, by link number.
    pub nvlinks: Vec<Vec<NvLink>>,
    /// The way over PCIe to each other GPU.
    pub levels: Vec<Vec<LinkKind>>,
    /// NUMA node; `None` where the driver does not say.
    pub numa: Vec<Option<u32>>,
    /// PCIe generation and lanes; `None` where the driver does not say.
    pub slots: Vec<Option<PcieSlot>>,
    /// True if the GPU is in MIG mode: an A100's NVLinks are off then.
    pub mig: Vec<bool>,
}

/// The kind of link of one of NVML's levels. GPUs without an answer are as far from each other as can be.
fn kind_of(level: Option<u32>) -> LinkKind {
    match level {
        Some(0..=19) => LinkKind::Pix,
        Some(20..=29) => LinkKind::Pxb,
        Some(30..=39) => LinkKind::Phb,
        Some(40..=49) => LinkKind::Node,
        _ => LinkKind::Sys,
    }
}

fn slot_of((generation, lanes): (u32, u32)) -> Option<PcieSlot> {
    let slot = PcieSlot { generation: u8::try_from(generation).ok()?, lanes: u8::try_from(lanes).ok()? };
    Link::pcie(LinkKind::Pix, slot).map(|_| slot)
}

impl LinkAnswers {
    /// Reads everything that the driver says about links. A GPU does not have what it does not support (NVLink, topology).
    ///
    /// # Errors
    ///
    /// As NVML answers, for a GPU that is lost or a driver that is gone.
    pub fn read(nvml: &Nvml) -> Result<Self, NvmlError> {
        let gpus: Vec<NvmlIndex> = (0..nvml.count()?).map(NvmlIndex).collect();
        let infos = gpus.iter().map(|g| nvml.info(*g)).collect::<Result<Vec<_>, _>>()?;
        let bus_ids: Vec<&str> = infos.iter().map(|i| i.pci_bus_id.as_str()).collect();
        let mut answers = Self::default();
        for gpu in &gpus {
            answers.nvlinks.push(nvlinks(nvml, *gpu, &bus_ids)?);
            let level = |other: &NvmlIndex| pcie_level(nvml, *gpu, *other).map(kind_of);
            answers.levels.push(gpus.iter().map(level).collect::<Result<_, _>>()?);
            answers.numa.push(numa_node(nvml, *gpu));
            answers.slots.push(pcie_slot(nvml, *gpu).and_then(slot_of));
            answers.mig.push(nvml.mig_mode(*gpu)?.current);
        }
        answers.names = infos.into_iter().map(|i| i.name).collect();
        Ok(answers)
    }

    /// NVLinks straight between two GPUs: what both ends have, because they may disagree while a link trains.
    #[must_use]
    pub fn direct(&self, a: usize, b: usize) -> usize {
        let count = |from: usize, to: usize| {
            let to = NvmlIndex(u16::try_from(to).unwrap_or(u16::MAX));
            self.nvlinks.get(from).map_or(0, |l| l.iter().filter(|l| l.peer == Some(to)).count())
        };
        if a == b { 0 } else { count(a, b).min(count(b, a)) }
    }

    /// The slot that all GPUs have at least; `None` where the driver does not say.
    #[must_use]
    pub fn slot(&self) -> Option<PcieSlot> {
        let slots: Option<Vec<PcieSlot>> = self.slots.iter().copied().collect();
        let rate = |slot: &PcieSlot| Link::pcie(LinkKind::Pix, *slot).map(|l| l.mb_s);
        slots?.into_iter().min_by_key(rate)
    }

    /// The hardware graph: each pair's best link, lanes that are up counted.
    ///
    /// GPUs behind an NVSwitch reach each other with the lanes of the one that has fewer up, and send no more to all
    /// together than their own.
    #[must_use]
    pub fn graph(&self) -> HardwareGraph {
        let n = self.nvlinks.len();
        let any_switch = (0..n).any(|g| self.to_switch(g) > 0);
        let port = |g: usize| {
            let lanes = u8::try_from(self.nvlinks[g].len()).unwrap_or(u8::MAX);
            Link::nvlink(self.generation(g), lanes).map(Link::gbps).filter(|_| any_switch)
        };
        HardwareGraph::with_ports(n, &port, self.socket(), &|a, b| self.best(a, b))
    }

    fn to_switch(&self, gpu: usize) -> usize {
        self.nvlinks[gpu].iter().filter(|l| l.to_switch).count()
    }

    fn best(&self, a: usize, b: usize) -> Link {
        let lanes = self.direct(a, b).max(self.to_switch(a).min(self.to_switch(b)));
        let generation = self.generation(a).min(self.generation(b));
        Link::nvlink(generation, u8::try_from(lanes).unwrap_or(u8::MAX)).unwrap_or_else(|| {
            let level = self.levels[a].get(b).copied().unwrap_or(LinkKind::Sys);
            self.slot().and_then(|slot| Link::pcie(level, slot)).unwrap_or(Link::new(level, PCIE_GBPS))
        })
    }

    /// The oldest generation among a GPU's links; what its model has where the driver's number is not known.
    fn generation(&self, gpu: usize) -> u8 {
        let model = || Model::find(self.names.get(gpu)?).and_then(|m| nvlink_of(&m.arch));
        let of = |l: &NvLink| nvlink_generation(l.version);
        let known = self.nvlinks[gpu].iter().filter_map(of).min();
        known.or_else(model).unwrap_or_else(newest_nvlink)
    }

    /// GPUs per NUMA node, where they are numbered node by node and all have the same number; else half of them.
    fn socket(&self) -> usize {
        let n = self.nvlinks.len();
        let numa: Option<Vec<u32>> = self.numa.iter().copied().collect();
        let numa = numa.filter(|nodes| nodes.len() == n && n > 0);
        let even = numa.and_then(|nodes| {
            let blocks: Vec<&[u32]> = nodes.chunk_by(|a, b| a == b).collect();
            let first = blocks.first()?.len();
            let mut distinct: Vec<u32> = blocks.iter().filter_map(|b| b.first().copied()).collect();
            distinct.sort_unstable();
            distinct.dedup();
            (blocks.iter().all(|b| b.len() == first) && distinct.len() == blocks.len()).then_some(first)
        });
        even.unwrap_or_else(|| n.div_ceil(2))
    }
}
