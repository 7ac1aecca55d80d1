//! The node's state: everything that outlives a process and is shared by all of them.

use serde::{Deserialize, Serialize};

use super::chip::Chip;
use super::code::{Answer, Code};
use super::fault::Fault;
use super::handle::{CiRef, GiRef};
use super::node::{Node, Start};
use super::process::Process;
use super::worker::Worker;

/// Everything about a node at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Description; never changes.
    pub node: Node,
    /// Where the device nodes and proc files are.
    pub root: std::path::PathBuf,
    /// Device-node major of the capability nodes.
    pub caps_major: u32,
    /// Set while instances changed but the files under `root` may not follow yet: whoever writes next repairs them.
    pub tree_dirty: bool,
    /// Ends of NVLinks that are down: GPU, link; ascending.
    pub links_down: Vec<(u32, u32)>,
    /// GPUs, in NVML order.
    pub gpus: Vec<Gpu>,
    /// Programs that compute; their processes are among those of the GPUs. They have files of their own.
    #[serde(skip)]
    pub workers: Vec<Worker>,
}

/// One GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gpu {
    /// MIG mode in force.
    pub mig: bool,
    /// MIG mode after the next reset.
    pub mig_pending: bool,
    /// GPU instances, by id.
    pub instances: Vec<Gi>,
    /// Serial number of the next instance of either kind.
    pub next_serial: u16,
    /// Registered processes, dead ones included until the next write.
    pub processes: Vec<Process>,
    /// Faults asked for.
    pub faults: Vec<Fault>,
    /// Power limit in force, mW.
    pub power_limit_mw: u32,
    /// Whether persistence mode is on.
    pub persistence: bool,
    /// Compute mode: 0 default, 2 prohibited, 3 exclusive process.
    pub compute_mode: u32,
    /// Application clocks: memory, SM; MHz.
    pub clocks: Option<(u32, u32)>,
}

/// A GPU instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gi {
    /// Id, from the placement.
    pub id: u32,
    /// The profile's id as the driver numbers it.
    pub profile: u32,
    /// First placement unit.
    pub start: u8,
    /// Number of placement units.
    pub size: u8,
    /// Distinguishes it from earlier instances with its id.
    pub serial: u16,
    /// Compute instances, by id.
    pub cis: Vec<Ci>,
}

/// A compute instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ci {
    /// Id, lowest free.
    pub id: u32,
    /// The profile's id as the driver numbers it.
    pub profile: u32,
    /// First compute slice within the GPU instance.
    pub start: u32,
    /// Compute slices that it takes.
    pub size: u32,
    /// Distinguishes it from earlier instances with its ids.
    pub serial: u16,
    /// `MIG-…`.
    pub uuid: String,
}

impl State {
    /// A fresh node: no instances, MIG modes and links as described.
    #[must_use]
    pub fn new(node: Node, start: &Start, root: std::path::PathBuf, caps_major: u32) -> State {
        let gpus = node
            .gpus
            .iter()
            .zip(&start.mig)
            .map(|(spec, &mig)| Gpu {
                mig,
                mig_pending: mig,
                instances: Vec::new(),
                next_serial: 1,
                processes: Vec::new(),
                faults: Vec::new(),
                power_limit_mw: spec.power_default_mw,
                // As with nvidia-persistenced.
                persistence: true,
                compute_mode: 0,
                clocks: None,
            })
            .collect();
        State {
            node,
            root,
            caps_major,
            tree_dirty: true,
            links_down: start.links_down.clone(),
            gpus,
            workers: Vec::new(),
        }
    }

    /// One GPU.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidArgument`] if there is none with this index.
    pub fn gpu(&self, index: u32) -> Answer<&Gpu> {
        self.gpus.get(index as usize).ok_or(Code::InvalidArgument)
    }

    /// One GPU, to change.
    ///
    /// # Errors
    ///
    /// There is no such GPU, as for [`State::gpu`].
    pub fn gpu_mut(&mut self, index: u32) -> Answer<&mut Gpu> {
        self.gpus.get_mut(index as usize).ok_or(Code::InvalidArgument)
    }

    /// The model of a GPU.
    ///
    /// # Errors
    ///
    /// As [`State::gpu`]; [`Code::Unknown`] if the state names a model this build does not know.
    pub fn chip(&self, index: u32) -> Answer<&'static Chip> {
        let spec = self.node.gpus.get(index as usize).ok_or(Code::InvalidArgument)?;
        Chip::find(&spec.model).ok_or(Code::Unknown)
    }

    /// The GPU instance a handle means.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidArgument`] if it has been destroyed.
    pub fn gi(&self, r: GiRef) -> Answer<&Gi> {
        let found = self.gpu(r.gpu)?.instances.iter().find(|g| g.id == r.gi && g.serial == r.serial);
        found.ok_or(Code::InvalidArgument)
    }

    /// The compute instance a handle means, with its GPU instance.
    ///
    /// # Errors
    ///
    /// There is no such GPU instance, as for [`State::gi`].
    pub fn ci(&self, r: CiRef) -> Answer<(&Gi, &Ci)> {
        let gi = self.gpu(r.gpu)?.instances.iter().find(|g| g.id == r.gi).ok_or(Code::InvalidArgument)?;
        let ci = gi.cis.iter().find(|c| c.id == r.ci && c.serial == r.serial);
        ci.map(|ci| (gi, ci)).ok_or(Code::InvalidArgument)
    }
}

impl Gpu {
    /// The next serial number. It wraps after 65535 creations on one GPU, and never gives 0.
    pub fn take_serial(&mut self) -> u16 {
        let serial = self.next_serial;
        self.next_serial = serial.checked_add(1).unwrap_or(1);
        serial
    }

    /// Handle of one of its GPU instances.
    #[must_use]
    pub fn gi_ref(gpu: u32, gi: &Gi) -> GiRef {
        GiRef { gpu, gi: gi.id, serial: gi.serial }
    }
}

impl Gi {
    /// Handle of one of its compute instances.
    #[must_use]
    pub fn ci_ref(&self, gpu: u32, ci: &Ci) -> CiRef {
        CiRef { gpu, gi: self.id, ci: ci.id, serial: ci.serial }
    }
}
