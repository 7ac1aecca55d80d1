//! `tessera why`: what keeps a pending job, and until when.

mod args;
mod array;
mod dependency;
mod facts;
mod json;
mod nodes;
mod reason;
mod rules_out;
mod subject;
mod text;

use std::borrow::Borrow;
use std::collections::HashMap;

use args::Number;
pub(crate) use args::WhyArgs;
use array::Array;
pub(crate) use facts::Facts;
use far::Micros;
use geometry::{JobId, Uid};
use node_state::{Ask, Kind, Node, Policy, Spread};
use protocol::{AdminComment, CommentBody, Isolation};
use reason::Reason;
use rules_out::RulesOut;
use site_config::{SiteConfig, hostlist};
use site_limits::Submission;
use site_limits::counted::Counted;
use site_limits::tres::Tres;
use subject::Subject;

use crate::allowance::{self, Allowance, Asker, Need, need_on};
use crate::commands::free::{self, Wanted};
use crate::globals::Globals;
use crate::node_answer::{Needs, NodeOrder, Verdict, by_verdict, by_verdict_alone};
use crate::outcome::{Failure, Outcome};
use crate::runtimes::Learnt;
use crate::runtimes::ends::ends;
use crate::slurm::squeue::{self, NodeOptions, QueuedJob};
use crate::slurm::{caller, gres_type};
use crate::slurm_nodes::away::NotTaking;
use crate::slurm_nodes::{self, Among, Live, Published};
use crate::{clock, site};

/// Most shapes that are offered instead.
const MOST_OFFERED: usize = 4;

/// Most numbers of instances or GPUs that are tried for a job that asks for several.
const MOST_TRIED: usize = 16;

/// Most components of a heterogeneous job whose amounts are added up.
const MOST_COMPONENTS: usize = 16;

/// Everything that is known of a pending job.
struct PendingJob<'a> {
    job: &'a QueuedJob,
    /// AdminComment of the job, read.
    says: CommentBody,
    /// Note in its AdminComment about GPUs that it did not use.
    idle: Option<String>,
    /// Request of the job; the error says why it is not known.
    asks: Result<Subject, String>,
    /// Nodes with the same verdict together, in the order of tessera.toml.
    verdicts: Vec<(Vec<String>, Verdict)>,
    /// In which order the job gets the nodes that have room.
    order: NodeOrder,
    not_taking: Vec<NotTaking>,
    /// Options of the job that are not looked at, though they rule out nodes.
    left_out: Vec<String>,
    /// Pending jobs of the same partition with a higher priority.
    ahead: usize,
    /// Requests that would start at once: options and where.
    instead: Vec<free::Free>,
    /// All jobs that Slurm knows, by number.
    jobs: HashMap<JobId, &'a QueuedJob>,
    ends: HashMap<JobId, Micros>,
    /// Slurm's limits of its user; `None`: it keeps none, or was not asked.
    allowance: Option<Allowance>,
    /// Amounts that they count for it; `None`: not known.
    need: Option<Need>,
    now: u64,
}

impl PendingJob<'_> {
    /// Tells whether it can start on no node, or under no limit.
    fn never(&self) -> bool {
        let by_limit = self.allowance.as_ref().zip(self.need).map(|(allowance, need)| allowance.never(&need));
        by_limit == Some(true) || self.needs().never(&self.verdicts)
    }

    /// The nodes that it needs, those that take no jobs not counted.
    fn needs(&self) -> Needs {
        Needs { nodes: nodes::fewest(self.job), away: self.not_taking.len() }
    }
}

/// Writes why a job waits; with `names` false no user is named.
pub(crate) fn told(id: u32, config: &SiteConfig, names: bool) -> Result<String, Failure> {
    let mut jobs = squeue::jobs(None)?;
    if !names {
        jobs.iter_mut().for_each(|job| "a user".clone_into(&mut job.user));
    }
    let job = find(&jobs, Number::of(id))?;
    Ok(if job.waits() { text::answer(&asked(job, &jobs, config, names)?) } else { text::not_pending(job) })
}

/// A job. A task of an array that waits with others stands for them.
fn find(jobs: &[QueuedJob], number: Number) -> Result<&QueuedJob, Failure> {
    let is_component = |job: &QueuedJob| number.leader.is_none_or(|leader| job.het == Some(leader));
    let found = match number.task {
        None => jobs.iter().find(|job| job.id == number.job && is_component(job)),
        Some(task) => squeue::task_of(jobs.iter(), number.job, task),
    };
    found.ok_or_else(|| {
        Failure::new(format!("Slurm knows no job {number}"))
            .hint("sacct -j ID shows jobs that ended long ago")
    })
}

pub(crate) fn run(args: &WhyArgs, globals: &Globals) -> Result<Outcome, Failure> {
    let config = site::load(globals.config.as_deref())?;
    let jobs = squeue::jobs(None)?;
    let array = args.job.task.is_none().then(|| Array::find(args.job.job, &jobs)).flatten();
    let job = match &array {
        None => find(&jobs, args.job)?,
        Some(array) => match array.waiting() {
            None => return Ok(Outcome::ok(array.not_pending())),
            Some(job) => job,
        },
    };
    if !job.waits() {
        return Ok(Outcome::ok(text::not_pending(job)));
    }
    let answer = asked(job, &jobs, &config, true)?;
    let never = answer.never();
    if args.json {
        return Ok(Outcome::json(&json::answer(&answer), u8::from(never)));
    }
    let others = array.map_or_else(String::new, |array| array.others());
    Ok(Outcome { text: text::answer(&answer) + &others, status: u8::from(never) })
}

/// The answer for a job, for which Slurm is asked; for its limits only where users may be named.
fn asked<'a>(
    job: &'a QueuedJob,
    jobs: &'a [QueuedJob],
    config: &SiteConfig,
    names: bool,
) -> Result<PendingJob<'a>, Failure> {
    let some = |text: &'a str| Some(text).filter(|text| !text.is_empty());
    let asker = Asker {
        user: &job.user,
        account: some(&job.account),
        partition: allowance::single(job.partition.split(',')),
        qos: some(&job.qos),
        uid: uid_for_limits(&job.user, config).filter(|_| names),
    };
    let allowance = if names { allowance::ask(asker, config)? } else { None };
    let others = if allowance.is_some() { other_components(job, jobs) } else { Vec::new() };
    if others.is_empty() {
        return answer((job, jobs), config, OfSlurm::ask(job.id)?, allowance, Published::by_slurm);
    }
    let published = Published::by_slurm()?;
    let of = |job: &'a QueuedJob, allowance| {
        answer((job, jobs), config, OfSlurm::ask(job.id)?, allowance, || Ok(&published))
    };
    let mut found = of(job, allowance)?;
    // All components start together.
    for other in others {
        let amounts = of(other, Some(Allowance::default()))?;
        found.need = found.need.zip(amounts.need).map(|(own, other)| together(&own, &other));
    }
    Ok(found)
}

/// Adds up the needs of two components of a job. They run at the same time, so that the longer time counts.
fn together(one: &Need, other: &Need) -> Need {
    let sum = u64::saturating_add;
    Need {
        gpus: sum(one.gpus, other.gpus),
        shards: sum(one.shards, other.shards),
        slices: sum(one.slices, other.slices),
        nodes: sum(one.nodes, other.nodes),
        minutes: one.minutes.max(other.minutes),
    }
}

/// The other components of a heterogeneous job that the same limits count. A longer job is answered by its first ones alone.
fn other_components<'a>(job: &QueuedJob, jobs: &'a [QueuedJob]) -> Vec<&'a QueuedJob> {
    let alike = |other: &&QueuedJob| {
        other.id != job.id
            && (&other.account, &other.qos, &other.partition) == (&job.account, &job.qos, &job.partition)
    };
    let of_job = |other: &&QueuedJob| job.het.is_some() && other.het == job.het;
    jobs.iter().filter(of_job).filter(alike).take(MOST_COMPONENTS).collect()
}

/// Says which limit never lets a pending job, or a task of an array, start as it asks now; `None`: none does, or that is not known.
pub(crate) fn never_by_limit((job, task): (u32, Option<u32>), config: &SiteConfig) -> Option<String> {
    let jobs = squeue::jobs(None).ok()?;
    let job = find(&jobs, Number { task, ..Number::of(job) }).ok().filter(|job| job.waits())?;
    let answer = asked(job, &jobs, config, true).ok()?;
    let (allowance, need) = (answer.allowance.as_ref()?, answer.need?);
    allowance.never(&need).then(|| allowance.keeps(&need)).flatten()
}

/// The number of a user, if a limit has use for it.
fn uid_for_limits(user: &str, config: &SiteConfig) -> Option<u32> {
    let by_user = config.limits.iter().any(|limit| limit.user.is_some() || limit.each_user);
    by_user.then(|| caller::uid_of(user)).flatten()?.parse().ok()
}

/// The options of a job that Slurm itself reads.
#[derive(Default)]
struct OfSlurm {
    tres: Tres,
    options: NodeOptions,
}

impl OfSlurm {
    fn ask(job: u32) -> Result<Self, Failure> {
        let options = squeue::node_options(Some(&[job]))?.remove(&job).unwrap_or_default();
        Ok(Self { tres: squeue::tres(job)?, options })
    }
}

/// The answer for a job among all jobs. `published` is called if the job's request is known.
fn answer<'a, P: Borrow<Published>>(
    (job, jobs): (&'a QueuedJob, &'a [QueuedJob]),
    config: &SiteConfig,
    OfSlurm { tres, options }: OfSlurm,
    allowance: Option<Allowance>,
    published: impl FnOnce() -> Result<P, Failure>,
) -> Result<PendingJob<'a>, Failure> {
    let comment = AdminComment::parse(&job.comment);
    let now = clock::epoch_seconds();
    let asks = subject::subject(job, &comment, tres);
    let mut answer = PendingJob {
        job,
        says: comment.says,
        idle: comment.idle,
        asks,
        verdicts: Vec::new(),
        order: NodeOrder::default(),
        not_taking: Vec::new(),
        left_out: Vec::new(),
        ahead: ahead(job, jobs),
        instead: Vec::new(),
        jobs: jobs.iter().map(|job| (JobId(job.id), job)).collect(),
        ends: ends(jobs, &Learnt::nothing(config.learn_from), now),
        allowance,
        need: None,
        now,
    };
    if let Ok(subject) = &mut answer.asks {
        let wanted = wanted(job)?;
        let published = published()?;
        let published: &Published = published.borrow();
        let own = std::mem::take(&mut subject.submission);
        let uid = published.owner(JobId(job.id)).unwrap_or(Uid(u32::MAX));
        subject.submission = Submission {
            required_nodes: wanted.as_ref().map(|names| names.iter().cloned().collect()),
            user: Some(uid.0),
            qos: own.qos,
            request: own.request,
            tres: own.tres,
            ..published.submission(config, own.partitions, own.account)
        };
        subject.submission.exclusive |= job.exclusive;
        let rules = RulesOut::read(&options, &subject.submission.tres);
        let among = Among {
            names: wanted.as_deref(),
            partitions: &subject.submission.partitions,
            excluded: &rules.excluded,
            constraint: rules.constraint.as_ref(),
            types: &rules.types,
            user: Some(uid),
            reservation: Some(job.reservation.as_str()).filter(|name| !name.is_empty()),
            // Without a limit a job may run for ever.
            runs_s: Some(job.limit.unwrap_or(u64::MAX)),
        };
        let live = slurm_nodes::nodes(config, published, among)?;
        let company = squeue::by_node(jobs);
        answer.verdicts = verdicts(&live, job, subject, uid, (&answer.ends, &company), config);
        answer.order = order(&live, job, subject, uid, config);
        answer.order.sort(&mut answer.verdicts);
        let allowance = answer.allowance.as_ref();
        answer.instead = instead(&answer.verdicts, (&live, allowance), job, subject, config);
        answer.need = allowance.map(|_| need(&live, job, subject, uid, config));
        answer.not_taking = live.not_taking;
        answer.left_out = rules.left_out;
    }
    Ok(answer)
}

/// The nodes that the job insists on; `None`: any.
fn wanted(job: &QueuedJob) -> Result<Option<Vec<String>>, Failure> {
    let list = Some(job.wanted_nodes.as_str()).filter(|list| !list.is_empty());
    let expand = |list| {
        hostlist::expand(list)
            .map_err(|why| Failure::new(format!("the nodes that job {} requires: {why}", job.id)))
    };
    list.map(expand).transpose()
}

fn ahead(job: &QueuedJob, jobs: &[QueuedJob]) -> usize {
    let before = |other: &&QueuedJob| {
        other.state == "PENDING" && other.partition == job.partition && other.priority > job.priority
    };
    jobs.iter().filter(before).count()
}

fn verdicts(
    live: &Live,
    job: &QueuedJob,
    subject: &Subject,
    uid: Uid,
    (ends, company): (&HashMap<JobId, Micros>, &HashMap<String, Vec<JobId>>),
    config: &SiteConfig,
) -> Vec<(Vec<String>, Verdict)> {
    let (ask, policy) = question(job, subject, uid, config);
    if subject.submission.exclusive {
        return by_verdict_alone(live, &ask, &policy, ends, company);
    }
    by_verdict(live, &ask, &policy, ends)
}

/// Gives the amounts that Slurm counts for the job.
fn need(live: &Live, job: &QueuedJob, subject: &Subject, uid: Uid, config: &SiteConfig) -> Need {
    let (ask, policy) = question(job, subject, uid, config);
    let tres = &subject.submission.tres;
    let counted = match subject.shards {
        true => Counted::Shards(gres_type::count_of(tres, "shard")),
        false => Counted::Gpus(gres_type::count_of(tres, "gpu")),
    };
    let slices = allowance::slices_for(live, &ask, &policy, config);
    let nodes = u64::try_from(nodes::fewest(job).max(1)).unwrap_or(u64::MAX);
    need_on(nodes, counted, slices, minutes(job))
}

/// The job's time limit.
fn minutes(job: &QueuedJob) -> Option<u64> {
    job.limit.map(|seconds| seconds.div_ceil(60))
}

/// The job's question to each node, and the site's policy for it.
fn question(job: &QueuedJob, subject: &Subject, uid: Uid, config: &SiteConfig) -> (Ask, Policy) {
    let text = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let bound = Submission {
        partitions: subject.partition().map(str::to_owned).into_iter().collect(),
        account: text(&job.account),
        qos: text(&job.qos),
        user: Some(uid.0),
        ..Submission::default()
    };
    let mut policy =
        site_limits::policy_for(config, subject.partition(), &site_limits::limits_of(&bound, config));
    if subject.shards {
        // What Slurm counts in shards cannot become a whole GPU, which it counts as gpu.
        policy.auto.retain(|kind| *kind != Kind::Whole);
    }
    let ask = Ask {
        spread: Spread::ALIKE,
        plain: subject.plain,
        ..Ask::new(JobId(job.id), uid, subject.request.clone())
    };
    (ask, policy)
}

/// The order of the nodes for a job that gets one; Slurm alone picks the nodes of others.
fn order(live: &Live, job: &QueuedJob, subject: &Subject, uid: Uid, config: &SiteConfig) -> NodeOrder {
    let (ask, policy) = question(job, subject, uid, config);
    let one_node = matches!(job.n_nodes.as_str(), "1" | "1-1") && subject.is_per_node();
    let fill = site_limits::node_order(config, subject.partition()).filter(|_| one_node);
    NodeOrder::of(live, fill, &ask, &policy)
}

/// Lists requests that would start at once with the memory that the job needs, or fewer whole GPUs; nothing if the job itself has room or
/// waits for something else than room.
fn instead(
    verdicts: &[(Vec<String>, Verdict)],
    (live, allowance): (&Live, Option<&Allowance>),
    job: &QueuedJob,
    subject: &Subject,
    config: &SiteConfig,
) -> Vec<free::Free> {
    let have_room = verdicts.iter().filter(|(_, verdict)| matches!(verdict, Verdict::Now(_)));
    let have_room: usize = have_room.map(|(names, _)| names.len()).sum();
    let lacks_room =
        have_room < nodes::fewest(job).max(1) && matches!(reason::reason(&job.reason), Some(Reason::Room(_)));
    // A smaller one may be within a limit that keeps the job.
    let lacks_allowance = allowance.is_some() && squeue::is_limit(&job.reason);
    if !lacks_room && !lacks_allowance {
        return Vec::new();
    }
    let models: Vec<_> = live.nodes.iter().flat_map(|n| &n.node.gpus).map(|gpu| gpu.model).collect();
    let memory = subject::memory(&subject.request, &models);
    let is_whole = subject.request.isolation == Isolation::Whole;
    if memory.is_none() && !is_whole {
        return Vec::new();
    }
    let needs = nodes::fewest(job);
    // A job on several nodes needs the shape on each of so many.
    let enough = |free: &free::Free| free.nodes.as_ref().is_ok_and(|nodes| nodes.len() >= needs.max(1));
    let of = |devices| {
        // A job that wants whole GPUs can tell what fewer are worth to it, and nothing else.
        let wanted = Wanted { mem_mib: memory, devices: Some(devices), whole: memory.is_none() };
        let mut shapes = free::now(config, live, &subject.submission, wanted, (allowance, minutes(job)));
        shapes.retain(|free| enough(free) && free.allowed.is_none_or(|most| most >= needs.max(1) as u64));
        shapes
    };
    // As many as it asks for, else the most that start.
    let devices = subject.request.gpus.unwrap_or(0).max(subject.request.instances).max(1);
    let most = live.nodes.iter().map(|n| devices_of(&n.node)).max().unwrap_or(0);
    let fewer = (1..=devices.min(most)).rev().take(MOST_TRIED);
    let mut shapes = fewer.map(of).find(|shapes| !shapes.is_empty()).unwrap_or_default();
    for free in shapes.iter_mut().filter(|_| needs > 1) {
        free.shape.options = format!("-N{needs} {}", free.shape.options);
    }
    shapes.truncate(MOST_OFFERED);
    shapes
}

/// The most instances or whole GPUs that a node can have.
fn devices_of(node: &Node) -> u32 {
    node.gpus.iter().map(|gpu| u32::from(gpu.model.compute_slices)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_of_a_job_need_their_amounts_together() {
        let need = |gpus, slices, nodes, minutes| Need { gpus, slices, nodes, minutes, shards: 0 };
        let (one, other) = (need(4, 28, 2, Some(100)), need(1, 7, 1, Some(200)));
        assert_eq!(together(&one, &other), need(5, 35, 3, Some(200)));
        assert_eq!(together(&one, &need(1, 7, 1, None)).minutes, Some(100));
    }

    #[test]
    fn components_that_the_same_limits_count_are_found() {
        let job = |id, het, account: &str| QueuedJob {
            id,
            het,
            account: account.to_owned(),
            ..QueuedJob::default()
        };
        let jobs =
            [job(7, Some(7), "bio"), job(8, Some(7), "bio"), job(9, Some(7), "art"), job(10, None, "bio")];
        let others =
            |n: usize| other_components(&jobs[n], &jobs).iter().map(|job| job.id).collect::<Vec<_>>();
        assert_eq!([others(0), others(1), others(2), others(3)], [vec![8], vec![7], vec![], vec![]]);
    }
}
