//! Programs that keep a GPU's MIG mode as it is, because they have the GPU open.

use std::collections::HashSet;

use gpu_node::Inspection;
use gpu_node::gpu_clients::holding;
use node_driver::GpuMinor;
use node_state::MigPolicy;

use super::findings::Findings;
use crate::local_node::Local;

/// Most programs that are named for one GPU.
const MOST_NAMED: usize = 5;

/// Names the programs that have a GPU open which no job has and whose MIG mode jobs may change, if nothing stops them then.
pub(super) fn check(local: &Local<'_>, inspection: &Inspection, findings: &mut Findings) {
    let settings = &local.settings;
    if !settings.gpu_clients_command.is_empty() {
        return;
    }
    let with_jobs: HashSet<GpuMinor> =
        inspection.entries.iter().flat_map(|entry| &entry.gpus).map(|gpu| gpu.minor).collect();
    for gpu in inspection.gpus.iter().map(|view| &view.info) {
        let described = settings.gpu(gpu.index);
        let changes = described.is_some_and(|described| described.policy == MigPolicy::Dynamic);
        if !changes || with_jobs.contains(&gpu.minor) {
            continue;
        }
        let clients = holding(&settings.dev_root, gpu.minor);
        if !clients.is_empty() {
            let named: Vec<String> = clients.iter().take(MOST_NAMED).map(ToString::to_string).collect();
            findings.bad(format!(
                "{}: GPU {} is open in {}: jobs that need another MIG mode of it fail meanwhile; stop such programs, or let \
                 gpu_clients_command in tessera.toml do it",
                local.name,
                gpu.index,
                named.join(", ")
            ));
        }
    }
}
