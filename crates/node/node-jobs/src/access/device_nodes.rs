//! Owners and modes of device nodes.
//!
//! A node is opened with `O_PATH|O_NOFOLLOW`, checked to be the character device it should be, and only then changed,
//! through that handle. The driver's own open is never called.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dev, FileType, Mode, OFlags, major, makedev, minor};
use rustix::io::Errno;
use rustix::process::Uid;

use crate::settings::Settings;
use node_driver::GpuMinor;
use node_driver::gpu_ids::GPU_MAJOR;
use node_driver::scarce::users_can_cause;

/// A device node that is not the device it should be, or cannot be looked at or changed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum DeviceError {
    /// A system call failed.
    #[error("{path}: cannot {what}")]
    Io {
        path: PathBuf,
        what: &'static str,
        #[source]
        source: std::io::Error,
    },
    /// Something else stands where the device should be.
    #[error("{path}: is not the character device {want}")]
    NotTheDevice {
        path: PathBuf,
        /// Major and minor that were expected.
        want: String,
    },
    /// The driver was loaded again since the capability node was made, and has another major number now.
    #[error("{path}: is of an earlier load of the driver")]
    Stale { path: PathBuf },
    /// The driver's table lacks an instance.
    #[error("{path}: has no line for {name}")]
    NoMinor { path: PathBuf, name: String },
    /// The major number of capability nodes is not to be found.
    #[error("{path}: has no line for nvidia-caps, and no capability node exists to copy from")]
    NoMajor { path: PathBuf },
}

impl DeviceError {
    /// True for an error that users can cause; see [`users_can_cause`].
    pub(crate) fn users_can_cause(&self) -> bool {
        matches!(self, Self::Io { source, .. } if users_can_cause(source))
    }

    /// True where the present driver has no such node.
    pub(crate) fn is_absent(&self) -> bool {
        match self {
            Self::Io { source, .. } => source.kind() == std::io::ErrorKind::NotFound,
            other => matches!(other, Self::Stale { .. }),
        }
    }
}

/// Owner and mode of a device node; the group is always root's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The owner's user id.
    pub uid: u32,
    /// Permission bits, such as `0o600`.
    pub mode: u32,
}

impl Access {
    /// `/dev/nvidiaN` of a GPU that nobody uses.
    pub const CLOSED: Self = Self { uid: 0, mode: 0o600 };
    /// `/dev/nvidiaN` of a GPU on which several users are: capability nodes guard its instances.
    pub const OPEN: Self = Self { uid: 0, mode: 0o666 };
    /// A capability node that nobody may use.
    pub const CAP_CLOSED: Self = Self { uid: 0, mode: 0o400 };
    /// A capability node shared between users.
    pub const CAP_OPEN: Self = Self { uid: 0, mode: 0o444 };

    /// `/dev/nvidiaN` of one user.
    #[must_use]
    pub(crate) fn gpu_of(uid: u32) -> Self {
        Self { uid, mode: 0o600 }
    }

    /// A capability node of one user.
    #[must_use]
    pub(crate) fn cap_of(uid: u32) -> Self {
        Self { uid, mode: 0o400 }
    }
}

/// Device nodes under one root.
pub struct Devices {
    root: PathBuf,
    proc_root: PathBuf,
    dir: OwnedFd,
    /// Major number of capability nodes, by the kernel's table.
    caps_major: Option<u32>,
    manage: bool,
}

const CAPS: &str = "nvidia-caps";

/// `nvidiaN`.
pub fn gpu_node(minor: GpuMinor) -> String {
    format!("nvidia{minor}")
}

impl Devices {
    /// Opens the directory of device nodes.
    ///
    /// # Errors
    ///
    /// It cannot be opened.
    pub fn open(settings: &Settings) -> Result<Self, DeviceError> {
        let root = settings.node.dev_root.clone();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(CWD, &root, flags, Mode::empty()).map_err(io(&root, "open it"))?;
        let proc_root = settings.node.proc_root.clone();
        let caps_major = caps_major(&proc_root);
        Ok(Self { root, proc_root, dir, caps_major, manage: settings.node.manage_device_nodes })
    }

    /// The capability nodes of an instance, relative to the root: the GPU instance's, the compute instance's.
    pub fn caps(&self, gpu_minor: GpuMinor, gi: u32, ci: u32) -> Result<[String; 2], DeviceError> {
        let path = self.proc_root.join("driver/nvidia-caps/mig-minors");
        let table = std::fs::read_to_string(&path).map_err(|source| DeviceError::Io {
            path: path.clone(),
            what: "read it",
            source,
        })?;
        let find = |name: String| {
            let line = table.lines().find_map(|l| l.strip_prefix(&name)?.trim().parse::<u32>().ok());
            line.map(|m| format!("{CAPS}/nvidia-cap{m}"))
                .ok_or_else(|| DeviceError::NoMinor { path: path.clone(), name: name.trim().to_owned() })
        };
        Ok([
            find(format!("gpu{gpu_minor}/gi{gi}/access "))?,
            find(format!("gpu{gpu_minor}/gi{gi}/ci{ci}/access "))?,
        ])
    }

    /// Sets owner and mode of a node; makes a capability node that is missing or of an earlier load of the driver. Nothing is done where device nodes are
    /// not ours to manage.
    pub fn set(&self, name: &str, access: Access) -> Result<(), DeviceError> {
        if !self.manage {
            return Ok(());
        }
        let path = self.root.join(name);
        let node = match self.look(name) {
            Err(e) if e.is_absent() && name.starts_with(CAPS) => {
                if matches!(e, DeviceError::Stale { .. }) {
                    node_journal::own_dirs::unlink(&self.dir, name).map_err(io(&path, "remove it"))?;
                }
                self.make_cap(name)?;
                self.look(name)?
            }
            other => other?,
        };
        if node.access == access {
            return Ok(());
        }
        node_journal::crash::point("before device node");
        // The handle is a path handle: its mode can only be changed through /proc. A node that others can open loses
        // them last, one that they are to open gets them first: no moment gives more than before and after together,
        // and the user who has it in both never loses it.
        let via_proc = format!("/proc/self/fd/{}", node.fd.as_raw_fd());
        let owner = || {
            let uid = Some(Uid::from_raw(access.uid));
            let root = Some(rustix::process::Gid::ROOT);
            rustix::fs::chownat(&node.fd, "", uid, root, AtFlags::EMPTY_PATH)
                .map_err(io(&path, "change its owner"))
        };
        let mode = || {
            rustix::fs::chmod(&via_proc, Mode::from_bits_truncate(access.mode))
                .map_err(io(&path, "change its mode"))
        };
        if node.access.mode & !access.mode & 0o077 == 0 {
            mode()?;
            owner()?;
        } else {
            owner()?;
            mode()?;
        }
        node_journal::crash::point("after device node");
        Ok(())
    }

    /// Owner and mode of a node; `None` where there is none.
    pub fn get(&self, name: &str) -> Result<Option<Access>, DeviceError> {
        match self.look(name) {
            Err(e) if e.is_absent() => Ok(None),
            other => other.map(|n| Some(n.access)),
        }
    }

    /// Existing capability nodes, relative to the root.
    #[must_use]
    pub fn cap_nodes(&self) -> Vec<String> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(dir) = rustix::fs::openat(&self.dir, CAPS, flags, Mode::empty()) else { return Vec::new() };
        let names = node_journal::own_dirs::names(dir).unwrap_or_default();
        names.iter().filter(|n| n.starts_with("nvidia-cap")).map(|n| format!("{CAPS}/{n}")).collect()
    }

    fn look(&self, name: &str) -> Result<DeviceFile, DeviceError> {
        let path = self.root.join(name);
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.dir, name, flags, Mode::empty()).map_err(io(&path, "open it"))?;
        let stat = rustix::fs::fstat(&fd).map_err(io(&path, "look at it"))?;
        let gpu_minor: Option<u32> = name.strip_prefix("nvidia").and_then(|n| n.parse().ok());
        let cap_minor: Option<u32> = name.strip_prefix("nvidia-caps/nvidia-cap").and_then(|n| n.parse().ok());
        let device = (major(stat.st_rdev), minor(stat.st_rdev));
        let is_char = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice;
        let right = match (gpu_minor, cap_minor) {
            (Some(n), _) => device == (GPU_MAJOR, n),
            (None, Some(n)) => device.1 == n,
            (None, None) => true,
        };
        if !(is_char && right) {
            let want = match (gpu_minor, cap_minor) {
                (Some(n), _) => format!("{GPU_MAJOR}:{n}"),
                (None, Some(n)) => format!("of {CAPS} with minor {n}"),
                (None, None) => "that it should be".to_owned(),
            };
            return Err(DeviceError::NotTheDevice { path, want });
        }
        // The major of capability nodes is the driver's choice at load time.
        if cap_minor.is_some() && self.caps_major.is_some_and(|now| now != device.0) {
            return Err(DeviceError::Stale { path });
        }
        Ok(DeviceFile {
            fd,
            access: Access { uid: stat.st_uid, mode: stat.st_mode & 0o7777 },
            device: stat.st_rdev,
        })
    }

    fn make_cap(&self, name: &str) -> Result<(), DeviceError> {
        let path = self.root.join(name);
        let cap_minor: u32 = name.rsplit("nvidia-cap").next().and_then(|n| n.parse().ok()).unwrap_or(0);
        let device = makedev(self.major_of_caps()?, cap_minor);
        match rustix::fs::mkdirat(&self.dir, CAPS, Mode::from_bits_truncate(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(e) => return Err(io(&path, "make its directory")(e)),
        }
        let mode = Mode::from_bits_truncate(Access::CAP_CLOSED.mode);
        match rustix::fs::mknodat(&self.dir, name, FileType::CharacterDevice, mode, device) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(e) => Err(io(&path, "create it")(e)),
        }
    }

    /// From the kernel's table, else from a node that the driver's own tools made.
    fn major_of_caps(&self) -> Result<u32, DeviceError> {
        let copied = || self.cap_nodes().iter().find_map(|n| self.look(n).ok()).map(|n| major(n.device));
        let path = || self.proc_root.join("devices");
        self.caps_major.or_else(copied).ok_or_else(|| DeviceError::NoMajor { path: path() })
    }
}

fn caps_major(proc_root: &Path) -> Option<u32> {
    let table = std::fs::read_to_string(proc_root.join("devices")).ok()?;
    table.lines().find_map(|l| {
        let (number, name) = l.trim().split_once(' ')?;
        (name.trim() == CAPS).then(|| number.parse().ok()).flatten()
    })
}

struct DeviceFile {
    fd: OwnedFd,
    access: Access,
    device: Dev,
}

fn io(path: &Path, what: &'static str) -> impl Fn(Errno) -> DeviceError {
    move |e| DeviceError::Io { path: path.to_owned(), what, source: e.into() }
}
