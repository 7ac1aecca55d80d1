//! What a node says to a job: it has room, it has room once some jobs end, it never has, or that is not Tessera's to say.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use far::Micros;
use geometry::{JobId, SHARD_MIB};
use node_state::{Ask, Node, Policy, Purpose};
use placement::{admits_ever, decide};
use protocol::Isolation;
use serde_json::{Value, json};

use crate::clock::span;
use crate::live::{Aside, Live, Present, Whose};

/// Most jobs that a line names.
const MOST_JOBS: usize = 4;
/// Most lines of nodes that a person reads.
const MOST_LINES: usize = 12;

/// What a node says to a job.
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

impl Verdict {
    /// `has room when job 12 (bob) ends, expected in 20 min`; the engine's reason where there is room now. `user` tells
    /// whose a job is.
    pub(crate) fn words(&self, user: &dyn Fn(JobId) -> Option<String>) -> String {
        self.words_with(user, MOST_JOBS)
    }

    /// The same with so many jobs by name.
    pub(crate) fn words_with(&self, user: &dyn Fn(JobId) -> Option<String>, most_jobs: usize) -> String {
        match self {
            Self::Now(why) => format!("now: {why}"),
            Self::Never(why) => format!("never: {why}"),
            Self::Slurm(why) => format!("Slurm alone decides: {why}"),
            Self::Unfit(why) => format!("not until an administrator mends it: {why}"),
            Self::After { jobs, .. } if jobs.is_empty() => "no room, though no job is there".to_owned(),
            Self::After { jobs, within } => {
                let s = if jobs.len() == 1 { ("", "s") } else { ("s", "") };
                let when = match within {
                    Some(micros) => format!(", expected in {}", span(micros.div_ceil(1_000_000))),
                    None if jobs.len() == 1 => ", which has no known end".to_owned(),
                    None => "; at least one of them has no known end".to_owned(),
                };
                format!("has room when job{} {} end{}{when}", s.0, named(jobs, user, most_jobs), s.1)
            }
        }
    }
}

/// The same for programs: `room` is `now`, `later`, `never`, `slurm` or `unfit`.
pub(crate) fn json(names: &[String], verdict: &Verdict) -> Value {
    match verdict {
        Verdict::Now(why) => json!({ "names": names, "room": "now", "why": why }),
        Verdict::Never(why) => json!({ "names": names, "room": "never", "why": why }),
        Verdict::Slurm(why) => json!({ "names": names, "room": "slurm", "why": why }),
        Verdict::Unfit(why) => json!({ "names": names, "room": "unfit", "why": why }),
        Verdict::After { jobs, within } => {
            let ids: Vec<u32> = jobs.iter().map(|job| job.0).collect();
            let within = within.map(|micros| micros.div_ceil(1_000_000));
            json!({ "names": names, "room": "later", "jobs": ids, "within_s": within })
        }
    }
}

/// `12 (bob), 13 (carol) and 3 more`.
fn named(jobs: &[JobId], user: &dyn Fn(JobId) -> Option<String>, most: usize) -> String {
    let name = |id: &JobId| match user(*id) {
        Some(user) => format!("{id} ({user})"),
        None => id.to_string(),
    };
    let mut words = jobs.iter().take(most).map(name).collect::<Vec<_>>().join(", ");
    if jobs.len() > most {
        let _ = write!(words, " and {} more", jobs.len() - most);
    }
    words
}

/// By how soon the job could start: where it can, where Slurm may start it, where jobs must end first, and the others.
pub(crate) fn rank(verdict: &Verdict) -> (u8, Micros) {
    match verdict {
        Verdict::Now(_) => (0, 0),
        Verdict::Slurm(_) => (1, 0),
        Verdict::After { within, .. } => (2, within.unwrap_or(Micros::MAX)),
        Verdict::Unfit(_) => (3, 0),
        Verdict::Never(_) => (4, 0),
    }
}

/// The verdicts for a person: all of a few; of many those that have room first, and a line about the others. `all`: the option
/// that shows these.
pub(crate) fn soonest<'a>(
    verdicts: &'a [(Vec<String>, Verdict)],
    all: &str,
) -> (Vec<&'a (Vec<String>, Verdict)>, Option<String>) {
    let mut shown: Vec<&(Vec<String>, Verdict)> = verdicts.iter().collect();
    if shown.len() > MOST_LINES {
        shown.sort_by_key(|(_, verdict)| rank(verdict));
    }
    let rest = shown.split_off(shown.len().min(MOST_LINES));
    let nodes = |which: &dyn Fn(&Verdict) -> bool| -> usize {
        rest.iter().filter(|(_, verdict)| which(verdict)).map(|(names, _)| names.len()).sum()
    };
    let now = nodes(&|verdict| matches!(verdict, Verdict::Now(_)));
    let counted = [(now, "now"), (nodes(&|_| true) - now, "later or never")];
    let counted = counted.into_iter().filter(|(n, _)| *n > 0);
    let words: Vec<String> =
        counted.map(|(n, when)| format!("{n} more node{} {when}", if n == 1 { "" } else { "s" })).collect();
    (shown, (!words.is_empty()).then(|| format!("{}: {all} names them", words.join(", "))))
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
        let found =
            known.entry(present.state).or_insert_with(|| verdict(&present.node, ask, policy, ends)).clone();
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

/// The same for a job that has its nodes to itself. `company` are the jobs on each node, with GPUs or without.
pub(crate) fn by_verdict_alone(
    live: &Live,
    ask: &Ask,
    policy: &Policy,
    ends: &HashMap<JobId, Micros>,
    company: &HashMap<String, Vec<JobId>>,
) -> Vec<(Vec<String>, Verdict)> {
    if ask.plain && ask.request.isolation == Isolation::Mps {
        // Neither on 22.05 nor on 24.11; seen live.
        let why = "Slurm gives no shards to a job that has its nodes to itself, so it would wait for ever; ask --gres=gpu:N";
        let here = live.nodes.iter().map(|present| present.name.clone());
        let names: Vec<String> = here.chain(live.aside.iter().map(|left| left.name.clone())).collect();
        return if names.is_empty() { Vec::new() } else { vec![(names, Verdict::Never(why.to_owned()))] };
    }
    let mut never: HashMap<usize, Option<String>> = HashMap::new();
    let mut of = |present: &Present| {
        let known = never.entry(present.state).or_insert_with(|| {
            let node = seen_by(&present.node, ask);
            admits_ever(&node, &ask.request, policy).err().map(|never| never.to_string())
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

/// What a node says to a job that would have all of it.
fn alone(present: &Present, ends: &HashMap<JobId, Micros>, company: &HashMap<String, Vec<JobId>>) -> Verdict {
    if present.idle {
        let n = present.node.gpus.len();
        return Verdict::Now(format!("the whole node with its {n} GPU{}", if n == 1 { "" } else { "s" }));
    }
    let layout = node_state::layout_of(&present.node);
    let holders = layout.gpus.iter().flat_map(|gpu| gpu.jobs());
    let others = company.get(&present.name).into_iter().flatten().copied();
    let jobs: Vec<JobId> = holders.chain(others).collect::<BTreeSet<_>>().into_iter().collect();
    let within = jobs.iter().map(|job| ends.get(job).copied()).collect::<Option<Vec<_>>>();
    Verdict::After { jobs, within: within.map(|ends| ends.into_iter().max().unwrap_or(0)) }
}

/// What a node says where Tessera places no job.
fn without_tessera(aside: &Aside, ask: &Ask) -> Verdict {
    let why = &aside.why;
    match aside.whose {
        Whose::Nobodys => Verdict::Unfit(why.clone()),
        Whose::Slurms | Whose::SlurmsForNow if ask.plain => {
            Verdict::Slurm(format!("the node is left to it: {why}"))
        }
        Whose::Slurms => Verdict::Never(format!(
            "the node is left to Slurm: {why}; ask by --gres alone, without Tessera's options"
        )),
        Whose::SlurmsForNow => Verdict::Unfit(why.clone()),
    }
}

/// The node as the engine sees it for this job: GPUs that are left to Slurm are whole GPUs like others for a job without
/// Tessera's options.
pub(crate) fn seen_by<'a>(node: &'a Node, ask: &Ask) -> Cow<'a, Node> {
    if !ask.plain || !leaves_some(node) {
        return Cow::Borrowed(node);
    }
    let mut node = node.clone();
    node.gpus.iter_mut().filter(|g| g.purpose == Purpose::Slurm).for_each(|g| g.purpose = Purpose::Whole);
    Cow::Owned(node)
}

fn leaves_some(node: &Node) -> bool {
    node.gpus.iter().any(|gpu| gpu.purpose == Purpose::Slurm)
}

/// Why Slurm alone finds the plain shards that a job asks for on a node whose other GPUs do not give them; `None`: it asks
/// for something else, or Slurm does not.
fn shards_by_slurm(node: &Node, ask: &Ask) -> Option<&'static str> {
    let shards = ask.request.mem_mib.filter(|_| ask.plain && ask.request.isolation == Isolation::Mps)?;
    if leaves_some(node) {
        return Some("it counts the shards of the GPUs that are left to it");
    }
    let exceeds = node.gpus.iter().all(|gpu| u64::from(gpu.model.shards()) < shards / SHARD_MIB);
    exceeds.then_some("no GPU has so many shards; some versions of Slurm take them from several")
}

/// The verdict on `ask`. `ends` are the expected ends of running jobs, µs from now.
fn verdict(node: &Node, ask: &Ask, policy: &Policy, ends: &HashMap<JobId, Micros>) -> Verdict {
    let by_slurm = shards_by_slurm(node, ask);
    let node = &*seen_by(node, ask);
    let decision = decide(node, ask, policy);
    if decision.chosen.is_some() {
        return Verdict::Now(decision.why());
    }
    if let Some(why) = by_slurm {
        return Verdict::Slurm(why.to_owned());
    }
    if let Err(never) = admits_ever(node, &ask.request, policy) {
        return Verdict::Never(never.to_string());
    }
    let fits = |gone: &[JobId]| {
        let mut node = node.clone();
        for job in gone {
            node.release(*job);
        }
        decide(&node, ask, policy).chosen.is_some()
    };
    let layout = node_state::layout_of(node);
    let holders: BTreeSet<JobId> = layout.gpus.iter().flat_map(|gpu| gpu.jobs()).collect();
    let mut order: Vec<JobId> = holders.into_iter().collect();
    order.sort_by_key(|job| (ends.get(job).copied().unwrap_or(Micros::MAX), *job));
    let enough = (1..=order.len()).find(|n| fits(&order[..*n])).unwrap_or(order.len());
    order.truncate(enough);
    let mut jobs = needed(order, ends, &fits);
    let within = jobs.iter().map(|job| ends.get(job).copied()).collect::<Option<Vec<_>>>();
    jobs.sort_unstable();
    Verdict::After { jobs, within: within.map(|ends| ends.into_iter().max().unwrap_or(0)) }
}

/// Those of `jobs` that must end: the others may run on. The jobs that end last are let off first.
fn needed(
    mut jobs: Vec<JobId>,
    ends: &HashMap<JobId, Micros>,
    fits: &impl Fn(&[JobId]) -> bool,
) -> Vec<JobId> {
    jobs.sort_by_key(|job| Reverse((ends.get(job).copied().unwrap_or(Micros::MAX), *job)));
    for job in jobs.clone() {
        let others: Vec<JobId> = jobs.iter().copied().filter(|other| *other != job).collect();
        if fits(&others) {
            jobs = others;
        }
    }
    jobs
}

#[cfg(test)]
mod tests {
    use super::*;
    use geometry::{Model, Uid};
    use node_state::{Gpu, MigPolicy};
    use protocol::{Isolation, Request};
    use topology::LinkMatrix;

    fn node(line: &str) -> Node {
        let model = Model::find("a100-40gb").unwrap();
        let gpus = vec![Gpu::new(model, MigPolicy::Dynamic); 2];
        let mut node = Node { gpus, links: LinkMatrix::uniform(2, 10.0), keep_uncut: 0, claims: Vec::new() };
        let layout = crate::published::read(line, &[model; 2]).unwrap();
        crate::published::take_over(&layout, &mut node, &|_| Uid(7));
        node
    }

    fn of(line: &str, profile: &str, ends: &[(u32, u64)]) -> Verdict {
        let ask = Ask::new(JobId(99), Uid(7), Request::new(Isolation::Mig(Some(profile.to_owned()))));
        let ends = ends.iter().map(|(job, end)| (JobId(*job), *end)).collect();
        verdict(&node(line), &ask, &site_config::of_nodes(Vec::new()).policy(), &ends)
    }

    const BUSY: &str =
        "tessera gpu0=mig[3g.20gb@0:job1,2g.10gb@4:job2] gpu1=mig[4g.20gb@0:job3,3g.20gb@4:job4]";

    #[test]
    fn only_the_jobs_in_the_way_must_end() {
        let after =
            |jobs: &[u32], within| Verdict::After { jobs: jobs.iter().copied().map(JobId).collect(), within };
        // Job 4 ends first and makes room; nobody else need end.
        assert_eq!(of(BUSY, "3g.20gb", &[(1, 40), (2, 30), (3, 20), (4, 10)]), after(&[4], Some(10)));
        // Job 2 ends before job 4, but does not matter on a GPU where job 1 stays.
        assert_eq!(of(BUSY, "7g.40gb", &[(1, 90), (2, 5), (3, 20), (4, 30)]), after(&[3, 4], Some(30)));
        // What has no known end comes last.
        assert_eq!(of(BUSY, "7g.40gb", &[(3, 20), (2, 5)]), after(&[1, 2], None));
    }

    #[test]
    fn of_many_verdicts_the_first_to_have_room_are_shown() {
        let after = |n: u64| {
            let verdict = Verdict::After { jobs: vec![JobId(1)], within: (n != 3).then_some(1000 - n) };
            (vec![format!("n{n}"), format!("m{n}")], verdict)
        };
        let few: Vec<_> = (0..12).map(after).collect();
        assert!(
            matches!(soonest(&few, "--all"), (shown, None) if shown[0].0[0] == "n0" && shown.len() == 12)
        );
        let mut many: Vec<_> = (0..20).map(after).collect();
        many.push((vec!["last".to_owned()], Verdict::Now("free".to_owned())));
        let (shown, rest) = soonest(&many, "--all");
        let names: Vec<&str> = shown.iter().map(|(names, _)| names[0].as_str()).collect();
        assert_eq!((names[0], names[1], names[11]), ("last", "n19", "n9"));
        assert_eq!(rest.as_deref(), Some("18 more nodes later or never: --all names them"));
        many.extend((0..13).map(|n| (vec![format!("f{n}")], Verdict::Now(format!("place {n}")))));
        let (shown, rest) = soonest(&many, "--all");
        assert!(shown.iter().all(|(_, verdict)| matches!(verdict, Verdict::Now(_))));
        assert_eq!(rest.as_deref(), Some("2 more nodes now, 40 more nodes later or never: --all names them"));
    }

    #[test]
    fn room_now_and_never() {
        assert!(matches!(of(BUSY, "1g.5gb", &[]), Verdict::Now(_)));
        assert!(matches!(of(BUSY, "3g.40gb", &[]), Verdict::Never(_)));
    }
}
