//! Traffic between the GPUs of programs that compute: each of a program's GPUs sends to the next one, and the last to the first, as
//! in a ring of NCCL.
//!
//! Neighbours that NVLinks connect, or that both have links to switches, use these. Others use PCIe.

use super::state::State;
use super::topology::Remote;

/// Bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// From the GPU.
    pub sent: u64,
    /// To the GPU.
    pub received: u64,
}

/// Traffic of a GPU at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Over all of its NVLinks.
    pub nvlink: Rates,
    /// Over PCIe.
    pub pcie: Rates,
}

/// Rate of PCIe in one direction, MB/s.
const PCIE_MBPS: u32 = 12_000;
/// Rate of an NVLink in one direction, MB/s.
const LINK_MBPS: u32 = 25_000;

impl State {
    /// The traffic of a GPU now.
    pub(super) fn traffic(&self, gpu: u32) -> Traffic {
        let mut all = Traffic::default();
        let sends = |w: &&super::worker::Worker| w.gpu == gpu && w.process.gi.is_none() && w.link_mbps > 0;
        for worker in self.workers.iter().filter(sends) {
            let own = self.workers.iter().filter(|other| other.process.pid == worker.process.pid);
            let mut ring: Vec<u32> = own.map(|other| other.gpu).collect();
            ring.sort_unstable();
            ring.dedup();
            let Some(at) = ring.iter().position(|member| *member == gpu).filter(|_| ring.len() > 1) else {
                continue;
            };
            let (before, after) = (ring[(at + ring.len() - 1) % ring.len()], ring[(at + 1) % ring.len()]);
            let sent = self.way(gpu, after, worker.link_mbps);
            let received = self.way(before, gpu, worker.link_mbps);
            all.nvlink.sent += sent.0;
            all.pcie.sent += sent.1;
            all.nvlink.received += received.0;
            all.pcie.received += received.1;
        }
        all
    }

    /// Bytes per second over NVLink and over PCIe from a GPU to another that wants to send so many MB/s.
    fn way(&self, from: u32, to: u32, mbps: u32) -> (u64, u64) {
        let bytes = |mbps: u32| u64::from(mbps) * 1_000_000;
        let to_switch = |gpu| self.links_up(gpu).iter().filter(|r| matches!(r, Remote::Switch(_))).count();
        let direct = self.links_up(from).iter().filter(|remote| **remote == Remote::Gpu(to)).count();
        let links = u32::try_from(direct.max(to_switch(from).min(to_switch(to)))).unwrap_or(0);
        match links {
            0 => (0, bytes(mbps.min(PCIE_MBPS))),
            _ => (bytes(mbps.min(links.saturating_mul(LINK_MBPS))), 0),
        }
    }
}
