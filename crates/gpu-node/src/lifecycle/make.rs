//! Plans a job's resources from the driver's answers, and makes them.

use placement::decision::ShareOn;
use placement::{GpuIndex, Grant, MigPolicy, MigSpec, Placement};
use site_config::MemoryLimit;

use crate::access::{self, Devices, gpu_node};
use crate::deadline::Deadline;
use crate::driver::Driver;
use crate::fault::Fault;
use crate::journal::{Entry, GpuRecord, InstanceRecord, Journal, ShareRecord, daemon_key};
use crate::lock::Locks;
use crate::settings::Settings;
use crate::{instances, mps};

/// Fills in what is planned, from the driver's answers, before anything is changed.
pub(super) fn plan(
    settings: &Settings,
    driver: &mut Driver<'_>,
    grant: &Grant,
    entry: &mut Entry,
) -> Result<(), Fault> {
    // In the granted order, which is the order the job sees.
    let in_order: Vec<GpuIndex> = match grant {
        Grant::Whole(gpus) => gpus.clone(),
        Grant::Mig(_) | Grant::Mps { .. } => grant.gpus(),
    };
    let count = driver.nvml()?.count()?;
    let mut gpus = Vec::new();
    for gpu in in_order {
        if gpu.0 >= count {
            return Err(Fault::NoSuchGpu { gpu, count });
        }
        let nvml = driver.nvml()?;
        let (minor, uuid) = (nvml.minor(gpu)?, nvml.uuid(gpu)?);
        if let Some(meant) = settings.numbers.minor_of(gpu).filter(|meant| *meant != minor) {
            return Err(Fault::Miscounted { gpu, minor, meant });
        }
        gpus.push(GpuRecord {
            index: gpu.0,
            minor,
            uuid,
            number: settings.numbers.number_of(gpu).unwrap_or(gpu.0),
        });
    }
    entry.gpus = gpus;
    let specs: Vec<MigSpec> = match grant {
        Grant::Mig(specs) => specs.clone(),
        Grant::Mps { on: ShareOn::Instance(spec), .. } => vec![*spec],
        Grant::Mps { .. } | Grant::Whole(_) => Vec::new(),
    };
    for spec in specs {
        entry.instances.push(instances::plan(driver, spec)?);
    }
    if let Grant::Mps { on, mem_mib, threads } = grant {
        let key = daemon_key(*on);
        let paths = mps::Paths::of(settings, &key);
        entry.share = Some(ShareRecord {
            daemon: key,
            mem_mib: *mem_mib,
            threads: *threads,
            memory_enforced: settings.memory_limit == MemoryLimit::Mps,
            pipe_dir: paths.pipe,
            log_dir: paths.log,
        });
    }
    Ok(())
}

/// Makes what was planned. `others` are the entries of the jobs that stay.
pub(super) fn carry_out(
    settings: &Settings,
    journal: &Journal,
    driver: &mut Driver<'_>,
    entry: &mut Entry,
    others: &[Entry],
    deadline: &Deadline,
) -> Result<(), Fault> {
    let partitioned = !entry.instances.is_empty();
    let devices = Devices::open(settings)?;
    for record in entry.gpus.clone() {
        let gpu = GpuIndex(record.index);
        set_mode(settings, driver, gpu, partitioned, deadline)?;
        let kept: Vec<Placement> = others.iter().flat_map(|o| places(o, gpu)).collect();
        let mut wanted: Vec<&mut InstanceRecord> =
            entry.instances.iter_mut().filter(|i| i.gpu == gpu.0).collect();
        if partitioned {
            instances::make(driver, &devices, gpu, &mut wanted, &kept, deadline)?;
        }
    }
    give(settings, journal, &devices, entry)?;
    if let Some(share) = &entry.share {
        let live = entry.instances.first().and_then(|i| i.live.as_ref()).map(|l| &l.uuid);
        let device = live.or(entry.gpus.first().map(|g| &g.uuid)).cloned().unwrap_or_default();
        mps::ensure(settings, journal, &share.daemon, (entry.uid, entry.gid), &device, deadline)?;
    }
    Ok(())
}

fn places(entry: &Entry, gpu: GpuIndex) -> Vec<Placement> {
    entry.instances.iter().filter(|i| i.gpu == gpu.0).map(InstanceRecord::placement).collect()
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
    settings: &Settings,
    driver: &mut Driver<'_>,
    gpu: GpuIndex,
    on: bool,
    deadline: &Deadline,
) -> Result<(), Fault> {
    let mode = driver.nvml()?.mig_mode(gpu)?;
    if mode.current == on && mode.pending == on {
        return Ok(());
    }
    let allowed = match settings.gpu(gpu).map_or(MigPolicy::Dynamic, |g| g.policy) {
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
