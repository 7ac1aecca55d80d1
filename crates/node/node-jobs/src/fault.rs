//! Why a job's resources could not be made, and whether the node or only the job has the fault.

use std::time::Duration;

use geometry::{JobId, ProfileId, Slice};
use gpu_rules::Purpose;

use crate::access::DeviceError;
use crate::broker::BrokerError;
use crate::command::CommandError;
use crate::mps::MpsError;
use crate::stale_processes::Leftover;
use node_driver::nvml::NvmlError;
use node_driver::{GpuMinor, NvmlIndex};
use node_journal::lock::LockError;
use node_journal::own_dirs::StateError;

/// Reasons why a step of the node's work failed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Fault {
    /// Only root may do this.
    #[error("the node side of Tessera must run as root, not as uid {0}")]
    NotRoot(u32),
    /// The journal, or a directory of ours, cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// Another process works on the same GPU for too long.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The driver's answer.
    #[error(transparent)]
    Nvml(#[from] NvmlError),
    /// A device node.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The MPS daemon.
    #[error(transparent)]
    Mps(#[from] MpsError),
    /// The task broker.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// The node has fewer GPUs than the site says.
    #[error("GPU {gpu} was granted but the driver shows {}", geometry::counted(*count, "GPU"))]
    NoSuchGpu { gpu: NvmlIndex, count: u16 },
    /// The driver shows fewer GPUs than tessera.toml describes, whatever was granted.
    #[error("tessera.toml describes {}, the driver shows {shown}: correct the file or the node", geometry::counted(*described, "GPU"))]
    FewerGpus { described: usize, shown: usize },
    /// The site describes another GPU: the job would get less than it was promised, or something else.
    #[error("GPU {gpu} is {found}, tessera.toml describes {described}: correct the file or the node")]
    NotAsDescribed { gpu: NvmlIndex, found: String, described: String },
    /// NVML does not count by bus id.
    #[error("GPU {gpu}: NVML counts it as nvidia{minor}, /proc/driver/nvidia as nvidia{meant}")]
    Miscounted {
        gpu: NvmlIndex,
        minor: GpuMinor,
        /// By the kernel driver, which Slurm's number was traced to.
        meant: GpuMinor,
    },
    /// The GPU offers no such profile.
    #[error("GPU {gpu}: the driver offers no profile {name} (id {profile})")]
    NoSuchProfile {
        gpu: NvmlIndex,
        profile: ProfileId,
        /// Name in the geometry table.
        name: String,
    },
    /// The driver does not place the profile there.
    #[error("GPU {gpu}: the driver places no {name} at {start}")]
    NoSuchPlacement { gpu: NvmlIndex, name: String, start: Slice },
    /// The GPU's model has no geometry.
    #[error("GPU {gpu}: {name} is not a model that Tessera knows")]
    UnknownModel { gpu: NvmlIndex, name: String },
    /// The site fixed the mode.
    #[error("GPU {gpu}: MIG mode would have to be {}, which the site does not allow", on_off(*.on))]
    Policy {
        gpu: NvmlIndex,
        /// The mode that the grant needs.
        on: bool,
    },
    /// The site keeps the GPU for something else.
    #[error("GPU {gpu} is {}: it is not for {what}", .purpose.words())]
    Kept {
        gpu: NvmlIndex,
        purpose: Purpose,
        /// The granted part of the GPU.
        what: &'static str,
    },
    /// An instance of the administrator's own is not there. Only he makes them.
    #[error("GPU {gpu}: tessera.toml says that it is cut by the site, but there is no {name} at {start} now")]
    NoStatic {
        gpu: NvmlIndex,
        /// The profile's name.
        name: String,
        start: Slice,
    },
    /// Another job has the GPU or the part of it that was granted.
    #[error("GPU {gpu}: {what} is held by job {holder}")]
    Held { gpu: NvmlIndex, what: String, holder: JobId },
    /// Something stayed in use until the deadline.
    #[error("GPU {gpu}: {what} was still in use after {} ms", .timeout.as_millis())]
    Busy { gpu: NvmlIndex, what: String, timeout: Duration },
    /// Processes that belong to no job which has the device stay on it, or the site does not let them be ended.
    #[error("GPU {gpu}: still used by {}, which no job here accounts for", list(.leftovers))]
    Leftovers { gpu: NvmlIndex, leftovers: Vec<Leftover> },
    /// The node is in a power budget, and a limit could not be set.
    #[error("no job starts here without its power cap, because the node is in a power budget: {0}")]
    NotCapped(String),
    /// Whoever started the prolog has died. What was made is given back, and the journal does not know the job.
    #[error("slurmd has died since it started this prolog: nothing is made for the job")]
    Abandoned,
    /// The reset command failed.
    #[error("GPU {gpu}: cannot be reset to switch its MIG mode{clients}")]
    Reset {
        gpu: NvmlIndex,
        /// Other programs that have the GPU open, ` (…)`; empty if none has.
        clients: String,
        /// True if a process of people may be one of them, or may use the GPU unseen.
        may_be_people: bool,
        #[source]
        source: Box<CommandError>,
    },
}

fn list(leftovers: &[Leftover]) -> String {
    leftovers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

impl Fault {
    /// True where no job could be started on this node. A job-specific fault, such as an instance that stays busy,
    /// must not drain it.
    #[must_use]
    pub fn drains_node(&self) -> bool {
        match self {
            Self::NotRoot(_) | Self::UnknownModel { .. } => true,
            Self::Device(e) => !e.users_can_cause(),
            Self::Reset { source, may_be_people, .. } => !may_be_people && !source.users_can_cause(),
            Self::Nvml(e) => e.drains_node(),
            Self::Mps(e) => e.drains_node(),
            Self::State(_)
            | Self::Lock(_)
            | Self::NoSuchGpu { .. }
            | Self::FewerGpus { .. }
            | Self::NotAsDescribed { .. }
            | Self::NoSuchProfile { .. }
            | Self::Broker(_)
            | Self::Miscounted { .. }
            | Self::NoSuchPlacement { .. }
            | Self::Policy { .. }
            | Self::Kept { .. }
            | Self::NoStatic { .. }
            | Self::Held { .. }
            | Self::Busy { .. }
            | Self::Leftovers { .. }
            | Self::NotCapped(_)
            | Self::Abandoned => false,
        }
    }

    /// Names a GPU on which the next job would fail as well, and says why: the driver says so, or its reset failed though nobody was
    /// seen with it open. A reset that did not end, or could not be started, says nothing of the GPU.
    #[must_use]
    pub fn unwell_gpu(&self) -> Option<(NvmlIndex, String)> {
        match self {
            Self::Reset { gpu, clients, source, .. }
                if clients.is_empty() && matches!(**source, CommandError::Failed { .. }) =>
            {
                Some((*gpu, "its reset failed".to_owned()))
            }
            Self::Nvml(e) => e.unwell_gpu().map(|(gpu, code)| (gpu, code.to_string())),
            _ => None,
        }
    }

    /// True for a reset that failed though no process of people was seen with the GPU open: a program of the system's that had it open
    /// may be gone at the next try.
    pub(crate) fn may_pass(&self) -> bool {
        let Self::Reset { clients, may_be_people, source, .. } = self else { return false };
        matches!(**source, CommandError::Failed { .. }) && (clients.is_empty() || !may_be_people)
    }

    /// True where the node's GPUs are not those that the site describes: no job with GPUs belongs here, others do.
    #[must_use]
    pub fn blocks_gpu_jobs(&self) -> bool {
        matches!(self, Self::NoSuchGpu { .. } | Self::FewerGpus { .. } | Self::NotAsDescribed { .. })
    }

    /// True for a fault that users can cause, and that passes when they let go of what they have used up. So a later try can
    /// succeed.
    #[must_use]
    pub fn users_can_cause(&self) -> bool {
        match self {
            Self::State(e) | Self::Lock(LockError::State(e)) => e.users_can_cause(),
            Self::Device(e) => e.users_can_cause(),
            Self::Reset { source, may_be_people, .. } => *may_be_people || source.users_can_cause(),
            Self::Nvml(e) => matches!(e, NvmlError::Scarce { .. }),
            _ => false,
        }
    }

    /// True where the journal cannot be used: no job can have GPUs of ours here, and nothing can be noted of it.
    #[must_use]
    pub fn without_journal(&self) -> bool {
        matches!(self, Self::State(_) | Self::Lock(LockError::State(_)))
    }
}

/// Why a job's resources were not made.
#[derive(Debug, thiserror::Error)]
pub enum RealiseError {
    /// No job can be started here: the prolog must fail, which drains the node.
    #[error("this node is unfit for any job")]
    NodeUnfit(#[source] Fault),
    /// Only this job failed: the journal says why and its tasks are refused; the prolog succeeds. Without a journal
    /// ([`Fault::without_journal`]) they are refused for that.
    #[error(transparent)]
    JobFailed(Fault),
}

impl From<Fault> for RealiseError {
    fn from(fault: Fault) -> Self {
        if fault.drains_node() { Self::NodeUnfit(fault) } else { Self::JobFailed(fault) }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, ErrorKind};
    use std::path::PathBuf;

    use rustix::io::Errno;

    use error_chain::with_causes;
    use lab::repeats_a_cause;

    use super::*;
    use crate::numbering::NumberingError;

    fn io() -> io::Error {
        ErrorKind::NotFound.into()
    }

    fn command() -> CommandError {
        CommandError::Start { program: "nvidia-smi".into(), source: io() }
    }

    fn state() -> StateError {
        StateError::Io { path: PathBuf::from("jobs/1.json"), what: "read it", source: io() }
    }

    fn nvml() -> NvmlError {
        NvmlError::Load { path: "libnvidia-ml.so.1".to_owned(), why: "no such file".to_owned() }
    }

    #[test]
    fn a_cause_is_said_once() {
        let fault = || Fault::Reset {
            gpu: NvmlIndex(0),
            clients: String::new(),
            may_be_people: false,
            source: command().into(),
        };
        let why = "GPU 0: cannot be reset to switch its MIG mode: cannot run nvidia-smi: entity not found";
        assert_eq!(with_causes(&RealiseError::JobFailed(fault())), why);
        assert_eq!(
            with_causes(&RealiseError::NodeUnfit(fault())),
            format!("this node is unfit for any job: {why}")
        );
    }

    #[test]
    fn no_message_repeats_its_cause() {
        let key = || "gpu0".to_owned();
        let faults = [
            Fault::State(state()),
            Fault::Lock(LockError::State(state())),
            Fault::Nvml(nvml()),
            Fault::Device(DeviceError::Io { path: "/dev/nvidia0".into(), what: "look at it", source: io() }),
            Fault::Mps(MpsError::State(state())),
            Fault::Mps(MpsError::Start { key: key(), source: command().into() }),
            Fault::Reset {
                gpu: NvmlIndex(0),
                clients: String::new(),
                may_be_people: false,
                source: command().into(),
            },
            Fault::Broker(BrokerError::Start(command())),
        ];
        for fault in faults {
            assert!(!repeats_a_cause(&fault), "{}", with_causes(&fault));
            let unfit = RealiseError::NodeUnfit(fault);
            assert!(!repeats_a_cause(&unfit), "{}", with_causes(&unfit));
        }
        let file = "/dev/nvidia0".to_owned();
        for error in [NumberingError::Nvml(nvml()), NumberingError::File { file, source: io() }] {
            assert!(!repeats_a_cause(&error), "{}", with_causes(&error));
        }
    }

    /// Every fault that holds an error of the system, with this one.
    fn faults(errno: Errno) -> Vec<Fault> {
        let source = || io::Error::from(errno);
        let path = || PathBuf::from("/run/tessera/mps/gpu1");
        let command = || CommandError::Start { program: path(), source: source() };
        let key = || "gpu1".to_owned();
        vec![
            MpsError::State(StateError::Io { path: path(), what: "create it", source: source() }).into(),
            MpsError::Start { key: key(), source: command().into() }.into(),
            MpsError::Limits { key: key(), source: command().into() }.into(),
            DeviceError::Io { path: path(), what: "create it", source: source() }.into(),
            Fault::Reset {
                gpu: NvmlIndex(0),
                clients: String::new(),
                may_be_people: false,
                source: command().into(),
            },
        ]
    }

    #[test]
    fn what_users_use_up_is_no_fault_of_the_node() {
        for errno in [Errno::AGAIN, Errno::NOSPC, Errno::DQUOT, Errno::MFILE, Errno::NFILE, Errno::TXTBSY] {
            for fault in faults(errno) {
                assert!(matches!(RealiseError::from(fault), RealiseError::JobFailed(_)), "{errno}");
            }
        }
        for errno in [Errno::NOENT, Errno::ACCESS, Errno::ROFS, Errno::IO] {
            let unfit = faults(errno).iter().filter(|fault| fault.drains_node()).count();
            assert_eq!(unfit, 4, "{errno}: all but limits that a daemon does not take");
        }
    }
}
