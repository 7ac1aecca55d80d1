//! A node's answer to a job: it has room, it has room once some jobs end, it never has, or that is not Tessera's to say.

mod engine;
mod needs;
mod order;
mod words;

use std::collections::{BTreeSet, HashMap};

use far::Micros;
use geometry::{JobId, counted};
use node_state::{Ask, Policy};
use placement::admits_ever;
use protocol::Isolation;

use crate::layout_line;
use crate::sick_words::sick_list;
use crate::slurm_nodes::{Aside, Live, Present, Whose};
pub(crate) use engine::seen_by;
use engine::verdict;
pub(crate) use needs::Needs;
pub(crate) use order::NodeOrder;
pub(crate) use words::{json, soonest};

/// A node's answer to a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It has room: the engine's reason for the place.
    Now(String),
    /// It has room when these jobs have ended, ascending.
    After {
        jobs: Vec<JobId>,
        /// When the last of them is expected to end, µs from now; `None`: one of them has no known end.
        within: Option<Micros>,
    },
    /// Even the empty node has no room: why.
    Never(String),
    /// Slurm alone gives the job what it asks for there, or lets it wait: why.
    Slurm(String),
    /// No such job starts there until an administrator has mended this.
    Unfit(String),
}

/// By how soon the job could start: where it can or Slurm may start it, where jobs must end first, and the others.
pub(crate) fn rank(verdict: &Verdict) -> (u8, Micros) {
    match verdict {
        Verdict::Now(_) | Verdict::Slurm(_) => (0, 0),
        Verdict::After { within, .. } => (1, within.unwrap_or(Micros::MAX)),
        Verdict::Unfit(_) => (2, 0),
        Verdict::Never(_) => (3, 0),
    }
}

/// The verdict of each node; nodes that say the same stand together, in the order of tessera.toml.
pub(crate) fn by_verdict(
    live: &Live,
    ask: &Ask,
    policy: &Policy,
    ends: &HashMap<JobId, Micros>,
) -> Vec<(Vec<String>, Verdict)> {
    let mut known: HashMap<usize, Verdict> = HashMap::new();
    let mut all: Vec<(Vec<String>, Verdict)> = Vec::new();
    for present in &live.nodes {
        let found = known
            .entry(present.state)
            .or_insert_with(|| verdict(&present.node, &present.sick, ask, policy, ends))
            .clone();
        match all.iter_mut().find(|(_, verdict)| *verdict == found) {
            Some((names, _)) => names.push(present.name.clone()),
            None => all.push((vec![present.name.clone()], found)),
        }
    }
    for left in &live.aside {
        let found = without_tessera(left, ask);
        match all.iter_mut().find(|(_, verdict)| *verdict == found) {
            Some((names, _)) => names.push(left.name.clone()),
            None => all.push((vec![left.name.clone()], found)),
        }
    }
    all
}

/// Answers for a job that has its nodes to itself. `company` are the jobs on each node, with GPUs or without.
pub(crate) fn by_verdict_alone(
    live: &Live,
    ask: &Ask,
    policy: &Policy,
    ends: &HashMap<JobId, Micros>,
    company: &HashMap<String, Vec<JobId>>,
) -> Vec<(Vec<String>, Verdict)> {
    if ask.plain && ask.request.isolation == Isolation::Mps {
        // Neither on 22.05 nor on 24.11; seen live.
        let why = "Slurm gives no shards to a job that has its nodes to itself, so it would wait for ever; use --gres=gpu:N";
        let here = live.nodes.iter().map(|present| present.name.clone());
        let names: Vec<String> = here.chain(live.aside.iter().map(|left| left.name.clone())).collect();
        return if names.is_empty() { Vec::new() } else { vec![(names, Verdict::Never(why.to_owned()))] };
    }
    let mut never: HashMap<usize, Option<String>> = HashMap::new();
    let mut of = |present: &Present| {
        let known = never.entry(present.state).or_insert_with(|| {
            let node = seen_by(&present.node, ask);
            admits_ever(&node, &ask.on(&node).request, policy).err().map(|never| never.to_string())
        });
        match known {
            Some(never) => Verdict::Never(never.clone()),
            None => alone(present, ends, company),
        }
    };
    let here: Vec<(&str, Verdict)> =
        live.nodes.iter().map(|present| (present.name.as_str(), of(present))).collect();
    let aside = live.aside.iter().map(|left| (left.name.as_str(), without_tessera(left, ask)));
    let mut all: Vec<(Vec<String>, Verdict)> = Vec::new();
    for (name, found) in here.into_iter().chain(aside) {
        match all.iter_mut().find(|(_, verdict)| *verdict == found) {
            Some((names, _)) => names.push(name.to_owned()),
            None => all.push((vec![name.to_owned()], found)),
        }
    }
    all
}

/// Answers for a job that would have all of the node.
fn alone(present: &Present, ends: &HashMap<JobId, Micros>, company: &HashMap<String, Vec<JobId>>) -> Verdict {
    if let Some(sick) = sick_list(&present.sick) {
        return Verdict::Unfit(sick);
    }
    if present.idle {
        let n = present.node.gpus.len();
        return Verdict::Now(format!("the whole node with its {}", counted(n, "GPU")));
    }
    let others = company.get(&present.name);
    // squeue lists all of them.
    let is_known = |job: &JobId| others.is_none() || *job != layout_line::UNLISTED;
    let holders = layout_line::holders(&present.node).into_iter().filter(is_known);
    let others = others.into_iter().flatten().copied();
    let jobs: Vec<JobId> = holders.chain(others).collect::<BTreeSet<_>>().into_iter().collect();
    let within = jobs.iter().map(|job| ends.get(job).copied()).collect::<Option<Vec<_>>>();
    Verdict::After { jobs, within: within.map(|ends| ends.into_iter().max().unwrap_or(0)) }
}

/// Answers for a node where Tessera places no job.
fn without_tessera(aside: &Aside, ask: &Ask) -> Verdict {
    let why = &aside.why;
    match aside.whose {
        Whose::Nobodys => Verdict::Unfit(why.clone()),
        Whose::Slurms | Whose::SlurmsForNow if ask.plain => {
            Verdict::Slurm(format!("the node is left to it: {why}"))
        }
        Whose::Slurms => Verdict::Never(format!(
            "the node is left to Slurm: {why}; use --gres alone, without Tessera's options"
        )),
        Whose::SlurmsForNow => Verdict::Unfit(why.clone()),
    }
}
