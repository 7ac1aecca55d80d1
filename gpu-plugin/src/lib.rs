//! `gpu_nvml.so`: Slurm's own gpu/nvml underneath, which takes no MIG instance for a GPU.
//!
//! With `AutoDetect=nvml` or `full`, slurmd asks NVML of each GPU whether it is in MIG mode, and if so lists its instances instead of the
//! GPU. This plugin takes the name of that plugin, lies in a directory that comes first in `PluginDir`, loads Slurm's own, and has that
//! one question answered with "disabled". All else is Slurm's.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

#[expect(unsafe_code, reason = "the symbols that Slurm looks up, and the dynamic linker's structures")]
mod ffi;
mod find;
