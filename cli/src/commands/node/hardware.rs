//! Compares the node's GPUs with those that `tessera.toml` describes, checks that its journal can be used, and tells slurmctld of
//! it.

use std::env;

use error_chain::with_causes;
use gpu_node::{
    NodeInSlurm, blocks_gpu_jobs, inspect, journal_problem, missing_in_proc, node_extra, unlike_described,
};

use crate::local_node::Local;

/// True if files of the kernel's show that a GPU is missing. Keeps no prolog waiting: the driver's library is not asked.
pub(super) fn lacks_gpu(local: &Local<'_>) -> bool {
    local.missing_gpu.is_some() || missing_in_proc(&local.settings).is_some()
}

/// Compares, and lets jobs with GPUs onto the node or not; what was done, as lines.
pub(super) fn check(local: &Local<'_>) -> String {
    let slurm = NodeInSlurm::new(&local.name, &local.settings.node.state_dir, env::var("SLURM_CONF").ok());
    let compared = unlike_described(&local.settings, &local.settings.numbering).map(|wrong| {
        let shown = || missing_in_proc(&local.settings).filter(|why| !wrong.contains(why));
        let missing = local.missing_gpu.clone().or_else(shown);
        missing.into_iter().chain(wrong).collect::<Vec<String>>()
    });
    let no_journal = journal_problem(&local.settings);
    let told = match (compared, no_journal) {
        // A driver that does not answer is no other hardware: the jobs' prologs judge that.
        (Err(e), None) => return format!("problem: the GPUs could not be compared: {}\n", with_causes(&e)),
        (Ok(wrong), None) if wrong.is_empty() && !blocks_gpu_jobs(&local.settings) => return String::new(),
        (Ok(wrong), None) if wrong.is_empty() => {
            let layout = inspect(&local.settings, None)
                .map(|i| node_layout::layout_of(&i.node).to_string())
                .unwrap_or_default();
            let again = || format!("{}: takes jobs with GPUs again\n", local.name);
            let unblocked = node_extra::unblock_gpu_jobs(&slurm, &local.settings, &layout);
            unblocked.map(|is_new| is_new.then(again).unwrap_or_default())
        }
        (compared, no_journal) => {
            let why: Vec<String> = compared.unwrap_or_default().into_iter().chain(no_journal).collect();
            let why = why.join("; ");
            slurm
                .block_gpu_jobs(&local.settings, &why)
                .map(|_| format!("problem: {} takes no jobs with GPUs: {why}\n", local.name))
        }
    };
    told.unwrap_or_else(|e| {
        format!("problem: slurmctld cannot be told about this node: {}\n", with_causes(&e))
    })
}
