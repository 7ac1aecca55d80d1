//! Whether the node's GPUs are those that `tessera.toml` describes and its journal can be used, and what slurmctld is told of
//! it.

use std::env;

use error_chain::with_causes;
use gpu_node::{NodeInSlurm, Numbering, inspect, is_marked, journal_problem, unlike_described};
use plugin_rt::slurm_conf;
use site_config::gpu_order;

use crate::local::Local;

/// Compares, and lets jobs with GPUs onto the node or not; what was done, as lines.
pub(super) fn check(local: &Local<'_>) -> String {
    let slurm = NodeInSlurm { name: &local.name, conf: env::var("SLURM_CONF").ok() };
    let compared = unlike_described(&local.settings, &numbering(local));
    let no_journal = journal_problem(&local.settings);
    let told = match (compared, no_journal) {
        // A driver that does not answer is no other hardware: the jobs' prologs judge that.
        (Err(e), None) => return format!("problem: the GPUs could not be compared: {}\n", with_causes(&e)),
        (Ok(wrong), None) if wrong.is_empty() && !is_marked(&local.settings) => return String::new(),
        (Ok(wrong), None) if wrong.is_empty() => {
            let layout = inspect(&local.settings, None).map(|i| i.node.layout()).unwrap_or_default();
            slurm
                .clear(&local.settings, &layout)
                .map(|()| format!("{}: takes jobs with GPUs again\n", local.name))
        }
        (compared, no_journal) => {
            let why: Vec<String> = compared.unwrap_or_default().into_iter().chain(no_journal).collect();
            let why = why.join("; ");
            slurm
                .mark(&local.settings, &why)
                .map(|_| format!("problem: {} takes no jobs with GPUs: {why}\n", local.name))
        }
    };
    told.unwrap_or_else(|e| {
        format!("problem: slurmctld cannot be told about this node: {}\n", with_causes(&e))
    })
}

/// How Slurm counts this node's GPUs; as the driver does where that cannot be told.
fn numbering(local: &Local<'_>) -> Numbering {
    let gres = slurm_conf::path(&|name| env::var(name).ok()).with_file_name("gres.conf");
    let order = std::fs::read_to_string(gres).ok().and_then(|text| gpu_order(&text, &local.name).ok());
    order.and_then(|order| Numbering::of(&local.settings, &order).ok()).unwrap_or_default()
}
