//! Links, power and load: what the node reports in addition to MIG.

use super::code::{Answer, Code};
use super::interconnect;
use super::process::Process;
use super::state::State;

/// The far end of an NVLink connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remote {
    /// Another GPU, by index among all.
    Gpu(u32),
    /// An NVSwitch, by number from 0.
    Switch(u32),
}

impl State {
    /// The NVLink connections of a GPU in link order: to lower-numbered peers first, then to switches, shared out evenly over six.
    #[must_use]
    pub fn nvlinks(&self, gpu: u32) -> Vec<Remote> {
        let row = self.node.links.get(gpu as usize).map_or(&[][..], Vec::as_slice);
        let peers = (0u32..).zip(row).flat_map(|(peer, &n)| (0..n).map(move |_| Remote::Gpu(peer)));
        let switches = self.node.switch_links.get(gpu as usize).copied().unwrap_or(0);
        peers.chain((0..switches).map(|i| Remote::Switch(i % 6))).collect()
    }

    /// Whether a link is up. One that is not there is not.
    #[must_use]
    pub fn link_up(&self, gpu: u32, link: u32) -> bool {
        (link as usize) < self.nvlinks(gpu).len() && !self.links_down.contains(&(gpu, link))
    }

    /// The links of a GPU that are up.
    #[must_use]
    pub fn links_up(&self, gpu: u32) -> Vec<Remote> {
        let all = (0_u32..).zip(self.nvlinks(gpu));
        all.filter(|(link, _)| self.link_up(gpu, *link)).map(|(_, remote)| remote).collect()
    }

    /// The link's number at its other end: a GPU's own, or the port of a switch, of which each GPU has the same ones.
    #[must_use]
    pub fn far_link(&self, gpu: u32, link: u32) -> Option<u32> {
        let ends = interconnect::ends(&self.node.links, &self.node.switch_links, gpu, link)?;
        Some(ends.get(1).map_or(link, |far| far.1))
    }

    /// Takes a link down or brings it up again, at both ends.
    ///
    /// # Errors
    ///
    /// [`Code::NotFound`] for a link that the node does not have.
    pub fn set_link(&mut self, gpu: u32, link: u32, up: bool) -> Answer<()> {
        let ends = interconnect::ends(&self.node.links, &self.node.switch_links, gpu, link);
        let ends = ends.ok_or(Code::NotFound)?;
        self.links_down.retain(|end| !ends.contains(end));
        if !up {
            self.links_down.extend(ends);
            self.links_down.sort_unstable();
        }
        Ok(())
    }

    /// NVML's topology level of a pair.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidArgument`] for a GPU that does not exist.
    pub fn level(&self, a: u32, b: u32) -> Answer<u32> {
        let row = self.node.levels.get(a as usize).ok_or(Code::InvalidArgument)?;
        row.get(b as usize).copied().ok_or(Code::InvalidArgument)
    }

    /// Lowest and highest power limit, mW. The highest is the described GPU's default.
    ///
    /// # Errors
    ///
    /// There is no such GPU, as for [`State::gpu`].
    pub fn power_constraints(&self, gpu: u32) -> Answer<(u32, u32)> {
        let spec = self.node.gpus.get(gpu as usize).ok_or(Code::InvalidArgument)?;
        Ok((spec.power_min_mw, spec.power_default_mw))
    }

    /// Live processes of a GPU that `filter` lets through.
    ///
    /// # Errors
    ///
    /// There is no such GPU, as for [`State::gpu`].
    pub fn processes(&self, gpu: u32, filter: impl Fn(&Process) -> bool) -> Answer<Vec<Process>> {
        let all = self.gpu(gpu)?.processes.iter();
        Ok(all.filter(|p| filter(p) && p.is_alive()).cloned().collect())
    }

    /// Utilisation in percent: 100 with a process, 0 without.
    ///
    /// # Errors
    ///
    /// There is no such GPU, as for [`State::gpu`].
    pub fn utilisation(&self, gpu: u32) -> Answer<u32> {
        Ok(if self.processes(gpu, |_| true)?.is_empty() { 0 } else { 100 })
    }

    /// Memory of a GPU or of one GPU instance on it: total, reserved, used; MiB. `used` is what processes hold, without `reserved`.
    ///
    /// # Errors
    ///
    /// As [`State::gpu`]; [`Code::InvalidArgument`] for an instance that does not exist.
    pub fn memory(&self, gpu: u32, gi: Option<u32>) -> Answer<[u64; 3]> {
        let chip = self.chip(gpu)?;
        let held = |f: &dyn Fn(&Process) -> bool| -> Answer<u64> {
            Ok(self.processes(gpu, f)?.iter().map(|p| p.memory_mib).sum())
        };
        let Some(id) = gi else {
            let [total, visible] = [chip.model.total_memory_mib, chip.model.visible_mib()];
            return Ok([total, total.saturating_sub(visible), held(&|_| true)?]);
        };
        let gi = self.gpu(gpu)?.instances.iter().find(|g| g.id == id).ok_or(Code::InvalidArgument)?;
        let total = chip.profile(gi.profile).ok_or(Code::Unknown)?.base.memory_mib;
        Ok([total, 0, held(&|p| p.gi == Some(id))?])
    }
}
