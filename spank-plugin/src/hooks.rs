//! Decides what a hook does in the process that has called it, and keeps what a submitting command has typed from hook to hook.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use job_options::{Opt, Spec, Typed};
use plugin_rt::log;

use crate::args::Args;
use crate::spank::{Context, Spank, SpankError};
use crate::submit::SubmitOutcome;
use crate::{slurmstepd, spawn_reconcile, submit};

/// A submitting command, from its first hook to its last.
#[derive(Debug)]
struct Submission {
    /// Options as they arrive, until `init_post_opt` takes them.
    typed: Typed,
    /// The command runs in a job that has instances or a share.
    in_part: bool,
    /// Number of calls of `init_post_opt`: one per component of a heterogeneous job.
    components: u32,
}

static SUBMISSION: Mutex<Submission> =
    Mutex::new(Submission { typed: Typed::new(), in_part: false, components: 0 });

/// Runs `work` on this process's submission.
fn submission<T>(work: impl FnOnce(&mut Submission) -> T) -> T {
    // A panic while it was held has been logged; what was typed until then is still right.
    work(&mut SUBMISSION.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The way in which the process goes on after a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// As Slurm would without us.
    GoOn,
    /// The submitting command ends with this status. Returning an error instead adds two lines about plugins to ours, and under
    /// `optional` in plugstack.conf it would not even stop the submission.
    EndCommand(i32),
}

/// Every process: registers the options; in slurmd, starts the reconciliation instead.
pub(crate) fn init(
    spank: &dyn Spank,
    context: Context,
    args: &Args,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<(), SpankError> {
    match context {
        Context::Slurmd => spawn_reconcile::at_slurmds_start(spank, args),
        Context::JobScript | Context::Other => {}
        Context::Local | Context::Allocator if !args.options => {}
        Context::Local | Context::Allocator => {
            submission(|all| all.in_part = submit::job_has_part_of_a_gpu(env));
            submit::inherited_variables(context, args, env).iter().for_each(|name| spank.forget_env(name));
            register_options(spank, args)?;
        }
        Context::Remote => register_options(spank, args)?,
    }
    Ok(())
}

fn register_options(spank: &dyn Spank, args: &Args) -> Result<(), SpankError> {
    let mut options: Vec<_> = args.options().collect();
    // Slurm's help lists them in this order: the memory first, because the others narrow what it gives.
    options.sort_by_key(|(_, spec)| spec.opt != Opt::Mem);
    options.into_iter().try_for_each(|(at, spec)| spank.register(args.name_of(spec), at, spec))
}

/// Source of an option's text.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// Name of the program that hosts us.
    pub(crate) comm: String,
    /// Address range of its command line.
    pub(crate) command_line: Option<Range<usize>>,
    /// Address of the text.
    pub(crate) address: usize,
}

/// Takes an option's text; `remote`: in slurmstepd, where the placement is what counts and nothing is taken. False: the command
/// must end.
///
/// Values are only checked in [`init_post_opt`], together: the message is ours, and Slurm adds none.
pub(crate) fn option_given(position: usize, text: &str, remote: bool, found: Found) -> bool {
    let Some(spec) = Spec::by_position(position) else { return false };
    if remote {
        return true;
    }
    if let Some(why) = submit::unusable_command(&found.comm) {
        log::error(why);
        return false;
    }
    let source = submit::source(&found.comm, found.command_line, found.address);
    submission(|all| all.typed.push_as(spec, text, source));
    true
}

/// Options are complete: in a submitting command they become the request, in slurmstepd (still root) the step's share of the
/// node is read.
pub(crate) fn init_post_opt(
    spank: &dyn Spank,
    context: Context,
    args: &Args,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Next, SpankError> {
    match context {
        Context::Local | Context::Allocator if !args.options => Ok(Next::GoOn),
        Context::Local | Context::Allocator => submission(|all| all.complete(spank, context, args, env)),
        Context::Remote => slurmstepd::init_post_opt(spank, args, env).map(|()| Next::GoOn),
        Context::Slurmd | Context::JobScript | Context::Other => Ok(Next::GoOn),
    }
}

impl Submission {
    /// Makes the request of one component.
    fn complete(
        &mut self,
        spank: &dyn Spank,
        context: Context,
        args: &Args,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Next, SpankError> {
        let mut typed = std::mem::take(&mut self.typed);
        if self.components > 0 {
            submit::drop_previous_component(&mut typed, args, env);
        }
        self.components += 1;
        let srun = spank.options_of_srun();
        if context == Context::Local && srun.is_quiet {
            spank.set_env(&submit::QUIET_ENV.to_string_lossy(), "1");
        }
        let refused = Next::EndCommand(submit::exit_status(env));
        if let Some(why) = submit::wrong_bind(srun.gpu_bind.as_deref(), self.in_part) {
            log::error(why);
            return Ok(refused);
        }
        if let Some(why) = submit::holds_all_instances(&srun, env).filter(|_| args.notice) {
            log::user(format_args!("{why}"));
        }
        match submit::init_post_opt(spank, context, args, typed, env)? {
            SubmitOutcome::Proceed => Ok(Next::GoOn),
            SubmitOutcome::Refuse(refusals) => {
                refusals.iter().for_each(log::error);
                Ok(refused)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_spank::FakeSpank;
    use job_options::Source;

    fn none(_: &str) -> Option<String> {
        None
    }

    fn typed(opt: Opt, text: &str) -> Typed {
        let mut typed = Typed::new();
        typed.push(opt, text, Source::CommandLine);
        typed
    }

    #[test]
    fn a_component_does_not_inherit_the_option_of_the_one_before() {
        let args = Args::default();
        let exported = |name: &str| {
            (name == "SLURM_SPANK__SLURM_SPANK_OPTION_tessera_gpu_mem").then(|| "10G".to_owned())
        };
        let mut all = Submission { typed: typed(Opt::Mem, "10G"), in_part: false, components: 0 };
        let spank = FakeSpank::default();
        assert_eq!(all.complete(&spank, Context::Allocator, &args, &exported).unwrap(), Next::GoOn);
        assert_eq!(spank.control("TESSERA_REQUEST").as_deref(), Some("v1 iso=auto mem=9537"));
        all.typed = typed(Opt::Mem, "10G");
        assert_eq!(all.complete(&spank, Context::Allocator, &args, &exported).unwrap(), Next::GoOn);
        assert_eq!(spank.control("TESSERA_REQUEST"), None);
    }

    #[test]
    fn a_refused_submission_ends_with_slurms_status() {
        let status = |name: &str| (name == "SLURM_EXIT_ERROR").then(|| "7".to_owned());
        let complete = |typed, in_part, bind: Option<&str>, env: &dyn Fn(&str) -> Option<String>| {
            let spank = FakeSpank::default().with_gpu_bind(bind);
            let mut all = Submission { typed, in_part, components: 0 };
            all.complete(&spank, Context::Local, &Args::default(), env).unwrap()
        };
        assert_eq!(complete(typed(Opt::Mem, "much"), false, None, &none), Next::EndCommand(1));
        assert_eq!(complete(typed(Opt::Mem, "much"), false, None, &status), Next::EndCommand(7));
        assert_eq!(complete(Typed::new(), true, Some("closest"), &none), Next::EndCommand(1));
        assert_eq!(complete(Typed::new(), false, Some("closest"), &none), Next::GoOn);
    }

    #[test]
    fn a_quiet_srun_tells_its_tasks() {
        let quiet = |context| {
            let spank = FakeSpank { is_quiet: true, ..FakeSpank::default() };
            let mut all = Submission { typed: Typed::new(), in_part: false, components: 0 };
            all.complete(&spank, context, &Args::default(), &none).unwrap();
            spank.process.borrow().contains_key("SLURM_TESSERA_QUIET")
        };
        assert!(quiet(Context::Local) && !quiet(Context::Allocator));
    }

    /// sbatch and salloc export it themselves.
    #[test]
    fn a_step_of_srun_knows_what_its_job_has_asked() {
        let request = submit::REQUESTED.to_str().unwrap();
        assert_eq!(request, format!("SLURM_SPANK_{}", protocol::wire::REQUEST_ENV));
        let spank = FakeSpank::default();
        let mut all = Submission { typed: typed(Opt::Mem, "10G"), in_part: false, components: 0 };
        all.complete(&spank, Context::Local, &Args::default(), &none).unwrap();
        assert_eq!(spank.process.borrow().get(request).map(String::as_str), Some("v1 iso=auto mem=9537"));

        let in_job = |name: &str| (name == "SLURM_JOB_ID").then(|| "7".to_owned());
        init(&spank, Context::Local, &Args::default(), &in_job).unwrap();
        assert!(spank.process.borrow().contains_key(request), "in a script or salloc's shell");
        init(&spank, Context::Allocator, &Args::default(), &in_job).unwrap();
        assert!(!spank.process.borrow().contains_key(request), "a job of its own");
    }

    #[test]
    fn only_a_submitting_command_that_can_use_options_takes_one() {
        let found = |comm: &str| Found { comm: comm.to_owned(), command_line: None, address: 0 };
        assert!(!option_given(99, "x", false, found("sbatch")), "no option of ours");
        assert!(!option_given(1, "10G", false, found("scrontab")));
        assert!(option_given(1, "10G", true, found("slurmstepd")), "nobody listens");
    }
}
