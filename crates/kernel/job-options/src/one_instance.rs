//! Checks of `--gpu-times`, `--gpu-app` and `--gpu-place`, which are all about one MIG instance: its possible sizes
//! and its place.

use geometry::size::display_gb;
use geometry::{Model, Profile, split_compute_name};
use protocol::{Isolation, Request};

use crate::option_values::OptionValues;
use crate::table::Opt;

/// Lists those of the three options that were used, in the order of the table.
fn options(given: &OptionValues) -> impl Iterator<Item = Opt> {
    let options = [
        (given.times.is_some(), Opt::Times),
        // Beside auto, the profile names the application whose power cap is sought.
        (given.app.is_some() && !given.auto_power, Opt::App),
        (given.place.is_some(), Opt::Place),
    ];
    options.into_iter().filter(|(is_given, _)| *is_given).map(|(_, opt)| opt)
}

/// A line for each of the three options that contradicts the isolation or the number of instances.
pub(super) fn contradictions(
    isolation: &Isolation,
    given: &OptionValues,
    name: &dyn Fn(Opt) -> String,
) -> Vec<String> {
    let other = match isolation {
        Isolation::Mig(_) | Isolation::Auto => None,
        Isolation::None => Some("slurm means that Tessera changes nothing; leave it out"),
        Isolation::Mps | Isolation::Tasks { .. } | Isolation::Whole => {
            Some("it is about a MIG instance; leave one of them out")
        }
    };
    let refused = |opt: Opt| {
        // Of whole GPUs, the application's traffic is learnt.
        if opt == Opt::App && *isolation == Isolation::Whole {
            return None;
        }
        if let Some(why) = other {
            return Some(format!(
                "{} cannot be combined with {}={isolation}: {why}",
                name(opt),
                name(Opt::Isolation)
            ));
        }
        given.instances.filter(|n| *n > 1 || given.per_task).map(|n| {
            let (instances, each) = (name(Opt::Instances), if given.per_task { "/task" } else { "" });
            format!(
                "{} cannot be combined with {instances}={n}{each}: it is about one instance; take an array of jobs",
                name(opt)
            )
        })
    };
    options(given).filter_map(refused).collect()
}

/// The line for a request that no known GPU model could satisfy.
pub(super) fn impossible(
    isolation: &Isolation,
    given: &OptionValues,
    name: &dyn Fn(Opt) -> String,
) -> Option<String> {
    let request = Request {
        mem_mib: given.mem,
        threads: given.sms,
        times: given.times.clone().unwrap_or_default(),
        job_profile: given.app.clone(),
        auto_cap: given.auto_power,
        ..Request::new(isolation.clone())
    };
    let moldable = request.is_moldable();
    no_such_size(&request, name)
        .or_else(|| not_listed(isolation, &request, name).filter(|_| moldable))
        .or_else(|| too_large(&request, name).filter(|_| moldable))
        .or_else(|| no_such_place(isolation, given, &request, name))
}

fn plain_profiles() -> impl Iterator<Item = &'static Profile> {
    Model::all().iter().flat_map(|m| &m.profiles).filter(|p| !p.is_variant())
}

fn no_such_size(request: &Request, name: &dyn Fn(Opt) -> String) -> Option<String> {
    let exists = |slices: u8| plain_profiles().any(|p| p.compute_slices == slices);
    let wrong = request.times.iter().find(|t| !exists(t.slices))?;
    let mut known: Vec<u8> = plain_profiles().map(|p| p.compute_slices).collect();
    known.sort_unstable();
    known.dedup();
    let known: Vec<String> = known.iter().map(|slices| format!("{slices}g")).collect();
    Some(format!(
        "{}: no GPU has an instance of size {}g; known are {}",
        name(Opt::Times),
        wrong.slices,
        known.join(", ")
    ))
}

/// The line for a job that names a profile without a run time for its size: the job runs on it if no planner runs.
fn not_listed(isolation: &Isolation, request: &Request, name: &dyn Fn(Opt) -> String) -> Option<String> {
    let Isolation::Mig(Some(profile)) = isolation else { return None };
    let of_that_name = Model::all().iter().find_map(|m| m.profile(profile))?;
    let isolation = format!("{}=mig:{profile}", name(Opt::Isolation));
    if of_that_name.is_variant() {
        let moldable = if request.times.is_empty() { Opt::App } else { Opt::Times };
        return Some(format!(
            "{isolation} cannot be combined with {}: a planner chooses among profiles without extra engines; leave one of them \
             out",
            name(moldable)
        ));
    }
    let slices = of_that_name.compute_slices;
    let listed = request.times.is_empty() || request.times.iter().any(|t| t.slices == slices);
    (!listed)
        .then(|| format!("{isolation}: its size is not in {}; add {slices}g:TIME there", name(Opt::Times)))
}

/// The line for a job none of whose sizes has enough memory and multiprocessors on any model.
fn too_large(request: &Request, name: &dyn Fn(Opt) -> String) -> Option<String> {
    if Model::all().iter().any(|m| !request.sizes_on(m).is_empty()) {
        return None;
    }
    let any = Request { mem_mib: None, threads: None, ..request.clone() };
    let largest = Model::all().iter().flat_map(|m| any.sizes_on(m)).map(|s| s.profile.memory_mib).max()?;
    let sizes = if request.times.is_empty() {
        "profile".to_owned()
    } else {
        format!("size of {} ({})", name(Opt::Times), request.listed())
    };
    Some(match request.mem_mib.filter(|mem| *mem > largest) {
        Some(mem) => format!(
            "{}: asks for {}, but no {sizes} has more than {}",
            name(Opt::Mem),
            display_gb(mem),
            display_gb(largest)
        ),
        None => format!("{}: no {sizes} has that part of its GPU", name(Opt::Sms)),
    })
}

fn no_such_place(
    isolation: &Isolation,
    given: &OptionValues,
    request: &Request,
    name: &dyn Fn(Opt) -> String,
) -> Option<String> {
    let place = given.place?;
    let wanted = |p: &&Profile| match isolation {
        Isolation::Mig(Some(profile)) => {
            p.name == split_compute_name(profile).map_or(profile.as_str(), |(_, within)| within)
        }
        _ => {
            !p.is_variant()
                && (request.times.is_empty() || request.times.iter().any(|t| t.slices == p.compute_slices))
        }
    };
    let profiles = Model::all().iter().flat_map(|m| &m.profiles).filter(wanted);
    let mut starts: Vec<u8> = profiles.flat_map(|p| &p.starts).map(|s| s.0).collect();
    starts.sort_unstable();
    starts.dedup();
    if starts.contains(&place.start.0) {
        return None;
    }
    let starts: Vec<String> = starts.iter().map(ToString::to_string).collect();
    let what = match isolation {
        Isolation::Mig(Some(profile)) => {
            split_compute_name(profile).map_or(profile.as_str(), |(_, within)| within).to_owned()
        }
        _ => "the instance".to_owned(),
    };
    Some(format!("{}={place}: {what} can only start at memory slice {}", name(Opt::Place), starts.join(", ")))
}

#[cfg(test)]
mod tests {
    use protocol::wire::{encode_request, parse_request};

    use crate::names::Renames;
    use crate::{check, value};

    /// The request's wire form, or the refusals, of options on one command line.
    fn outcome(options: &str) -> String {
        let read = |option: &str| {
            let (name, text) = option.split_once('=').unwrap();
            let spec = crate::Spec::by_name(name.strip_prefix("--").unwrap()).unwrap();
            value::read(spec.opt, text, &|_| Err("no file".to_owned()))
                .map_err(|why| format!("{option}: {why}"))
        };
        let values: Result<Vec<_>, String> = options.split(' ').map(read).collect();
        let request = values.and_then(|values| {
            check::request(values, &Renames::new())
                .map_err(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
        });
        match request {
            Ok(request) => {
                let wire = encode_request(&request);
                assert_eq!(parse_request(&wire).as_ref(), Ok(&request), "the wire carries all of it");
                wire
            }
            Err(why) => format!("refused: {why}"),
        }
    }

    #[test]
    fn options_of_one_instance_make_their_request() {
        for (options, want) in [
            ("--gpu-times=2g:35s,1g:0:01:00", "v1 iso=mig times=1g:60,2g:35"),
            ("--gpu-times=1g:1 --gpu-isolation=auto", "v1 iso=mig typed=1 times=1g:60"),
            ("--gpu-times=1g:60s --gpu-mem=10G", "v1 iso=mig mem=9537 times=1g:60"),
            (
                "--gpu-times=1g:1s,2g:1s --gpu-isolation=mig:2g.10gb",
                "v1 iso=mig:2g.10gb typed=1 times=1g:1,2g:1",
            ),
            ("--gpu-app=bert-large.v2", "v1 iso=mig job-profile=bert-large.v2"),
            ("--gpu-app=bert --gpu-times=7g:1s", "v1 iso=mig times=7g:1 job-profile=bert"),
            ("--gpu-isolation=mig:2g.10gb --gpu-place=3@4", "v1 iso=mig:2g.10gb typed=1 place=3@4"),
            ("--gpu-place=0@0 --gpu-instances=1", "v1 iso=mig place=0@0"),
        ] {
            assert_eq!(outcome(options), want, "{options}");
        }
    }

    #[test]
    fn wrong_options_of_one_instance_say_what_is_expected() {
        let cases = [
            "--gpu-times=",
            "--gpu-times=1g",
            "--gpu-times=1g:0",
            "--gpu-times=1g:-5",
            "--gpu-times=1g:60,1g:50",
            "--gpu-times=5g:10",
            "--gpu-times=2g.10gb:10",
            "--gpu-times=1g:60 --gpu-isolation=mps",
            "--gpu-times=1g:60 --gpu-app=x --gpu-isolation=whole",
            "--gpu-times=1g:60 --gpu-isolation=slurm",
            "--gpu-times=1g:60 --gpu-instances=2",
            "--gpu-times=1g:60 --gpu-pattern=ring",
            "--gpu-times=1g:60,2g:35 --gpu-isolation=mig:3g.20gb",
            "--gpu-times=1g:60 --gpu-isolation=mig:1g.5gb+me",
            "--gpu-times=1g:60 --gpu-isolation=mig:9g.5gb",
            "--gpu-times=1g:60,2g:30 --gpu-mem=70G",
            "--gpu-times=1g:60 --gpu-sms=90",
            "--gpu-app=",
            "--gpu-app=../x",
            "--gpu-app=2g.10gb",
            "--gpu-app=x --gpu-isolation=mps",
            "--gpu-place=3",
            "--gpu-place=3@-1",
            "--gpu-place=3@1 --gpu-isolation=mig:2g.10gb",
            "--gpu-place=3@1 --gpu-times=7g:1",
            "--gpu-place=3@4 --gpu-isolation=whole",
            "--gpu-place=3@4 --gpu-instances=2",
        ];
        let lines: Vec<String> =
            cases.iter().map(|c| format!("{c}\n  {}", outcome(c).replace('\n', "\n  "))).collect();
        insta::assert_snapshot!(lines.join("\n"));
    }
}
