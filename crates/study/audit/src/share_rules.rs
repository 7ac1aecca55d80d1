//! Checks that a share may be on a device: its memory, its threads, and who shares it.

use geometry::Profile;
use node_state::{Ask, GpuState, Holder, MigPolicy, Node, Policy, Purpose, Share};
use protocol::{Isolation, MigSpec, ShareOn};

use crate::finding::{Finding, finding};
use crate::places::check_places;

/// The threads that a share on this device should have, percent; `None` for a device that does not exist or has fewer SMs than the
/// job asks of the GPU.
pub(crate) fn threads(node: &Node, ask: &Ask, policy: &Policy, mem_mib: u64, on: ShareOn) -> Option<u8> {
    let memory_mib = memory(node, on)?;
    if let (Some(asked), ShareOn::Instance(spec)) = (ask.request.threads, on) {
        let profiles = &node.gpus.get(usize::from(spec.gpu.0))?.model.profiles;
        let profile = profiles.iter().find(|p| p.id == spec.profile)?;
        return has_sms(profile, profiles, asked).then(|| {
            let of_gpu = u32::from(asked) * all_sms(profiles);
            (1..=100).find(|percent| u32::from(*percent) * profile.sm >= of_gpu).unwrap_or(100)
        });
    }
    let mut percent = 1;
    while u64::from(percent) * memory_mib < mem_mib * 100 && percent < 100 {
        percent += 1;
    }
    Some(ask.request.threads.or(policy.mps_threads).unwrap_or(percent))
}

fn all_sms(profiles: &[Profile]) -> u32 {
    profiles.iter().map(|p| p.sm).max().unwrap_or(0)
}

/// Tells whether a profile has this percentage of the SMs, or up to 2 % of the GPU less.
fn has_sms(profile: &Profile, profiles: &[Profile], percent: u8) -> bool {
    let all = all_sms(profiles);
    profile.sm * 100 + 2 * all >= u32::from(percent) * all
}

/// Memory of a device, MiB; `None` if it does not exist.
fn memory(node: &Node, on: ShareOn) -> Option<u64> {
    let gpu = node.gpus.get(usize::from(on.gpu().0))?;
    match on {
        ShareOn::Gpu(_) => Some(gpu.model.usable_mib()),
        ShareOn::Instance(spec) => {
            let profile = gpu.model.profiles.iter().find(|p| p.id == spec.profile)?;
            Some(profile.memory_mib)
        }
    }
}

/// Clients that MPS serves on a device: 48 on a GPU, and the part of an instance by its compute slices.
fn served(node: &Node, on: ShareOn) -> usize {
    let model = node.gpus[usize::from(on.gpu().0)].model;
    let of = |spec: MigSpec| model.profiles.iter().find(|p| p.id == spec.profile);
    match on {
        ShareOn::Gpu(_) => 48,
        ShareOn::Instance(spec) => {
            of(spec).map_or(0, |p| 48 * usize::from(p.compute_slices) / usize::from(model.compute_slices))
        }
    }
}

/// The shares that are on a device now; `None` if it is not shared.
pub(crate) fn sharers(node: &Node, on: ShareOn) -> Option<&[Share]> {
    let gpu = node.gpus.get(usize::from(on.gpu().0))?;
    match (on, &gpu.state) {
        (ShareOn::Gpu(_), GpuState::Mps(shares)) => Some(shares),
        (ShareOn::Instance(spec), GpuState::Mig(instances)) => {
            instances.iter().find_map(|i| match &i.holder {
                Holder::Shared(shares) if i.profile == spec.profile && i.start == spec.start => {
                    Some(shares.as_slice())
                }
                _ => None,
            })
        }
        _ => None,
    }
}

pub(crate) fn check_share(
    node: &Node,
    ask: &Ask,
    policy: &Policy,
    on: ShareOn,
    (mem_mib, percent): (u64, u8),
    out: &mut Vec<Finding>,
) {
    let at = on.gpu();
    if ask.request.instances > 1 || (ask.request.isolation == Isolation::Auto && ask.request.gpus.is_some()) {
        out.push(finding(None, "a share for a request that is not for one"));
    }
    if ask.request.mem_mib.or(policy.default_mem_mib) != Some(mem_mib) {
        out.push(finding(at, "another memory limit than asked"));
    }
    if threads(node, ask, policy, mem_mib, on) != Some(percent) {
        out.push(finding(at, format!("{percent}% of the threads")));
    }
    let Some(memory_mib) = memory(node, on) else {
        return out.push(finding(at, "no such device"));
    };
    let sharers_now = sharers(node, on);
    let promised: u64 = sharers_now.unwrap_or_default().iter().map(|s| s.mem_mib).sum();
    if promised + mem_mib > memory_mib {
        out.push(finding(at, format!("{} MiB promised of {memory_mib}", promised + mem_mib)));
    }
    if sharers_now.is_some_and(|shares| shares.len() + 1 > served(node, on)) {
        out.push(finding(at, "more shares than MPS serves clients"));
    }
    if !policy.share_between_users && sharers_now.unwrap_or_default().iter().any(|s| s.uid != ask.uid) {
        out.push(finding(at, "shared by another user"));
    }
    if sharers_now.is_none() {
        check_opened(node, ask, policy, on, out);
    }
}

fn check_opened(node: &Node, ask: &Ask, policy: &Policy, on: ShareOn, out: &mut Vec<Finding>) {
    let gpu = &node.gpus[usize::from(on.gpu().0)];
    match on {
        ShareOn::Gpu(at) => {
            if matches!(gpu.purpose, Purpose::Whole | Purpose::Slurm) {
                out.push(finding(at, format!("a share where the GPU is {}", gpu.purpose.words())));
            }
            if gpu.policy == MigPolicy::On || gpu.state != GpuState::Free {
                out.push(finding(at, "not free for shares"));
            }
        }
        ShareOn::Instance(spec) => {
            if gpu.policy == MigPolicy::Dynamic && gpu.state == GpuState::Free {
                out.push(finding(spec.gpu, "MIG mode would be switched on for a share"));
            }
            check_places(gpu, &[&spec], out);
            let exists = matches!(&gpu.state, GpuState::Mig(instances) if instances.iter().any(|i| {
                i.profile == spec.profile && i.start == spec.start
            }));
            let need = ask.request.mem_mib.or(policy.default_mem_mib).unwrap_or(0);
            let base = |p: &&Profile| !p.name.contains('+') && !p.name.contains('-');
            let percent = ask.request.threads.unwrap_or(0);
            let enough = |p: &&Profile| p.memory_mib >= need && has_sms(p, &gpu.model.profiles, percent);
            let fitting = gpu.model.profiles.iter().filter(base).filter(enough);
            let smallest = fitting.min_by_key(|p| (p.size, p.compute_slices)).map(|p| p.id);
            let named = gpu.model.profiles.iter().filter(base).any(|p| p.id == spec.profile);
            if !named || (!exists && smallest != Some(spec.profile)) {
                out.push(finding(spec.gpu, "a new instance that is not the smallest"));
            }
        }
    }
}
