//! Plans a job's resources from the driver's answers, and makes them.

use geometry::Placement;
use gpu_rules::{MigPolicy, Purpose};
use protocol::{ShareOn, TaskDevices, TaskGrant};
use site_config::MemoryLimit;

use crate::access::{self, Devices, gpu_node};
use crate::broker::BrokerError;
use crate::driver::Driver;
use crate::fault::Fault;
use crate::gpu_settings::GpuSettings;
use crate::hand_over::HandOver;
use crate::numbering::{GrantedGpu, NvmlGrant};
use crate::settings::Settings;
use crate::stale_processes::Leftover;
use crate::{compute_instances, fence, hardware, instances, mps, power, preloaded};
use node_driver::NvmlIndex;
use node_driver::deadline::Deadline;
use node_journal::lock::Locks;
use node_journal::{Entry, GpuRecord, InstanceRecord, Journal, ShareRecord, TaskDevice, TasksRecord};

/// Fills in what is planned, from the driver's answers, before anything is changed.
pub(super) fn plan(
    settings: &Settings,
    driver: &mut Driver<'_>,
    grant: &NvmlGrant,
    entry: &mut Entry,
) -> Result<(), Fault> {
    let count = driver.nvml()?.count()?;
    hardware::are_enough(settings, &settings.numbering, count.into())?;
    entry.gpus = grant.gpus().iter().map(|gpu| look_up(driver, gpu, count)).collect::<Result<_, _>>()?;
    grant.gpus().iter().try_for_each(|gpu| keeps_its_purpose(gpu, grant))?;
    for spec in grant.instances() {
        let described = described(grant, spec.gpu);
        entry.instances.push(instances::plan(driver, spec, grant.compute(), described)?);
    }
    if let (Some((mem_mib, threads)), Some(daemon)) = (grant.share(), grant.daemon_keys().pop()) {
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
    if let Some(tasks) = grant.tasks() {
        entry.tasks = Some(plan_tasks(settings, grant, tasks, entry)?);
    }
    Ok(())
}

/// Adds a job's seats to its journal entry.
fn plan_tasks(
    settings: &Settings,
    grant: &NvmlGrant,
    tasks: &TaskGrant<NvmlIndex>,
    entry: &Entry,
) -> Result<TasksRecord, Fault> {
    let pool = settings.tasks.as_ref().ok_or(BrokerError::NoPool)?.pool;
    if !tasks.probes {
        preloaded::check(&settings.node.task_library).map_err(BrokerError::from)?;
    }
    let own = matches!(tasks.on, TaskDevices::Own { .. });
    let seats: Vec<u32> = match &tasks.on {
        TaskDevices::Pool(places) => places.iter().map(|place| place.seats).collect(),
        TaskDevices::Own { gpus, .. } => vec![0; gpus.len()],
    };
    let mut devices = Vec::new();
    for ((on, daemon), seats) in tasks.devices().zip(grant.daemon_keys()).zip(seats) {
        let model = described(grant, on.gpu()).map(|d| d.model).ok_or(BrokerError::NotDescribed(on.gpu()))?;
        let (profile, memory_mib) = match on {
            ShareOn::Gpu(_) => (None, model.total_memory_mib),
            ShareOn::Instance(spec) => {
                let planned = entry.instances.iter().find(|i| i.gpu == spec.gpu && i.start == spec.start.0);
                (model.profile_by_id(spec.profile), planned.map_or(0, |i| i.memory_mib))
            }
        };
        let mps::Paths { pipe, log } = mps::Paths::of(settings, &daemon);
        devices.push(TaskDevice {
            daemon,
            seats,
            memory_mib,
            sms: profile.map_or(model.full_gpu_sm, |p| p.sm),
            workers: pool.seats(model, profile),
            pipe_dir: pipe,
            log_dir: log,
        });
    }
    Ok(TasksRecord {
        seats: tasks.seats(),
        mem_mib: tasks.mem_mib,
        probes: tasks.probes,
        own,
        devices,
        socket: crate::broker::socket(settings, entry.job()),
        library: settings.node.task_library.clone(),
    })
}

fn look_up(driver: &mut Driver<'_>, gpu: &GrantedGpu, count: u16) -> Result<GpuRecord, Fault> {
    let GrantedGpu { index, number, .. } = *gpu;
    if index.0 >= count {
        return Err(Fault::NoSuchGpu { gpu: index, count });
    }
    let info = driver.nvml()?.info(index)?;
    hardware::compare(&info, gpu.described.clone())?;
    let (minor, uuid) = (info.minor, info.uuid);
    match gpu.minor {
        Some(meant) if meant != minor => Err(Fault::Miscounted { gpu: index, minor, meant }),
        _ => Ok(GpuRecord { index, minor, uuid, number }),
    }
}

/// Checks that the site keeps the GPU for the kind of thing that was granted of it. The engine knows that; a placement may
/// be older than tessera.toml, and a job that slurmctld gave every GPU of the node has no placement.
fn keeps_its_purpose(gpu: &GrantedGpu, grant: &NvmlGrant) -> Result<(), Fault> {
    if grant.is_of_shards() {
        // Slurm alone has chosen it.
        return Ok(());
    }
    let purpose = gpu.described.as_ref().map_or(Purpose::Any, |d| d.purpose);
    let (may, what) = match grant.instances().is_empty() {
        _ if grant.has_whole_gpus() => {
            (!matches!(purpose, Purpose::Static | Purpose::Shares), "a job that has it whole")
        }
        false => (matches!(purpose, Purpose::Any | Purpose::Static), "instances"),
        true => (matches!(purpose, Purpose::Any | Purpose::Shares), "shares"),
    };
    if may { Ok(()) } else { Err(Fault::Kept { gpu: gpu.index, purpose, what }) }
}

/// Tells whether a GPU that has only shards given out by Slurm may be emptied and leave MIG mode for the first of their jobs.
fn may_clear(purpose: Option<Purpose>, policy: MigPolicy, others: &[Entry], gpu: &GpuRecord) -> bool {
    purpose != Some(Purpose::Static) && policy != MigPolicy::On && !others.iter().any(|o| o.uses(&gpu.uuid))
}

/// Finds the site's description of a granted GPU.
fn described(grant: &NvmlGrant, gpu: NvmlIndex) -> Option<GpuSettings> {
    grant.gpus().iter().find(|g| g.index == gpu)?.described.clone()
}

/// Things that exist before the job's are made.
pub(super) struct Before<'a> {
    /// The entries of the jobs that stay.
    pub(super) others: &'a [Entry],
    /// The job has had all of it already.
    pub(super) again: bool,
}

/// Processes and problems met while making it.
pub(super) struct Made {
    /// Processes that were still on it.
    pub(super) leftovers: Vec<Leftover>,
    /// Power limits that somebody else has changed, running jobs' processes that have a device node open, and why the kernel
    /// does not hold the job to its memory.
    pub(super) notes: Vec<String>,
}

/// Makes what was planned.
pub(super) fn carry_out(
    settings: &Settings,
    journal: &Journal,
    driver: &mut Driver<'_>,
    grant: &NvmlGrant,
    entry: &mut Entry,
    Before { others, again }: Before<'_>,
    deadline: &Deadline,
) -> Result<Made, Fault> {
    let devices = Devices::open(settings)?;
    let mut hand_over = HandOver::new(settings, &devices, deadline, !again, others);
    for record in entry.gpus.clone() {
        make_on(driver, &devices, grant, (entry, &record), others, &mut hand_over, deadline)?;
    }
    let power = power::begin(settings, journal, driver.nvml()?, entry, deadline)?;
    entry.cap_problem = (!power.problems.is_empty()).then(|| power.problems.join("; "));
    if let Some(why) = entry.cap_problem.take_if(|_| settings.in_power_budget) {
        return Err(Fault::NotCapped(why));
    }
    give(settings, journal, &devices, entry)?;
    let mut notes = power.notes;
    notes.extend(fence::begin(settings, journal, driver.nvml()?, entry)?);
    notes.extend(begin_daemons(settings, journal, entry, deadline)?);
    notes.extend(of_neighbours(&hand_over));
    Ok(Made { leftovers: hand_over.met, notes })
}

/// Makes what the job has on one GPU.
fn make_on(
    driver: &mut Driver<'_>,
    devices: &Devices,
    grant: &NvmlGrant,
    (entry, record): (&mut Entry, &GpuRecord),
    others: &[Entry],
    hand_over: &mut HandOver<'_>,
    deadline: &Deadline,
) -> Result<(), Fault> {
    let (gpu, partitioned) = (record.index, !entry.instances.is_empty());
    let described = described(grant, gpu);
    let policy = described.as_ref().map_or(MigPolicy::Dynamic, |d| d.policy);
    let kept: Vec<Placement> = others.iter().flat_map(|o| places(o, &record.uuid)).collect();
    match described.as_ref().map(|d| d.purpose) {
        // As Slurm gives it.
        Some(Purpose::Slurm) => return Ok(()),
        // As Slurm gives it, and as the jobs beside this one found it.
        purpose if grant.is_of_shards() && !may_clear(purpose, policy, others, record) => return Ok(()),
        Some(Purpose::Static) => {
            let wanted = entry.instances.iter_mut().filter(|i| i.gpu == gpu);
            return instances::take_static(driver, (gpu, described), wanted, &kept, hand_over);
        }
        _ => {}
    }
    driver.has_its_number(record)?;
    let nvml = driver.nvml()?;
    // Otherwise the rest of the GPU is others': its instances are emptied one by one.
    let alone = !others.iter().any(|o| o.uses(&record.uuid));
    let whole = !partitioned || !nvml.mig_mode(gpu)?.current;
    if alone && whole {
        hand_over.gpu(nvml, gpu, record.minor)?;
    }
    set_mode(driver, gpu, policy, partitioned, deadline)?;
    let mut wanted: Vec<&mut InstanceRecord> = entry.instances.iter_mut().filter(|i| i.gpu == gpu).collect();
    let on = (gpu, described);
    if let [record] = &mut wanted[..]
        && let Some(part) = record.part
    {
        let wanted = (&mut **record, part);
        compute_instances::make(driver, devices, on, wanted, others, hand_over, deadline)?;
    } else if partitioned {
        instances::make(driver, devices, on, &mut wanted, &kept, hand_over, deadline)?;
    }
    Ok(())
}

/// Starts the MPS daemons that serve the job, and tells the broker of it.
fn begin_daemons(
    settings: &Settings,
    journal: &Journal,
    entry: &Entry,
    deadline: &Deadline,
) -> Result<Vec<String>, Fault> {
    let mut notes = Vec::new();
    if let Some(share) = &entry.share {
        let live = entry.instances.first().and_then(|i| i.live.as_ref()).map(|l| &l.uuid);
        let device = live.or(entry.gpus.first().map(|g| &g.uuid)).cloned().unwrap_or_default();
        notes.extend(mps::ensure(settings, journal, &share.daemon, entry, &device, deadline)?);
    }
    if let Some(tasks) = &entry.tasks {
        for key in entry.daemons() {
            let here = tasks.devices.iter().enumerate().filter(|(_, device)| device.daemon == key);
            let uuids: Vec<&str> = here.filter_map(|(i, _)| entry.task_device_uuid(i)).collect();
            notes.extend(mps::ensure(settings, journal, key, entry, &uuids.join(","), deadline)?);
        }
        crate::broker::serve(settings, journal, entry)?;
    }
    Ok(notes)
}

/// The processes of running jobs that were left alone, and those with too many files open.
fn of_neighbours(hand_over: &HandOver<'_>) -> Vec<String> {
    let bystanders = hand_over.bystanders.iter().map(|process| {
        format!(
            "GPU {}: {process}, of a running job, has its device node open and is left alone",
            process.gpu
        )
    });
    let left = hand_over.left_unread.iter().map(ToString::to_string).collect::<Vec<_>>();
    let unread = [
        unread(&hand_over.ended_unread, "ended, because a GPU's device node might be one of them"),
        unread(&left, "left alone: if a GPU's device node is one of them, it stays open there"),
    ];
    bystanders.chain(unread.into_iter().flatten()).collect()
}

/// Most processes that one line names.
const MOST_NAMED: usize = 8;

/// Names processes that have too many files open, and what becomes of them. A user can have very many of those.
fn unread(processes: &[String], end: &str) -> Option<String> {
    let named = processes.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>().join(", ");
    let more = match processes.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!processes.is_empty())
        .then(|| format!("more files are open than can be looked at: {named}{more}: {end}"))
}

fn places(entry: &Entry, uuid: &str) -> Vec<Placement> {
    entry.instances_on(uuid).map(InstanceRecord::placement).collect()
}

/// Makes the device nodes the job's.
fn give(settings: &Settings, journal: &Journal, devices: &Devices, entry: &mut Entry) -> Result<(), Fault> {
    let caps = access::caps(settings, devices, entry, &|gpu| Some(gpu.minor))?;
    entry.device_nodes = caps.into_iter().map(|c| c.0).collect();
    if entry.instances.is_empty() {
        let ours = entry.gpus.iter().filter(|g| !settings.must_not_touch(g.index));
        entry.device_nodes.extend(ours.map(|g| gpu_node(g.minor)));
    }
    let _nodes = Locks::for_nodes(&settings.node.state_dir, &access::lock_deadline())?;
    journal.note(entry)?;
    let failed = access::settle(settings, journal, devices, entry, true)?;
    if let Some(e) = failed.into_iter().next() {
        return Err(e.into());
    }
    // Under the same lock: the nodes of a GPU instance may be another job's as well.
    for (name, access) in access::caps_now(settings, journal, entry, true)? {
        devices.set(&name, access)?;
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
