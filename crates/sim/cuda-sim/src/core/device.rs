//! The devices of a process, as the simulated node has them.

use std::path::Path;

use nvidia_ml::engine::code::Answer as NvmlAnswer;
use nvidia_ml::engine::handle::CiRef;
use nvidia_ml::engine::session::Session;
use nvidia_ml::engine::state::State;

use super::code::{Answer, Code};
use super::control::Limits;
use super::mps;
use super::visible::{self, Candidate, Instance, Seen};

const MIB: u64 = 1 << 20;
/// Memory that the context of a process without MPS takes, MiB. An H200 with driver 580 showed 526 MiB for 132 SMs
/// (docs/real-gpu.md). Older GPUs: assumed; it gives 304 MiB on a V100, where `nvidia-smi` shows some 300.
fn context_mib(sms: u32, cc: [i32; 2]) -> u64 {
    let sms = u64::from(sms);
    if cc[0] >= 9 { (4160 + mps::MIB_PER_100_SMS * sms) / 100 } else { 64 + 3 * sms }
}

/// Most devices of whose limits a daemon is asked.
const MOST_DEVICES: usize = 16;

/// What the process's environment says.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// `CUDA_VISIBLE_DEVICES`.
    pub visible: Option<String>,
    /// `CUDA_DEVICE_ORDER`.
    pub order: Option<String>,
    /// `CUDA_MPS_PINNED_DEVICE_MEM_LIMIT`.
    pub pinned_limits: Option<String>,
    /// `CUDA_MPS_ACTIVE_THREAD_PERCENTAGE`.
    pub threads: Option<f64>,
    /// The MPS control daemon that answers, if one does.
    pub mps_daemon: Option<u32>,
    /// Limits that this daemon sets for every client.
    pub daemon_limits: Limits,
    /// `CUDA_SIM_NO_VMM=1`: a driver that cannot map memory at chosen addresses.
    pub has_no_vmm: bool,
}

impl Settings {
    /// The smaller limit of the two that hold for a client, bytes: its own and its daemon's.
    fn memory_limit(&self, ordinal: usize, uuid: &str) -> Option<u64> {
        let own = self.pinned_limits.as_deref().and_then(|text| mps::pinned_limit(text, ordinal, uuid));
        let daemons = self.daemon_limits.memory.get(ordinal).copied().flatten();
        own.into_iter().chain(daemons).min()
    }

    /// The SMs of `all` that a client may use: by its own percentage or its daemon's, whichever is smaller.
    fn sms(&self, all: u32, cc: [i32; 2]) -> u32 {
        let limits = [self.threads, self.daemon_limits.threads].into_iter().flatten();
        limits.map(|percent| mps::sms(percent, all, cc)).fold(all, u32::min)
    }

    /// Reads the environment and calls the MPS daemon.
    #[must_use]
    pub fn from_env() -> Settings {
        let var = |name| std::env::var(name).ok();
        let pipe = var("CUDA_MPS_PIPE_DIRECTORY");
        let pipe = Path::new(pipe.as_deref().unwrap_or(mps::DEFAULT_PIPE_DIRECTORY));
        let mps_daemon = mps::daemon(pipe);
        let visible = var("CUDA_VISIBLE_DEVICES");
        // The daemon counts its own devices, which are the client's.
        let devices = visible.as_deref().map_or(1, |list| list.split(',').count()).min(MOST_DEVICES);
        Settings {
            visible,
            order: var("CUDA_DEVICE_ORDER"),
            pinned_limits: var("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"),
            has_no_vmm: var("CUDA_SIM_NO_VMM").as_deref() == Some("1"),
            threads: var("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE").and_then(|text| text.trim().parse().ok()),
            daemon_limits: mps_daemon.map(|_| Limits::of(pipe, devices)).unwrap_or_default(),
            mps_daemon,
        }
    }
}

/// A GPU, or the one MIG device, that the process sees.
#[derive(Clone, Debug)]
pub struct Device {
    /// Physical GPU.
    pub gpu: u32,
    /// The MIG device, if it is one.
    pub mig: Option<CiRef>,
    /// `GPU-…` or `MIG-…`.
    pub uuid: String,
    /// Name to report.
    pub name: String,
    /// Memory that programs and contexts can have, bytes.
    pub total: u64,
    /// What a process's contexts take, bytes.
    pub context: u64,
    /// Most that this process may have (MPS), its context included, bytes.
    pub limit: Option<u64>,
    /// Most clients of one MPS daemon.
    pub max_clients: usize,
    /// Number of streaming multiprocessors that the process may use.
    pub sms: u32,
    /// Compute capability.
    pub cc: [i32; 2],
    /// Whether memory can be mapped at chosen addresses.
    pub has_vmm: bool,
    /// SM clock, MHz.
    pub sm_mhz: u32,
    /// Memory clock, MHz.
    pub mem_mhz: u32,
    /// PCI domain, bus, device.
    pub pci: [u32; 3],
}

/// The devices of a process, by ordinal.
///
/// # Errors
///
/// [`Code::NoDevice`] if it sees none; [`Code::Unknown`] if the state names what this build does not know.
pub fn devices(session: &Session, settings: &Settings) -> Answer<Vec<Device>> {
    let state = session.state().map_err(|_| Code::NoDevice)?;
    let candidates = candidates(session, &state).map_err(|_| Code::Unknown)?;
    let seen = visible::devices(candidates, settings.visible.as_deref(), settings.order.as_deref())?;
    if seen.is_empty() {
        return Err(Code::NoDevice);
    }
    let made = seen.into_iter().enumerate().map(|(ordinal, seen)| device(&state, settings, ordinal, seen));
    made.collect::<NvmlAnswer<_>>().map_err(|_| Code::Unknown)
}

fn candidates(session: &Session, state: &State) -> NvmlAnswer<Vec<Candidate>> {
    let mut found = Vec::new();
    for (index, &gpu) in (0_u32..).zip(session.visible()) {
        // A GPU that fell off the bus is not there.
        if session.by_index(index).is_err() {
            continue;
        }
        let chip = state.chip(gpu)?;
        let spec = state.node.gpus.get(gpu as usize);
        let instances = session.mig_devices(state, gpu)?.into_iter().filter_map(|r| {
            let uuid = state.ci(r).ok()?.1.uuid.clone();
            Some(Instance { gi: r.gi, ci: r.ci, uuid })
        });
        found.push(Candidate {
            gpu,
            uuid: spec.map(|s| s.uuid.clone()).unwrap_or_default(),
            pci: spec.map(|s| s.pci).unwrap_or_default(),
            speed: u64::from(chip.model.full_gpu_sm) * u64::from(chip.board.sm_mhz),
            mig: state.gpu(gpu)?.mig,
            instances: instances.collect(),
        });
    }
    Ok(found)
}

fn device(state: &State, settings: &Settings, ordinal: usize, (gpu, instance): Seen) -> NvmlAnswer<Device> {
    use nvidia_ml::engine::code::Code as Nvml;
    let chip = state.chip(gpu)?;
    let spec = state.node.gpus.get(gpu as usize).ok_or(Nvml::Unknown)?;
    let whole_slices = u32::from(chip.model.compute_slices).max(1);
    let (mig, uuid, name, sms, slices) = match instance {
        None => (None, spec.uuid.clone(), spec.name.clone(), chip.model.full_gpu_sm, whole_slices),
        Some((gi_id, ci_id)) => {
            let gi = state.gpu(gpu)?.instances.iter().find(|g| g.id == gi_id).ok_or(Nvml::NotFound)?;
            let ci = gi.cis.iter().find(|c| c.id == ci_id).ok_or(Nvml::NotFound)?;
            let profile = chip.profile(gi.profile).ok_or(Nvml::Unknown)?;
            let ci_profile = profile.cis.iter().find(|p| p.id == ci.profile).ok_or(Nvml::Unknown)?;
            let name = format!("{} MIG {}", spec.name, ci_profile.name);
            (Some(gi.ci_ref(gpu, ci)), ci.uuid.clone(), name, ci_profile.sm, ci.size)
        }
    };
    let [total, reserved, _] = state.memory(gpu, mig.map(|r| r.gi))?;
    let is_client = settings.mps_daemon.is_some();
    let sms = if is_client { settings.sms(sms, chip.board.cc) } else { sms };
    let whole = state.node.context_mib.unwrap_or_else(|| context_mib(sms, chip.board.cc));
    let context_mib = if is_client { whole.min(mps::context_mib(sms)) } else { whole };
    Ok(Device {
        gpu,
        mig,
        limit: settings.memory_limit(ordinal, &uuid).filter(|_| is_client),
        uuid,
        name,
        total: total.saturating_sub(reserved) * MIB,
        // Memory is taken in granules of 2 MiB, a context's too.
        context: context_mib.next_multiple_of(2) * MIB,
        max_clients: mps::max_clients(slices, whole_slices),
        sms,
        cc: chip.board.cc,
        has_vmm: !settings.has_no_vmm,
        sm_mhz: chip.board.sm_mhz,
        mem_mhz: chip.board.mem_mhz,
        pci: spec.pci,
    })
}
