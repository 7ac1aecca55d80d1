//! The variables that a task is given, and those that it must not inherit.
//!
//! `srun` hands a batch script's environment, which is that of its own node, to the tasks on all nodes, and a job submitted
//! from within a job inherits that one's. Whatever is not set for a task is therefore taken away from it.

use crate::preloaded::LIBRARY;

/// The variables, once: what is not here can neither be set nor be forgotten.
macro_rules! variables {
    ($($variable:ident = $name:literal),* $(,)?) => {
        /// A variable that some task is given.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Variable { $($variable),* }

        impl Variable {
            const ALL: &[Self] = &[$(Self::$variable),*];

            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$variable => $name),* }
            }
        }
    };
}
variables! {
    DeviceOrder = "CUDA_DEVICE_ORDER",
    CudaDevices = "CUDA_VISIBLE_DEVICES",
    ContainerDevices = "NVIDIA_VISIBLE_DEVICES",
    Isolation = "TESSERA_ISOLATION",
    Instances = "TESSERA_INSTANCES",
    MemoryMib = "TESSERA_GPU_MEM_MIB",
    Gpus = "TESSERA_GPUS",
    GpuSet = "TESSERA_GPU_SET",
    Match = "TESSERA_GPU_MATCH",
    BandwidthGbps = "TESSERA_GPU_BANDWIDTH_GBPS",
    Share = "TESSERA_GPU_SHARE",
    JobId = "TESSERA_JOB_ID",
    Why = "TESSERA_WHY",
    TaskSocket = "TESSERA_TASK_SOCKET",
    MpsPipe = "CUDA_MPS_PIPE_DIRECTORY",
    MpsLog = "CUDA_MPS_LOG_DIRECTORY",
    MpsThreads = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    MpsMemory = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
}

impl Variable {
    /// Tells whether the variable may be the user's own: a job may run an MPS daemon on GPUs that it has alone.
    fn may_be_the_users(self) -> bool {
        matches!(self, Self::MpsPipe | Self::MpsLog | Self::MpsThreads | Self::MpsMemory)
    }
}

/// The variables to take away from a task that is given `set`. `isolation` is the `TESSERA_ISOLATION` that it inherits:
/// only from a share does it inherit a share's variables.
#[must_use]
pub fn stale_variables(set: &[(String, String)], isolation: Option<&str>) -> Vec<&'static str> {
    let under_mps = matches!(isolation, Some("mps" | "gpu-tasks"));
    let ours = |v: &&Variable| under_mps || !v.may_be_the_users();
    let absent = |name: &&str| !set.iter().any(|(own, _)| own == name);
    Variable::ALL.iter().filter(ours).map(|v| v.name()).filter(absent).collect()
}

fn is_library(path: &str) -> bool {
    path.rsplit('/').next() == Some(LIBRARY)
}

/// `LD_PRELOAD` for a task: the library of GPU tasks first, if it is `wanted`, and what the user has there. The library is taken out
/// of that in whichever folder: another node may have it in another one. `None`: nothing of that is to be changed.
#[must_use]
pub fn preload(users: Option<&str>, wanted: Option<&str>) -> Option<String> {
    let users: Vec<&str> =
        users.unwrap_or_default().split([':', ' ']).filter(|path| !path.is_empty()).collect();
    if wanted.is_none() && !users.iter().any(|path| is_library(path)) {
        return None;
    }
    let others = users.into_iter().filter(|path| !is_library(path));
    Some(wanted.into_iter().chain(others).collect::<Vec<_>>().join(":"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_preloaded_once_and_only_to_who_wants_it() {
        let of = |users, wanted| preload(users, wanted);
        let ours = Some("/x/libtessera_task.so");
        assert_eq!(of(None, ours).as_deref(), ours);
        assert_eq!(of(Some("/a.so /b.so"), ours).as_deref(), Some("/x/libtessera_task.so:/a.so:/b.so"));
        assert_eq!(
            of(Some("/libtessera_task.so:/a.so"), ours).as_deref(),
            Some("/x/libtessera_task.so:/a.so")
        );
        assert_eq!(of(Some("libtessera_task.so:/a.so"), None).as_deref(), Some("/a.so"));
        assert_eq!(of(ours, None).as_deref(), Some(""));
        assert_eq!(of(Some("/a.so /not-libtessera_task.so"), None), None);
        assert_eq!(of(None, None), None);
    }
}
