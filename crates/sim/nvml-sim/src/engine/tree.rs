//! The files a driver shows: device nodes under `ROOT/dev`, proc files under `ROOT/proc/driver`.
//!
//! Formats follow open-gpu-kernel-modules (nv-caps) as seen in `/proc/driver/nvidia/capabilities` of real nodes. Like the driver's helper,
//! creating an instance puts its capability node there anew, root's, with the driver's mode; destroying one removes the proc entries and
//! leaves the node behind, with whatever owner it had. With `modify_device_files = false` the helper makes none.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use super::ids;
use super::state::{Gpu, State};

/// Major of `nvidiaN`.
const GPU_MAJOR: u32 = 195;

/// `ROOT/dev/nvidiaN`.
#[must_use]
pub fn gpu_node(root: &Path, gpu: u32) -> PathBuf {
    root.join(format!("dev/nvidia{gpu}"))
}

/// `ROOT/dev/nvidia-caps/nvidia-capM`.
#[must_use]
pub fn cap_node(root: &Path, minor: u32) -> PathBuf {
    root.join(format!("dev/nvidia-caps/nvidia-cap{minor}"))
}

fn capabilities(root: &Path) -> PathBuf {
    root.join("proc/driver/nvidia/capabilities")
}

/// A free major for the capability nodes: the kernel's driver list is asked so that no node of ours opens somebody's device.
#[must_use]
pub fn free_major() -> u32 {
    let taken = fs::read_to_string("/proc/devices").unwrap_or_default();
    let is_taken =
        |major: u32| taken.lines().any(|l| l.split_whitespace().next() == Some(&major.to_string()));
    (384..=510).rev().find(|m| !is_taken(*m)).unwrap_or(510)
}

/// Makes a device node of the given mode, root's, in place of what is there. A process that may not make device nodes (no
/// `CAP_MKNOD`) makes an empty file: opening it obeys the same permissions.
fn make_node(path: &Path, major: u32, minor: u32, mode: u32) -> io::Result<()> {
    let wanted = makedev(major, minor);
    let stays = fs::symlink_metadata(path).is_ok_and(|m| m.rdev() == wanted || m.is_file());
    if !stays {
        remove(path)?;
        match mknodat(CWD, path, FileType::CharacterDevice, Mode::from_raw_mode(mode), wanted) {
            Err(rustix::io::Errno::PERM | rustix::io::Errno::ACCESS) => fs::write(path, b"")?,
            other => other?,
        }
    }
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(path, Some(0), Some(0))?;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

fn write_cap(state: &State, dir: &Path, minor: u32, name: &str, mode: u32) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let modify = u8::from(state.node.modify_device_files);
    let text = format!("DeviceFileMinor: {minor}\nDeviceFileMode: {mode}\nDeviceFileModify: {modify}\n");
    fs::write(dir.join(name), text)
}

/// Makes the whole tree of a fresh node under its root.
///
/// # Errors
///
/// The file system's; also where the root's file system is mounted `nodev`, for then no user could open a node.
pub fn create(state: &State) -> io::Result<()> {
    let root = &state.root;
    let dev = root.join("dev");
    fs::create_dir_all(dev.join("nvidia-caps"))?;
    for (gpu, _) in (0u32..).zip(&state.gpus) {
        make_node(&gpu_node(root, gpu), GPU_MAJOR, gpu, 0o666)?;
    }
    make_node(&dev.join("nvidiactl"), GPU_MAJOR, 255, 0o666)?;
    make_node(&dev.join("nvidia-uvm"), state.caps_major + 1, 0, 0o666)?;
    make_node(&dev.join("nvidia-uvm-tools"), state.caps_major + 1, 1, 0o666)?;
    if let Err(e) = fs::File::open(gpu_node(root, 0)).map_err(|e| e.kind())
        && e == ErrorKind::PermissionDenied
    {
        let message = format!("{}: device nodes cannot be opened there (mounted nodev?)", root.display());
        return Err(io::Error::new(ErrorKind::PermissionDenied, message));
    }
    let caps = capabilities(root);
    let _ = fs::remove_dir_all(&caps);
    write_cap(state, &caps.join("mig"), 1, "config", 0o400)?;
    write_cap(state, &caps.join("mig"), 2, "monitor", 0o444)?;
    make_node(&cap_node(root, 1), state.caps_major, 1, 0o400)?;
    make_node(&cap_node(root, 2), state.caps_major, 2, 0o444)?;
    let minors = root.join("proc/driver/nvidia-caps");
    fs::create_dir_all(&minors)?;
    fs::write(minors.join("mig-minors"), mig_minors())?;
    proc_files(state)?;
    follow(state, None)
}

/// All 4322 lines, whatever exists, as the driver prints them.
fn mig_minors() -> String {
    use std::fmt::Write as _;
    let mut out = String::from("config 1\nmonitor 2\n");
    for gpu in 0..32 {
        for gi in 0..15 {
            let _ = writeln!(out, "gpu{gpu}/gi{gi}/access {}", ids::gi_cap_minor(gpu, gi));
            for ci in 0..8 {
                let _ = writeln!(out, "gpu{gpu}/gi{gi}/ci{ci}/access {}", ids::ci_cap_minor(gpu, gi, ci));
            }
        }
    }
    out
}

/// `/proc/driver/nvidia/{version,params,gpus/…/information}`.
fn proc_files(state: &State) -> io::Result<()> {
    let base = state.root.join("proc/driver/nvidia");
    fs::create_dir_all(&base)?;
    let version = format!(
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  (simulated by nvml-sim)\n",
        state.node.driver_version
    );
    fs::write(base.join("version"), version)?;
    let modify = u8::from(state.node.modify_device_files);
    fs::write(
        base.join("params"),
        format!("ModifyDeviceFiles: {modify}\nDeviceFileUID: 0\nDeviceFileGID: 0\nDeviceFileMode: 438\n"),
    )?;
    for (minor, spec) in state.node.gpus.iter().enumerate() {
        let [domain, bus, device] = spec.pci;
        let bus_id = format!("{domain:04x}:{bus:02x}:{device:02x}.0");
        let dir = base.join("gpus").join(&bus_id);
        fs::create_dir_all(&dir)?;
        let text = format!(
            "Model: \t\t {}\nGPU UUID: \t {}\nBus Type: \t PCIe\nBus Location: \t {bus_id}\nDevice Minor: \t {minor}\nGPU Excluded:\t No\n",
            spec.name, spec.uuid
        );
        fs::write(dir.join("information"), text)?;
    }
    Ok(())
}

/// Makes the tree agree with the state's instances. With `old` given, only GPUs that changed since are touched; without, all are checked.
///
/// What is listed in proc already is left alone: its node may have been given to a user since.
///
/// # Errors
///
/// The file system's.
pub fn follow(state: &State, old: Option<&State>) -> io::Result<()> {
    for (index, gpu) in (0u32..).zip(&state.gpus) {
        let before = old.and_then(|o| o.gpus.get(index as usize));
        if before.is_none_or(|b| b.instances != gpu.instances) {
            follow_gpu(state, index, gpu)?;
        }
    }
    Ok(())
}

fn follow_gpu(state: &State, index: u32, gpu: &Gpu) -> io::Result<()> {
    let mig = capabilities(&state.root).join(format!("gpu{index}/mig"));
    fs::create_dir_all(&mig)?;
    drop_gone(&mig, "gi", &gpu.instances.iter().map(|g| g.id).collect::<Vec<_>>())?;
    for gi in &gpu.instances {
        let dir = mig.join(format!("gi{}", gi.id));
        drop_gone(&dir, "ci", &gi.cis.iter().map(|c| c.id).collect::<Vec<_>>())?;
        make_access(state, &dir, ids::gi_cap_minor(index, gi.id))?;
        for ci in &gi.cis {
            make_access(state, &dir.join(format!("ci{}", ci.id)), ids::ci_cap_minor(index, gi.id, ci.id))?;
        }
    }
    Ok(())
}

/// Proc entry and device node of one instance. The entry comes last: without it the next writer makes the node again.
fn make_access(state: &State, dir: &Path, minor: u32) -> io::Result<()> {
    if dir.join("access").exists() {
        return Ok(());
    }
    if state.node.modify_device_files {
        make_node(&cap_node(&state.root, minor), state.caps_major, minor, state.node.cap_mode)?;
    }
    write_cap(state, dir, minor, "access", 0o444)
}

/// Removes the entries `prefixN` whose N is not in `keep`.
fn drop_gone(dir: &Path, prefix: &str, keep: &[u32]) -> io::Result<()> {
    let Ok(entries) = fs::read_dir(dir) else { return Ok(()) };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let id = name.to_str().and_then(|n| n.strip_prefix(prefix)).and_then(|n| n.parse::<u32>().ok());
        if id.is_some_and(|id| !keep.contains(&id)) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}
