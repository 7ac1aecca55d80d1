//! How a node's GPUs are connected: the hardware graph from the driver's answers.

use geometry::Model;
use topology::{
    HardwareGraph, Link, LinkKind, PCIE_GBPS, PcieSlot, newest_nvlink, nvlink_generation, nvlink_of,
};

use super::calls::Nvml;
use super::code::Code;
use super::error::{NvmlError, at};
use crate::gpu_ids::NvmlIndex;

/// The other end of an active NVLink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvLink {
    /// Link number on this GPU.
    pub link: u32,
    /// NVLink version as NVML numbers it; 0 where the driver does not say.
    pub version: u32,
    /// The GPU at the other end; `None` for a switch or a CPU.
    pub peer: Option<NvmlIndex>,
    /// True where an NVSwitch is at the other end.
    pub to_switch: bool,
}

/// The driver's answers about a node's links, by GPU in NVML order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
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

/// No GPU has more NVLinks.
const MAX_LINKS: u32 = 18;
/// `NVML_NVLINK_DEVICE_TYPE_SWITCH`.
const SWITCH: u32 = 2;

impl Nvml {
    /// Everything that the driver says about links.
    ///
    /// What a GPU does not support (NVLink, topology) it does not have: GPUs without an answer are as far from each
    /// other as can be.
    ///
    /// # Errors
    ///
    /// As NVML answers, for a GPU that is lost or a driver that is gone.
    pub fn links(&self) -> Result<Answers, NvmlError> {
        let gpus: Vec<NvmlIndex> = (0..self.count()?).map(NvmlIndex).collect();
        let infos = gpus.iter().map(|g| self.info(*g)).collect::<Result<Vec<_>, _>>()?;
        let bus_ids: Vec<&str> = infos.iter().map(|i| i.pci_bus_id.as_str()).collect();
        let mut answers = Answers::default();
        for gpu in &gpus {
            answers.nvlinks.push(self.nvlinks(*gpu, &bus_ids)?);
            let level = |other: &NvmlIndex| self.pcie_level(*gpu, *other);
            answers.levels.push(gpus.iter().map(level).collect::<Result<_, _>>()?);
            answers.numa.push(self.numa_node(*gpu));
            answers.slots.push(self.pcie_slot(*gpu));
            answers.mig.push(self.mig_mode(*gpu)?.current);
        }
        answers.names = infos.into_iter().map(|i| i.name).collect();
        Ok(answers)
    }

    /// Active NVLinks of a GPU, by link number. Empty where it has none.
    fn nvlinks(&self, gpu: NvmlIndex, bus_ids: &[&str]) -> Result<Vec<NvLink>, NvmlError> {
        let device = self.device(gpu)?;
        let mut links = Vec::new();
        for link in 0..MAX_LINKS {
            match self.lib.nvlink_active(device, link) {
                Ok(true) => {
                    let remote = self.lib.nvlink_remote(device, link).unwrap_or_default();
                    let peer = bus_ids.iter().position(|id| *id == remote);
                    links.push(NvLink {
                        link,
                        version: self.lib.nvlink_version(device, link).unwrap_or(0),
                        peer: peer.and_then(|i| u16::try_from(i).ok()).map(NvmlIndex),
                        to_switch: self.lib.nvlink_remote_type(device, link) == Ok(SWITCH),
                    });
                }
                Ok(false) | Err(Code::NOT_SUPPORTED) => {}
                Err(Code::INVALID_ARGUMENT | Code::FUNCTION_NOT_FOUND) => break,
                Err(code) => return Err(at(gpu, "cannot query its NVLinks")(code)),
            }
        }
        Ok(links)
    }

    /// The way over PCIe between two GPUs, by NVML's numbers (nvml.h, `nvmlGpuTopologyLevel_t`).
    fn pcie_level(&self, a: NvmlIndex, b: NvmlIndex) -> Result<LinkKind, NvmlError> {
        match self.lib.pcie_level(self.device(a)?, self.device(b)?) {
            Ok(0..=19) => Ok(LinkKind::Pix),
            Ok(20..=29) => Ok(LinkKind::Pxb),
            Ok(30..=39) => Ok(LinkKind::Phb),
            Ok(40..=49) => Ok(LinkKind::Node),
            Err(Code::GPU_IS_LOST) => Err(at(a, "cannot query its PCIe topology")(Code::GPU_IS_LOST)),
            _ => Ok(LinkKind::Sys),
        }
    }

    /// The NUMA node nearest to the GPU; `None` where the driver does not say.
    fn numa_node(&self, gpu: NvmlIndex) -> Option<u32> {
        let mask = self.device(gpu).ok().and_then(|d| self.lib.numa_mask(d).ok())?;
        (mask != 0).then(|| mask.trailing_zeros())
    }

    fn pcie_slot(&self, gpu: NvmlIndex) -> Option<PcieSlot> {
        let (generation, lanes) = self.device(gpu).ok().and_then(|d| self.lib.pcie_slot(d).ok())?;
        let slot = PcieSlot { generation: u8::try_from(generation).ok()?, lanes: u8::try_from(lanes).ok()? };
        Link::pcie(LinkKind::Pix, slot).map(|_| slot)
    }
}

impl Answers {
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
