//! Maps Slurm's GPU numbers to the GPUs of this node.
//!
//! Slurm counts the device files in gres.conf, NVML counts GPUs by PCI bus id. What both know is the minor number N of
//! `/dev/nvidiaN`. A file may be missing from the list, or stand in another place than NVML's: then the same number
//! means two GPUs, and only this table tells which one Slurm has given to a job.
//!
//! The driver's side is read from `/proc/driver/nvidia/gpus`, because a number is needed before locks are taken, and a
//! process that waits for a lock must not keep GPUs open: another one may be about to reset them.

use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use error_chain::Chain;
use geometry::GpuIndex;
use gpu_rules::Purpose;
use protocol::{Grant, TaskDevices, TaskGrant};
use slurm_files::GpuOrder;

use super::grant::{GrantedGpu, NvmlGrant, in_nvml_numbers};
use crate::gpu_settings::GpuSettings;
use node_driver::gpu_ids::GPU_MAJOR;
use node_driver::nvml::{Nvml, NvmlError};
use node_driver::{GpuMinor, NvmlIndex};

/// Why a number means no GPU that we know.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum NumberingError {
    /// The file cannot be looked at.
    #[error("gres.conf names {file}, which cannot be looked at")]
    File {
        file: String,
        #[source]
        source: std::io::Error,
    },
    /// Something else.
    #[error("gres.conf names {file}, which is no GPU's device file")]
    NoGpuFile { file: String },
    /// The driver shows no such GPU.
    #[error("gres.conf names {file}, but the driver shows no GPU with minor number {minor}")]
    NoGpu { file: String, minor: GpuMinor },
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
    Unlisted { number: GpuIndex, listed: usize },
    /// The driver's GPUs cannot be listed.
    #[error(transparent)]
    Nvml(#[from] NvmlError),
}

/// Why it cannot be told which GPUs Slurm's numbers mean, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Unnumbered {
    why: String,
    /// gres.conf names a GPU that the node does not have now: no job with GPUs could be started.
    pub gpu_is_missing: bool,
}

impl NumberingError {
    /// Tells whether gres.conf names a GPU that the node does not have now.
    fn gpu_is_missing(&self) -> bool {
        match self {
            Self::NoGpu { .. } => true,
            Self::File { source, .. } => source.kind() == ErrorKind::NotFound,
            _ => false,
        }
    }
}

/// A node as the site describes it, and where its driver is.
pub trait DescribedNode {
    /// The GPUs that the site describes: all in NVML's order, or those that Slurm counts in its order.
    fn gpus(&self) -> &[GpuSettings];

    /// Directory that contains `driver/nvidia`: `/proc`.
    fn proc_root(&self) -> &Path;

    /// NVML's file name or path, as for `dlopen`.
    fn nvml_library(&self) -> &Path;
}

/// Slurm's numbers of this node's GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbering {
    /// By Slurm's number; `None`: Slurm counts as NVML does. In it, `None` is a GPU that the site leaves to Slurm and that the
    /// driver does not show: there is nothing to do with it.
    listed: Option<Vec<Option<Listed>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Listed {
    gpu: NvmlIndex,
    minor: GpuMinor,
}

impl Numbering {
    /// Finds out what the numbers of `order` mean here.
    ///
    /// # Errors
    ///
    /// A file that gres.conf names is no GPU of this node, though the site does not leave that to Slurm, or the order cannot
    /// be told.
    pub fn of(node: &impl DescribedNode, order: &GpuOrder) -> Result<Self, NumberingError> {
        let (files, unsure) = match order {
            GpuOrder::Drivers => return Ok(Self::default()),
            GpuOrder::Minors => return Ok(Self::by_minor(&minors(node)?)),
            GpuOrder::DriversOrMinors => {
                let why = "AutoDetect=full finds them with NVML or without: write AutoDetect=nvml or nvidia";
                return if minors(node)?.is_sorted() {
                    Ok(Self::default())
                } else {
                    Err(NumberingError::Unsure { why })
                };
            }
            GpuOrder::Files(files) => (files, None),
            GpuOrder::IfDrivers(files, why) => (files, Some(*why)),
        };
        let minors = minors(node)?;
        let is_left =
            |place: usize| files.len() == node.gpus().len() && node.gpus()[place].purpose == Purpose::Slurm;
        let entry = |(place, file): (usize, &String)| match listed(file, &minors) {
            Err(_) if is_left(place) => Ok(None),
            found => found.map(Some),
        };
        let listed = files.iter().enumerate().map(entry).collect::<Result<Vec<_>, _>>()?;
        let is_nvmls = |(i, l): (u16, &Option<Listed>)| l.is_some_and(|l| l.gpu == NvmlIndex(i));
        match unsure {
            Some(why) if !(0..).zip(&listed).all(is_nvmls) => Err(NumberingError::Unsure { why }),
            _ => Ok(Self { listed: Some(listed) }),
        }
    }

    /// Slurm's numbers count the GPUs by their minor numbers, of which `minors` has one for each of NVML's indices.
    fn by_minor(minors: &[GpuMinor]) -> Self {
        if minors.is_sorted() {
            return Self::default();
        }
        let gpus = (0_u16..).zip(minors).map(|(gpu, minor)| Listed { gpu: NvmlIndex(gpu), minor: *minor });
        let mut listed: Vec<Listed> = gpus.collect();
        listed.sort_by_key(|gpu| gpu.minor);
        Self { listed: Some(listed.into_iter().map(Some).collect()) }
    }

    /// Finds out what the numbers mean on the node of this name, from the gres.conf at `path`.
    ///
    /// # Errors
    ///
    /// Why that cannot be told, and what to do.
    pub fn read(described: &impl DescribedNode, path: &Path, node: &str) -> Result<Self, Unnumbered> {
        let order = std::fs::read_to_string(path)
            .map_err(|e| e.to_string())
            .and_then(|text| slurm_files::gpu_order(&text, node))
            .map_err(|why| Unnumbered {
                why: format!(
                    "which GPUs Slurm means is not known: {}: {why}; list {node}'s GPUs there with File=, one line per type",
                    path.display()
                ),
                gpu_is_missing: false,
            })?;
        Self::of(described, &order).map_err(|e| Unnumbered {
            why: format!("{}; see `tessera doctor` on {node}", Chain(&e)),
            gpu_is_missing: e.gpu_is_missing(),
        })
    }

    /// A grant in NVML's numbers, from slurmctld's, without GPUs that are left to Slurm and that the driver does not show.
    ///
    /// # Errors
    ///
    /// gres.conf does not list one of its GPUs.
    pub fn translate(&self, node: &impl DescribedNode, grant: &Grant) -> Result<NvmlGrant, NumberingError> {
        let grant = &match grant {
            Grant::Whole(gpus) => {
                Grant::Whole(gpus.iter().copied().filter(|g| !self.is_unseen(*g)).collect())
            }
            other => other.clone(),
        };
        let mut by_nvml = in_nvml_numbers(grant, |gpu| self.nvml_index(gpu))?;
        if let Grant::Tasks(TaskGrant { on: TaskDevices::Pool(pool), .. }) = &mut by_nvml {
            // As the GPUs below: the journal finds a device's GPU by its place. The sort keeps the order on one GPU.
            pool.sort_by_key(|seat| seat.on.gpu());
        }
        // In the granted order, which is the order the job sees.
        let own = match grant {
            Grant::Whole(gpus) => Some(gpus),
            Grant::Tasks(TaskGrant { on: TaskDevices::Own { gpus, .. }, .. }) => Some(gpus),
            Grant::Mig(_) | Grant::Compute { .. } | Grant::Mps { .. } | Grant::Tasks(_) => None,
        };
        let in_order = own.cloned().unwrap_or_else(|| grant.gpus());
        let mut gpus = in_order.iter().map(|g| self.granted(node, *g)).collect::<Result<Vec<_>, _>>()?;
        if own.is_none() {
            gpus.sort_by_key(|g| g.index);
        }
        Ok(NvmlGrant { grant: by_nvml, gpus, shards: false })
    }

    fn granted(&self, node: &impl DescribedNode, gpu: GpuIndex) -> Result<GrantedGpu, NumberingError> {
        let index = self.nvml_index(gpu)?;
        let listed = self.listed.as_ref().and_then(|l| l.get(usize::from(gpu.0)));
        let minor = listed.copied().flatten().map(|l| l.minor);
        Ok(GrantedGpu { index, number: gpu, minor, described: self.description(node, index) })
    }

    /// NVML's index of the GPU that slurmctld means.
    fn nvml_index(&self, gpu: GpuIndex) -> Result<NvmlIndex, NumberingError> {
        let Some(listed) = &self.listed else { return Ok(NvmlIndex(gpu.0)) };
        let found = listed.get(usize::from(gpu.0)).copied().flatten();
        found.map(|l| l.gpu).ok_or(NumberingError::Unlisted { number: gpu, listed: listed.len() })
    }

    /// Finds the site's description of a GPU: a site that describes as many GPUs as Slurm counts describes those, in
    /// Slurm's order; any other describes all of the node, in NVML's.
    #[must_use]
    pub fn description(&self, node: &impl DescribedNode, gpu: NvmlIndex) -> Option<GpuSettings> {
        match &self.listed {
            Some(listed) if listed.len() == node.gpus().len() => {
                node.gpus().get(listed.iter().position(|l| l.is_some_and(|l| l.gpu == gpu))?).cloned()
            }
            _ => node.gpus().get(usize::from(gpu.0)).cloned(),
        }
    }

    /// Tells whether neither Slurm nor the site counts a GPU, which the node has in addition to those that both count.
    pub(crate) fn is_uncounted(&self, node: &impl DescribedNode, gpu: NvmlIndex) -> bool {
        let listed = self.listed.as_ref().filter(|l| l.len() == node.gpus().len());
        listed.is_some_and(|l| l.iter().flatten().all(|l| l.gpu != gpu))
    }

    /// Tells whether a GPU of Slurm's is left to it and the driver does not show it.
    #[must_use]
    pub fn is_unseen(&self, gpu: GpuIndex) -> bool {
        let listed = self.listed.as_ref().and_then(|l| l.get(usize::from(gpu.0)));
        listed.is_some_and(Option::is_none)
    }

    /// Counts the described GPUs that may be absent when the driver shows `count`: they are left to Slurm. Where gres.conf
    /// lists no files (AutoDetect), only the last ones: slurmd then counts the GPUs that it finds, so behind one that is
    /// missing every number means another GPU than the site describes.
    #[must_use]
    pub fn may_be_missing(&self, node: &impl DescribedNode, count: usize) -> usize {
        match &self.listed {
            Some(listed) if listed.len() == node.gpus().len() => {
                listed.iter().filter(|l| l.is_none()).count()
            }
            _ => node.gpus().iter().skip(count).filter(|gpu| gpu.purpose == Purpose::Slurm).count(),
        }
    }

    /// NVML's indices in Slurm's order; `None`: Slurm counts as NVML does. In it, `None` is a GPU that is left to Slurm and that the
    /// driver does not show.
    #[must_use]
    pub fn listed(&self) -> Option<Vec<Option<NvmlIndex>>> {
        Some(self.listed.as_ref()?.iter().map(|listed| listed.map(|l| l.gpu)).collect())
    }
}

fn listed(file: &str, minors: &[GpuMinor]) -> Result<Listed, NumberingError> {
    let stat =
        std::fs::metadata(file).map_err(|source| NumberingError::File { file: file.to_owned(), source })?;
    let (major, minor) = (rustix::fs::major(stat.rdev()), GpuMinor(rustix::fs::minor(stat.rdev())));
    if !stat.file_type().is_char_device() || major != GPU_MAJOR {
        return Err(NumberingError::NoGpuFile { file: file.to_owned() });
    }
    let at = minors.iter().position(|m| *m == minor).and_then(|at| u16::try_from(at).ok());
    let gpu = NvmlIndex(at.ok_or_else(|| NumberingError::NoGpu { file: file.to_owned(), minor })?);
    Ok(Listed { gpu, minor })
}

/// The GPUs' minor numbers in NVML's order.
fn minors(node: &impl DescribedNode) -> Result<Vec<GpuMinor>, NvmlError> {
    if let Some(known) = minors_by_bus(&node.proc_root().join("driver/nvidia/gpus")) {
        return Ok(known);
    }
    let nvml = Nvml::load(node.nvml_library())?;
    (0..nvml.count()?).map(|gpu| nvml.minor(NvmlIndex(gpu))).collect()
}

/// From the kernel driver's own list, a directory per bus id; `None` where it is not there or not as expected.
#[must_use]
pub fn minors_by_bus(dir: &Path) -> Option<Vec<GpuMinor>> {
    let mut gpus: Vec<PathBuf> =
        std::fs::read_dir(dir).ok()?.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>().ok()?;
    gpus.sort_unstable();
    let minor = |gpu: &PathBuf| {
        let text = std::fs::read_to_string(gpu.join("information")).ok()?;
        let field = |name: &str| text.lines().find_map(|l| l.strip_prefix(name)).map(str::trim);
        if field("GPU Excluded:") == Some("Yes") {
            return Some(None);
        }
        field("Device Minor:")?.parse().ok().map(|n| Some(GpuMinor(n)))
    };
    let minors: Vec<Option<GpuMinor>> = gpus.iter().map(minor).collect::<Option<_>>()?;
    Some(minors.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_links_slurm_counts_by_device_files() {
        let of = |minors: [u32; 3]| {
            let numbering = Numbering::by_minor(&minors.map(GpuMinor));
            [0, 1, 2].map(|number| numbering.nvml_index(GpuIndex(number)).unwrap().0)
        };
        assert_eq!(of([0, 1, 2]), [0, 1, 2]);
        assert_eq!(of([2, 0, 10]), [1, 0, 2]);
    }

    #[test]
    fn nvml_counts_by_bus_id() {
        let dir = tempfile::tempdir().unwrap();
        let gpu = |bus: &str, text: &str| {
            std::fs::create_dir(dir.path().join(bus)).unwrap();
            std::fs::write(dir.path().join(bus).join("information"), text).unwrap();
        };
        gpu("0000:47:00.0", "Model: \t\t x\nDevice Minor: \t 0\nGPU Excluded:\t No\n");
        gpu("0000:07:00.0", "Device Minor: \t 1\n");
        gpu("0000:0f:00.0", "Device Minor: \t 2\nGPU Excluded:\t Yes\n");
        assert_eq!(minors_by_bus(dir.path()), Some(vec![GpuMinor(1), GpuMinor(0)]));
        gpu("0000:90:00.0", "Device Minor: \t x\n");
        assert_eq!(minors_by_bus(dir.path()), None);
        assert_eq!(minors_by_bus(&dir.path().join("none")), None);
    }
}
