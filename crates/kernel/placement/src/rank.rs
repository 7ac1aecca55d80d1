//! Ranks nodes for a job: what the best choice inside a node costs everybody else.
//!
//! # Problem
//! [`decide`](crate::decide()) is optimal inside one node. Slurm takes the node with the fewest free CPUs, so a job may
//! open a fresh GPU, or a node that was whole, beside one that is cut already, and a set may get a tenth of the bandwidth
//! that another node has.
//!
//! # Approach
//! Compare the nodes' best choices, field by field of [`NodeCost`], in the order in which they hurt:
//! 1. *slower*: of a set whose job is sensitive to bandwidth, steps of 10 % in what it is predicted to reach. Within a step nodes
//!    count as equally fast; a set of which nothing is predicted comes last;
//! 2. *oversubscribed*, *parts*: what the job takes of a GPU and is billed for. A share that joins others takes none;
//! 3. *opens_node*: there is no job on the node's GPUs yet, and the job leaves some of them. Large jobs find whole nodes;
//! 4. *expected*: capacity that is expected to stay unused for ever, by what is asked for on this cluster. The caller fills it in
//!    ([`NodeCost::expected`]); 0 where nothing is learnt yet;
//! 5. *opened*, *lost*, *switched*, *created*, *destroyed*: as inside a node ([`decision_report::Cost`]);
//! 6. *free*: GPUs that nobody has, so that the fullest node comes first.
//!
//! A site that wants jobs apart ([`Fill::Spread`]) compares *busy*, the node's GPUs with jobs, before *opens_node*.
//! Nodes with equal costs stay in Slurm's order: the fewest free CPUs, then the node table.
//!
//! # Limits
//! Instances and GPU tasks are ranked by what one choice takes now; what jobs to come will ask for counts for shares and whole
//! GPUs alone.

use std::cmp::Ordering;
use std::fmt;

use decision_report::report::Fate;
use decision_report::{Cost, Decision};
use node_state::{Fill, Node};

/// Bandwidths within this ratio count as equally fast.
const STEP: f64 = 1.1;

/// Slowness of a set of GPUs; less is faster. Sets within one step of 10 % are equal. The default, of which nothing is predicted,
/// is the slowest of all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slowness {
    /// Fewer for more GB/s.
    steps: i32,
    /// Predicted bandwidth, rounded for people.
    gbps: i32,
}

impl Slowness {
    /// Returns the slowness of a set that is predicted to reach so many GB/s.
    #[must_use]
    pub fn of_gbps(gbps: f64) -> Self {
        if !gbps.is_finite() || gbps <= 0.0 {
            return Self::default();
        }
        #[expect(clippy::cast_possible_truncation, reason = "casts of finite numbers stop at the largest")]
        let (steps, gbps) = ((gbps.ln() / STEP.ln()).floor() as i32, gbps.round() as i32);
        Self { steps: -steps, gbps }
    }
}

impl fmt::Display for Slowness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.gbps > 0 { write!(f, "{} GB/s", self.gbps) } else { f.write_str("nothing predicted") }
    }
}

impl PartialEq for Slowness {
    fn eq(&self, other: &Self) -> bool {
        self.steps == other.steps
    }
}

impl Eq for Slowness {}

impl PartialOrd for Slowness {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Slowness {
    fn cmp(&self, other: &Self) -> Ordering {
        self.steps.cmp(&other.steps)
    }
}

/// Cost of a job's best choice on one node; less is better, earlier fields first. See the module's documentation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeCost {
    /// Slowness of a set whose job is sensitive to bandwidth; 0 where bandwidth does not matter.
    pub slower: Slowness,
    /// True if the device's threads are promised more than once.
    pub oversubscribed: bool,
    /// [`decision_report::report::GPU_PARTS`]ths of a GPU that the job takes.
    pub parts: u32,
    /// GPUs of the node with jobs: see [`NodeCost::under`].
    pub busy: u32,
    /// True if the job is the first on the node's GPUs and leaves some of them.
    pub opens_node: bool,
    /// Capacity that is expected to stay unused because of the choice, millionths of a GPU, less if negative: `cluster_rank` has it
    /// for shares and whole GPUs. [`rank`] leaves it 0.
    pub expected: i64,
    /// As inside the node, without the sizes.
    pub cost: Cost,
    /// GPUs of the node without jobs, before this one.
    pub free: u32,
}

/// Returns what `decision`, the best on `node` as it is now, costs the others; `None` if nothing was chosen.
#[must_use]
pub fn rank(node: &Node, decision: &Decision) -> Option<NodeCost> {
    let chosen = decision.chosen.as_ref()?;
    let takes = decision.report.kinds.iter().find(|kind| kind.chosen).and_then(|kind| kind.outcome.ok());
    let busy = node.gpus.iter().filter(|gpu| gpu.has_job()).count();
    let (set, cost) = match part_cost(decision.report.best) {
        Some(cost) => (0, cost),
        None => (chosen.gpus().len(), Cost { opened: count(chosen.gpus().len()), ..Cost::default() }),
    };
    Some(NodeCost {
        slower: slower(decision.report.best),
        oversubscribed: takes.is_some_and(|takes| takes.oversubscribed),
        parts: takes.map_or(0, |takes| takes.parts),
        busy: count(busy),
        opens_node: busy == 0 && set < node.gpus.len(),
        expected: 0,
        cost: cost.without_size(),
        free: count(node.gpus.len() - busy),
    })
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// The cost inside the node of a grant that is no set of whole GPUs.
fn part_cost(best: Option<Fate>) -> Option<Cost> {
    match best? {
        Fate::Costs(cost) => Some(cost),
        Fate::Share(score) => Some(score.cost),
        Fate::Compute(score) => Some(score.cost),
        Fate::Seats(score) => Some(score.cost),
        Fate::Set(_) | Fate::Links { .. } | Fate::Ruled(_) => None,
    }
}

/// Slowness of the set of a job that is sensitive to bandwidth.
fn slower(best: Option<Fate>) -> Slowness {
    match best {
        Some(Fate::Set(score)) if score.sensitive => {
            score.scores.eff_bw.map_or_else(Slowness::default, Slowness::of_gbps)
        }
        _ => Slowness::default(),
    }
}

impl NodeCost {
    /// The cost where the site fills these nodes first: busy GPUs count only where it spreads.
    #[must_use]
    pub fn under(self, fill: Fill) -> Self {
        match fill {
            Fill::Pack => Self { busy: 0, ..self },
            Fill::Spread => self,
        }
    }

    /// Says what decides for this node against `other`, which `name` names, as people read it behind the name of this node:
    /// `300 GB/s, 52 GB/s on n1`. `None` if `other` is as good or better.
    #[must_use]
    pub fn advantage_over(&self, other: &Self, name: &str) -> Option<String> {
        let (cost, its) = (self.cost, other.cost);
        let fills = if cost.opened == 0 { "fills a GPU that is in use already; " } else { "" };
        let fields = [
            (self.slower.cmp(&other.slower), format!("{}, {} on {name}", self.slower, other.slower)),
            (
                self.oversubscribed.cmp(&other.oversubscribed),
                format!("has GPU threads left; on {name} all are promised"),
            ),
            (self.parts.cmp(&other.parts), format!("takes a smaller part of a GPU than on {name}")),
            (self.busy.cmp(&other.busy), format!("fewer GPUs are busy than on {name}")),
            (self.opens_node.cmp(&other.opens_node), format!("{fills}keeps {name} whole")),
            (
                self.expected.cmp(&other.expected),
                format!("{fills}less of what the job gets stays unused than on {name}"),
            ),
            (cost.opened.cmp(&its.opened), format!("{fills}keeps a GPU of {name} whole")),
            (cost.lost.cmp(&its.lost), format!("leaves more room for other instances than on {name}")),
            (cost.switched.cmp(&its.switched), format!("switches fewer GPUs to MIG than on {name}")),
            (cost.created.cmp(&its.created), format!("makes fewer instances than on {name}")),
            (cost.destroyed.cmp(&its.destroyed), format!("destroys fewer idle instances than on {name}")),
            (self.free.cmp(&other.free), format!("fewer GPUs are free; those of {name} stay together")),
        ];
        let (order, why) = fields.into_iter().find(|(order, _)| order.is_ne())?;
        order.is_lt().then_some(why)
    }
}
