//! Refuses options that contradict each other, or that no GPU of any known model could satisfy.
//!
//! Whether the site has such a GPU is for slurmctld to check.

use geometry::size::display_gb;
use geometry::{Model, split_compute_name};
use topology::Pattern;

use crate::names::{Renames, shown};
use crate::one_instance;
use crate::option_values::OptionValues;
use crate::table::Opt;
use crate::value::{Value, only_nearest};
use protocol::SetWait;
use protocol::{Bandwidth, Isolation, Request};

/// Makes the request of these values.
///
/// # Errors
///
/// Everything that is wrong with the combination, a line each.
pub(super) fn request(values: Vec<Value>, renames: &Renames) -> Result<Request, Vec<String>> {
    let given = OptionValues::of(values);
    let name = |opt| shown(opt, renames);
    let one_instance = given.about_one_instance().implied_isolation();
    let typed = given.isolation.clone().filter(|i| *i != Isolation::Auto || one_instance.is_none());
    let Some(isolation) = typed.or(one_instance).or_else(|| by_other_options(&given)) else {
        let alone = if given.instances.is_some() { Opt::Instances } else { Opt::Sms };
        return Err(vec![format!(
            "{}: also needs {} or {}",
            name(alone),
            name(Opt::Isolation),
            name(Opt::Mem)
        )]);
    };
    let mut problems = contradictions(&isolation, &given, &name);
    problems.extend(auto_power(&isolation, &given, &name));
    problems.extend(one_instance::contradictions(&isolation, &given, &name));
    if problems.is_empty() {
        problems.extend(impossible(&isolation, &given, &name));
    }
    if problems.is_empty() {
        problems.extend(one_instance::impossible(&isolation, &given, &name));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(Request {
        isolation_typed: given.isolation.is_some(),
        mem_mib: given.mem,
        instances: given.instances.unwrap_or(1),
        per_task: given.per_task,
        threads: given.sms,
        pattern: given.pattern,
        bandwidth: given.bandwidth,
        policy: given.policy,
        wait: given.wait,
        times: given.times.unwrap_or_default(),
        job_profile: given.app,
        place: given.place,
        cap_w: given.power,
        auto_cap: given.auto_power,
        // Whole GPUs are counted by Slurm's own options, which SPANK cannot see: the controller fills them in.
        ..Request::new(isolation)
    })
}

/// The isolation that the options for memory, links and power imply; `None` if they imply none.
fn by_other_options(given: &OptionValues) -> Option<Isolation> {
    if given.mem.is_some() {
        return Some(Isolation::Auto);
    }
    let about_links = given.pattern.is_some()
        || given.bandwidth.is_some()
        || given.policy.is_some()
        || given.wait.is_some();
    let any_gpu = about_links || given.power.is_some() || given.auto_power;
    (any_gpu && given.instances.is_none() && given.sms.is_none()).then_some(Isolation::Whole)
}

fn contradictions(isolation: &Isolation, given: &OptionValues, name: &dyn Fn(Opt) -> String) -> Vec<String> {
    let refused = |(_, opt, why): (bool, Opt, &str)| {
        format!("{} cannot be combined with {}={isolation}: {why}", name(opt), name(Opt::Isolation))
    };
    let against = match isolation {
        Isolation::None => against_slurm(given).to_vec(),
        Isolation::Whole => against_whole(given).to_vec(),
        Isolation::Mps => against_mps(given).to_vec(),
        Isolation::Tasks { .. } => against_tasks(given).to_vec(),
        Isolation::Mig(profile) => against_mig(profile.as_deref(), given),
        Isolation::Auto => Vec::new(),
    };
    let mut out: Vec<String> = against.into_iter().filter(|(given, ..)| *given).map(refused).collect();
    if waits(given) && given.bandwidth == Some(Bandwidth::Insensitive) {
        let (wait, bandwidth) = (name(Opt::Wait), name(Opt::Bandwidth));
        out.push(format!(
            "{wait} cannot be combined with {bandwidth}=insensitive: such a job gains nothing by waiting"
        ));
    }
    out
}

/// An option, whether it is given, and why it cannot be combined with the isolation.
type Against = (bool, Opt, &'static str);

fn against_slurm(given: &OptionValues) -> [Against; 8] {
    let why = "slurm means that Tessera changes nothing; leave it out";
    [
        (given.mem.is_some(), Opt::Mem, why),
        (given.instances.is_some(), Opt::Instances, why),
        (given.sms.is_some(), Opt::Sms, why),
        (given.pattern.is_some(), Opt::Pattern, why),
        (given.bandwidth.is_some(), Opt::Bandwidth, why),
        (given.policy.is_some(), Opt::SetPolicy, why),
        (given.wait.is_some(), Opt::Wait, why),
        (given.power.is_some() || given.auto_power, Opt::Power, why),
    ]
}

fn against_whole(given: &OptionValues) -> [Against; 2] {
    [
        (several(given), Opt::Instances, "whole GPUs are counted by --gpus-per-node or --gres=gpu:N"),
        (given.sms.is_some(), Opt::Sms, "a whole GPU has all its multiprocessors"),
    ]
}

fn against_mps(given: &OptionValues) -> [Against; 4] {
    [
        (several(given), Opt::Instances, "an mps job has one share per node; take mig for several"),
        (linked(given), Opt::Pattern, "one share talks to no other GPU; take whole"),
        (given.policy.is_some(), Opt::SetPolicy, "one share is no set of GPUs; take whole"),
        (waits(given), Opt::Wait, "one share has no links; take whole"),
    ]
}

fn against_tasks(given: &OptionValues) -> [Against; 5] {
    let alone = "its GPU tasks run on one device each; take whole";
    [
        (
            several(given),
            Opt::Instances,
            "GPU tasks share devices of the site's choice; take mig for several",
        ),
        (given.sms.is_some(), Opt::Sms, "each GPU task says what it needs when it begins"),
        (linked(given), Opt::Pattern, alone),
        (given.policy.is_some(), Opt::SetPolicy, alone),
        (waits(given), Opt::Wait, alone),
    ]
}

fn against_mig(profile: Option<&str>, given: &OptionValues) -> Vec<Against> {
    let mut out = Vec::new();
    if profile.and_then(split_compute_name).is_some() {
        let one = "a job has one compute instance per node; take an array of jobs";
        out.push((several(given), Opt::Instances, one));
        out.push((given.times.is_some(), Opt::Times, "it names the job's only size; leave one of them out"));
    }
    out.push((linked(given), Opt::Pattern, "MIG instances have no links to each other; take whole"));
    out.push((given.policy.is_some(), Opt::SetPolicy, "instances are no set of whole GPUs; take whole"));
    out.push((waits(given), Opt::Wait, "instances have no links; take whole"));
    out
}

fn several(given: &OptionValues) -> bool {
    given.per_task || given.instances.is_some_and(|n| n > 1)
}

fn waits(given: &OptionValues) -> bool {
    given.wait.is_some_and(|w| w != SetWait::NONE)
}

fn linked(given: &OptionValues) -> bool {
    given.pattern.as_ref().is_some_and(|p| *p != Pattern::None)
}

/// Explains what is wrong with `--gpu-power=auto`: it is for one named application that has its GPUs alone.
fn auto_power(isolation: &Isolation, given: &OptionValues, name: &dyn Fn(Opt) -> String) -> Option<String> {
    if !given.auto_power {
        return None;
    }
    let (auto, of) = (format!("{}=auto", name(Opt::Power)), name(Opt::Isolation));
    let fills = |profile: &String| {
        let profiles = Model::all().iter().filter_map(|m| Some((m, m.profile(profile)?)));
        profiles.into_iter().any(|(model, profile)| profile.compute_slices == model.compute_slices)
    };
    let alone = match isolation {
        // What slurm means is said elsewhere.
        Isolation::Whole | Isolation::None => true,
        Isolation::Mig(Some(profile)) => fills(profile),
        _ => false,
    };
    if !alone {
        return Some(format!(
            "{auto} cannot be combined with {of}={isolation}: it chooses a cap for a job that has its GPUs alone; take whole, an instance \
             of the whole GPU such as mig:7g.40gb, or watts"
        ));
    }
    let profile = name(Opt::App);
    given.app.is_none().then(|| format!("{auto}: also needs {profile}, whose counters decide the cap"))
}

/// The line for a request that no known GPU model could satisfy.
fn impossible(isolation: &Isolation, given: &OptionValues, name: &dyn Fn(Opt) -> String) -> Option<String> {
    let mem = given.mem.unwrap_or(0);
    match isolation {
        Isolation::Mig(Some(part)) if split_compute_name(part).is_some() => no_such_part(part, given, name),
        Isolation::Mig(Some(profile)) => {
            let of_that_name: Vec<_> =
                Model::all().iter().filter_map(|m| Some((m, m.profile(profile)?))).collect();
            let Some(most) = of_that_name.iter().map(|(_, p)| p.memory_mib).max() else {
                return Some(format!(
                    "{}=mig:{profile}: no GPU has this profile; {}",
                    name(Opt::Isolation),
                    known_profiles(profile)
                ));
            };
            if mem > most {
                return Some(format!(
                    "{}: asks for {}, but {}=mig:{profile} has at most {}",
                    name(Opt::Mem),
                    display_gb(mem),
                    name(Opt::Isolation),
                    display_gb(most)
                ));
            }
            let of_sms: Vec<_> = of_that_name.iter().map(|(model, profile)| (*model, profile.sm)).collect();
            too_few_sms(&of_sms, given.sms, name).map(|why| {
                format!("{why}, but {}=mig:{profile} has {}", name(Opt::Isolation), sms_in_words(&of_sms))
            })
        }
        _ => {
            let largest = Model::all().iter().map(|m| m.total_memory_mib).max().unwrap_or(u64::MAX);
            (mem > largest).then(|| {
                format!(
                    "{}: asks for {}, but no GPU has more than {}",
                    name(Opt::Mem),
                    display_gb(mem),
                    display_gb(largest)
                )
            })
        }
    }
}

/// The line for a compute instance that no known GPU model has, or that says too little or too much.
fn no_such_part(part: &str, given: &OptionValues, name: &dyn Fn(Opt) -> String) -> Option<String> {
    let isolation = || format!("{}=mig-shared:{part}", name(Opt::Isolation));
    let of_that_name: Vec<_> =
        Model::all().iter().filter_map(|m| m.compute_profile(part).map(|(p, c)| (m, p, c))).collect();
    let Some(most) = of_that_name.iter().map(|(_, p, _)| p.memory_mib).max() else {
        return Some(format!("{}: no GPU has this compute instance; {}", isolation(), known_parts(part)));
    };
    let Some(mem) = given.mem else {
        return Some(format!(
            "{}: also needs {}: the jobs in one GPU instance share its memory, and what they state must fit",
            isolation(),
            name(Opt::Mem)
        ));
    };
    if mem > most {
        return Some(format!(
            "{}: asks for {}, but the jobs of {} share at most {}",
            name(Opt::Mem),
            display_gb(mem),
            isolation(),
            display_gb(most)
        ));
    }
    let of_sms: Vec<_> = of_that_name.iter().map(|(model, _, size)| (*model, size.sm)).collect();
    too_few_sms(&of_sms, given.sms, name)
        .map(|why| format!("{why}, but {} has {}", isolation(), sms_in_words(&of_sms)))
}

/// The begin of a line for a request of more SMs than the instance of this name has on any model; `of_sms`: the models that have it,
/// with its SMs.
fn too_few_sms(of_sms: &[(&Model, u32)], asked: Option<u8>, name: &dyn Fn(Opt) -> String) -> Option<String> {
    let percent =
        asked.filter(|percent| of_sms.iter().all(|(model, sms)| *sms < model.least_sm(*percent)))?;
    Some(format!("{}: asks for at least {percent} %", name(Opt::Sms)))
}

/// The most that an instance has of a GPU's SMs, in words.
fn sms_in_words(of_sms: &[(&Model, u32)]) -> String {
    let part = |(model, sms): &&(&Model, u32)| sms * 1000 / model.full_gpu_sm.max(1);
    let most = of_sms.iter().max_by_key(part);
    most.map_or_else(String::new, |(model, sms)| model.sms_in_words(*sms))
}

/// The end of a message about an unknown compute instance: the sizes of its GPU instance, or what to write instead.
fn known_parts(wrong: &str) -> String {
    let Some((slices, profile)) = split_compute_name(wrong) else { return String::new() };
    let Some(of_that_name) = Model::all().iter().find_map(|m| m.profile(profile)) else {
        return format!("there is no profile {profile} either; {}", known_profiles(profile));
    };
    if of_that_name.compute_slices == slices {
        return format!("mig:{profile} is all of its compute slices");
    }
    let sizes: Vec<String> =
        of_that_name.compute.iter().map(|c| of_that_name.compute_name(c.slices)).collect();
    if sizes.is_empty() { format!("{profile} has none") } else { format!("known are {}", sizes.join(", ")) }
}

/// The end of a message about an unknown profile: the known ones with as many compute slices.
fn known_profiles(wrong: &str) -> String {
    let slices = |name: &str| name.split('.').next().map(str::to_owned);
    let mut names: Vec<&str> = Model::all()
        .iter()
        .flat_map(|m| &m.profiles)
        .filter(|p| !p.is_variant() && slices(&p.name) == slices(wrong))
        .map(|p| p.name.as_str())
        .collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return "`tessera profiles` lists them all".to_owned();
    }
    let meant = only_nearest(wrong, names.iter().copied());
    let meant = meant.map_or_else(String::new, |meant| format!("did you mean {meant}? "));
    format!("{meant}known are {}", names.join(", "))
}
