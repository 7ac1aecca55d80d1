//! Checks that new instances can exist on a GPU together with those of jobs.

use geometry::{GpuIndex, Profile};
use node_state::{Gpu, GpuState, Holder, MigPolicy, Purpose};
use protocol::MigSpec;

use crate::finding::{Finding, finding};
use crate::state::{held_units, media_clash, units_of};

/// Checks that these new instances of one GPU can exist together with the held ones.
pub(crate) fn check_places(gpu: &Gpu, specs: &[&MigSpec], out: &mut Vec<Finding>) {
    let at = specs[0].gpu;
    if gpu.policy == MigPolicy::Off {
        out.push(finding(at, "never in MIG mode"));
    }
    match gpu.purpose {
        Purpose::Any => {}
        Purpose::Static => specs.iter().filter(|s| !stands_idle(gpu, s)).for_each(|s| {
            out.push(finding(at, format!("none of the site's instances is free at {}", s.start)));
        }),
        other => out.push(finding(at, format!("instances where the GPU is {}", other.words()))),
    }
    if matches!(gpu.state, GpuState::Whole(_) | GpuState::Mps(_) | GpuState::Tasks(_)) {
        out.push(finding(at, "in use without MIG"));
    }
    let mut taken = held_units(gpu);
    let mut all: Vec<&Profile> = match &gpu.state {
        GpuState::Mig(instances) => {
            let held = instances.iter().filter(|i| i.holder != Holder::Idle);
            held.filter_map(|i| gpu.model.profiles.iter().find(|p| p.id == i.profile)).collect()
        }
        _ => Vec::new(),
    };
    for spec in specs {
        let Some(profile) = gpu.model.profiles.iter().find(|p| p.id == spec.profile) else {
            out.push(finding(at, format!("no profile {}", spec.profile)));
            continue;
        };
        if !profile.starts.iter().any(|s| s.0 == spec.start.0) {
            out.push(finding(at, format!("{} cannot start at {}", profile.name, spec.start)));
        }
        for unit in units_of(profile, spec.start) {
            if taken.contains(&unit) {
                out.push(finding(at, format!("slice {unit} is taken")));
            }
            taken.push(unit);
        }
        all.push(profile);
    }
    check_counts(gpu, at, &all, out);
}

fn stands_idle(gpu: &Gpu, spec: &MigSpec) -> bool {
    let GpuState::Mig(instances) = &gpu.state else { return false };
    let same = |i: &&node_state::Instance| i.profile == spec.profile && i.start.0 == spec.start.0;
    instances.iter().find(same).is_some_and(|i| i.holder == Holder::Idle)
}

fn check_counts(gpu: &Gpu, at: GpuIndex, all: &[&Profile], out: &mut Vec<Finding>) {
    let compute: u32 = all.iter().map(|p| u32::from(p.compute_slices)).sum();
    if compute > u32::from(gpu.model.compute_slices) {
        out.push(finding(at, format!("{compute} compute slices")));
    }
    for (i, profile) in all.iter().enumerate() {
        let same = all.iter().filter(|p| p.id == profile.id).count();
        if same > profile.max_instances as usize {
            out.push(finding(at, format!("{same} instances of {}", profile.name)));
        }
        if all[..i].iter().any(|other| other.id != profile.id && media_clash(&other.name, &profile.name)) {
            out.push(finding(at, format!("{} beside one with the same engines", profile.name)));
        }
    }
}
