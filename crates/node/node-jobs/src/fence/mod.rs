//! The kernel's fence round a share: `dmem.max` of the job's control group, for the memory of its GPUs.
//!
//! The kernel has the `dmem` controller from 6.14 on, and a region for each GPU whose driver registers one. The prolog journals
//! the job's limits, makes the job's control group before Slurm does, and writes them; Slurm goes on with a group that it
//! finds [22.05 to 24.11 `common_cgroup_instantiate`: `EEXIST` is no error]. Slurm removes the group after a step that was alone, and
//! makes it again for the next. So each task writes the limits again while it is root, when everything of Slurm's is
//! in place. A machine without the controller, or without a region, is left as it is.

mod plan;
mod regions;
#[cfg(test)]
mod sim;
mod tree;

use std::io::{self, ErrorKind};
use std::path::Path;

use error_chain::Chain;

use crate::settings::Settings;
use node_driver::nvml::Nvml;
use node_journal::own_dirs::StateError;
use node_journal::{Entry, FenceRecord, Journal};
pub use plan::missing;
use plan::{counted_bytes, job_dir, limits, lines, lines_back, note_found};
use tree::{Mounted, Tree, enable, scope};

const CAPACITY: &str = "dmem.capacity";
/// File of a control group with its limits.
pub const MAX: &str = "dmem.max";

/// Limits that are not in force.
#[derive(Debug, thiserror::Error)]
enum NotFenced {
    #[error("{0}")]
    Tree(#[source] io::Error),
    #[error("the kernel accepts {0}, and keeps a higher limit")]
    Ignored(String),
}

/// Journals and writes the limits of a job that starts. Returns why they are not in force although the kernel has regions for the
/// job's GPUs; the job starts all the same.
pub(crate) fn begin(
    settings: &Settings,
    journal: &Journal,
    nvml: &Nvml,
    entry: &mut Entry,
) -> Result<Option<String>, StateError> {
    begin_in(&Mounted(&settings.node.cgroup_root), entry, &|entry| journal.note(entry), &|entry| {
        let id = |gpu: &node_journal::GpuRecord| nvml.info(gpu.index).map(|info| info.pci_bus_id);
        entry.gpus.iter().map(id).collect::<Result<_, _>>().map_err(|e| Chain(&e).to_string())
    })
}

fn begin_in(
    tree: &dyn Tree,
    entry: &mut Entry,
    note: &dyn Fn(&Entry) -> Result<(), StateError>,
    pci_bus_ids: &dyn Fn(&Entry) -> Result<Vec<String>, String>,
) -> Result<Option<String>, StateError> {
    let earlier = entry.fence.take();
    let Some(bytes) = counted_bytes(entry) else { return Ok(None) };
    let Ok(capacity) = tree.read(Path::new(CAPACITY)) else { return Ok(None) };
    let ids = match pci_bus_ids(entry) {
        Ok(ids) => ids,
        Err(why) => return Ok(Some(not_held(entry, &why))),
    };
    let Some(mut fence) = limits(&capacity, &ids, bytes) else { return Ok(None) };
    fence.dir = scope(tree).map(|scope| scope.join(&*entry.group_name()));
    let Some(dir) = fence.dir.clone() else {
        entry.fence = Some(fence);
        return Ok(None);
    };
    let made = enable(tree, &dir).and_then(|()| tree.make(&dir)).and_then(|()| tree.read(&dir.join(MAX)));
    let now = made.as_deref().unwrap_or_default();
    note_found(&mut fence, now, earlier.as_ref());
    let fence = entry.fence.insert(fence).clone();
    note(entry)?;
    node_journal::crash::point("before a fence is written");
    let written = made.map_err(NotFenced::Tree).and_then(|now| apply(tree, &fence, &dir, &now));
    node_journal::crash::point("after a fence is written");
    if let Some(fence) = &mut entry.fence {
        fence.in_force = written.is_ok();
    }
    Ok(written.err().map(|e| not_held(entry, &Chain(&e).to_string())))
}

fn not_held(entry: &Entry, why: &str) -> String {
    format!("the kernel does not hold job {} to its GPU memory: {why}", entry.job())
}

/// Lowers the limits to the job's and reads them back: the kernel says nothing of a limit that is below what is in use, and keeps
/// the old one.
fn apply(tree: &dyn Tree, fence: &FenceRecord, dir: &Path, now: &str) -> Result<(), NotFenced> {
    let file = dir.join(MAX);
    // One region for each write: newer kernels take no more.
    for line in lines(fence, now) {
        tree.write(&file, &line).map_err(NotFenced::Tree)?;
    }
    let now = tree.read(&file).map_err(NotFenced::Tree)?;
    match missing(fence, &now).first() {
        None => Ok(()),
        Some((limit, _)) => Err(NotFenced::Ignored(format!("{} for {}", limit.max_bytes, limit.region))),
    }
}

/// As root, in a task of the job, which is in its control group by now: writes the journalled limits again, where Slurm has made
/// the group anew or has set a higher limit. The entry then says whether they are in force. Returns why they are not, if
/// the task has a control group.
pub fn renew_fence(cgroup_root: &Path, proc_root: &Path, entry: &mut Entry) -> Option<String> {
    let own = std::fs::read_to_string(proc_root.join("self/cgroup")).unwrap_or_default();
    renew_in(&Mounted(cgroup_root), &own, entry)
}

fn renew_in(tree: &dyn Tree, own: &str, entry: &mut Entry) -> Option<String> {
    let dir = job_dir(own, &entry.group_name());
    let fence = entry.fence.as_mut()?;
    fence.in_force = false;
    // A process outside of the group is held by nothing in there.
    let dir = dir?;
    let written = enable(tree, &dir).and_then(|()| tree.read(&dir.join(MAX))).map_err(NotFenced::Tree);
    let written = written.and_then(|now| apply(tree, fence, &dir, &now));
    fence.in_force = written.is_ok();
    fence.dir = Some(dir);
    written.err().map(|e| not_held(entry, &Chain(&e).to_string()))
}

/// Puts back what was found, and removes a control group that is empty by now. The answer is what could not be done. Slurm removes
/// the group with the job's last step, and then there is nothing to do.
pub(crate) fn end(settings: &Settings, entry: &Entry) -> Option<String> {
    end_in(&Mounted(&settings.node.cgroup_root), entry)
}

fn end_in(tree: &dyn Tree, entry: &Entry) -> Option<String> {
    let dir = entry.fence.as_ref()?.dir.as_ref()?;
    let file = dir.join(MAX);
    let put_back = tree.read(&file).and_then(|now| {
        let back = entry.fence.iter().flat_map(|fence| lines_back(fence, &now));
        back.into_iter().try_for_each(|line| tree.write(&file, &line))
    });
    // It stays while a step is in it.
    let _ = tree.remove(dir);
    let failed = put_back.err().filter(|e| e.kind() != ErrorKind::NotFound)?;
    Some(format!("the limits of {} are not put back: {failed}", file.display()))
}

/// Returns how many regions the kernel has for the memory of each GPU; the GPUs have these PCI bus ids, as NVML writes them.
/// Without the `dmem` controller that is 0. With 1 for each GPU the kernel can hold every share there.
#[must_use]
pub fn memory_regions(cgroup_root: &Path, pci_bus_ids: &[&str]) -> Vec<usize> {
    let capacity = std::fs::read_to_string(cgroup_root.join(CAPACITY)).unwrap_or_default();
    let all = regions::regions(&capacity);
    pci_bus_ids.iter().map(|id| regions::of_gpu(&all, id).len()).collect()
}

#[cfg(test)]
mod tests;
