//! Meaning of one limit of the site for a job, and its words for users.

use geometry::size::display_gb;
use geometry::{Model, Profile, split_compute_name};
use node_state::InstanceLimit;
use protocol::{Isolation, Request};
use site_config::Limit;

/// Gives the instances that all of these limits leave a job.
#[must_use]
pub fn instances_under(limits: &[&Limit]) -> InstanceLimit {
    let mut left = InstanceLimit::default();
    limits.iter().for_each(|limit| narrow(limit, &mut left));
    left
}

/// Tells whether a job may have this isolation.
///
/// `mig` in the file allows every profile, `mig:PROFILE` only that one. [`Isolation::Mig`] without a profile is allowed
/// in both cases: [`crate::policy_for`] says which instances it may get. `mig-shared:INSTANCE` is allowed
/// only by name, because it shares memory with other jobs. `auto` and `slurm` are always allowed.
#[must_use]
pub fn allows(limit: &Limit, isolation: &Isolation) -> bool {
    let Some(allowed) = &limit.isolation else { return true };
    match isolation {
        Isolation::Auto | Isolation::None => true,
        Isolation::Mig(None) => allowed
            .iter()
            .any(|a| matches!(a, Isolation::Mig(name) if name.as_deref().is_none_or(is_isolated))),
        Isolation::Mig(Some(name)) => {
            allowed.contains(isolation) || is_isolated(name) && allowed.contains(&Isolation::Mig(None))
        }
        // With or without probes.
        Isolation::Tasks { .. } => allowed.iter().any(|a| matches!(a, Isolation::Tasks { .. })),
        Isolation::Mps | Isolation::Whole => allowed.contains(isolation),
    }
}

/// The names of the only profiles that are allowed; `None`: any.
fn profiles(limit: &Limit) -> Option<Vec<&str>> {
    let allowed = limit.isolation.as_ref().filter(|all| !all.contains(&Isolation::Mig(None)))?;
    let names = allowed
        .iter()
        .map(|isolation| if let Isolation::Mig(name) = isolation { name.as_deref() } else { None });
    Some(names.flatten().collect())
}

/// Leaves the instances of which this limit allows a job one.
fn narrow(limit: &Limit, left: &mut InstanceLimit) {
    left.most_mib = left.most_mib.into_iter().chain(limit.max_mem_mib).min();
    let slices = limit.per_job.slices.into_iter().chain(limit.running.slices);
    left.most_slices = left.most_slices.into_iter().chain(slices).min();
    let Some(profiles) = profiles(limit) else { return };
    let before = left.only.take();
    let stays = |name: &&&str| before.as_ref().is_none_or(|before| before.iter().any(|b| b == **name));
    left.only = Some(profiles.iter().filter(stays).map(|name| (*name).to_owned()).collect());
}

/// Why a request is refused: a line that names the option, its value and what would work. `None` if it is allowed.
#[must_use]
pub fn refusal(limit: &Limit, request: &Request) -> Option<String> {
    let whom = whom(limit);
    if !allows(limit, &request.isolation) {
        let allowed: Vec<String> = limit.isolation.iter().flatten().map(ToString::to_string).collect();
        let (asked, allowed) = (&request.isolation, allowed.join(", "));
        return Some(format!("--gpu-isolation={asked} is not allowed {whom}: use {allowed}"));
    }
    if let Some(most) = limit.max_instances.filter(|most| request.instances > *most) {
        return Some(format!("--gpu-instances={} is too many {whom}: at most {most}", request.instances));
    }
    let most = limit.max_mem_mib?;
    if let Some(asked) = request.mem_mib.filter(|asked| *asked > most) {
        let (asked, most) = (display_gb(asked), display_gb(most));
        return Some(format!("--gpu-mem={asked} is too much {whom}: at most {most}"));
    }
    if matches!(request.isolation, Isolation::Tasks { .. }) && request.mem_mib.is_none() {
        let (asked, most) = (&request.isolation, display_gb(most));
        return Some(format!(
            "--gpu-isolation={asked} needs --gpu-mem {whom}: at most {most} of a device's memory"
        ));
    }
    // An instance holds a little more than its name says, and a job that may have 10 GB may have 2g.10gb.
    let Isolation::Mig(Some(profile)) = &request.isolation else { return None };
    let most = display_gb(named_mib(profile).filter(|named| *named > most).and(Some(most))?);
    Some(format!("--gpu-isolation={} is too much {whom}: at most {most}", request.isolation))
}

/// The jobs that it binds, as the end of a sentence: `in partition gpu for account lab`.
#[must_use]
pub fn whom(limit: &Limit) -> String {
    let of = |word: &str, name: &Option<String>| name.as_ref().map(|name| format!("{word} {name}"));
    let whose = [of("user", &limit.user), of("account", &limit.account), of("QOS", &limit.qos)];
    let whose: Vec<String> = whose.into_iter().flatten().collect();
    let whose = (!whose.is_empty()).then(|| format!("for {}", whose.join(", ")));
    let words: Vec<String> = of("in partition", &limit.partition).into_iter().chain(whose).collect();
    if words.is_empty() { String::from("here") } else { words.join(" ") }
}

/// The place in the file, for messages: `running_slices, line 31 of tessera.toml`.
#[must_use]
pub fn place(limit: &Limit, key: &str) -> String {
    format!("{key}, line {} of tessera.toml", limit.line)
}

/// Tells whether this is the name of a profile, not of a compute instance.
fn is_isolated(name: &str) -> bool {
    split_compute_name(name).is_none()
}

/// The memory that a profile is named by, MiB: that of 10 GB for `2g.10gb`. A compute instance can use all of its GPU
/// instance's memory.
fn named_mib(profile: &str) -> Option<u64> {
    let profile = split_compute_name(profile).map_or(profile, |(_, within)| within);
    Model::all().iter().find_map(|model| model.profile(profile)).map(Profile::nominal_mib)
}
