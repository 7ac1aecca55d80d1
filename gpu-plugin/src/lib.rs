//! `gpu_nvml.so`: Slurm's own plugin underneath, without MIG while slurmd looks for GPUs.
//!
//! On a node whose gres.conf has `AutoDetect=nvml`, slurmd asks its plugin `gpu/nvml` for GPUs. If a GPU is in MIG mode, that plugin lists
//! its MIG instances instead of the GPU. Jobs make and leave instances, so the node would register with another number of GPUs than
//! slurm.conf says, and Slurm would drain it. This plugin takes the file's name, is found first in `PluginDir`, and forwards every
//! function to Slurm's own. While Slurm's own lists the GPUs, its pointer to `nvmlDeviceGetMigMode` leads to a function here
//! (`imports` finds the pointer). For GPUs that `tessera.toml` gives to Tessera (`managed`) it answers that MIG is off. For all others,
//! and before and after that, the driver answers (decision 0042).
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

#[expect(unsafe_code, reason = "the symbols that Slurm looks up, and a pointer of Slurm's own plugin")]
mod ffi;
mod imports;
mod managed;
