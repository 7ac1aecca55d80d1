//! A job that a limit of the site forbids, though it was submitted: the limit is newer, or an administrator moved the job.

use std::sync::Arc;

use geometry::JobId;
use protocol::{CommentBody, Isolation};
use site_config::SiteConfig;
use site_limits::amounts::{Amount, least, never};
use site_limits::tres::Entry;
use site_limits::{Submission, forbids_counted, limits_of};

use crate::effect::Effect;
use crate::engine::{Engine, Question};
use crate::view::{GresKind, GresRequest, JobView, NodeView, Want};

/// The id of the record by which Slurm asks where to put an administrator's reservation of GRES, from 23.11 on: `_resv_select`,
/// src/slurmctld/reservation.c.
pub(crate) const NO_JOB: JobId = JobId(0);

/// The job with its limits; `None`: it has none.
fn limited(view: &JobView, config: &SiteConfig) -> Option<Submission> {
    let job = Some(view).filter(|view| view.id != NO_JOB).map(JobView::submission)?;
    (!limits_of(&job, config).is_empty()).then_some(job)
}

/// Why the job must not start, or not yet; `None`: it may. `reach` lists the nodes that it may run on, `nodes` are the fewest that it
/// gets.
pub(crate) fn why(
    view: &JobView,
    nodes: u32,
    reach: impl FnOnce() -> Vec<String>,
    engine: &Engine,
) -> Option<String> {
    let config = engine.site();
    // Nodes are listed only if there is something to hold them against.
    let mut job = limited(view, config)?;
    job.nodes = nodes;
    let counted = view.gres.iter().map(|entry| match entry.kind {
        GresKind::Gpu => Entry::per_node("gpu", entry.per_node.max(1)),
        GresKind::Shard => Entry::per_node("shard", entry.per_node),
    });
    let counted: Vec<Entry> = counted.collect();
    job.partition_nodes = Some(Arc::new(reach().into_iter().collect()));
    // By what Slurm has counted: a job can have been given another GRES than its request asks for, and one that leaves its GPUs to
    // Slurm asks for what is counted.
    let asked = view.request.as_ref().map(|asked| match view.want() {
        Some(want) if asked.isolation != Isolation::None => want.request,
        _ => asked.clone(),
    });
    let request = asked.as_ref();
    forbids_counted(request, &job, &counted, config)
        .or_else(|| engine.running().keeps(least(request, &counted, &job, config), &job, config))
}

/// Says that limits leave the job no instance on as many of the nodes within its `reach` as it needs, now or ever, while it could
/// have them without limits.
pub(crate) fn none_left(
    view: &JobView,
    want: &Want,
    question: &Question,
    (nodes, reach): (u32, &[String]),
    engine: &mut Engine,
) -> Option<String> {
    if !question.is_limited() {
        return None;
    }
    let needs = usize::try_from(nodes.max(1)).unwrap_or(usize::MAX);
    let served = |engine: &mut Engine, question: &Question| {
        let serving = reach.iter().filter(|node| engine.fits_ever(*node, question) == Some(true));
        serving.take(needs).count() == needs
    };
    if served(engine, question) {
        return None;
    }
    let unlimited = engine.unlimited(view, want);
    served(engine, &unlimited)
        .then(|| site_limits::none_left(&want.request, &limits_of(&view.submission(), engine.site())))
}

/// Why the job must not start with what it would get, or not yet; `None`: it may.
pub(crate) fn why_not_with(
    view: &JobView,
    takes: impl FnOnce() -> Amount,
    engine: &Engine,
) -> Option<String> {
    let config = engine.site();
    let job = limited(view, config)?;
    let takes = takes();
    never(takes, &job, config).or_else(|| engine.running().keeps(takes, &job, config))
}

/// Refuses a start for such a reason. What an earlier test said has been taken back before Slurm's own.
pub(crate) fn refuse(view: &JobView, why: String) -> Vec<Effect> {
    Effect::said(view, CommentBody::Limited(why)).into_iter().chain(Effect::refusal()).collect()
}

/// Why a job that asks for shards must not have the GPUs of one of `nodes` as a whole, which it gets where Slurm takes its shards
/// there from several; `None`: it may, or does not.
pub(crate) fn why_not_whole(view: &JobView, nodes: &[NodeView], engine: &Engine) -> Option<String> {
    let entry = GresRequest { kind: GresKind::Gpu, per_node: 1, per_socket: false };
    let as_whole = JobView { gres: vec![entry], request: None, ..view.clone() };
    why(&as_whole, 1, || nodes.iter().map(|node| node.name.to_string()).collect(), engine)
}

/// Tells whether a job's shards are counted in another way than per node. Such a submission or change is refused, but the
/// job may be older than that.
pub(crate) fn counts_otherwise(view: &JobView) -> bool {
    view.gres.iter().any(|entry| entry.kind == GresKind::Shard && entry.per_node == 0)
}

/// Keeps the job from these nodes, which are all, and says why in its AdminComment.
pub(crate) fn block_on_limit(view: &JobView, why: String, nodes: &[NodeView]) -> Vec<Effect> {
    let all = Effect::RuleOut(nodes.iter().map(|node| node.index).collect());
    Effect::said(view, CommentBody::Limited(why)).into_iter().chain([all]).collect()
}

/// Takes back what an earlier limit had said.
pub(crate) fn clear_limit_note(view: &mut JobView) -> Option<Effect> {
    let CommentBody::Limited(_) = view.comment.says else { return None };
    let cleared = Effect::said(view, CommentBody::Nothing);
    view.comment.says = CommentBody::Nothing;
    cleared
}

#[cfg(test)]
mod tests {
    use protocol::Grant;

    use super::*;

    const SITE: &str = "[[nodes]]\nnames = \"n[1-2]\"\ngpu = \"a100-40gb\"\ncount = 2\nmig = \"dynamic\"\n";

    fn site(limits: &str) -> SiteConfig {
        let text = format!("{SITE}{limits}");
        let (config, errors) = site_config::parse("t", &text, &|_| Err(std::io::ErrorKind::NotFound.into()));
        assert_eq!(errors, []);
        config.unwrap()
    }

    /// A job of account `lab` in partition `gpu` that was submitted when the site had no limits.
    fn job(request: Option<&str>, kind: GresKind, per_node: u64) -> JobView {
        JobView {
            request: request.and_then(|text| protocol::wire::parse_request(text).ok()),
            gres: vec![GresRequest { kind, per_node, per_socket: false }],
            partition: Some("gpu".to_owned()),
            account: Some("lab".to_owned()),
            ..JobView::of_tests()
        }
    }

    #[test]
    fn no_limit_keeps_an_administrator_from_reserving_gpus() {
        let engine = Engine::new(site("[[limits]]\npartition = \"gpu\"\nisolation = [\"mig\"]\n"));
        let on = |id| why(&JobView { id: JobId(id), ..job(None, GresKind::Gpu, 1) }, 1, Vec::new, &engine);
        assert!(on(9).is_some());
        assert_eq!(on(0), None);
    }

    #[test]
    fn what_slurm_has_counted_is_held_to_limits_whatever_the_request_says() {
        let engine = Engine::new(site("[[limits]]\npartition = \"gpu\"\nisolation = [\"mig\", \"mps\"]\n"));
        let on = |kind| why(&job(Some("v1 iso=mig:1g.5gb"), kind, 4), 1, || vec!["n1".to_owned()], &engine);
        assert_eq!(on(GresKind::Shard), None);
        assert!(on(GresKind::Gpu).unwrap().starts_with("--gpu-isolation=whole is not allowed"));
    }

    /// A share's shards are a little more than the gigabytes that its user wrote.
    #[test]
    fn shards_that_are_left_to_slurm_are_held_to_limits_as_their_user_wrote_them() {
        let engine = Engine::new(site("[[limits]]\npartition = \"gpu\"\nmax_mem = \"10G\"\n"));
        let on = |request, n| {
            why(&job(request, GresKind::Shard, n), 1, || vec!["n1".to_owned()], &engine).is_some()
        };
        for request in [None, Some("v1 iso=none")] {
            assert_eq!([on(request, 10), on(request, 11)], [false, true], "{request:?}");
        }
    }

    /// The job was submitted elsewhere, or the limit is newer.
    #[test]
    fn auto_and_unnamed_instances_are_chosen_among_what_limits_allow() {
        let limits = "[[limits]]\npartition = \"gpu\"\nisolation = [\"mig:2g.10gb\"]\n";
        let (free, bound) = (Engine::new(site("")), Engine::new(site(limits)));
        let chosen = |engine: &Engine, request: &str| {
            let view = job(Some(request), GresKind::Shard, 5);
            let question = engine.question(&view, &view.want().unwrap());
            let node = engine.node("n1").unwrap();
            let name = |spec: &protocol::MigSpec| {
                let model = node.gpus[0].model;
                model.profile_by_id(spec.profile).unwrap().name.clone()
            };
            match question.decide(node).chosen {
                Some(Grant::Mig(specs)) => specs.iter().map(name).collect::<Vec<_>>().join(" "),
                other => format!("{other:?}"),
            }
        };
        let (mig, auto) = ("v1 iso=mig mem=4769", "v1 iso=auto mem=4769");
        assert_eq!([chosen(&free, mig), chosen(&bound, mig)], ["1g.5gb", "2g.10gb"]);
        assert_eq!(chosen(&bound, auto), "2g.10gb");
        assert_eq!(chosen(&free, "v1 iso=mig mem=19073"), "3g.20gb");
        assert_eq!(chosen(&bound, "v1 iso=mig mem=19073"), "None");
        let whole = Engine::new(site("[[limits]]\npartition = \"gpu\"\nisolation = [\"whole\"]\n"));
        let auto = job(Some("v1 iso=auto mem=4769"), GresKind::Shard, 5);
        let said = why(&auto, 1, || vec!["n1".to_owned()], &whole).unwrap();
        assert!(said.starts_with("no kind that auto may choose is allowed in partition gpu"), "{said}");
    }

    #[test]
    fn a_job_waits_for_what_running_jobs_have_until_they_end() {
        let mut engine = Engine::new(site("[[limits]]\npartition = \"gpu\"\nrunning_slices = 7\n"));
        let running = job(Some("v1 iso=mig:3g.20gb"), GresKind::Shard, 20);
        let held = vec![("n1".to_owned(), Amount { gpus: 0, slices: 3 })];
        engine.runs(JobId(5), &running.submission(), held);
        let on = |request: &str, engine: &Engine| {
            why(&job(Some(request), GresKind::Shard, 20), 1, || vec!["n1".to_owned()], engine)
        };
        assert_eq!(on("v1 iso=mig:4g.20gb", &engine), None);
        let why = on("v1 iso=mig:2g.10gb inst=3", &engine).unwrap();
        assert!(why.contains("have 3 of 7 slices") && why.ends_with("job 5 has 3; it needs 6"), "{why}");
        // What it would get counts, if that is more than the least.
        let four = job(Some("v1 iso=mig:4g.20gb"), GresKind::Shard, 20);
        let with = |slices, engine: &Engine| why_not_with(&four, || Amount { gpus: 0, slices }, engine);
        assert_eq!(with(4, &engine), None);
        assert!(with(5, &engine).unwrap().ends_with("it needs 5"));
        assert!(
            with(8, &engine)
                .unwrap()
                .starts_with("it needs 8 slices, and in partition gpu running jobs together")
        );
        engine.begin_end(JobId(5));
        assert_eq!((with(7, &engine), on("v1 iso=mig:2g.10gb inst=3", &engine)), (None, None));
    }

    #[test]
    fn a_limit_that_is_newer_than_the_job_holds_it_at_its_start_and_is_named() {
        let on =
            |job: &JobView, limits: &str| why(job, 1, || vec!["n1".to_owned()], &Engine::new(site(limits)));
        let large = job(Some("v1 iso=mig:7g.40gb"), GresKind::Shard, 40);
        let plain = job(None, GresKind::Gpu, 1);
        let small = job(Some("v1 iso=mig:1g.5gb"), GresKind::Shard, 5);
        for all in [&large, &plain, &small] {
            assert_eq!(on(all, ""), None);
        }
        let limit = "[[limits]]\naccount = \"lab\"\nmax_mem = \"20G\"\n";
        for held in [&large, &plain] {
            let why = on(held, limit).unwrap();
            assert!(why.contains("account lab") && why.contains("at most 20.0 GB"), "{why}");
        }
        assert_eq!(on(&small, limit), None, "it keeps within the limit");
        assert_eq!(on(&large, &limit.replace("lab", "art")), None, "another account's limit");
        let of_partition = on(&plain, "[[limits]]\npartition = \"gpu\"\nisolation = [\"mig\"]\n").unwrap();
        assert!(of_partition.contains("partition gpu"), "{of_partition}");
    }
}
