//! Another request for a pending job, as `tessera change` sends it.
//!
//! The request is judged as that of a submission. slurmctld can still refuse the change after this plugin, and calls no plugin when it has
//! accepted it. So the request stands beside the old one, with the list of GRES that comes with it ([`protocol::wire::encode_change`]), and counts
//! once the job's record has that list.

use admission::gres_list::{with_entry, without};
use admission::{Refusal, Ruling};
use protocol::wire::{CHANGE_ENV, REQUEST_ENV, encode_change, encode_request, request_of_change};
use protocol::{AdminComment, CommentBody, Isolation, Request};
use site_limits::Submission;
use site_limits::tres::Tres;
use slurmctld_rt::spank_env::{MAX_BYTES, MAX_ENTRY_BYTES};

use crate::answer::{Answer, Effect, OnRecord};
use crate::site::Rules;
use crate::submission::{Described, Recorded, Slurm, changed, left_to_slurm};

/// Most bytes of a list of GRES that comes with a request.
const MAX_LIST: usize = 4096;

/// Makes the last change of the request, which Slurm has accepted or refused meanwhile, the job's request, or forgets it.
pub(crate) fn settle(job: &mut Recorded) -> Vec<OnRecord> {
    let Some(change) = job.change.take() else { return Vec::new() };
    let mut writes = vec![OnRecord::Variable(CHANGE_ENV, None)];
    if let Some(request) = request_of_change(&change, job.tres.per_node.as_deref()) {
        job.request = Some(request.to_owned());
        writes.push(OnRecord::Variable(REQUEST_ENV, job.request.clone()));
    } else if let Some(comment) = as_before(&change, job) {
        job.comment.clone_from(&comment);
        writes.push(OnRecord::Comment(comment));
    }
    writes
}

/// The AdminComment of a job whose change Slurm has refused: it asks what it asked before. `None`: the comment does not show the change.
fn as_before(change: &str, job: &Recorded) -> Option<String> {
    let comment = AdminComment::parse(&job.comment);
    let shows = change.ends_with(&format!("|{}", comment.asks.as_ref()?));
    shows.then(|| AdminComment { asks: job.request.clone(), ..comment }.to_string())
}

/// Decides about another `request` for a job. `owner`: root or the job's user asks for it.
pub(crate) fn judge(
    request: Result<Request, String>,
    (change, job): (&Described, &Recorded),
    owner: bool,
    rules: Rules<'_>,
    slurm: &impl Slurm,
) -> Answer {
    let stripped = vec![Effect::Env(None), Effect::KeepLicenses];
    let (list, wire) = match accepted(request, (change, job), owner, rules, slurm) {
        Ok(accepted) => accepted,
        Err(why) => return Answer::refused(stripped, why),
    };
    let same = list == job.tres.per_node.as_deref().unwrap_or_default();
    let mut on_record = vec![OnRecord::Variable(CHANGE_ENV, Some(encode_change(&list, &wire)))];
    let comment = AdminComment::parse(&job.comment);
    if comment.is_ours() {
        let asking = AdminComment { says: CommentBody::Nothing, asks: Some(wire), ..comment };
        on_record.push(OnRecord::Comment(asking.to_string()));
    }
    let per_node = if same { Effect::SamePerNode } else { Effect::PerNode(list) };
    let effects = stripped.into_iter().chain([per_node]).collect();
    Answer { on_record, ..Answer::accepted(effects) }
}

/// Gives the list of GRES per node and the request with all filled in.
fn accepted(
    request: Result<Request, String>,
    (change, job): (&Described, &Recorded),
    owner: bool,
    rules: Rules<'_>,
    slurm: &impl Slurm,
) -> Result<(String, String), Refusal> {
    may_change(change, job, owner)?;
    rules.unknown().map_or(Ok(()), Err)?;
    let request = request.map_err(|why| format!("the GPU request is unreadable: {why}"))?;
    let config = rules.config();
    let tres = kept(&job.tres, &request.isolation);
    let mut after = Submission {
        request: Some(encode_request(&request)),
        tres: tres.clone(),
        tasks_per_node: job.tasks_per_node,
        ..changed(change, job, slurm)
    };
    after.left_to_slurm = left_to_slurm(&after, config, slurm);
    let (request, add) = match admission::judge(&after, config) {
        Ruling::Accepted { request, add, .. } => (request, add),
        Ruling::Untouched => (request, None),
        Ruling::Refused(why) => return Err(why),
    };
    let list = match add {
        Some((name, count)) => with_entry(tres.per_node.as_deref(), &slurm.gres(name, count)),
        None => tres.per_node.clone().unwrap_or_default(),
    };
    goes_with(&list, &tres, job, slurm)?;
    let wire = encode_request(&request);
    fits(&list, &wire, job)?;
    Ok((list, wire))
}

fn may_change(change: &Described, job: &Recorded, owner: bool) -> Result<(), String> {
    let named = [
        ("its partition", change.partition.is_some()),
        ("its account", change.account.is_some()),
        ("its QOS", change.qos.is_some()),
        ("its time limit", change.minutes.is_some()),
        (
            "its nodes",
            change.required_nodes.is_some() || change.nodes.is_some() || change.most_nodes.is_some(),
        ),
        ("its use of whole nodes", change.exclusive),
        ("its licenses", change.licenses.is_some()),
        ("its AdminComment", change.comment.is_some()),
        ("its other GRES", change.empties_gres || change.tres != Tres::default()),
    ];
    let other = named.into_iter().find(|(_, named)| *named);
    if !owner {
        Err("only the job's user and root can change what it asks of GPUs".to_owned())
    } else if !job.pending {
        Err("the job has started and keeps its GPUs; cancel it and submit it again with the new options"
            .to_owned())
    } else if let Some((what, _)) = other {
        Err(format!("the change also names {what}; change that by itself"))
    } else {
        Ok(())
    }
}

/// The GRES that stay: all but shards, and whole GPUs unless a part of one is asked for by name.
fn kept(had: &Tres, isolation: &Isolation) -> Tres {
    let is_part = matches!(isolation, Isolation::Mig(_) | Isolation::Mps);
    let gone: &[&str] = if is_part { &["shard", "gpu"] } else { &["shard"] };
    Tres { per_node: without(had.per_node.as_deref(), gone), ..had.clone() }
}

/// Checks that the job has GPUs with this list, and that Slurm can give it the list.
fn goes_with(list: &str, tres: &Tres, job: &Recorded, slurm: &impl Slurm) -> Result<(), String> {
    let after = Tres { per_node: Some(list.to_owned()), ..tres.clone() }.gpu_entries();
    if after.iter().all(|entry| entry.count == 0) {
        return Err(
            "the job would have no GPU: cancel it and submit it again with the new options".to_owned()
        );
    }
    let had = job.tres.gpu_entries();
    let lost = had.iter().find(|had| after.iter().all(|entry| entry.name != had.name));
    match lost.filter(|_| slurm.adds_gres()) {
        Some(lost) => {
            let turn = if lost.name == "gpu" {
                "whole GPUs into a part of one"
            } else {
                "a part of a GPU into whole GPUs"
            };
            Err(format!(
                "this Slurm is older than 23.11 and cannot turn a pending job's request from {turn}; cancel the job and submit it again \
                 with the new options"
            ))
        }
        None => Ok(()),
    }
}

/// Holds the job's SPANK environment to its bounds with the change in it.
fn fits(list: &str, wire: &str, job: &Recorded) -> Result<(), String> {
    let entry = CHANGE_ENV.len() + 1 + list.len() + 1 + wire.len();
    if list.len() > MAX_LIST || entry > MAX_ENTRY_BYTES || entry + job.env_bytes > MAX_BYTES {
        return Err("the request and the job's other GRES are too long for a change; cancel the job and submit it again with the new \
                    options"
            .to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{Fake, MOLDABLE, site};
    use crate::modify::{Asker, modify};
    use decision_counts::decisions::Reason;
    use protocol::wire::parse_request;
    use site_config::SiteConfig;

    const ASKS: &str = "v1 iso=mig:1g.5gb typed=1";

    fn job(per_node: &str) -> Recorded {
        let tres = Tres { per_node: Some(per_node.to_owned()), ..Tres::default() };
        let comment = format!("tessera: asks {ASKS}");
        Recorded { request: Some(ASKS.to_owned()), tres, comment, pending: true, ..Recorded::default() }
    }

    fn to(request: &str) -> Described {
        let read = parse_request(request).map_err(|why| why.to_string());
        Described { new_request: Some(read), ..Described::default() }
    }

    fn judged(change: &Described, job: &Recorded, config: &SiteConfig) -> Answer {
        modify(change, job, Asker::Owner, Rules::Of(config), &Fake::default())
    }

    /// The new list and the variable, or why not.
    fn outcome(answer: &Answer) -> Result<(Option<&str>, &str), &str> {
        if let Some(why) = &answer.refused {
            assert!(answer.on_record.is_empty(), "nothing of a refused change is written");
            return Err(&why.text);
        }
        let list = answer.effects.iter().find_map(|effect| match effect {
            Effect::PerNode(list) => Some(Some(list.as_str())),
            Effect::SamePerNode => Some(None),
            _ => None,
        });
        let [OnRecord::Variable(CHANGE_ENV, Some(change)), ..] = &answer.on_record[..] else {
            panic!("{answer:?}");
        };
        Ok((list.unwrap(), change))
    }

    #[test]
    fn a_new_request_comes_with_its_gres_and_counts_once_slurm_has_accepted_them() {
        let mut job = job("gres:nic:1,gres:shard:5");
        let answer = judged(&to("v1 iso=mig:2g.10gb typed=1"), &job, &site());
        let change = "gres:nic:1,gres:shard:10|v1 iso=mig:2g.10gb typed=1";
        assert_eq!(outcome(&answer), Ok((Some("gres:nic:1,gres:shard:10"), change)));
        let shown = "tessera: asks v1 iso=mig:2g.10gb typed=1";
        assert_eq!(answer.on_record[1..], [OnRecord::Comment(shown.to_owned())]);
        assert_eq!(answer.counts(), Some(Ok(())));

        (job.change, job.comment) = (Some(change.to_owned()), shown.to_owned());
        let forgotten = OnRecord::Variable(CHANGE_ENV, None);
        let mut refused = job.clone();
        let back = OnRecord::Comment(format!("tessera: asks {ASKS}"));
        assert_eq!(settle(&mut refused), [forgotten.clone(), back]);
        assert_eq!((refused.request.as_deref(), refused.change), (Some(ASKS), None));

        job.tres.per_node = Some("gres:nic:1,gres:shard:10".to_owned());
        let request = Some("v1 iso=mig:2g.10gb typed=1".to_owned());
        assert_eq!(settle(&mut job), [forgotten, OnRecord::Variable(REQUEST_ENV, request.clone())]);
        assert_eq!(job.request, request);
        assert_eq!(settle(&mut job), [], "once");
    }

    #[test]
    fn a_new_request_keeps_the_raise_of_the_time_limit() {
        let planned = Recorded {
            comment: format!("tessera: limit 10>36; plan v1 size=1g.5gb until=5; asks {ASKS}"),
            ..job("gres:shard:5")
        };
        let answer = judged(&to("v1 iso=mig:2g.10gb typed=1"), &planned, &site());
        let shown = "tessera: limit 10>36; asks v1 iso=mig:2g.10gb typed=1";
        assert_eq!(answer.on_record[1..], [OnRecord::Comment(shown.to_owned())]);
    }

    #[test]
    fn a_refused_change_takes_nothing_from_another_comment() {
        let before = Recorded { change: Some("gres:shard:10|v1 iso=mps".to_owned()), ..job("gres:shard:5") };
        for comment in ["benchmark of June", "", "tessera: plan v1 size=1g.5gb until=200; asks v1 iso=mig"] {
            let mut job = Recorded { comment: comment.to_owned(), ..before.clone() };
            assert_eq!(settle(&mut job), [OnRecord::Variable(CHANGE_ENV, None)]);
        }
        let theirs = Recorded { comment: "benchmark of June".to_owned(), ..job("gres:shard:5") };
        assert_eq!(judged(&to("v1 iso=mig:2g.10gb"), &theirs, &site()).on_record.len(), 1);
    }

    #[test]
    fn another_request_with_the_same_gres_changes_none() {
        let answer = judged(&to("v1 iso=mps mem=4769 threads=25"), &job("gres:shard:5"), &site());
        assert_eq!(outcome(&answer), Ok((None, "gres:shard:5|v1 iso=mps mem=4769 threads=25")));
        let gpus = Recorded { request: None, ..job("gres:gpu:2") };
        let answer = judged(&to("v1 iso=auto bw=insensitive"), &gpus, &site());
        assert_eq!(outcome(&answer), Ok((None, "gres:gpu:2|v1 iso=whole bw=insensitive gpus=2")));
    }

    #[test]
    fn whole_gpus_stay_unless_a_part_is_named() {
        let of = |request: &str, per_node: &str| {
            let answer = judged(&to(request), &job(per_node), &site());
            outcome(&answer).map(|(list, _)| list.map(str::to_owned)).map_err(str::to_owned)
        };
        assert_eq!(of("v1 iso=mig:2g.10gb typed=1", "gres:gpu:1"), Ok(Some("gres:shard:10".to_owned())));
        assert_eq!(of("v1 iso=auto mem=9537", "gres:gpu:1"), Ok(None));
        assert_eq!(of("v1 iso=whole typed=1", "gres:shard:5"), Ok(Some("gres:gpu:1".to_owned())));
        assert!(of("v1 iso=none typed=1", "gres:shard:5").unwrap_err().contains("would have no GPU"));
        assert_eq!(of("v1 iso=none typed=1", "gres:gpu:1"), Ok(None));
        let per_job = Tres { per_job: Some("gres:gpu:2".to_owned()), ..Tres::default() };
        let job = Recorded { tres: per_job, ..job("") };
        let why = judged(&to("v1 iso=mig:2g.10gb typed=1"), &job, &site()).refused.unwrap().text;
        assert!(why.starts_with("--gpus=2 cannot be combined with --gpu-isolation=mig:2g.10gb"), "{why}");
    }

    #[test]
    fn an_older_slurm_keeps_what_a_job_has() {
        let old = Fake { adds_gres: true, ..Fake::default() };
        let of = |request: &str, per_node: &str| {
            let answer = modify(&to(request), &job(per_node), Asker::Owner, Rules::Of(&site()), &old);
            answer.refused.map(|why| why.text)
        };
        assert!(
            of("v1 iso=mig typed=1", "gres:gpu:1").unwrap().contains("from whole GPUs into a part of one")
        );
        assert!(
            of("v1 iso=whole typed=1", "gres:shard:5").unwrap().contains("from a part of a GPU into whole")
        );
        assert_eq!(of("v1 iso=mig:2g.10gb typed=1", "gres:shard:5"), None);
    }

    #[test]
    fn a_change_is_judged_as_a_submission_and_made_by_the_jobs_user() {
        let config = site();
        let why = |change: &Described, job: &Recorded| {
            judged(change, job, &config).refused.map(|why| (why.reason, why.text)).unwrap()
        };
        let shards = job("gres:shard:5");
        let (reason, text) = why(&to("v1 iso=mig:9g.90gb typed=1"), &shards);
        assert!(reason == Reason::Impossible && text.contains("9g.90gb"), "{text}");
        let debug = Recorded { partition: Some("debug".to_owned()), ..shards.clone() };
        assert_eq!(why(&to("v1 iso=mig:2g.10gb typed=1"), &debug).0, Reason::Limit);
        assert!(why(&to("rubbish"), &shards).1.starts_with("the GPU request is unreadable: "));
        let started = Recorded { pending: false, ..shards.clone() };
        assert!(why(&to("v1 iso=mps"), &started).1.starts_with("the job has started"));
        let moved = Described { partition: Some("gpu".to_owned()), ..to("v1 iso=mps") };
        assert_eq!(why(&moved, &shards).1, "the change also names its partition; change that by itself");
        // Slurm may refuse these after the plugin, and the request would count all the same if its GRES stay.
        for (what, change) in [
            ("QOS", Described { qos: Some("big".to_owned()), ..to("v1 iso=mps") }),
            ("time limit", Described { minutes: Some(9), ..to("v1 iso=mps") }),
            ("nodes", Described { nodes: Some(2), ..to("v1 iso=mps") }),
        ] {
            let said = format!("the change also names its {what}; change that by itself");
            assert_eq!(why(&change, &shards).1, said);
        }
        let by = |asker, rules| modify(&to("v1 iso=mps mem=4769"), &shards, asker, rules, &Fake::default());
        assert!(by(Asker::Other, Rules::Of(&config)).refused.is_some());
        assert_eq!(by(Asker::Root, Rules::Of(&config)).refused, None);
        assert_eq!(by(Asker::Owner, Rules::Unknown("bad")).refused.unwrap().reason, Reason::Config);
        assert_eq!(by(Asker::Owner, Rules::None).refused.unwrap().reason, Reason::Config);
    }

    #[test]
    fn tasks_are_counted_as_at_submission() {
        let job = Recorded { tasks_per_node: Some(2), ..job("gres:shard:5") };
        let answer = judged(&to("v1 iso=mig:1g.5gb inst=1 per-task=1"), &job, &site());
        assert_eq!(outcome(&answer), Ok((Some("gres:shard:10"), "gres:shard:10|v1 iso=mig:1g.5gb inst=2")));
        let moldable = judged(&to(MOLDABLE), &job, &site());
        assert_eq!(outcome(&moldable).unwrap().0, None);
    }

    #[test]
    fn the_spank_environment_keeps_its_bounds() {
        let why =
            |job: &Recorded| judged(&to("v1 iso=mps mem=4769"), job, &site()).refused.map(|why| why.text);
        let shards = job("gres:shard:5");
        let full = Recorded { env_bytes: MAX_BYTES - 20, ..shards.clone() };
        assert!(why(&full).unwrap().contains("too long for a change"));
        let room = Recorded { env_bytes: MAX_BYTES - 100, ..shards };
        assert_eq!(why(&room), None);
        let long = job(&format!("{}gres:shard:5", "gres:nic:1,".repeat(MAX_LIST / 11)));
        assert!(why(&long).unwrap().contains("too long for a change"));
    }
}
