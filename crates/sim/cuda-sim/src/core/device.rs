//! The devices of a process, as the simulated node has them.

use std::path::Path;

use nvidia_ml::engine::code::Answer as NvmlAnswer;
use nvidia_ml::engine::handle::CiRef;
use nvidia_ml::engine::session::Session;
use nvidia_ml::engine::state::State;

use super::code::{Answer, Code};
use super::mps;
use super::visible::{self, Candidate, Instance, Seen};

const MIB: u64 = 1 << 20;
/// A context takes this much on any device, and this much more per SM: room for the kernels' local memory. Assumed; it gives 304 MiB on a
/// V100, where `nvidia-smi` shows some 300.
const CONTEXT_MIB: (u64, u64) = (64, 3);
/// A context of an MPS client shares most of that with the server's.
const MPS_CONTEXT_MIB: u64 = 32;

/// What the process's environment says.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// `CUDA_VISIBLE_DEVICES`.
    pub visible: Option<String>,
    /// `CUDA_DEVICE_ORDER`.
    pub order: Option<String>,
    /// `CUDA_MPS_PINNED_DEVICE_MEM_LIMIT`.
    pub pinned_limits: Option<String>,
    /// The MPS control daemon that answers, if one does.
    pub mps_daemon: Option<u32>,
    /// `CUDA_SIM_NO_VMM=1`: a driver that cannot map memory at chosen addresses.
    pub has_no_vmm: bool,
}

impl Settings {
    /// Reads the environment and calls the MPS daemon.
    #[must_use]
    pub fn from_env() -> Settings {
        let var = |name| std::env::var(name).ok();
        let pipe = var("CUDA_MPS_PIPE_DIRECTORY");
        Settings {
            visible: var("CUDA_VISIBLE_DEVICES"),
            order: var("CUDA_DEVICE_ORDER"),
            pinned_limits: var("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"),
            has_no_vmm: var("CUDA_SIM_NO_VMM").as_deref() == Some("1"),
            mps_daemon: mps::daemon(Path::new(pipe.as_deref().unwrap_or(mps::DEFAULT_PIPE_DIRECTORY))),
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
    /// Most that this process may allocate (MPS), bytes.
    pub limit: Option<u64>,
    /// Most clients of one MPS daemon.
    pub max_clients: usize,
    /// Number of streaming multiprocessors.
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
    let seen = visible::devices(candidates, settings.visible.as_deref(), settings.order.as_deref());
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
    let whole_context = state.node.context_mib.unwrap_or(CONTEXT_MIB.0 + CONTEXT_MIB.1 * u64::from(sms));
    let context_mib =
        if settings.mps_daemon.is_some() { whole_context.min(MPS_CONTEXT_MIB) } else { whole_context };
    let limit = settings.mps_daemon.and(settings.pinned_limits.as_deref());
    Ok(Device {
        gpu,
        mig,
        limit: limit.and_then(|text| mps::pinned_limit(text, ordinal, &uuid)),
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
