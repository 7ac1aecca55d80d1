//! How many jobs of a shape could start now.

use std::cmp::Reverse;
use std::collections::HashMap;

use admission::Ruling;
use geometry::size::shards;
use geometry::{JobId, Uid};
use mapa::Memo;
use node_state::{Ask, Gpu, GpuState, Node, Policy, Spread};
use placement::{NodeCost, decide_with};
use protocol::wire::encode_request;
use protocol::{Grant, Request, ShareOn};
use site_config::SiteConfig;
use site_limits::Submission;
use site_limits::counted::Counted;

use super::shapes::Shape;
use crate::allowance::{Allowance, need_on, slices_of};
use crate::slurm::gres_type;
use crate::slurm_nodes::Present;

/// A shape and the jobs of it that could start.
pub(crate) struct Free {
    pub(crate) shape: Shape,
    /// Jobs by node, for nodes with at least one, in the order in which Slurm takes them; or why such a job is refused.
    pub(crate) nodes: Result<Vec<(String, u32)>, String>,
    /// The most that limits let start now; `None`: any number.
    pub(crate) allowed: Option<u64>,
}

impl Free {
    /// Jobs that the nodes have room for, all together.
    pub(crate) fn room(&self) -> u32 {
        self.nodes.as_ref().map_or(0, |nodes| nodes.iter().map(|(_, n)| n).sum())
    }

    /// Jobs that could start: those with room, as far as limits allow.
    pub(crate) fn total(&self) -> u32 {
        self.room().min(self.allowed.map_or(u32::MAX, |most| u32::try_from(most).unwrap_or(u32::MAX)))
    }
}

/// The user who asks, and the rules that hold.
#[derive(Clone, Copy)]
pub(super) struct Rules<'a> {
    pub(super) config: &'a SiteConfig,
    pub(super) policy: &'a Policy,
    /// The job with partition and account.
    pub(super) who: &'a Submission,
    pub(super) uid: Uid,
    pub(super) under: Under<'a>,
}

/// Slurm's limits, and the job's time limit in minutes, where they are known.
pub(crate) type Under<'a> = (Option<&'a Allowance>, Option<u64>);

/// The jobs of `shape` that the user could start, one after another. Nodes that are alike are answered once, and so are the sets of
/// whole GPUs that `memo` has.
pub(super) fn count(shape: Shape, nodes: &[Present], rules: Rules<'_>, memo: &mut Memo) -> Free {
    let Rules { config, policy, who, uid, under: (allowance, minutes) } = rules;
    let job =
        Submission { request: Some(encode_request(&shape.request)), tres: shape.tres.clone(), ..who.clone() };
    let (request, add) = match admission::judge(&job, Some(config)) {
        Ruling::Accepted { request, add, .. } => (request, add),
        Ruling::Untouched => (shape.request.clone(), None),
        Ruling::Refused(why) => return Free { shape, nodes: Err(why.text), allowed: None },
    };
    let fill = site_limits::node_order(config, who.partitions.first().map(String::as_str))
        .filter(|_| !who.exclusive);
    let mut known: HashMap<usize, OnNode> = HashMap::new();
    let mut free = Vec::new();
    for present in nodes {
        let OnNode { n, cost, .. } = *known.entry(present.alike).or_insert_with(|| {
            let each = add.filter(|(name, _)| *name == "shard").map_or(0, |(_, each)| each);
            let found = on_node(&present.node, &request, each, policy, uid, memo);
            // Such a job gets a whole node, with no unhealthy GPU.
            let whole = present.idle && present.sick.is_empty();
            let n = if who.exclusive { found.n.min(whole.into()) } else { found.n };
            OnNode { n, ..found }
        });
        if n > 0 {
            let cost = cost.zip(fill).map(|(cost, fill)| cost.under(fill));
            free.push(((present.weight, cost), present.name.clone(), n));
        }
    }
    // Where Slurm's own order holds, the nodes with most come first among those of one weight.
    free.sort_by_key(|(place, _, n)| (*place, if place.1.is_none() { Reverse(*n) } else { Reverse(0) }));
    let slices = known.values().filter(|found| found.n > 0).map(|found| found.slices).min().unwrap_or(0);
    let counted = match add {
        Some(("shard", shards)) => Counted::Shards(u64::from(shards)),
        Some((_, gpus)) => Counted::Gpus(u64::from(gpus)),
        None => Counted::Gpus(gres_type::count_of(&shape.tres, "gpu")),
    };
    let allowed = allowance.and_then(|allowance| allowance.most(&need_on(1, counted, slices, minutes)));
    Free { shape, nodes: Ok(free.into_iter().map(|(_, name, n)| (name, n)).collect()), allowed }
}

/// Shards that Slurm has left for shares of a GPU, which has fewer shards than gigabytes.
fn shards_left(gpu: &Gpu) -> u32 {
    let taken = match &gpu.state {
        GpuState::Mps(shares) => shares.iter().map(|share| shards(share.mem_mib)).sum(),
        _ => 0,
    };
    gpu.model.shards().saturating_sub(taken)
}

/// The jobs that could start on a node.
#[derive(Clone, Copy)]
struct OnNode {
    n: u32,
    /// Cost of the first job for all others.
    cost: Option<NodeCost>,
    /// The slices that Slurm counts for the first.
    slices: u64,
}

/// Lets jobs start one after another until the node has no room. A share counts only while Slurm has shards for it, `each`, on its GPU.
fn on_node(node: &Node, request: &Request, each: u32, policy: &Policy, uid: Uid, memo: &mut Memo) -> OnNode {
    let mut node = node.clone();
    let mut left: Vec<u32> = node.gpus.iter().map(shards_left).collect();
    let mut found = OnNode { n: 0, cost: None, slices: 0 };
    // Real jobs have numbers from 1: these count down from the largest.
    for n in 0_u32.. {
        let job = JobId(u32::MAX - n);
        // As the controller asks: Slurm 22.05 gives all of a job's shards on a node from one GPU.
        let ask = Ask { spread: Spread::ALIKE, ..Ask::new(job, uid, request.clone()) };
        let decision = decide_with(&node, &ask, policy, memo);
        if n == 0 {
            found.cost = placement::rank(&node, &decision);
            found.slices = decision.chosen.as_ref().map_or(0, |grant| slices_of(grant, &node, policy));
        }
        let Some(grant) = decision.chosen else { return found };
        if node.apply(job, uid, &grant).is_err() {
            return found;
        }
        if let Grant::Mps { on: ShareOn::Gpu(gpu), .. } = &grant {
            let Some(rest) = left[usize::from(gpu.0)].checked_sub(each) else { continue };
            left[usize::from(gpu.0)] = rest;
        }
        found.n += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use geometry::Model;
    use geometry::size::gigabytes_as_mib;
    use node_state::MigPolicy;
    use protocol::Isolation;
    use topology::HardwareGraph;

    use super::*;

    /// By memory 17 shares of 5 GB fit on an H100 of 80 GB; Slurm has 80 shards for them, and none of the other GPU's are of use.
    #[test]
    fn a_share_counts_while_slurm_has_shards_for_it_on_its_gpu() {
        let gpu = || Gpu::new(Model::find("h100-80gb-sxm").unwrap(), MigPolicy::Off);
        let mut node = Node::new(vec![gpu(), gpu()], HardwareGraph::uniform(2, 25.0));
        node.gpus[0].state = GpuState::Whole(JobId(1));
        let request = Request { mem_mib: Some(gigabytes_as_mib(5)), ..Request::new(Isolation::Mps) };
        let n = |each| on_node(&node, &request, each, &Policy::default(), Uid(1000), &mut Memo::default()).n;
        assert_eq!((n(0), n(5)), (17, 16));
    }
}
