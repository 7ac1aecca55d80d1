//! The words of what is counted, for people and for metrics' labels.

use decision_counts::decisions::{Ask, Hook, Placing, Reason};

/// Returns why slurmctld leaves GPUs to Slurm, with what to do; `None` if it places them.
#[must_use]
pub fn off(placing: Placing) -> Option<&'static str> {
    match placing {
        Placing::On => None,
        Placing::NoFile => Some("slurmctld's machine has no tessera.toml in the directory of slurm.conf"),
        Placing::BadFile => Some(
            "tessera.toml has errors and no good version is known: correct it, then `scontrol reconfigure`",
        ),
        Placing::OtherSlurm => Some(
            "this slurmctld is not the Slurm that the plugin was built for: its log names the difference; install the \
             build for this very Slurm",
        ),
    }
}

/// The word for a call in a metric's label: Slurm's own name of the call, without `select_p_`.
#[must_use]
pub fn hook(hook: Hook) -> &'static str {
    match hook {
        Hook::JobTest => "job_test",
        Hook::JobBegin => "job_begin",
        Hook::Allocated => "select_nodeinfo_set",
        Hook::JobEnded => "job_fini",
        Hook::JobResized => "job_resized",
        Hook::StepStart => "step_start",
        Hook::NodesShown => "select_nodeinfo_set_all",
        Hook::Reconfigure => "reconfigure",
    }
}

/// The word for a question in a metric's label.
#[must_use]
pub fn ask(ask: Ask) -> &'static str {
    match ask {
        Ask::Submit => "submit",
        Ask::Change => "change",
        Ask::RunNow => "run_now",
        Ask::WillRun => "will_run",
        Ask::TestOnly => "test_only",
    }
}

/// Returns why the answer can be no.
#[must_use]
pub fn reasons(ask: Ask) -> &'static [Reason] {
    use Reason::{BetterGpus, Config, Failure, Impossible, Licenses, Limit, NoRoom, Options, Power, Slurm};
    match ask {
        Ask::Submit | Ask::Change => &[Options, Limit, Impossible, Config, Licenses],
        Ask::RunNow | Ask::WillRun => &[Limit, Impossible, Config, Power, BetterGpus, NoRoom, Slurm, Failure],
        Ask::TestOnly => &[Impossible, Config, Slurm],
    }
}

/// The word for a reason in a metric's label.
#[must_use]
pub fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::Options => "options",
        Reason::Limit => "limit",
        Reason::Impossible => "impossible",
        Reason::Config => "config",
        Reason::Licenses => "licenses",
        Reason::Power => "power",
        Reason::BetterGpus => "better_gpus",
        Reason::NoRoom => "no_room",
        Reason::Slurm => "slurm",
        Reason::Failure => "failure",
    }
}
