//! The variables that a task is given, and those that it must not inherit.
//!
//! `srun` hands a batch script's environment, which is that of its own node, to the tasks on all nodes, and a job submitted
//! from within a job inherits that one's. Whatever is not set for a task is therefore taken away from it.

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

/// `LD_PRELOAD` for a task: `library` first if it is `wanted`, and what the user has there. Files of its name are taken out: another
/// node may have it in another folder. `None`: the variable is to be unset.
#[must_use]
pub fn preload(users: Option<&str>, library: &str, wanted: bool) -> Option<String> {
    let name = |path: &str| path.rsplit('/').next().map(str::to_owned);
    let is_other = |path: &&str| !path.is_empty() && name(path) != name(library);
    let users = users.unwrap_or_default().split([':', ' ']).filter(is_other);
    let all: Vec<&str> = wanted.then_some(library).into_iter().chain(users).collect();
    (!all.is_empty()).then(|| all.join(":"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_preloaded_once_and_only_to_who_wants_it() {
        let of = |users, wanted| preload(users, "/t.so", wanted);
        assert_eq!(of(None, true).as_deref(), Some("/t.so"));
        assert_eq!(of(Some("/a.so /b.so"), true).as_deref(), Some("/t.so:/a.so:/b.so"));
        assert_eq!(of(Some("/t.so:/a.so"), true).as_deref(), Some("/t.so:/a.so"));
        assert_eq!(of(Some("/t.so:/a.so"), false).as_deref(), Some("/a.so"));
        assert_eq!(of(Some("/t.so"), false), None);
        assert_eq!(of(Some("/lib64/t.so:/a.so:/not-t.so"), false).as_deref(), Some("/a.so:/not-t.so"));
    }
}
