//! Every grant that could answer a request on one node.

use geometry::GpuIndex;
use node_state::{Ask, Node, Policy};
use protocol::{Grant, Isolation, MigSpec, Request, TaskDevices, TaskGrant};

use crate::alternatives::shares;
use crate::compute_rules::every_compute;
use crate::every_place::every_place;
use crate::legal::legal;
use crate::task_rules::seats;

/// Returns every grant that could answer the request, legal or not. Sets of whole GPUs come once, lowest GPU first. There are as
/// many as subsets: for nodes of few GPUs.
#[must_use]
pub fn every_grant(node: &Node, ask: &Ask, policy: &Policy) -> Vec<Grant> {
    let mut grants = Vec::new();
    // Only instances that are legal alone can be legal together.
    let alone = Ask { request: Request { instances: 1, ..ask.request.clone() }, ..ask.clone() };
    let places: Vec<MigSpec> =
        every_place(node).filter(|s| legal(node, &alone, policy, &Grant::Mig(vec![*s])).is_empty()).collect();
    subsets(&places, ask.request.instances.max(1) as usize, &mut |set| {
        let mut specs = set.to_vec();
        specs.sort_by_key(|s| (s.gpu, s.start));
        grants.push(Grant::Mig(specs));
    });
    grants.extend(every_compute(node, ask));
    grants.extend(shares(node, ask, policy));
    if ask.request.gpus.is_none() {
        grants.extend(seats(node, ask, policy).into_iter().map(Grant::Tasks));
    }
    let gpus: Vec<GpuIndex> = (0_u16..).take(node.gpus.len()).map(GpuIndex).collect();
    let probes = ask.request.isolation == Isolation::Tasks { probes: true };
    subsets(&gpus, ask.request.gpus.unwrap_or(1) as usize, &mut |set| {
        grants.push(Grant::Whole(set.to_vec()));
        let on = TaskDevices::Own { gpus: set.to_vec(), seats: ask.request.seats };
        grants.push(Grant::Tasks(TaskGrant { on, mem_mib: ask.request.mem_mib, probes }));
    });
    grants
}

fn subsets<T: Copy>(of: &[T], n: usize, f: &mut impl FnMut(&[T])) {
    fn extend<T: Copy>(of: &[T], n: usize, chosen: &mut Vec<T>, f: &mut impl FnMut(&[T])) {
        if n == 0 {
            return f(chosen);
        }
        for i in 0..of.len() {
            chosen.push(of[i]);
            extend(&of[i + 1..], n - 1, chosen, f);
            chosen.pop();
        }
    }
    extend(of, n, &mut Vec::new(), f);
}
