//! A GPU that goes, so that the others' numbers at the driver shift, and that comes back: as after a reset of the bus or of the
//! driver.

use std::fs;
use std::path::{Path, PathBuf};

use lab::{Cluster, HarnessError};

/// Takes the GPU with this minor number out of the driver's list and of its proc files. Its device node stays.
pub(super) fn take(cluster: &Cluster, node: &str, gpu: u32) -> Result<String, HarnessError> {
    cluster.fault(node, &["add", "--kind", "hidden", "--gpu", &gpu.to_string()])?;
    let (listed, aside) = folders(cluster, node);
    let Some(entry) = entry_of(&listed, gpu) else { return Ok(format!("no GPU {gpu} in proc")) };
    let moved = aside.join(entry.file_name().unwrap_or_default());
    create(&aside)?;
    rename(&entry, &moved)?;
    Ok(String::new())
}

/// Brings the GPU back that was taken. What else is wrong with the driver stays.
pub(super) fn bring_back(cluster: &Cluster, node: &str, gpu: u32) -> Result<(), HarnessError> {
    let (listed, aside) = folders(cluster, node);
    if let Some(entry) = entry_of(&aside, gpu) {
        rename(&entry, &listed.join(entry.file_name().unwrap_or_default()))?;
    }
    cluster.fault(node, &["clear", "--kind", "hidden", "--gpu", &gpu.to_string()])
}

/// Returns the directories where the driver lists its GPUs, and where those are that it does not list.
fn folders(cluster: &Cluster, node: &str) -> (PathBuf, PathBuf) {
    let root = cluster.layout().node(node);
    (root.join("proc/driver/nvidia/gpus"), root.join("gone"))
}

/// The folder of the GPU with this minor number.
fn entry_of(listed: &Path, gpu: u32) -> Option<PathBuf> {
    fs::read_dir(listed).ok()?.flatten().map(|entry| entry.path()).find(|path| {
        let text = fs::read_to_string(path.join("information")).unwrap_or_default();
        minor(&text) == Some(gpu)
    })
}

fn minor(information: &str) -> Option<u32> {
    information.lines().find_map(|line| line.strip_prefix("Device Minor:")?.trim().parse().ok())
}

fn create(dir: &Path) -> Result<(), HarnessError> {
    fs::create_dir_all(dir).map_err(|source| HarnessError::File { path: dir.display().to_string(), source })
}

fn rename(from: &Path, to: &Path) -> Result<(), HarnessError> {
    fs::rename(from, to).map_err(|source| HarnessError::File { path: from.display().to_string(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_is_found_by_its_minor_number() {
        let text = "Model: \t\t NVIDIA A100\nDevice Minor: \t 3\nGPU Excluded:\t No\n";
        assert_eq!(minor(text), Some(3));
        assert_eq!(minor("Model: \t\t NVIDIA A100\n"), None);
    }
}
