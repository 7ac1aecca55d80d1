//! Which GPU a number of Slurm's means on this node.
//!
//! Slurm counts the device files in gres.conf, NVML counts GPUs by PCI bus id. What both know is the minor number N of
//! `/dev/nvidiaN`. A file may be missing from the list, or stand in another place than NVML's: then the same number
//! means two GPUs, and only this table tells which one Slurm has given to a job.
//!
//! The driver's side is read from `/proc/driver/nvidia/gpus`, because a number is needed before locks are taken, and a
//! process that waits for a lock must not keep GPUs open: another one may be about to reset them.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use placement::decision::ShareOn;
use placement::{GpuIndex, Grant, MigSpec};
use site_config::GpuOrder;

use crate::access::GPU_MAJOR;
use crate::nvml::{Nvml, NvmlError};
use crate::settings::Settings;

/// Why a number means no GPU that we know.
#[derive(Debug, thiserror::Error)]
pub enum NumberError {
    /// The file cannot be looked at.
    #[error("gres.conf names {file}, which cannot be looked at")]
    File {
        /// As gres.conf has it.
        file: String,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// It is something else.
    #[error("gres.conf names {file}, which is no GPU's device file")]
    NoGpuFile {
        /// As gres.conf has it.
        file: String,
    },
    /// The driver shows no such GPU.
    #[error("gres.conf names {file}, but the driver shows no GPU with minor number {minor}")]
    NoGpu {
        /// As gres.conf has it.
        file: String,
        /// Of the file.
        minor: u32,
    },
    /// The order is not the driver's, and not certain either.
    #[error(
        "which GPUs Slurm's numbers mean is not known: gres.conf does not list them in the driver's order, and {why}"
    )]
    Unsure {
        /// Why the order of the file does not settle it.
        why: &'static str,
    },
    /// gres.conf lists fewer.
    #[error("Slurm means its GPU {number}, but gres.conf lists {listed} for this node")]
    Unlisted {
        /// Slurm's.
        number: GpuIndex,
        /// How many.
        listed: usize,
    },
    /// The driver's GPUs cannot be listed.
    #[error(transparent)]
    Nvml(#[from] NvmlError),
}

/// Slurm's numbers of this node's GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// By Slurm's number; `None`: Slurm counts as NVML does.
    listed: Option<Vec<Listed>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Listed {
    gpu: GpuIndex,
    minor: u32,
}

impl Numbers {
    /// Finds out what the numbers of `order` mean here.
    ///
    /// # Errors
    ///
    /// A file that gres.conf names is no GPU of this node, or the order cannot be told.
    pub fn of(settings: &Settings, order: &GpuOrder) -> Result<Self, NumberError> {
        let (files, unsure) = match order {
            GpuOrder::Drivers => return Ok(Self::default()),
            GpuOrder::Files(files) => (files, None),
            GpuOrder::IfDrivers(files, why) => (files, Some(*why)),
        };
        let minors = minors(settings)?;
        let listed = files.iter().map(|file| listed(file, &minors)).collect::<Result<Vec<_>, _>>()?;
        match unsure {
            Some(why) if !(0..).zip(&listed).all(|(i, l)| l.gpu == GpuIndex(i)) => {
                Err(NumberError::Unsure { why })
            }
            _ => Ok(Self { listed: Some(listed) }),
        }
    }

    /// NVML's index of the GPU that Slurm calls `number`.
    ///
    /// # Errors
    ///
    /// gres.conf lists no such GPU.
    pub fn gpu(&self, number: GpuIndex) -> Result<GpuIndex, NumberError> {
        let Some(listed) = &self.listed else { return Ok(number) };
        let found = listed.get(usize::from(number.0));
        found.map(|l| l.gpu).ok_or(NumberError::Unlisted { number, listed: listed.len() })
    }

    /// A grant in NVML's indices, from one in Slurm's numbers.
    ///
    /// # Errors
    ///
    /// gres.conf does not list one of its GPUs.
    pub fn grant(&self, grant: &Grant) -> Result<Grant, NumberError> {
        let spec = |s: &MigSpec| Ok(MigSpec { gpu: self.gpu(s.gpu)?, ..*s });
        Ok(match grant {
            Grant::Whole(gpus) => Grant::Whole(gpus.iter().map(|g| self.gpu(*g)).collect::<Result<_, _>>()?),
            Grant::Mig(specs) => Grant::Mig(specs.iter().map(spec).collect::<Result<_, NumberError>>()?),
            Grant::Mps { on, mem_mib, threads } => {
                let on = match on {
                    ShareOn::Gpu(gpu) => ShareOn::Gpu(self.gpu(*gpu)?),
                    ShareOn::Instance(s) => ShareOn::Instance(spec(s)?),
                };
                Grant::Mps { on, mem_mib: *mem_mib, threads: *threads }
            }
        })
    }

    /// NVML's indices in Slurm's order; `None`: Slurm counts as NVML does.
    #[must_use]
    pub fn listed(&self) -> Option<Vec<GpuIndex>> {
        Some(self.listed.as_ref()?.iter().map(|l| l.gpu).collect())
    }

    /// What Slurm calls a GPU, where that is not NVML's index.
    pub(crate) fn number_of(&self, gpu: GpuIndex) -> Option<u16> {
        u16::try_from(self.place_of(gpu)?).ok().filter(|number| *number != gpu.0)
    }

    /// The GPU's place in gres.conf; `None`: it has none there, or gres.conf has no places.
    pub(crate) fn place_of(&self, gpu: GpuIndex) -> Option<usize> {
        self.listed.as_ref()?.iter().position(|l| l.gpu == gpu)
    }

    /// The minor number that the GPU must have; `None`: any.
    pub(crate) fn minor_of(&self, gpu: GpuIndex) -> Option<u32> {
        self.listed.as_ref()?.iter().find(|l| l.gpu == gpu).map(|l| l.minor)
    }

    /// How many GPUs Slurm counts; `None`: as many as there are.
    pub(crate) fn count(&self) -> Option<usize> {
        self.listed.as_ref().map(Vec::len)
    }
}

fn listed(file: &str, minors: &[u32]) -> Result<Listed, NumberError> {
    let stat =
        std::fs::metadata(file).map_err(|source| NumberError::File { file: file.to_owned(), source })?;
    let (major, minor) = (rustix::fs::major(stat.rdev()), rustix::fs::minor(stat.rdev()));
    if !stat.file_type().is_char_device() || major != GPU_MAJOR {
        return Err(NumberError::NoGpuFile { file: file.to_owned() });
    }
    let at = minors.iter().position(|m| *m == minor).and_then(|at| u16::try_from(at).ok());
    let gpu = GpuIndex(at.ok_or_else(|| NumberError::NoGpu { file: file.to_owned(), minor })?);
    Ok(Listed { gpu, minor })
}

/// The GPUs' minor numbers in NVML's order.
fn minors(settings: &Settings) -> Result<Vec<u32>, NvmlError> {
    if let Some(known) = minors_by_bus(&settings.proc_root.join("driver/nvidia/gpus")) {
        return Ok(known);
    }
    let nvml = Nvml::load(&settings.nvml_library)?;
    (0..nvml.count()?).map(|gpu| nvml.minor(GpuIndex(gpu))).collect()
}

/// From the kernel driver's own list, a directory per bus id; `None` where it is not there or not as expected.
pub(crate) fn minors_by_bus(dir: &Path) -> Option<Vec<u32>> {
    let mut gpus: Vec<PathBuf> =
        std::fs::read_dir(dir).ok()?.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>().ok()?;
    gpus.sort_unstable();
    let minor = |gpu: &PathBuf| {
        let text = std::fs::read_to_string(gpu.join("information")).ok()?;
        let field = |name: &str| text.lines().find_map(|l| l.strip_prefix(name)).map(str::trim);
        if field("GPU Excluded:") == Some("Yes") {
            return Some(None);
        }
        field("Device Minor:")?.parse().ok().map(Some)
    };
    let minors: Vec<Option<u32>> = gpus.iter().map(minor).collect::<Option<_>>()?;
    Some(minors.into_iter().flatten().collect())
}
