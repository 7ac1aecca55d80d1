//! The hardware graph: GPUs and the best link between each two of them.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::gpu_set::GpuSet;
use crate::link::Link;
use crate::link_kind::{LinkClass, LinkKind};
use geometry::GpuIndex;

/// A node's GPUs and links (MAPA section 3.2): complete, each edge the best link between its two GPUs.
#[derive(Clone, Debug)]
pub struct HardwareGraph {
    /// Row by row; that of a GPU to itself counts for nothing.
    links: Vec<Link>,
    /// Rate at which each GPU can send to all others together, MB/s.
    sends_mb_s: Vec<u32>,
    /// GPUs per CPU socket, or all.
    socket: usize,
    /// The slowest way over PCIe, MB/s; `u32::MAX` if there is none.
    least_pcie_mb_s: u32,
    fingerprint: u64,
}

impl PartialEq for HardwareGraph {
    fn eq(&self, other: &Self) -> bool {
        self.links == other.links && self.sends_mb_s == other.sends_mb_s && self.socket == other.socket
    }
}

impl HardwareGraph {
    /// Most GPUs of a node.
    pub const MOST_GPUS: usize = 64;

    /// The graph of `n` GPUs, 64 at most; `link` gives the link of each pair `a < b`.
    ///
    /// `sends_gbps` is what the NVLink ports of one GPU send together, if an NVSwitch shares them among its links; with
    /// `None` each GPU can send on all its links at once. `socket` is the number of GPUs per CPU socket; with 0 all are
    /// on one.
    #[must_use]
    pub fn new(
        n: usize,
        sends_gbps: Option<f64>,
        socket: usize,
        link: &dyn Fn(usize, usize) -> Link,
    ) -> Self {
        Self::with_ports(n, &|_| sends_gbps, socket, link)
    }

    /// As [`HardwareGraph::new`], with `sends_gbps` per GPU: GPUs differ once a link to an NVSwitch is down.
    #[must_use]
    pub fn with_ports(
        n: usize,
        sends_gbps: &dyn Fn(usize) -> Option<f64>,
        socket: usize,
        link: &dyn Fn(usize, usize) -> Link,
    ) -> Self {
        let n = n.min(Self::MOST_GPUS);
        let mut links = vec![Link { kind: LinkKind::Pix, mb_s: 0 }; n * n];
        for a in 0..n {
            for b in a + 1..n {
                let best = link(a, b);
                links[a * n + b] = best;
                links[b * n + a] = best;
            }
        }
        let port = |gpu| sends_gbps(gpu).map_or(u32::MAX, |g| Link::new(LinkKind::Pix, g).mb_s);
        let sends_mb_s: Vec<u32> = (0..n).map(port).collect();
        let socket = if socket == 0 { n } else { socket };
        let mut hash = DefaultHasher::new();
        (n, &sends_mb_s, socket).hash(&mut hash);
        links.iter().for_each(|l| (l.kind, l.mb_s).hash(&mut hash));
        let pairs = (0..n).flat_map(|a| (a + 1..n).map(move |b| a * n + b));
        let over_pcie = pairs.map(|at| links[at]).filter(|l| l.class() == LinkClass::Pcie).map(|l| l.mb_s);
        let least_pcie_mb_s = over_pcie.min().unwrap_or(u32::MAX);
        Self { links, sends_mb_s, socket, least_pcie_mb_s, fingerprint: hash.finish() }
    }

    /// A hash: graphs with the same GPUs, links and sockets have the same one within this process.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Returns the links with `socket` GPUs per CPU socket, 0 for all of them on one.
    #[must_use]
    pub fn with_socket(&self, socket: usize) -> Self {
        let port =
            |g: usize| self.sends_mb_s.get(g).filter(|m| **m < u32::MAX).map(|m| f64::from(*m) / 1000.0);
        Self::with_ports(self.len(), &port, socket, &|a, b| self.links[a * self.len() + b])
    }

    /// The graph of `n` GPUs if only the bandwidths are known, in GB/s. Kinds are told from them ([`Link::of_bandwidth`]),
    /// and each half of the GPUs is on one socket.
    ///
    /// Links of 200 GB/s or more that are all equal count as an NVSwitch: a GPU sends as much to all others together as
    /// to one.
    #[must_use]
    pub fn of_bandwidths(n: usize, bw_gbps: &dyn Fn(usize, usize) -> f64) -> Self {
        let first = if n > 1 { bw_gbps(0, 1) } else { 0.0 };
        let equal = (0..n).all(|a| (0..n).all(|b| a == b || (bw_gbps(a, b) - first).abs() < 1e-9));
        let switch = (equal && first >= 200.0).then_some(first);
        Self::new(n, switch, n.div_ceil(2), &|a, b| Link::of_bandwidth(bw_gbps(a, b)))
    }

    /// The graph of `n` GPUs that all have the same bandwidth to each other, GB/s.
    #[must_use]
    pub fn uniform(n: usize, bw_gbps: f64) -> Self {
        Self::of_bandwidths(n, &|_, _| bw_gbps)
    }

    /// Number of GPUs.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.sends_mb_s.len()
    }

    /// True if the node has no GPU.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The link between two GPUs; `None` if they are the same GPU or one of them does not exist.
    #[must_use]
    #[inline]
    pub fn link(&self, a: GpuIndex, b: GpuIndex) -> Option<Link> {
        let (a, b, n) = (usize::from(a.0), usize::from(b.0), self.len());
        (a != b && a < n && b < n).then(|| self.links[a * n + b])
    }

    /// The set of all GPUs of the node.
    #[must_use]
    pub fn all(&self) -> GpuSet {
        (0..self.len()).filter_map(|gpu| u16::try_from(gpu).ok()).map(GpuIndex).collect()
    }

    /// GPUs per CPU socket; all of them if the node has one socket.
    #[must_use]
    pub fn socket(&self) -> usize {
        self.socket
    }

    /// Rate at which a GPU's NVLink ports send together, MB/s; `u32::MAX` if only its links limit it, 0 for an unknown GPU.
    #[must_use]
    #[inline]
    pub fn sends_mb_s(&self, gpu: GpuIndex) -> u32 {
        self.sends_mb_s.get(usize::from(gpu.0)).copied().unwrap_or(0)
    }

    /// Preserved bandwidth (Equation 3): the sum of [`HardwareGraph::kept_mb_s`] over the links among `gpus`, GB/s.
    #[must_use]
    pub fn preserved_bw(&self, gpus: GpuSet) -> f64 {
        let sum: u64 = gpus
            .iter()
            .flat_map(|a| gpus.iter().filter(move |b| a < *b).filter_map(move |b| self.link(a, b)))
            .map(|l| u64::from(self.kept_mb_s(l)))
            .sum();
        #[expect(clippy::cast_precision_loss, reason = "at most 2016 links of 10^6")]
        let gbps = sum as f64 / 1000.0;
        gbps
    }

    /// The sum of [`HardwareGraph::kept_mb_s`] over the links of a GPU to a set, MB/s.
    #[must_use]
    pub fn kept_to(&self, gpu: GpuIndex, set: GpuSet) -> u64 {
        set.iter().filter_map(|other| self.link(gpu, other)).map(|l| u64::from(self.kept_mb_s(l))).sum()
    }

    /// The bandwidth of a link between two free GPUs that is worth keeping, MB/s: all of an NVLink, but for PCIe only what
    /// exceeds the slowest way of the node, because any two GPUs have at least that.
    ///
    /// MAPA's program leaves PCIe out; there, all ways over PCIe are alike.
    #[must_use]
    #[inline]
    pub fn kept_mb_s(&self, link: Link) -> u32 {
        match link.class() {
            LinkClass::Pcie => link.mb_s.saturating_sub(self.least_pcie_mb_s),
            _ => link.mb_s,
        }
    }

    /// Rate at which a member of a set can send to the other members, MB/s: on all its NVLinks to them together, limited by
    /// its ports, and in addition on one PCIe link, because a GPU has one.
    #[must_use]
    pub fn sends_within(&self, gpu: GpuIndex, set: GpuSet) -> u32 {
        let links = set.iter().filter_map(|other| self.link(gpu, other));
        let (mut nvlink, mut pcie) = (0_u32, 0_u32);
        for link in links {
            match link.class() {
                LinkClass::Pcie => pcie = pcie.max(link.mb_s),
                _ => nvlink = nvlink.saturating_add(link.mb_s),
            }
        }
        nvlink.min(self.sends_mb_s(gpu)).saturating_add(pcie)
    }
}
