//! A change of a job as a whole.

use admission::change::{self, Change};
use admission::gres_list::{with_gpus_of, with_shards};
use admission::plan;
use protocol::{AdminComment, CommentBody};
use site_limits::tres::Tres;

use crate::answer::{Answer, Effect};
use crate::harm::{self, Harm};
use crate::request_change;
use crate::site::Rules;
use crate::slices::slices_changed;
use crate::submission::{Described, Recorded, Slurm, changed, concerns_us, left_to_slurm, tres_after};

/// User who asks for a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// Limits do not hold for root.
    Root,
    /// The job's user.
    Owner,
    /// Slurm refuses the change, unless the user is an administrator or a coordinator of the account. It asks this plugin first.
    Other,
}

/// Decides about a `change` to a job.
pub(crate) fn modify(
    change: &Described,
    job: &Recorded,
    asker: Asker,
    rules: Rules<'_>,
    slurm: &impl Slurm,
) -> Answer {
    let (config, root) = (rules.config(), asker == Asker::Root);
    let harm = || harm_of_change(change, job, root).map(|harm| harm.refusal());
    if let Some(why) = harm::of_env(change.bad_env.as_ref()).or_else(harm) {
        return Answer::refused(Vec::new(), why);
    }
    let mut effects = vec![Effect::Env(None)];
    effects.extend((!root).then_some(Effect::KeepLicenses));
    if let Some(why) = slices_changed(change, job, slurm).filter(|_| !root) {
        return Answer::refused(effects, why);
    }
    if let Some(request) = &change.new_request {
        return request_change::judge(request.clone(), (change, job), asker != Asker::Other, rules, slurm);
    }
    let matters = change.partition.is_some()
        || change.account.is_some()
        || job.pending && (change.qos.is_some() || change.minutes.is_some() || change.nodes.is_some())
        || change.exclusive
        || !change.tres.gpu_entries().is_empty();
    let empties = change.empties_gres;
    effects.extend(keeps_gpus(change, job));
    // Most changes concern neither GPUs nor plans: nothing is looked up for them.
    if !matters && !empties && change.comment.is_none() {
        return Answer::accepted(effects);
    }
    let ours = !root && job.request.as_deref().is_some_and(concerns_us);
    if let Some(why) = rules.unknown().filter(|_| ours) {
        return Answer::refused(effects, why);
    }
    let mut after = changed(change, job, slurm);
    after.left_to_slurm = left_to_slurm(&after, config, slurm);
    // Slurm has already refused an AdminComment from anybody but root, SlurmUser and administrators of the accounts.
    let planned = change.comment.as_deref().map_or(Ok(None), |comment| {
        plan::judge(&after, comment, &job.comment, job.pending, slurm.now(), config)
    });
    let ruling = planned.and_then(|planned| {
        let (tres, had, pending) = (&change.tres, &job.tres, job.pending);
        let change = Change { tres, had, empties, matters, planned, pending, root };
        change::judge(change, &after, config)?;
        Ok(planned)
    });
    match ruling {
        Ok(None) => Answer::accepted(effects),
        Ok(Some(shards)) => {
            let list = with_shards(job.tres.per_node.as_deref(), &slurm.gres("shard", shards));
            effects.push(Effect::PerNode(list));
            effects.extend(shown_still(change.comment.as_deref(), job));
            Answer::accepted(effects)
        }
        Err(why) => Answer::refused(effects, why),
    }
}

/// Names the harm of a change: slurmctld divides by its tasks per socket, too. If it names lists of GRES, slurmctld checks them
/// with the job's own. An administrator can see whether a running job has steps; without any it can give up nodes.
fn harm_of_change(change: &Described, job: &Recorded, root: bool) -> Option<Harm> {
    let other_nodes = change.nodes.is_some() || change.required_nodes.is_some();
    if other_nodes && !root && !job.pending && job.kinds_of_gres > 1 {
        return Some(Harm::FewerNodes);
    }
    let counts = |harm: &Harm| matches!(harm, Harm::NoTasksPerSocket | Harm::TooLong(..));
    let own = change.harm.clone().filter(counts);
    let lists = (change.tres != Tres::default()).then(|| tres_after(&change.tres, &job.tres));
    own.or_else(|| Harm::of_lists(job.spread, &lists?))
}

/// A list of another GRES takes the place of the one that holds a managed job's GPUs, and Slurm then gives it none: they stay.
fn keeps_gpus(change: &Described, job: &Recorded) -> Option<Effect> {
    let managed = job.pending && job.request.as_deref().is_some_and(concerns_us);
    let (list, before) = (change.tres.per_node.as_deref()?, job.tres.per_node.as_deref()?);
    with_gpus_of(list, before).filter(|_| managed).map(Effect::PerNode)
}

/// The AdminComment of a pending job that says why a change of it was refused; `None` if another text must stay, if
/// the change was to this very text, or if it came from a user who may not change the job.
pub(crate) fn refusal_noted(change: &Described, job: &Recorded, asker: Asker, why: &str) -> Option<String> {
    let comment = AdminComment::parse(&job.comment);
    // That it waits for slices is no news to the user of a job that waits.
    let replaceable = matches!(
        comment.says,
        CommentBody::Nothing | CommentBody::Slices(_) | CommentBody::Nodes(_) | CommentBody::Unchanged(_)
    );
    let noted = AdminComment { says: CommentBody::Unchanged(why.to_owned()), ..comment };
    let told = job.pending && asker != Asker::Other && change.comment.is_none();
    (told && replaceable).then(|| noted.to_string())
}

/// Lets a new AdminComment of ours still show what the job asks, and which limit the planner has raised.
fn shown_still(comment: Option<&str>, job: &Recorded) -> Option<Effect> {
    let comment = AdminComment::parse(comment?);
    let comment = Some(comment).filter(|c| c.is_ours() && c.asks.is_none())?;
    let (asks, before) = (Some(job.request.clone()?), AdminComment::parse(&job.comment));
    Some(Effect::Comment(AdminComment { asks, limit: comment.limit.or(before.limit), ..comment }.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{Fake, MOLDABLE, asking, site};
    use crate::submit::submit;
    use admission::Refusal;
    use decision_counts::decisions::Reason;
    use slurmctld_rt::spank_env::BadEnv;

    #[test]
    fn a_plan_brings_its_shards_and_still_shows_the_request() {
        let job = Recorded {
            request: Some(MOLDABLE.to_owned()),
            tres: Tres { per_node: Some("gres:nic:1,gres:shard:5".to_owned()), ..Tres::default() },
            pending: true,
            ..Recorded::default()
        };
        let plan = "tessera: plan v1 size=2g.10gb until=200";
        let change = |comment: &str| Described { comment: Some(comment.to_owned()), ..Described::default() };
        let modify = |change: &Described, job: &Recorded| {
            modify(change, job, Asker::Root, Rules::Of(&site()), &Fake { now: 100, ..Fake::default() })
        };
        let found = modify(&change(plan), &job);
        let shown = format!("{plan}; asks {MOLDABLE}");
        let shards = |n: u32| Effect::PerNode(format!("gres:nic:1,gres:shard:{n}"));
        assert_eq!(found.effects, [Effect::Env(None), shards(10), Effect::Comment(shown.clone())]);
        assert_eq!(found.refused, None);
        let cleared = Effect::Comment(format!("tessera: asks {MOLDABLE}"));
        assert_eq!(modify(&change(""), &job).effects, [Effect::Env(None), shards(5), cleared]);
        let raised = Recorded {
            comment: format!("tessera: limit 10>36; {}", &shown["tessera: ".len()..]),
            ..job.clone()
        };
        let cleared = Effect::Comment(format!("tessera: limit 10>36; asks {MOLDABLE}"));
        assert_eq!(modify(&change(""), &raised).effects, [Effect::Env(None), shards(5), cleared]);
        let theirs = modify(&change("benchmark of June"), &job);
        assert_eq!(theirs.effects, [Effect::Env(None), shards(5)]);
        let running = modify(&change(plan), &Recorded { pending: false, ..job.clone() });
        assert_eq!(running.effects, [Effect::Env(None)]);
        assert_eq!(running.refused.unwrap().text, "a plan is for a pending job, this one has started");
        assert_eq!(modify(&Described::default(), &job).effects, [Effect::Env(None)]);
    }

    #[test]
    fn a_managed_job_keeps_its_gpus_beside_another_gres() {
        let job = Recorded {
            request: Some("v1 iso=mig:2g.10gb".to_owned()),
            tres: Tres { per_node: Some("gres:nic:1,gres:shard:10".to_owned()), ..Tres::default() },
            pending: true,
            ..Recorded::default()
        };
        let changed = |list: &str, job: &Recorded| {
            let tres = Tres { per_node: Some(list.to_owned()), ..Tres::default() };
            let change = Described { tres, ..Described::default() };
            modify(&change, job, Asker::Root, Rules::Of(&site()), &Fake { now: 100, ..Fake::default() })
        };
        let kept = Effect::PerNode("gres:nic:2,gres:shard:10".to_owned());
        let first = changed("gres:nic:2", &job);
        assert_eq!(first, Answer::accepted(vec![Effect::Env(None), kept]));
        // The same change then reaches the next record of the array.
        let next = changed("gres:nic:2,gres:shard:10", &job);
        assert_eq!(next, Answer::accepted(vec![Effect::Env(None)]));
        assert!(changed("gres:nic:2,gres:shard:20", &job).refused.is_some());
        let plain = Recorded { request: None, ..job };
        assert_eq!(changed("gres:nic:2", &plain).effects, [Effect::Env(None)]);
    }

    #[test]
    fn a_refusal_is_noted_where_no_other_text_stands() {
        let noted = |comment: &str, pending| {
            let job = Recorded { comment: comment.to_owned(), pending, ..Recorded::default() };
            refusal_noted(&Described::default(), &job, Asker::Owner, "no")
        };
        let planning = Described { comment: Some("x".to_owned()), ..Described::default() };
        let pending = Recorded { pending: true, ..Recorded::default() };
        assert_eq!(refusal_noted(&planning, &pending, Asker::Root, "no"), None);
        assert_eq!(refusal_noted(&Described::default(), &pending, Asker::Other, "no"), None);
        assert_eq!(noted("", true).as_deref(), Some("tessera: change refused: no"));
        assert_eq!(
            noted("tessera: change refused: before", true).as_deref(),
            Some("tessera: change refused: no")
        );
        let asks = format!("tessera: asks {MOLDABLE}");
        let both = format!("tessera: change refused: no; asks {MOLDABLE}");
        let waits = format!("tessera: waits for slices: no place is free for an instance; asks {MOLDABLE}");
        assert_eq!([noted(&asks, true), noted(&waits, true)], [Some(both.clone()), Some(both)]);
        for stays in
            ["benchmark of June", "tessera: plan v1 size=2g.10gb until=200", "tessera: cannot start: no"]
        {
            assert_eq!(noted(stays, true), None);
        }
        assert_eq!(noted("", false), None);
    }

    #[test]
    fn a_move_is_held_to_the_limits_of_the_partition() {
        let job = Recorded { request: Some("v1 iso=whole".to_owned()), ..Recorded::default() };
        let change = Described { partition: Some("debug".to_owned()), ..Described::default() };
        let refused =
            |asker| modify(&change, &job, asker, Rules::Of(&site()), &Fake::default()).refused.is_some();
        assert!(refused(Asker::Owner) && refused(Asker::Other) && !refused(Asker::Root));
    }

    #[test]
    fn a_job_that_would_drain_nodes_by_its_environment_is_refused() {
        let job = Described { bad_env: Some(BadEnv::Entries(65_536)), ..Described::default() };
        let why = "the job has 65536 variables for SPANK plugins; at most 256 are accepted";
        for rules in [Rules::None, Rules::Of(&site())] {
            let submitted = submit(&job, rules, &Fake::default());
            let changed = modify(&job, &Recorded::default(), Asker::Root, rules, &Fake::default());
            for answer in [submitted, changed] {
                assert_eq!(answer, Answer::refused(Vec::new(), Refusal::new(Reason::Options, why)));
            }
        }
    }

    #[test]
    fn a_change_that_would_end_slurmctld_is_refused() {
        let list = |text: &str| Some(text.to_owned());
        let modify = |change: &Described, job: &Recorded| {
            modify(change, job, Asker::Root, Rules::None, &Fake::default()).refused.map(|why| why.text)
        };
        let job = Recorded { spread: true, pending: true, ..Recorded::default() };
        let whole = Described {
            tres: Tres { per_job: list("gres/gpu:1"), ..Tres::default() },
            ..Described::default()
        };
        assert!(modify(&whole, &job).is_some_and(|why| why.contains("--spread-job")));
        assert_eq!(modify(&whole, &Recorded::default()), None);
        // Its GPUs are then counted by its tasks.
        let by_tasks = Tres { per_node: list("gres/gpu:1"), tasks_per_gpu: Some(1), ..Tres::default() };
        let job = Recorded { tres: by_tasks, ..job };
        let other = Described {
            tres: Tres { per_node: list("gres/nic:1"), ..Tres::default() },
            ..Described::default()
        };
        assert!(modify(&other, &job).is_some() && modify(&Described::default(), &job).is_none());
        let as_it_was = Recorded { tres: whole.tres.clone(), ..job };
        assert_eq!(modify(&Described::default(), &as_it_was), None, "such a job can be changed otherwise");
        // The ratio of both lists is 0 in 16 bits.
        let per_task = Tres { per_task: list("gres/gpu:1"), ..Tres::default() };
        let job = Recorded { tres: per_task, pending: true, ..Recorded::default() };
        let per_socket = Tres { per_socket: list("gres/gpu:65536"), ..Tres::default() };
        let many = Described { tres: per_socket, ..Described::default() };
        assert!(modify(&many, &job).is_some_and(|why| why.contains("0 tasks per socket")));
        let zero = Described { harm: Some(Harm::NoTasksPerSocket), ..Described::default() };
        assert!(modify(&zero, &Recorded::default()).is_some_and(|why| why.contains("0 tasks per socket")));
        let x11 = Described { harm: Some(Harm::ArrayWithX11), ..Described::default() };
        assert_eq!(modify(&x11, &Recorded::default()), None);
    }

    #[test]
    fn a_running_job_with_two_types_of_gpu_keeps_its_nodes() {
        let fewer = || Described { nodes: Some(1), ..Described::default() };
        let of = |change: Described, kinds_of_gres, pending, asker| {
            let job = Recorded { kinds_of_gres, pending, ..Recorded::default() };
            modify(&change, &job, asker, Rules::None, &Fake::default()).refused.map(|why| why.text)
        };
        let named = Described { required_nodes: Some("n1".to_owned()), ..Described::default() };
        for change in [fewer(), named] {
            assert!(of(change, 2, false, Asker::Owner).is_some_and(|why| why.contains("ends slurmctld")));
        }
        assert_eq!(of(fewer(), 1, false, Asker::Owner), None, "Slurm has one list for it");
        assert_eq!(of(fewer(), 2, true, Asker::Owner), None, "it has no steps");
        assert_eq!(of(fewer(), 2, false, Asker::Root), None, "an administrator looks first");
        assert_eq!(of(Described::default(), 2, false, Asker::Owner), None, "its nodes stay");
    }

    #[test]
    fn without_a_good_file_only_jobs_that_ask_nothing_of_us_are_accepted() {
        let rules = Rules::Unknown("tessera.toml:7:24: it is wrong");
        let submit = |job: &Described| submit(job, rules, &Fake::default()).refused;
        let why = submit(&asking("v1 iso=mig:2g.10gb")).unwrap();
        assert_eq!(why.reason, Reason::Config);
        assert_eq!(
            why.text,
            "jobs with --gpu options cannot be accepted until an administrator has corrected tessera.toml: \
             tessera.toml:7:24: it is wrong"
        );
        assert!(submit(&asking("rubbish")).is_some());
        assert_eq!(submit(&asking("v1 iso=none")), None);
        assert_eq!(submit(&Described::default()), None);
        let job = Recorded { request: Some("v1 iso=mig".to_owned()), ..Recorded::default() };
        let change = Described { partition: Some("debug".to_owned()), ..Described::default() };
        let refused = |job, asker| modify(&change, job, asker, rules, &Fake::default()).refused.is_some();
        assert!(refused(&job, Asker::Owner) && !refused(&job, Asker::Root));
        assert!(!refused(&Recorded::default(), Asker::Owner));
    }
}
