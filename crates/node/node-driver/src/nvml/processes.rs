//! Processes with a CUDA context, from the driver's two lists.

use std::collections::HashSet;

/// A process as one of the driver's lists shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) pid: u32,
    /// Id of the GPU instance that it is in, if it is in one.
    pub(super) gpu_instance: Option<u32>,
    /// Id of the compute instance, likewise.
    pub(super) compute_instance: Option<u32>,
    /// Memory, bytes, where the driver tells it.
    pub(super) used: Option<u64>,
}

/// Returns both lists as one, each process once in a place. Driver 580 has MPS clients in both, with their memory in each: an H200 showed it (docs/real-gpu.md).
pub(super) fn merged(mut all: Vec<Shown>, clients: Vec<Shown>) -> Vec<Shown> {
    let place = |p: &Shown| (p.pid, p.gpu_instance, p.compute_instance);
    let known: HashSet<_> = all.iter().map(place).collect();
    all.extend(clients.into_iter().filter(|client| !known.contains(&place(client))));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_mps_client_in_both_lists_is_one_process() {
        let of = |pid, gpu_instance| Shown { pid, gpu_instance, compute_instance: None, used: Some(8 << 30) };
        // An MPS server and its client; then one that the second list alone has, and the client in another place.
        let (server, client, alone, elsewhere) =
            (of(843, None), of(841, None), of(853, None), of(841, Some(3)));
        let all = merged(vec![server, client], vec![client, alone, elsewhere]);
        assert_eq!(all, [server, client, alone, elsewhere]);
    }
}
