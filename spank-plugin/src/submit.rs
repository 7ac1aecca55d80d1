//! In sbatch, salloc and srun: the user's options become the job's request.

use std::ffi::CStr;
use std::ops::Range;

use plugin_rt::log;
use plugin_rt::read_file::{EDGE_LIST, read_small};
use protocol::Isolation;
use protocol::set_summary::MATCH_ENV;
use protocol::wire::{PLACEMENT_ENV, REQUEST_ENV, WHY_ENV, encode_request, parse_request};

use crate::args::Args;
use crate::counters;
use crate::salloc_shell;
use crate::spank::{Context, OptionsOfSrun, Spank, SpankError};
use job_options::{Refusal, Source, Spec, Typed};

/// By this variable, a `srun --quiet` tells its step's tasks to print no notice. srun hands on variables that begin with
/// `SLURM_` even under `--export=NONE`.
pub(crate) const QUIET_ENV: &CStr = c"SLURM_TESSERA_QUIET";

/// The request as the job's steps see it. sbatch and salloc export it. srun does not: a step of `srun --jobid` from outside the job
/// does not know it.
pub(crate) const REQUESTED: &CStr = c"SLURM_SPANK_TESSERA_REQUEST";

/// Decision about the submission.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SubmitOutcome {
    /// The submission goes on.
    Proceed,
    /// Nothing is submitted; the user reads these lines.
    Refuse(Vec<Refusal>),
}

/// Variables through which Slurm would hand an outer job's options to a submission inside that job.
///
/// sbatch and salloc export `SLURM_SPANK_<variable of the option>`; commands inside the job read it back as if it had
/// been typed. For pyxis-like options of a step that is wanted; ours belong to one job, and a second job made inside
/// it would ask for the same GPUs without having said so. Outside a job somebody set the variable on purpose, and it
/// stays. In a job srun starts a step, which learns from [`REQUESTED`] that its job has asked for GPUs of ours.
pub(crate) fn inherited_variables(
    context: Context,
    args: &Args,
    env: &dyn Fn(&str) -> Option<String>,
) -> Vec<String> {
    if !inside_a_job(env) {
        return Vec::new();
    }
    Spec::all_and_old()
        .map(|spec| option_variable(args, spec))
        .chain([PLACEMENT_ENV, WHY_ENV, MATCH_ENV].map(|name| format!("SLURM_SPANK_{name}")))
        .chain((context != Context::Local).then(|| REQUESTED.to_string_lossy().into_owned()))
        .collect()
}

/// Takes back what a heterogeneous job's previous component left behind.
///
/// sbatch and salloc export an option for the job's steps before they parse the next component, where the exported
/// value then comes back through the option's callback, besides what was typed for that component.
pub(crate) fn drop_previous_component(typed: &mut Typed, args: &Args, env: &dyn Fn(&str) -> Option<String>) {
    for (_, spec) in args.options() {
        if let Some(value) = env(&option_variable(args, spec)) {
            typed.drop_one(spec.opt, &value);
        }
    }
}

/// The variable through which Slurm exports an option: `SLURM_SPANK_`, `_SLURM_SPANK_OPTION_`, the plugin's name and
/// the option's, other characters as `_` [plugstack.c, `_opt_env_name`].
fn option_variable(args: &Args, spec: &Spec) -> String {
    let name = args.name_of(spec).replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    format!("SLURM_SPANK__SLURM_SPANK_OPTION_tessera_{name}")
}

/// Finds the place where the option was typed whose text is at the address `text`.
///
/// Slurm does not say, but hands on the pointer that getopt found: into the command line as the kernel laid it out, or
/// to a copy of an `#SBATCH` line or variable, which only sbatch reads. Slurm calls the callback for the script first,
/// then for the variable, then for the command line [src/sbatch/opt.c, `process_options_second_pass`].
pub(crate) fn source(comm: &str, command_line: Option<Range<usize>>, text: usize) -> Source {
    match command_line {
        Some(range) if comm == "sbatch" && !range.contains(&text) => Source::Script,
        _ => Source::CommandLine,
    }
}

/// Tells whether a request asks to be left to Slurm.
pub(crate) fn asks_for_none(request: &str) -> bool {
    parse_request(request).is_ok_and(|r| r.isolation == Isolation::None)
}

/// Tells whether a step's job has asked for GPUs of ours, as far as the step knows. The variable is the user's own.
pub(crate) fn asks_for_ours(spank: &dyn Spank) -> bool {
    spank.getenv(REQUESTED).is_some_and(|text| !asks_for_none(&text))
}

fn inside_a_job(env: &dyn Fn(&str) -> Option<String>) -> bool {
    ["SLURM_JOB_ID", "SLURM_JOBID"].iter().any(|name| env(name).is_some_and(|v| !v.is_empty()))
}

/// Tells whether the command runs in a job that has instances or a share. The task environment says what the job got. salloc's shell
/// has only what the job asked for when it was submitted, which `tessera change` may have changed.
pub(crate) fn job_has_part_of_a_gpu(env: &dyn Fn(&str) -> Option<String>) -> bool {
    let request = || env(&REQUESTED.to_string_lossy()).and_then(|text| parse_request(&text).ok());
    let asked = || request().is_some_and(|r| matches!(r.isolation, Isolation::Mig(_) | Isolation::Mps));
    let got = env("TESSERA_ISOLATION").map(|kind| ["mig", "mps"].contains(&kind.as_str()));
    inside_a_job(env) && got.unwrap_or_else(asked)
}

/// Explains what is wrong with a step's `--gpu-bind` in such a job: Slurm leaves its tasks without any GPU, and 22.05 ends
/// them with SIGSEGV for `--gpu-bind=none`.
pub(crate) fn wrong_bind(bind: Option<&str>, job_has_part: bool) -> Option<String> {
    let bind = bind.filter(|_| job_has_part)?;
    Some(format!(
        "--gpu-bind={bind} cannot be combined with a job that has instances or a share: it binds tasks to whole GPUs, and tasks \
         get their instances or share without it; leave it out"
    ))
}

/// Says how steps of `srun --exact` get an instance each, where this one takes the shards of all: the others would wait for it.
pub(crate) fn holds_all_instances(
    srun: &OptionsOfSrun,
    env: &dyn Fn(&str) -> Option<String>,
) -> Option<String> {
    let all =
        env("TESSERA_INSTANCES").filter(|_| srun.takes_all_gres && !srun.is_quiet && inside_a_job(env))?;
    let instances: Vec<&str> = all.split([',', ';']).filter_map(|one| one.split('@').next()).collect();
    let (first, n) = (*instances.first()?, instances.len());
    // Of each instance Slurm counts a shard per GB in its name.
    let shards: u32 = first.rsplit_once('.')?.1.strip_suffix("gb")?.parse().ok()?;
    (n > 1).then(|| {
        format!(
            "this step has all {n} instances of the job, and other steps wait for it: for one {first} each, use srun \
             --exact --gres=shard:{shards}"
        )
    })
}

/// Everything has been parsed: checks it and stores the request with the job to be.
///
/// Called once per component of a heterogeneous job, with that component's options in `typed`.
pub(crate) fn init_post_opt(
    spank: &dyn Spank,
    context: Context,
    args: &Args,
    mut typed: Typed,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<SubmitOutcome, SpankError> {
    if context == Context::Local && inside_a_job(env) {
        let names = typed.names(&args.renames);
        if !names.is_empty() {
            log::user(format_args!(
                "{} ignored: a step uses the GPUs of its job; give it to sbatch or salloc",
                names.join(", ")
            ));
        }
        return Ok(SubmitOutcome::Proceed);
    }
    typed.fill_from_env(env);
    let read = |path: &str| read_small(path.as_ref(), EDGE_LIST).map_err(|e| format!("cannot be read: {e}"));
    match typed.request(&args.renames, &read) {
        Err(refusals) => return Ok(SubmitOutcome::Refuse(refusals)),
        // The previous component of a heterogeneous job may have left its request there.
        Ok(None) => spank.control_unsetenv(REQUEST_ENV),
        Ok(Some(mut request)) => {
            match counters::of_user(&request, env) {
                Ok(counters) => request.counters = counters,
                Err(why) => return Ok(SubmitOutcome::Refuse(vec![Refusal::new(why)])),
            }
            let request = encode_request(&request);
            spank.control_setenv(REQUEST_ENV, &request)?;
            if context == Context::Local {
                spank.set_env(&REQUESTED.to_string_lossy(), &request);
            }
            if let Some(hint) =
                salloc_shell::hint(env).filter(|_| args.notice && context == Context::Allocator)
            {
                log::user(format_args!("{hint}"));
            }
        }
    }
    // Only slurmctld decides. It strips this as well: a user may send what he likes.
    spank.control_unsetenv(PLACEMENT_ENV);
    spank.control_unsetenv(WHY_ENV);
    spank.control_unsetenv(MATCH_ENV);
    Ok(SubmitOutcome::Proceed)
}

/// The status that Slurm's commands end with after an error: `SLURM_EXIT_ERROR`, else 1.
pub(crate) fn exit_status(env: &dyn Fn(&str) -> Option<String>) -> i32 {
    env("SLURM_EXIT_ERROR").and_then(|v| v.parse().ok()).filter(|status| *status != 0).unwrap_or(1)
}

/// Why options cannot be used in this command: scrontab parses them but never asks what they mean.
pub(crate) fn unusable_command(comm: &str) -> Option<&'static str> {
    (comm == "scrontab")
        .then_some("the --gpu options do not work in scrontab: let the entry call sbatch with them")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_holds_all_instances_is_told_how_to_take_one() {
        let said = |instances: &str, takes_all_gres, is_quiet| {
            let srun = OptionsOfSrun { is_quiet, gpu_bind: None, takes_all_gres };
            holds_all_instances(&srun, &|name| match name {
                "SLURM_JOB_ID" => Some("7".to_owned()),
                "TESSERA_INSTANCES" => Some(instances.to_owned()),
                _ => None,
            })
        };
        let two = "3g.20gb@0:4,3g.20gb@0:0";
        assert_eq!(
            said(two, true, false).as_deref(),
            Some(
                "this step has all 2 instances of the job, and other steps wait for it: for one 3g.20gb each, use srun \
                 --exact --gres=shard:20"
            )
        );
        assert_eq!(said(two, true, true), None);
        for (instances, takes_all) in [(two, false), ("1g.5gb@0:4", true), ("", true), ("x,y", true)] {
            assert_eq!(said(instances, takes_all, false), None, "{instances}");
        }
    }

    #[test]
    fn a_step_of_a_job_with_a_part_of_a_gpu_is_not_bound_to_gpus() {
        let has = |name: &str, value: &str| {
            job_has_part_of_a_gpu(&|asked| match asked {
                "SLURM_JOB_ID" => Some("7".to_owned()),
                asked => (asked == name).then(|| value.to_owned()),
            })
        };
        assert!(has("SLURM_SPANK_TESSERA_REQUEST", "v1 iso=mig:1g.5gb") && has("TESSERA_ISOLATION", "mps"));
        assert!(!has("SLURM_SPANK_TESSERA_REQUEST", "v1 iso=whole") && !has("TESSERA_ISOLATION", "whole"));
        let changed = |name: &str| match name {
            "SLURM_JOB_ID" => Some("7".to_owned()),
            "TESSERA_ISOLATION" => Some("whole".to_owned()),
            _ => Some("v1 iso=mig:1g.5gb".to_owned()),
        };
        assert!(!job_has_part_of_a_gpu(&changed), "what it got counts");
        assert!(!job_has_part_of_a_gpu(&|name| (name == "TESSERA_ISOLATION").then(|| "mig".to_owned())));
        assert_eq!(wrong_bind(Some("closest"), false), None);
        assert_eq!(wrong_bind(None, true), None);
        assert!(
            wrong_bind(Some("none"), true)
                .is_some_and(|why| why.starts_with("--gpu-bind=none cannot be combined"))
        );
    }
}
