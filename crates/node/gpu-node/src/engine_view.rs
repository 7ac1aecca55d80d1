//! The node as the placement engine sees it, from the driver's answers and the journal.

use geometry::{Slice, Uid};
use node_state::{ComputeHold, GpuState, Holder, Instance, MigPolicy, Node, Purpose, Seat, Share};

use protocol::ComputeSpec;

use node_driver::NvmlIndex;
use node_driver::nvml::{GpuInfo, GpuInstance, MigMode, Nvml};
use node_jobs::Fault;
use node_jobs::Settings;
use node_journal::{Entry, GrantKind, InstanceRecord};

/// A GPU as it is.
#[derive(Clone, Debug)]
pub struct GpuView {
    /// Model, memory and other fixed properties.
    pub info: GpuInfo,
    /// MIG mode.
    pub mode: MigMode,
    /// Instances, by start.
    pub instances: Vec<GpuInstance>,
}

/// Asks the driver about one GPU.
pub(crate) fn view(nvml: &Nvml, gpu: NvmlIndex) -> Result<GpuView, Fault> {
    Ok(GpuView { info: nvml.info(gpu)?, mode: nvml.mig_mode(gpu)?, instances: nvml.instances(gpu)? })
}

/// The node in the engine's terms. It ends before the first GPU that does not answer or whose model is unknown: a
/// GPU's place is its number.
pub(crate) fn engine_view(settings: &Settings, gpus: &[GpuView], entries: &[Entry]) -> Node {
    let mut node = Vec::new();
    for (place, view) in gpus.iter().enumerate() {
        if usize::from(view.info.index.0) != place {
            break;
        }
        let described = settings.described(view.info.index);
        let known = view.info.model().or(described.as_ref().map(|d| d.model));
        let Some(model) = known else { break };
        let policy = described.as_ref().map_or(MigPolicy::Dynamic, |d| d.policy);
        let purpose = described.map_or(Purpose::Any, |d| d.purpose);
        node.push(node_state::Gpu { model, policy, purpose, state: state(view, entries), left_out: false });
    }
    let n = node.len();
    Node::new(node, topology::HardwareGraph::uniform(n, 0.0))
}

fn state(view: &GpuView, entries: &[Entry]) -> GpuState {
    let gpu = &view.info.uuid;
    let holders: Vec<&Entry> = entries.iter().filter(|e| e.holds() && e.uses(gpu)).collect();
    if let Some(entry) = holders.iter().find(|e| e.has_whole_gpus() || e.kind == GrantKind::Shards) {
        return GpuState::Whole(entry.job());
    }
    let shares: Vec<Share> =
        holders.iter().filter(|e| e.instances.is_empty()).filter_map(|e| share_of(e)).collect();
    if !shares.is_empty() {
        return GpuState::Mps(shares);
    }
    let uncut = holders.iter().filter(|e| e.instances.is_empty());
    let place = |e: &Entry| e.gpus.iter().position(|g| g.uuid == *gpu);
    let seats: Vec<Seat> = uncut.filter_map(|e| seat_of(e, place(e)?)).collect();
    if !seats.is_empty() {
        return GpuState::Tasks(seats);
    }
    if !view.mode.current {
        return GpuState::Free;
    }
    let whole = view.instances.iter().filter(|i| !i.compute.is_empty());
    GpuState::Mig(
        whole
            .map(|i| Instance {
                profile: i.profile,
                start: i.placement.start,
                holder: holder(&holders, gpu, i),
            })
            .collect(),
    )
}

fn holder(entries: &[&Entry], gpu: &str, instance: &GpuInstance) -> Holder {
    let held = |e: &&&Entry| e.instances_on(gpu).any(|r| r.placement() == instance.placement);
    let mine: Vec<&&Entry> = entries.iter().filter(held).collect();
    let shares: Vec<Share> = mine.iter().filter_map(|e| share_of(e)).collect();
    let here = |e: &Entry, r: &InstanceRecord| e.gpu_of(r).is_some_and(|g| g.uuid == gpu);
    let place =
        |e: &Entry| e.instances.iter().position(|r| here(e, r) && r.placement() == instance.placement);
    let seats: Vec<Seat> = mine.iter().filter_map(|e| seat_of(e, place(e)?)).collect();
    let mut parts: Vec<ComputeHold> = mine.iter().filter_map(|e| part_of(e)).collect();
    parts.sort_by_key(|p| p.part.start);
    match mine.first() {
        None => Holder::Idle,
        Some(_) if !seats.is_empty() => Holder::Pool(seats),
        Some(_) if !parts.is_empty() => Holder::Compute(parts),
        Some(_) if !shares.is_empty() => Holder::Shared(shares),
        Some(entry) => Holder::Isolated(entry.job()),
    }
}

fn share_of(entry: &Entry) -> Option<Share> {
    let share = entry.share.as_ref()?;
    Some(Share { job: entry.job(), uid: Uid(entry.uid), mem_mib: share.mem_mib, threads: share.threads })
}

fn part_of(entry: &Entry) -> Option<ComputeHold> {
    let record = entry.instances.first()?;
    let part = record.part?;
    Some(ComputeHold {
        job: entry.job(),
        uid: Uid(entry.uid),
        part: ComputeSpec { slices: part.slices, start: Slice(part.start) },
        mem_mib: record.memory_mib,
    })
}

/// A job's seats on one of the devices that its tasks may use.
fn seat_of(entry: &Entry, place: usize) -> Option<Seat> {
    let device = entry.tasks.as_ref()?.devices.get(place)?;
    Some(Seat { job: entry.job(), uid: Uid(entry.uid), seats: device.seats })
}
