//! Checks of every node state.

use crate::compute_slices::check_together;
use crate::finding::{Finding, finding};
use geometry::{GpuIndex, JobId, Profile, Slice};
use node_state::{Gpu, GpuState, Holder, Instance, MigPolicy, Node, Purpose, Seat, Share};

/// The units of an instance.
pub(super) fn units_of(profile: &Profile, start: Slice) -> Vec<u32> {
    (0..u32::from(profile.size)).map(|i| u32::from(start.0) + i).collect()
}

/// The units that jobs hold on a GPU.
pub(super) fn held_units(gpu: &Gpu) -> Vec<u32> {
    let GpuState::Mig(instances) = &gpu.state else { return Vec::new() };
    let held = instances.iter().filter(|i| i.holder != Holder::Idle);
    held.flat_map(|i| match gpu.model.profiles.iter().find(|p| p.id == i.profile) {
        Some(profile) => units_of(profile, i.start),
        None => (0..32).collect(),
    })
    .collect()
}

/// True if no job has anything on the GPU.
pub(super) fn unused(state: &GpuState) -> bool {
    match state {
        GpuState::Free => true,
        GpuState::Whole(_) | GpuState::Mps(_) | GpuState::Tasks(_) => false,
        GpuState::Mig(instances) => instances.iter().all(|i| matches!(i.holder, Holder::Idle)),
    }
}

/// True if a job has a part of the GPU.
pub(super) fn cut(state: &GpuState) -> bool {
    !unused(state) && !matches!(state, GpuState::Whole(_))
}

/// True if two profiles, by name, need engines that only one instance can have: `+me` and `+me.all` exclude each other
/// and themselves, and `+me.all` everything that is not `-me`.
pub(super) fn media_clash(a: &str, b: &str) -> bool {
    let clash = |x: &str, y: &str| {
        (x.ends_with("+me.all") && !y.ends_with("-me")) || (x.ends_with("+me") && y.ends_with("+me"))
    };
    clash(a, b) || clash(b, a)
}

/// Checks a node's state on its own, whatever led to it. Empty: no objection.
#[must_use]
pub fn audit_node(node: &Node) -> Vec<Finding> {
    let mut out = Vec::new();
    if node.links.len() != node.gpus.len() {
        out.push(finding(
            None,
            format!("{}, links of {}", geometry::counted(node.gpus.len(), "GPU"), node.links.len()),
        ));
    }
    let mut seen: Vec<(JobId, &'static str)> = Vec::new();
    for (gpu, i) in node.gpus.iter().zip(0_u16..) {
        let at = GpuIndex(i);
        check_purpose(gpu, at, &mut out);
        match &gpu.state {
            GpuState::Free => {}
            GpuState::Whole(job) => {
                not_on(gpu, at, &mut out);
                seen.push((*job, "whole"));
            }
            GpuState::Mps(shares) => {
                not_on(gpu, at, &mut out);
                check_shares(shares, gpu.model.usable_mib(), at, &mut out);
                seen.extend(shares.iter().map(|s| (s.job, "mps")));
            }
            GpuState::Tasks(seats) => {
                not_on(gpu, at, &mut out);
                check_seats(seats, 48, at, &mut out);
                seen.extend(seats.iter().map(|s| (s.job, "tasks")));
            }
            GpuState::Mig(instances) => {
                if gpu.policy == MigPolicy::Off {
                    out.push(finding(at, "partitioned, though never in MIG mode"));
                }
                check_instances(gpu, at, instances, &mut out);
                for instance in instances {
                    match &instance.holder {
                        Holder::Isolated(job) => seen.push((*job, "mig")),
                        Holder::Shared(shares) => seen.extend(shares.iter().map(|s| (s.job, "mps"))),
                        Holder::Compute(holds) => seen.extend(holds.iter().map(|h| (h.job, "compute"))),
                        Holder::Pool(seats) => seen.extend(seats.iter().map(|s| (s.job, "tasks"))),
                        Holder::Idle => {}
                    }
                }
            }
        }
    }
    check_claims(node, &mut out);
    for (i, (job, kind)) in seen.iter().enumerate() {
        let again = seen[..i]
            .iter()
            .any(|(j, k)| j == job && (k != kind || !["mig", "whole", "tasks"].contains(kind)));
        if again {
            out.push(finding(None, format!("job {job} has two grants")));
        }
    }
    out
}

fn check_purpose(gpu: &Gpu, at: GpuIndex, out: &mut Vec<Finding>) {
    let fits = match (&gpu.state, gpu.purpose) {
        (_, Purpose::Any) => true,
        (GpuState::Mig(_), purpose) | (GpuState::Free, purpose @ Purpose::Static) => {
            purpose == Purpose::Static && gpu.state != GpuState::Free
        }
        (GpuState::Free, _) => true,
        (GpuState::Whole(_), purpose) => matches!(purpose, Purpose::Whole | Purpose::Slurm),
        (GpuState::Mps(_) | GpuState::Tasks(_), purpose) => purpose == Purpose::Shares,
    };
    if !fits {
        out.push(finding(at, format!("used otherwise, though {}", gpu.purpose.words())));
    }
}

fn not_on(gpu: &Gpu, at: GpuIndex, out: &mut Vec<Finding>) {
    if gpu.policy == MigPolicy::On {
        out.push(finding(at, "used without MIG, though always in MIG mode"));
    }
}

fn check_shares(shares: &[Share], memory_mib: u64, at: GpuIndex, out: &mut Vec<Finding>) {
    let promised: u64 = shares.iter().map(|s| s.mem_mib).sum();
    if shares.is_empty() {
        out.push(finding(at, "shared by nobody"));
    }
    if promised > memory_mib {
        out.push(finding(at, format!("{promised} MiB promised of {memory_mib}")));
    }
    if shares.iter().any(|s| !(1..=100).contains(&s.threads)) {
        out.push(finding(at, "threads outside 1 to 100"));
    }
}

/// `clients`: as many as MPS serves on the device's part of its GPU.
fn check_seats(seats: &[Seat], clients: u32, at: GpuIndex, out: &mut Vec<Finding>) {
    let taken: u32 = seats.iter().map(|s| s.seats).sum();
    if seats.is_empty() {
        out.push(finding(at, "in the pool for nobody"));
    }
    if taken > clients {
        out.push(finding(at, format!("{taken} seats where MPS serves {clients} clients")));
    }
    if (1..seats.len()).any(|i| seats[..i].iter().any(|s| s.job == seats[i].job)) {
        out.push(finding(at, "a job twice in the pool"));
    }
}

/// Checks that there is one claim per place.
fn check_claims(node: &Node, out: &mut Vec<Finding>) {
    for (i, claim) in node.claims.iter().enumerate() {
        let at = claim.on.gpu();
        if node.claims[..i].iter().any(|other| other.on == claim.on) {
            out.push(finding(at, "a device claimed twice"));
        }
        if node.gpus.get(usize::from(at.0)).is_none() {
            out.push(finding(at, "a claim on a GPU that does not exist"));
        }
    }
}

fn check_instances(gpu: &Gpu, at: GpuIndex, instances: &[Instance], out: &mut Vec<Finding>) {
    let mut taken: Vec<u32> = Vec::new();
    let mut profiles: Vec<&Profile> = Vec::new();
    for instance in instances {
        let Some(profile) = gpu.model.profiles.iter().find(|p| p.id == instance.profile) else {
            out.push(finding(at, format!("no profile {}", instance.profile)));
            continue;
        };
        if !profile.starts.contains(&instance.start) {
            out.push(finding(at, format!("{} cannot start at {}", profile.name, instance.start)));
        }
        for unit in units_of(profile, instance.start) {
            if taken.contains(&unit) {
                out.push(finding(at, format!("slice {unit} in two instances")));
            }
            taken.push(unit);
        }
        if let Holder::Shared(shares) = &instance.holder {
            check_shares(shares, profile.memory_mib, at, out);
        }
        if let Holder::Compute(holds) = &instance.holder {
            check_together(profile, holds, at, out);
            if gpu.purpose == Purpose::Static {
                out.push(finding(at, "the site's own instance is divided"));
            }
        }
        if let Holder::Pool(seats) = &instance.holder {
            let clients = 48 * u32::from(profile.compute_slices) / u32::from(gpu.model.compute_slices);
            check_seats(seats, clients, at, out);
        }
        if profiles.iter().any(|p| p.id != profile.id && media_clash(&p.name, &profile.name)) {
            out.push(finding(at, format!("{} beside one with the same engines", profile.name)));
        }
        profiles.push(profile);
        let same = profiles.iter().filter(|p| p.id == profile.id).count();
        if same > profile.max_instances as usize {
            out.push(finding(at, format!("{same} instances of {}", profile.name)));
        }
    }
    let compute: u32 = profiles.iter().map(|p| u32::from(p.compute_slices)).sum();
    if compute > u32::from(gpu.model.compute_slices) {
        out.push(finding(at, format!("{compute} compute slices")));
    }
}
