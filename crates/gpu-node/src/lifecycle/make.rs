//! Plans a job's resources from the driver's answers, and makes them.

use geometry::Placement;
use node_state::MigPolicy;
use site_config::MemoryLimit;

use crate::access::{self, Devices, gpu_node};
use crate::deadline::Deadline;
use crate::driver::Driver;
use crate::fault::Fault;
use crate::gpu_ids::NvmlIndex;
use crate::journal::{Entry, GpuRecord, InstanceRecord, Journal, ShareRecord};
use crate::lock::Locks;
use crate::numbering::{GrantedGpu, NvmlGrant};
use crate::settings::{GpuSettings, Settings};
use crate::{instances, mps};

/// Fills in what is planned, from the driver's answers, before anything is changed.
pub(super) fn plan(
    settings: &Settings,
    driver: &mut Driver<'_>,
    grant: &NvmlGrant,
    entry: &mut Entry,
) -> Result<(), Fault> {
    let count = driver.nvml()?.count()?;
    entry.gpus = grant.gpus().iter().map(|gpu| look_up(driver, gpu, count)).collect::<Result<_, _>>()?;
    for spec in grant.instances() {
        entry.instances.push(instances::plan(driver, *spec, described(grant, spec.gpu))?);
    }
    if let (Some((mem_mib, threads)), Some(daemon)) = (grant.share(), grant.daemon_key()) {
        let paths = mps::Paths::of(settings, &daemon);
        entry.share = Some(ShareRecord {
            daemon,
            mem_mib,
            threads,
            memory_enforced: settings.memory_limit == MemoryLimit::Mps,
            pipe_dir: paths.pipe,
            log_dir: paths.log,
        });
    }
    Ok(())
}

fn look_up(driver: &mut Driver<'_>, gpu: &GrantedGpu, count: u16) -> Result<GpuRecord, Fault> {
    let GrantedGpu { index, number, .. } = *gpu;
    if index.0 >= count {
        return Err(Fault::NoSuchGpu { gpu: index, count });
    }
    let nvml = driver.nvml()?;
    let (minor, uuid) = (nvml.minor(index)?, nvml.uuid(index)?);
    match gpu.minor {
        Some(meant) if meant != minor => Err(Fault::Miscounted { gpu: index, minor, meant }),
        _ => Ok(GpuRecord { index, minor, uuid, number }),
    }
}

/// What the site says of a granted GPU.
fn described(grant: &NvmlGrant, gpu: NvmlIndex) -> Option<GpuSettings> {
    grant.gpus().iter().find(|g| g.index == gpu)?.described
}

/// Makes what was planned. `others` are the entries of the jobs that stay.
pub(super) fn carry_out(
    settings: &Settings,
    journal: &Journal,
    driver: &mut Driver<'_>,
    grant: &NvmlGrant,
    entry: &mut Entry,
    others: &[Entry],
    deadline: &Deadline,
) -> Result<(), Fault> {
    let partitioned = !entry.instances.is_empty();
    let devices = Devices::open(settings)?;
    for record in entry.gpus.clone() {
        let gpu = record.index;
        let described = described(grant, gpu);
        let policy = described.map_or(MigPolicy::Dynamic, |d| d.policy);
        set_mode(driver, gpu, policy, partitioned, deadline)?;
        let kept: Vec<Placement> = others.iter().flat_map(|o| places(o, gpu)).collect();
        let mut wanted: Vec<&mut InstanceRecord> =
            entry.instances.iter_mut().filter(|i| i.gpu == gpu).collect();
        if partitioned {
            instances::make(driver, &devices, (gpu, described), &mut wanted, &kept, deadline)?;
        }
    }
    give(settings, journal, &devices, entry)?;
    if let Some(share) = &entry.share {
        let live = entry.instances.first().and_then(|i| i.live.as_ref()).map(|l| &l.uuid);
        let device = live.or(entry.gpus.first().map(|g| &g.uuid)).cloned().unwrap_or_default();
        mps::ensure(settings, journal, &share.daemon, entry, &device, deadline)?;
    }
    Ok(())
}

fn places(entry: &Entry, gpu: NvmlIndex) -> Vec<Placement> {
    entry.instances.iter().filter(|i| i.gpu == gpu).map(InstanceRecord::placement).collect()
}

/// Makes the device nodes the job's.
fn give(settings: &Settings, journal: &Journal, devices: &Devices, entry: &mut Entry) -> Result<(), Fault> {
    let caps = access::caps(settings, devices, entry)?;
    entry.device_nodes = caps.iter().map(|c| c.0.clone()).collect();
    if entry.instances.is_empty() {
        entry.device_nodes.extend(entry.gpus.iter().map(|g| gpu_node(g.minor)));
    }
    {
        let _nodes = Locks::for_nodes(&settings.state_dir, &access::lock_deadline())?;
        journal.note(entry)?;
        let failed = access::settle(settings, journal, devices, entry, true)?;
        if let Some(e) = failed.into_iter().next() {
            return Err(e.into());
        }
    }
    for (name, access) in &caps {
        devices.set(name, *access)?;
    }
    Ok(())
}

/// Brings the GPU into the mode that the grant needs. Nobody else holds any of it when the mode differs.
fn set_mode(
    driver: &mut Driver<'_>,
    gpu: NvmlIndex,
    policy: MigPolicy,
    on: bool,
    deadline: &Deadline,
) -> Result<(), Fault> {
    let mode = driver.nvml()?.mig_mode(gpu)?;
    if mode.current == on && mode.pending == on {
        return Ok(());
    }
    let allowed = match policy {
        MigPolicy::Dynamic => true,
        MigPolicy::On => on,
        MigPolicy::Off => !on,
    };
    if !allowed {
        return Err(Fault::Policy { gpu, on });
    }
    if mode.current && !on {
        instances::destroy_all(driver.nvml()?, gpu, deadline)?;
    }
    driver.set_mode(gpu, on, deadline)
}
