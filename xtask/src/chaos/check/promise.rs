//! A job has what it was promised, no less and no more, from its first line to its last.

use super::Finding;
use crate::chaos::plan::{OrderKind, Promise, Size};
use crate::chaos::seen::report::Report;

/// Further facts about the place where a report was written.
#[derive(Clone, Copy, Debug)]
pub(in crate::chaos) struct Reality {
    /// GPUs of the node.
    pub(in crate::chaos) gpus: usize,
    /// True if the driver may not have told the job about its GPUs.
    pub(in crate::chaos) driver_is_ill: bool,
}

/// Lists the faults of a report by a job of this kind.
pub(in crate::chaos) fn broken_promise(
    report: &Report,
    kind: &OrderKind,
    reality: Reality,
) -> Option<Finding> {
    let promise = if report.task == "batch" { Some(kind.promise) } else { kind.step };
    let why = promise.and_then(|promise| wrong(report, promise, reality));
    let why = why.or_else(|| (!reality.driver_is_ill).then(|| unseen(report)).flatten())?;
    let subject = format!("job {} (order {}, {})", report.job, report.order, kind.name);
    Some(Finding::new("promise", subject, format!("{why}: {report}")))
}

/// A device that the job has but cannot see.
fn unseen(report: &Report) -> Option<String> {
    // Numbers are Slurm's own way to name GPUs, which the driver does not know.
    let named = report.devices.iter().filter(|name| name.starts_with("GPU-") || name.starts_with("MIG-"));
    let hidden = named.into_iter().find(|name| !report.visible.contains_key(*name))?;
    Some(format!("the driver does not show it {hidden}"))
}

fn wrong(report: &Report, promise: Promise, reality: Reality) -> Option<String> {
    let count = |wanted: usize, what: &str| {
        let got = report.devices.len();
        (got != wanted).then(|| format!("promised {wanted} {what}, got {got} devices"))
    };
    let whole = |wanted: usize| {
        let cut = report.devices.iter().find(|name| name.starts_with("MIG-"));
        let cut = cut.map(|name| format!("promised whole GPUs, got {name}"));
        let shared = report.mps.as_ref().map(|_| "promised whole GPUs, got a share".to_owned());
        count(wanted, "whole GPUs").or(cut).or(shared)
    };
    match promise {
        Promise::Nothing => count(0, "GPUs"),
        Promise::Whole(wanted) => whole(wanted),
        Promise::Everything => whole(reality.gpus),
        Promise::Instances(wanted, size) => {
            let shared = report.mps.as_ref().map(|_| "promised instances, got a share".to_owned());
            let sizes = || report.devices.iter().find_map(|name| wrong_size(report, name, size, reality));
            count(wanted, "instances").or(shared).or_else(sizes)
        }
        Promise::Part(profile, _) => wrong(report, Promise::Instances(1, Size::Profile(profile)), reality),
        Promise::Seats { preloaded } => {
            count(1, "device to begin with").or_else(|| wrong_seats(report, preloaded))
        }
        Promise::Share { mem_mib, threads } => count(1, "device").or_else(|| {
            let limits = (report.mem_mib, report.threads);
            let ok = report.mps.is_some()
                && limits.0 == Some(mem_mib)
                && threads.is_none_or(|percent| has_threads(report, percent));
            (!ok).then(|| format!("promised a share of {mem_mib} MiB and {threads:?} %, got {limits:?}"))
        }),
        Promise::Memory(gb) => count(1, "device").or_else(|| at_least(report, gb, reality)),
    }
}

/// Tells whether a share has this percentage of its GPU's threads. On an instance of n of 7 slices that is 7/n times as many of the instance's;
/// up to a sixth less or a fifth more, because slices have unlike numbers of SMs: 32 of 132 are two of an H100.
fn has_threads(report: &Report, percent: u32) -> bool {
    let profile = report.devices.first().and_then(|name| report.visible.get(name)?.as_deref());
    let slices: Option<u32> = profile.and_then(|profile| profile.split('g').next()?.parse().ok());
    let Some(got) = report.threads else { return false };
    match slices {
        Some(slices @ 1..=6) => {
            let wanted = (percent * 7 / slices).min(100);
            (wanted * 5 / 6..=wanted * 6 / 5).contains(&got)
        }
        _ => got == percent,
    }
}

/// Describes the fault of an instance, by the profile that the driver names for it.
fn wrong_size(report: &Report, name: &str, size: Size, reality: Reality) -> Option<String> {
    let Some(Some(profile)) = report.visible.get(name) else {
        let known = reality.driver_is_ill && name.starts_with("MIG-");
        return (!known).then(|| format!("{name} is no instance that it sees"));
    };
    let ok = match size {
        Size::Profile(wanted) => profile == wanted,
        Size::Memory(gb) => nominal_gb(profile).is_some_and(|has| has >= gb),
        Size::Slices(list) => compute_slices(profile).is_some_and(|has| list.contains(&has)),
    };
    (!ok).then(|| format!("promised {size:?}, got {profile}"))
}

/// Describes the fault of a job of GPU tasks: where it asks for them, and with what.
fn wrong_seats(report: &Report, preloaded: bool) -> Option<String> {
    let own = format!("/nodes/{}/run/tasks/{}.sock", report.node, report.job);
    let has_library = report.preload.as_ref().is_some_and(|all| all.contains("libtessera_task.so"));
    if !report.socket.as_ref().is_some_and(|socket| socket.ends_with(&own)) {
        return Some("promised seats, got no socket of its own on its node".to_owned());
    }
    if report.mps.is_none() {
        return Some("promised seats, got no MPS daemon".to_owned());
    }
    (has_library != preloaded)
        .then(|| "the library is preloaded, or is not, against what was promised".to_owned())
}

/// Describes the fault of a job's GPU tasks. A program that was told to end, or was killed with its job, has not failed.
pub(in crate::chaos) fn failed_work(report: &Report, kind: &OrderKind) -> Option<Finding> {
    const KILLED: [i32; 2] = [137, 143];
    let (status, words) = report.work.as_ref().filter(|(status, _)| !KILLED.contains(status))?;
    let promise = if report.task == "batch" { Some(kind.promise) } else { kind.step };
    let well = match promise {
        Some(Promise::Seats { preloaded: true }) => words.starts_with("had "),
        // Its process id, allocations that ran out of memory, refused growth, and other refusals.
        Some(Promise::Seats { preloaded: false }) => {
            let counts: Vec<u64> = words.split(' ').filter_map(|word| word.parse().ok()).collect();
            matches!(counts.as_slice(), [_, 0, _, 0])
        }
        _ => false,
    };
    let subject = format!("job {} (order {}, {})", report.job, report.order, kind.name);
    (*status != 0 || !well).then(|| Finding::new("GPU tasks failed", subject, report.to_string()))
}

/// True if an instance, a share or a GPU has this much memory. Every simulated GPU has 40 GB or more.
fn at_least(report: &Report, gb: u32, reality: Reality) -> Option<String> {
    if report.mps.is_some() {
        // GB to MiB, rounded up.
        let wanted = (u64::from(gb) * 1_000_000_000).div_ceil(1 << 20);
        let enough = report.mem_mib.is_none_or(|has| has >= wanted);
        return (!enough).then(|| format!("promised {gb} GB, got a share of {:?} MiB", report.mem_mib));
    }
    let instance = report.devices.iter().find(|name| name.starts_with("MIG-"))?;
    wrong_size(report, instance, Size::Memory(gb), reality)
}

/// The memory in a profile's name, which is never more than what the instance has.
pub(super) fn nominal_gb(profile: &str) -> Option<u32> {
    profile.split_once('.')?.1.split("gb").next()?.parse().ok()
}

fn compute_slices(profile: &str) -> Option<u32> {
    profile.split_once("g.")?.0.parse().ok()
}
