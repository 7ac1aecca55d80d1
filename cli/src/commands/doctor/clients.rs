//! Programs that keep a GPU's MIG mode as it is, because they have the GPU open.

use std::collections::HashSet;

use gpu_node::Inspection;
use gpu_node::gpu_clients::{GpuClient, holding};
use node_driver::GpuMinor;
use node_state::MigPolicy;

use super::findings::Findings;
use crate::local_node::Local;

/// Most programs that one line names.
const MOST_NAMED: usize = 5;

/// Names the programs that have a GPU open which no job has and whose MIG mode jobs may change, if nothing stops them then.
pub(super) fn check(local: &Local<'_>, inspection: &Inspection, findings: &mut Findings) {
    let settings = &local.settings;
    if !settings.node.gpu_clients_command.is_empty() {
        return;
    }
    let with_jobs: HashSet<GpuMinor> =
        inspection.entries.iter().flat_map(|entry| &entry.gpus).map(|gpu| gpu.minor).collect();
    let mut open: Vec<(Vec<u16>, Vec<GpuClient>)> = Vec::new();
    for gpu in inspection.gpus.iter().map(|view| &view.info) {
        let described = settings.gpus.get(usize::from(gpu.index.0));
        let changes = described.is_some_and(|described| described.policy == MigPolicy::Dynamic);
        if !changes || with_jobs.contains(&gpu.minor) {
            continue;
        }
        let clients = holding(&settings.node.dev_root, gpu.minor);
        match open.iter_mut().find(|(_, others)| *others == clients) {
            _ if clients.is_empty() => {}
            Some((gpus, _)) => gpus.push(gpu.index.0),
            None => open.push((vec![gpu.index.0], clients)),
        }
    }
    for (gpus, clients) in open {
        findings.bad(in_words(&local.name, &gpus, &clients));
    }
}

/// Says for GPUs that the same programs have open what follows from that and what to do.
fn in_words(node: &str, gpus: &[u16], clients: &[GpuClient]) -> String {
    let named: Vec<String> = clients.iter().take(MOST_NAMED).map(ToString::to_string).collect();
    let numbers: Vec<String> = gpus.iter().map(ToString::to_string).collect();
    let (gpus, are, of) = match gpus.len() {
        1 => ("GPU", "is", "it"),
        _ => ("GPUs", "are", "them"),
    };
    format!(
        "{node}: {gpus} {} {are} open in {}: jobs that need another MIG mode of {of} fail meanwhile; stop such programs, or let \
         gpu_clients_command in tessera.toml do it",
        numbers.join(", "),
        named.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_that_the_same_programs_have_open_share_a_line() {
        let client = |pid, name: &str| GpuClient { pid, name: name.to_owned() };
        let clients = [client(7, "nv-hostengine"), client(9, "nvidia-persiste")];
        assert_eq!(
            in_words("n1", &[0, 1, 3], &clients),
            "n1: GPUs 0, 1, 3 are open in nv-hostengine (process 7), nvidia-persiste (process 9): jobs that need another MIG mode of \
             them fail meanwhile; stop such programs, or let gpu_clients_command in tessera.toml do it"
        );
        assert!(
            in_words("n1", &[2], &clients[..1])
                .starts_with("n1: GPU 2 is open in nv-hostengine (process 7): ")
        );
    }
}
