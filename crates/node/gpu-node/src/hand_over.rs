//! Leaves the node's GPUs to Slurm alone, as they were before Tessera came: for an uninstallation.

use error_chain::Chain;
use geometry::JobId;
use node_state::MigPolicy;

use node_driver::NvmlIndex;
use node_driver::deadline::Deadline;
use node_driver::nvml::Nvml;
use node_jobs::Fault;
use node_jobs::Settings;
use node_jobs::access::{Access, Devices, gpu_node};
use node_jobs::driver::Driver;
use node_jobs::instances;
use node_jobs::lifecycle::require_root;
use node_journal::Journal;
use node_journal::lock::Locks;

/// State of the node after it was handed over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandedOver {
    /// Jobs that have instances or shares here, or may have them because their journal is damaged: nothing was changed for their
    /// sake.
    pub busy: Vec<JobId>,
    /// GPUs that Slurm alone gives out now.
    pub gpus: Vec<NvmlIndex>,
    /// Things that could not be done.
    pub problems: Vec<String>,
}

/// Destroys idle instances, switches MIG mode off except where the site wants it on, and opens device nodes to
/// everybody, as the driver makes them. The site's own instances stay, and GPUs that the site leaves to Slurm are not touched. Jobs
/// that have whole GPUs keep them.
///
/// # Errors
///
/// Not root, the journal cannot be used, the driver does not answer at all, or another process works on the node until
/// after the deadline.
pub fn hand_over(settings: &Settings) -> Result<HandedOver, Fault> {
    require_root()?;
    let deadline = Deadline::after(settings.operation_timeout());
    let lock = Locks::for_node(&settings.node.state_dir, &deadline)?;
    let journal = Journal::open(&settings.node.state_dir)?;
    let (entries, damaged) = journal.jobs()?.into_parts();
    let mut done = HandedOver { busy: journal.lost_jobs(&entries, &damaged)?, ..HandedOver::default() };
    let parts = entries
        .iter()
        .filter(|e| e.holds() && (e.share.is_some() || e.tasks.is_some() || !e.instances.is_empty()));
    done.busy.extend(parts.map(node_journal::Entry::job));
    if !done.busy.is_empty() {
        return Ok(done);
    }
    let mut driver = Driver::new(settings);
    let all = (0..driver.nvml()?.count()?).map(NvmlIndex);
    for gpu in all.filter(|gpu| !settings.must_not_touch(*gpu)) {
        match leave(settings, &mut driver, gpu, &deadline) {
            Ok(()) => done.gpus.push(gpu),
            Err(fault) => done.problems.push(Chain(&fault).to_string()),
        }
    }
    drop(lock);
    driver.start_clients();
    Ok(done)
}

fn leave(
    settings: &Settings,
    driver: &mut Driver<'_>,
    gpu: NvmlIndex,
    deadline: &Deadline,
) -> Result<(), Fault> {
    let mode = driver.nvml()?.mig_mode(gpu)?;
    let devices = Devices::open(settings)?;
    if settings.is_fixed(gpu) {
        open_instances(&devices, driver.nvml()?, gpu)?;
    } else if mode.current || mode.pending {
        instances::destroy_all(driver.nvml()?, gpu, deadline)?;
        if settings.described(gpu).is_none_or(|described| described.policy != MigPolicy::On) {
            driver.set_mode(gpu, false, deadline)?;
        }
    }
    let name = gpu_node(driver.nvml()?.minor(gpu)?);
    // The driver makes it when the GPU is first used.
    if devices.get(&name)?.is_some() {
        devices.set(&name, Access::OPEN)?;
    }
    Ok(())
}

/// Opens the capability nodes of a GPU's instances to all users, as the driver makes them.
fn open_instances(devices: &Devices, nvml: &Nvml, gpu: NvmlIndex) -> Result<(), Fault> {
    let minor = nvml.minor(gpu)?;
    for instance in nvml.instances(gpu)? {
        for compute in &instance.compute {
            for name in devices.caps(minor, instance.id, compute.id)? {
                devices.set(&name, Access::CAP_OPEN)?;
            }
        }
    }
    Ok(())
}
