//! Plugins by which a slurmd has found its GPUs.

use std::collections::BTreeSet;

/// Finds the files named `gpu_nvml.so`, Slurm's and Tessera's, among those that a process has loaded, by its `/proc/PID/maps`.
pub(crate) fn gpu_plugins(maps: &str) -> BTreeSet<&str> {
    let paths = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    let files = paths.map(|path| path.strip_suffix(" (deleted)").unwrap_or(path));
    files.filter(|file| file.ends_with("/gpu_nvml.so")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_plugin_is_found_once() {
        let maps = "7f0-7f1 r--p 00000000 fe:01 12    /usr/lib/tessera/gpu_nvml.so\n\
                    7f1-7f2 r-xp 00001000 fe:01 12    /usr/lib/tessera/gpu_nvml.so\n\
                    7f2-7f3 rw-p 00000000 00:00 0 \n\
                    7f3-7f4 r-xp 00001000 fe:01 13    /opt/my slurm/gpu_nvml.so (deleted)\n\
                    7f4-7f5 r-xp 00001000 fe:01 14    /usr/lib/slurm/gpu_generic.so\n\
                    7f5-7f6 rw-p 00000000 00:00 0     [heap]\n";
        let found: Vec<&str> = gpu_plugins(maps).into_iter().collect();
        assert_eq!(found, ["/opt/my slurm/gpu_nvml.so", "/usr/lib/tessera/gpu_nvml.so"]);
        assert!(gpu_plugins("").is_empty());
    }
}
