//! Description of a job for the broker.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A job of kind `gpu-tasks` on this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Slurm's job id.
    pub job: u32,
    /// The only user that can connect to the job's socket.
    pub uid: u32,
    /// Slurm tasks of the job on this node.
    pub seats: u32,
    /// `--gpu-mem`: what an unmodified program holds from its first driver call to its end. Without it, such a program gets
    /// a device alone.
    pub gpu_mem_mib: Option<u64>,
    /// Every device that the job may use, in the order in which policies try them.
    pub devices: Vec<Device>,
}

/// A GPU or MIG instance that jobs share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// `GPU-…` or `MIG-…`, as NVML names it.
    pub uuid: String,
    /// Devices of one group were opened together under one MPS daemon: a process may use all of them, and no device of
    /// another group. A MIG instance is alone in its group.
    pub group: String,
    /// `CUDA_MPS_PIPE_DIRECTORY` of the group's daemon; `None` without MPS.
    pub mps_pipe: Option<PathBuf>,
    /// Memory as the site describes it, an upper bound of what NVML reports.
    pub memory_mib: u64,
    /// Streaming multiprocessors.
    pub sms: u32,
    /// Most processes with a context there.
    pub workers: u32,
}
