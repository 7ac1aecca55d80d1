//! Whether the node's GPUs are those that `tessera.toml` describes, and what slurmctld is told of it.

use std::env;

use error_chain::with_causes;
use gpu_node::{NodeInSlurm, Numbering, inspect, is_marked, unlike_described};
use plugin_rt::slurm_conf;
use site_config::gpu_order;

use crate::local::Local;

/// Compares, and lets jobs with GPUs onto the node or not; what was done, as lines.
pub(super) fn check(local: &Local<'_>) -> String {
    let slurm = NodeInSlurm { name: &local.name, conf: env::var("SLURM_CONF").ok() };
    let told = match unlike_described(&local.settings, &numbering(local)) {
        // A driver that does not answer is no other hardware: the jobs' prologs judge that.
        Err(e) => return format!("problem: the GPUs could not be compared: {}\n", with_causes(&e)),
        Ok(wrong) if wrong.is_empty() && !is_marked(&local.settings) => return String::new(),
        Ok(wrong) if wrong.is_empty() => {
            let layout = inspect(&local.settings, None).map(|i| i.node.layout()).unwrap_or_default();
            slurm
                .clear(&local.settings, &layout)
                .map(|()| format!("{}: takes jobs with GPUs again\n", local.name))
        }
        Ok(wrong) => {
            let why = wrong.join("; ");
            slurm
                .mark(&local.settings, &why)
                .map(|_| format!("problem: {} takes no jobs with GPUs: {why}\n", local.name))
        }
    };
    told.unwrap_or_else(|e| {
        format!("problem: slurmctld cannot be told about the GPUs: {}\n", with_causes(&e))
    })
}

/// How Slurm counts this node's GPUs; as the driver does where that cannot be told.
fn numbering(local: &Local<'_>) -> Numbering {
    let gres = slurm_conf::path(&|name| env::var(name).ok()).with_file_name("gres.conf");
    let order = std::fs::read_to_string(gres).ok().and_then(|text| gpu_order(&text, &local.name).ok());
    order.and_then(|order| Numbering::of(&local.settings, &order).ok()).unwrap_or_default()
}
