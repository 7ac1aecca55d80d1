//! A note for the user of an accepted job: it gets whole GPUs, though the user said how much of one it needs.

use protocol::{Isolation, Request};
use site_limits::Submission;

/// The note for a job that was accepted with the request `asked`, as the user made it; `None`: it gets what the options say.
///
/// Slurm's own options win: such a job is counted in whole GPUs. It is told so only if it could have a part without them: `gets_part` tells
/// that of a submission.
pub(crate) fn whole_instead_of_part(
    asked: &Request,
    job: &Submission,
    gets_part: impl FnOnce(&Submission) -> bool,
) -> Option<String> {
    let parts = [("--gpu-mem", asked.mem_mib.is_some()), ("--gpu-sms", asked.threads.is_some())];
    let said: Vec<&str> = parts.into_iter().filter_map(|(name, given)| given.then_some(name)).collect();
    let says = match said[..] {
        [] => return None,
        [one] => format!("{one} says"),
        _ => format!("{} say", said.join(" and ")),
    };
    let gpus = job.tres.gpu_entries().into_iter().find(|entry| entry.name == "gpu" && entry.count > 0);
    if asked.isolation != Isolation::Auto || (gpus.is_none() && !job.exclusive) {
        return None;
    }
    let without = Submission { tres: site_limits::tres::Tres::default(), exclusive: false, ..job.clone() };
    if !gets_part(&without) {
        return None;
    }
    Some(match gpus.filter(|_| !job.exclusive) {
        Some(gpus) => {
            let option = format!("{}={}", gpus.option, gpus.text);
            let what = if gpus.count == 1 && gpus.per_node { "a whole GPU" } else { "whole GPUs" };
            format!(
                "{option} asks for {what}, so the job gets more than {says}; to get a part of a GPU, leave {option} out"
            )
        }
        None => format!(
            "with --exclusive, or in a partition of whole nodes (OverSubscribe=EXCLUSIVE), the job gets every GPU of its nodes, \
             more than {says}; to get a part of a GPU, leave --exclusive out or take another partition"
        ),
    })
}
