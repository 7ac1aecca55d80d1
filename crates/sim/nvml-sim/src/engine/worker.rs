//! Programs that compute, as `nvml-sim work` stands for them.
//!
//! A job's user may not write the node's state. So each such program has a file of its own in `STATE.work`, a folder that is
//! open to everybody as `/tmp` is: what it runs, and on which devices. It counts while its process lives.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::process::{Process, start_time};

/// A program on one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worker {
    /// Its process.
    pub process: Process,
    /// The GPU, by index among all.
    pub gpu: u32,
    /// The application of `physics` that it stands for.
    pub app: String,
    /// MB/s that each of the program's GPUs sends to the next one, if the way has room for as much.
    #[serde(default)]
    pub link_mbps: u32,
}

/// The folder of a node's programs.
#[derive(Clone, Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    pub(super) fn create(&self) -> io::Result<()> {
        fs::create_dir_all(&self.0)?;
        fs::set_permissions(&self.0, fs::Permissions::from_mode(0o1777))
    }

    /// All programs that live. What cannot be read is nobody's.
    pub(super) fn read(&self) -> Vec<Worker> {
        let Ok(entries) = fs::read_dir(&self.0) else { return Vec::new() };
        let mut workers: Vec<Worker> =
            entries.flatten().filter_map(|entry| read_one(&entry.path())).flatten().collect();
        workers.retain(|worker| worker.process.is_alive());
        workers.sort_by_key(|worker| (worker.gpu, worker.process.pid));
        workers
    }

    /// Removes the files of programs that died, as far as this process may.
    pub(super) fn clean(&self) {
        for entry in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
            if pid.is_some_and(|pid| start_time(pid).is_none()) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

fn read_one(path: &Path) -> Option<Vec<Worker>> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// A program that is known to the node until the value is dropped.
#[derive(Debug)]
pub struct Registered(PathBuf);

impl Registered {
    /// Makes this process's work known.
    ///
    /// # Errors
    ///
    /// The file system's.
    pub(super) fn new(folder: &Folder, workers: &[Worker]) -> io::Result<Self> {
        let pid = std::process::id();
        let (path, new) = (folder.0.join(pid.to_string()), folder.0.join(format!("{pid}.new")));
        fs::write(&new, serde_json::to_vec(workers)?)?;
        // Programs of other users compute beside this one.
        fs::set_permissions(&new, fs::Permissions::from_mode(0o644))?;
        fs::rename(&new, &path)?;
        Ok(Self(path))
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
