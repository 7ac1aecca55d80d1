//! Topology, affinity, NVLink, PCIe.

use std::ffi::{c_uint, c_ulong};

use nvml_wrapper_sys::bindings as sys;

use super::abi::{Out, Ref, chars, exports, pointer};
use super::device::{pci_info, spec};
use crate::engine::code::{Answer, Code};
use crate::engine::fault::{self, Kind};
use crate::engine::handle::Handle;
use crate::engine::session::Session;
use crate::engine::state::State;
use crate::engine::topology::Remote;

/// `NVML_NVLINK_MAX_LINKS`.
const MAX_LINKS: u32 = 18;

/// `NVML_NVLINK_ERROR_DL_RECOVERY`.
const RECOVERY: c_uint = 1;

/// A link of a GPU: `None` where the board has the link but nothing answers on it, because nothing is connected or the
/// link is down.
fn link(session: &Session, state: &State, device: Ref, index: u32) -> Answer<(u32, Option<Remote>)> {
    let gpu = device.gpu(session, state)?;
    if index >= MAX_LINKS {
        return Err(Code::InvalidArgument);
    }
    let links = state.nvlinks(gpu);
    let wired = links.get(index as usize).copied();
    let remote = wired.filter(|_| state.link_up(gpu, index));
    if wired.is_none() && index >= state.chip(gpu)?.board.links {
        return Err(Code::NotSupported);
    }
    Ok((gpu, remote))
}

fn connected(session: &Session, state: &State, device: Ref, index: u32) -> Answer<(u32, Remote)> {
    let (gpu, remote) = link(session, state, device, index)?;
    Ok((gpu, remote.ok_or(Code::NotSupported)?))
}

fn remote_pci(state: &State, remote: Remote) -> Answer<sys::nvmlPciInfo_st> {
    match remote {
        Remote::Gpu(gpu) => pci_info(state, gpu),
        // NVSwitches sit on bus c8 and up, as on a DGX A100.
        Remote::Switch(i) => {
            let bus = 0xc4 + i;
            Ok(sys::nvmlPciInfo_st {
                busIdLegacy: chars(&format!("0000:{bus:02X}:00.0")),
                domain: 0,
                bus,
                device: 0,
                pciDeviceId: 0x1af1_10de,
                pciSubSystemId: 0,
                busId: chars(&format!("00000000:{bus:02X}:00.0")),
            })
        }
    }
}

/// `nvmlNvlinkVersion_t`: what the description says, else the chip's 3.0, 4.0 or 5.0.
pub(super) fn nvlink_version(state: &State, gpu: u32) -> Answer<u32> {
    if let Some(version) = state.node.nvlink_version {
        return Ok(version);
    }
    Ok(match state.chip(gpu)?.model.arch.as_str() {
        "ampere" => 4,
        "hopper" => 6,
        _ => 7,
    })
}

/// Writes a set of numbers as a bit mask of `words` unsigned longs.
fn put_set(numbers: impl Iterator<Item = u32>, words: c_uint, out: Out<c_ulong>) -> Answer<()> {
    let mut mask = vec![0 as c_ulong; words as usize];
    for n in numbers {
        if let Some(word) = mask.get_mut(n as usize / 64) {
            *word |= 1 << (n % 64);
        }
    }
    out.put_all(&mask)
}

fn cpus(session: &Session, state: &State, device: Ref, words: c_uint, out: Out<c_ulong>) -> Answer<()> {
    let ranges = &spec(state, device.gpu(session, state)?)?.cpus;
    put_set(ranges.iter().flat_map(|&(a, b)| a..=b), words, out)
}

fn put_gpus(gpus: &[u32], count: Out<c_uint>, out: Out<sys::nvmlDevice_t>) -> Answer<()> {
    let handles: Vec<_> = gpus.iter().map(|g| pointer(Handle::Gpu(*g))).collect();
    if out.is_null() {
        return count.put(c_uint::try_from(handles.len()).map_err(|_| Code::Unknown)?);
    }
    out.put_list(count, &handles)
}

/// P2P over PCIe always works here, over NVLink where two GPUs share a link or a switch; neither with MIG on (open-gpu-kernel-modules:
/// MIG has no NVLink P2P; no capture shows P2P on a MIG profile).
fn p2p_status(state: &State, a: u32, b: u32, index: u32) -> Answer<u32> {
    const OK: u32 = 0;
    const GPU_NOT_SUPPORTED: u32 = 2;
    const NOT_SUPPORTED: u32 = 5;
    if state.gpu(a)?.mig || state.gpu(b)?.mig {
        return Ok(GPU_NOT_SUPPORTED);
    }
    let direct = state.links_up(a).contains(&Remote::Gpu(b));
    let switched = |g: u32| state.links_up(g).iter().any(|r| matches!(r, Remote::Switch(_)));
    let nvlink = direct || switched(a) && switched(b);
    match index {
        // Read, write, PCI.
        0 | 1 | 4 => Ok(OK),
        // NVLink, atomics.
        2 | 3 => Ok(if nvlink { OK } else { NOT_SUPPORTED }),
        _ => Err(Code::InvalidArgument),
    }
}

exports! {
    fn nvmlDeviceGetTopologyCommonAncestor(a: Ref, b: Ref, out: Out<c_uint>) |session, state| {
        out.put(state.level(a.gpu(session, state)?, b.gpu(session, state)?)?)
    }
    fn nvmlDeviceGetTopologyNearestGpus(
        device: Ref, level: c_uint, count: Out<c_uint>, out: Out<sys::nvmlDevice_t>,
    ) |session, state| {
        let gpu = device.gpu(session, state)?;
        let near = |other: &&u32| **other != gpu && state.level(gpu, **other).is_ok_and(|l| l == level);
        let found: Vec<u32> = session.visible().iter().filter(near).copied().collect();
        put_gpus(&found, count, out)
    }
    fn nvmlSystemGetTopologyGpuSet(cpu: c_uint, count: Out<c_uint>, out: Out<sys::nvmlDevice_t>) |session, state| {
        let near = |g: &&u32| {
            spec(state, **g).is_ok_and(|s| s.cpus.iter().any(|&(a, b)| (a..=b).contains(&cpu)))
        };
        let found: Vec<u32> = session.visible().iter().filter(near).copied().collect();
        put_gpus(&found, count, out)
    }
    fn nvmlDeviceGetP2PStatus(a: Ref, b: Ref, index: c_uint, out: Out<c_uint>) |session, state| {
        out.put(p2p_status(state, a.gpu(session, state)?, b.gpu(session, state)?, index)?)
    }
    fn nvmlDeviceGetCpuAffinity(device: Ref, words: c_uint, out: Out<c_ulong>) |session, state| {
        cpus(session, state, device, words, out)
    }
    fn nvmlDeviceGetCpuAffinityWithinScope(
        device: Ref, words: c_uint, out: Out<c_ulong>, _scope: c_uint,
    ) |session, state| {
        cpus(session, state, device, words, out)
    }
    fn nvmlDeviceGetMemoryAffinity(device: Ref, words: c_uint, out: Out<c_ulong>, _scope: c_uint) |session, state| {
        let numa = spec(state, device.gpu(session, state)?)?.numa;
        put_set(std::iter::once(numa), words, out)
    }
    fn nvmlDeviceGetNvLinkState(device: Ref, index: c_uint, out: Out<c_uint>) |session, state| {
        out.put(link(session, state, device, index)?.1.is_some().into())
    }
    fn nvmlDeviceGetNvLinkVersion(device: Ref, index: c_uint, out: Out<c_uint>) |session, state| {
        let (gpu, _) = link(session, state, device, index)?;
        out.put(nvlink_version(state, gpu)?)
    }
    fn nvmlDeviceGetNvLinkCapability(device: Ref, index: c_uint, capability: c_uint, out: Out<c_uint>) |session, state| {
        link(session, state, device, index)?;
        // P2P, system memory, P2P atomics, system atomics, SLI, valid.
        let answers = [1, 1, 1, 1, 0, 1];
        out.put(*answers.get(capability as usize).ok_or(Code::InvalidArgument)?)
    }
    fn nvmlDeviceGetNvLinkRemotePciInfo(device: Ref, index: c_uint, out: Out<sys::nvmlPciInfo_st>) |session, state| {
        out.put(remote_pci(state, connected(session, state, device, index)?.1)?)
    }
    fn nvmlDeviceGetNvLinkRemotePciInfo_v2(device: Ref, index: c_uint, out: Out<sys::nvmlPciInfo_st>) |session, state| {
        out.put(remote_pci(state, connected(session, state, device, index)?.1)?)
    }
    fn nvmlDeviceGetNvLinkRemoteDeviceType(device: Ref, index: c_uint, out: Out<c_uint>) |session, state| {
        let is_switch = matches!(connected(session, state, device, index)?.1, Remote::Switch(_));
        out.put(if is_switch { 2 } else { 0 })
    }
    fn nvmlDeviceGetNvLinkErrorCounter(device: Ref, index: c_uint, counter: c_uint, out: Out<u64>) |session, state| {
        let (gpu, _) = link(session, state, device, index)?;
        if counter > 4 {
            return Err(Code::InvalidArgument);
        }
        let recoveries = |kind: &Kind| if let Kind::LinkRecoveries(n) = kind { Some(*n) } else { None };
        let counted = fault::value(&state.gpu(gpu)?.faults, recoveries);
        out.put(counted.filter(|_| (index, counter) == (0, RECOVERY)).unwrap_or(0))
    }
    fn nvmlDeviceGetCurrPcieLinkGeneration(device: Ref, out: Out<c_uint>) |session, state| {
        out.put(state.chip(device.gpu(session, state)?)?.board.pcie_gen)
    }
    fn nvmlDeviceGetMaxPcieLinkGeneration(device: Ref, out: Out<c_uint>) |session, state| {
        out.put(state.chip(device.gpu(session, state)?)?.board.pcie_gen)
    }
    fn nvmlDeviceGetGpuMaxPcieLinkGeneration(device: Ref, out: Out<c_uint>) |session, state| {
        out.put(state.chip(device.gpu(session, state)?)?.board.pcie_gen)
    }
    fn nvmlDeviceGetCurrPcieLinkWidth(device: Ref, out: Out<c_uint>) |session, state| {
        device.gpu(session, state)?;
        out.put(16)
    }
    fn nvmlDeviceGetMaxPcieLinkWidth(device: Ref, out: Out<c_uint>) |session, state| {
        device.gpu(session, state)?;
        out.put(16)
    }
    fn nvmlDeviceGetPcieLinkMaxSpeed(device: Ref, out: Out<c_uint>) |session, state| {
        // An enumeration that counts as the generations do.
        out.put(state.chip(device.gpu(session, state)?)?.board.pcie_gen)
    }
    fn nvmlDeviceGetPcieSpeed(device: Ref, out: Out<c_uint>) |session, state| {
        let generation = state.chip(device.gpu(session, state)?)?.board.pcie_gen;
        let mbps = [2500, 5000, 8000, 16000, 32000, 64000];
        out.put(*mbps.get(generation.saturating_sub(1) as usize).ok_or(Code::NotSupported)?)
    }
    fn nvmlDeviceGetPcieThroughput(device: Ref, counter: c_uint, out: Out<c_uint>) |session, state| {
        let rates = state.load(device.gpu(session, state)?)?.traffic.pcie;
        // NVML_PCIE_UTIL_TX_BYTES and NVML_PCIE_UTIL_RX_BYTES.
        let rate = match counter {
            0 => rates.sent,
            1 => rates.received,
            _ => return Err(Code::InvalidArgument),
        };
        out.put(c_uint::try_from(rate / 1000).unwrap_or(c_uint::MAX))
    }
    fn nvmlDeviceGetPcieReplayCounter(device: Ref, out: Out<c_uint>) |session, state| {
        device.gpu(session, state)?;
        out.put(0)
    }
    fn nvmlDeviceGetBusType(device: Ref, out: Out<c_uint>) |session, state| {
        device.gpu(session, state)?;
        // NVML_BUS_TYPE_PCIE.
        out.put(2)
    }
    fn nvmlDeviceGetMemoryBusWidth(device: Ref, out: Out<c_uint>) |session, state| {
        let model = state.chip(device.gpu(session, state)?)?.model;
        out.put(match model.key.as_str() {
            "a30-24gb" => 3072,
            "rtx-pro-6000-96gb" => 512,
            key if key.starts_with("b") || key.starts_with("gb") => 8192,
            key if key.contains("141gb") || key.contains("94gb") || key.starts_with("gh") => 6144,
            _ => 5120,
        })
    }
}
