//! A planner's change to a pending moldable job: another size, told by the job's AdminComment, and the shards that go
//! with it. The comment's form and meaning: [`protocol::AdminComment`] and [`protocol::plan`].

use protocol::wire::parse_request;
use protocol::{AdminComment, CommentBody, Isolation, Plan};
use site_config::SiteConfig;
use site_limits::Submission;

use crate::Refusal;
use crate::ruling::{Ruling, admit};

/// Derives the shards per node that a new AdminComment gives a job; `None`: nothing. `job` is what its record says,
/// `before` its AdminComment so far, `now` seconds since 1970.
///
/// A planner writes by what it saw a moment ago. What the job got stays if it has started since, and so does a text that
/// somebody else has written since. So does a command that adds a note about idle GPUs, which changes nothing else.
///
/// # Errors
///
/// The comment is a plan that this job cannot have: why, for the log and, where Slurm has a place for it, the planner.
pub fn judge(
    job: &Submission,
    comment: &str,
    before: &str,
    pending: bool,
    now: u64,
    config: Option<&SiteConfig>,
) -> Result<Option<u32>, Refusal> {
    let AdminComment { says, idle, asks, .. } = AdminComment::parse(comment);
    let was = AdminComment::parse(before);
    if idle.is_some() && (&says, &asks) == (&was.says, &was.asks) {
        return Ok(None);
    }
    if idle.is_some() && idle != was.idle {
        return Err("its AdminComment has changed since the note about idle GPUs was made".to_owned().into());
    }
    let plan = match says {
        CommentBody::Plan(plan) => Some(plan),
        CommentBody::UnreadablePlan(_, why) => return Err(format!("the plan cannot be read: {why}").into()),
        _ => None,
    };
    let request = job.request.as_deref().and_then(|text| parse_request(text).ok());
    if request.is_some() && plan.is_none() && asks.is_some() && !pending {
        return Err("the job has started, so its AdminComment cannot be changed to a request"
            .to_owned()
            .into());
    }
    if (plan.is_some() || asks.is_some()) && !was.is_ours() {
        return Err("its AdminComment is not Tessera's: clear it first".to_owned().into());
    }
    let request = request.filter(|r| matches!(r.isolation, Isolation::Mig(_)));
    let (Some(request), Some(config)) = (request, config) else {
        let none = || Err("a plan for a job that has no MIG instance of Tessera's".to_owned().into());
        return plan.map_or(Ok(None), |_| none());
    };
    let wanted = match plan {
        None if !pending || !request.is_moldable() => return Ok(None),
        None => request,
        Some(_) if !pending => {
            return Err("a plan is for a pending job, this one has started".to_owned().into());
        }
        Some(plan) if !plan.counts_at(now) => {
            return Err(format!("the plan lapsed at {}", plan.until).into());
        }
        Some(plan) => {
            exists(&plan, config)?;
            plan.apply(&request).map_err(|e| e.to_string())?
        }
    };
    match admit(job, wanted, config)? {
        Ruling::Accepted { add: Some(("shard", shards)), .. } => Ok(Some(shards)),
        _ => Err("no node that this job may use counts it by shards".to_owned().into()),
    }
}

/// Checks that there is such a place, free or not.
fn exists(plan: &Plan, config: &SiteConfig) -> Result<(), String> {
    let Some(place) = &plan.place else { return Ok(()) };
    let node =
        config.node(&place.node).ok_or_else(|| format!("{} is not a node of tessera.toml", place.node))?;
    let gpus = site_limits::node_of(node).gpus;
    let profile = gpus
        .get(usize::from(place.start.gpu.0))
        .and_then(|g| g.model.profile(&plan.size).or_else(|| Some(g.model.compute_profile(&plan.size)?.0)));
    match profile {
        Some(profile) if profile.starts.contains(&place.start.start) => Ok(()),
        _ => Err(format!("{} has no place {} for {}", place.node, place.start, plan.size)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use site_limits::tres::Tres;

    fn site(extra: &str) -> SiteConfig {
        let text = format!(
            "[defaults]\ngpu_mem = \"20G\"\n{extra}[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 2\n\
             mig = \"on\"\n[[nodes]]\nnames = \"n2\"\ngpu = \"a30-24gb\"\ncount = 1\nmig = \"dynamic\"\n"
        );
        let (config, errors) = site_config::parse("t", &text, &|_| Err(std::io::ErrorKind::NotFound.into()));
        assert_eq!(errors, [], "{text}");
        config.unwrap()
    }

    fn job(request: &str) -> Submission {
        Submission {
            request: Some(request.to_owned()),
            tres: Tres::default(),
            partitions: vec!["gpu".to_owned()],
            ..Submission::default()
        }
    }

    const MOLDABLE: &str = "v1 iso=mig times=1g:60,2g:40,3g:35";

    fn shards(comment: &str) -> Result<Option<u32>, String> {
        judge(&job(MOLDABLE), comment, "", true, 100, Some(&site(""))).map_err(|refusal| refusal.text)
    }

    #[test]
    fn a_size_brings_its_shards_and_none_the_requested_size() {
        assert_eq!(shards("tessera: plan v1 size=2g.10gb until=200"), Ok(Some(10)));
        assert_eq!(shards("tessera: plan v1 size=3g.20gb place=n1:1@4 until=200"), Ok(Some(20)));
        assert_eq!(shards("tessera: plan v1 size=2g.12gb place=n2:0@2 until=200"), Ok(Some(12)));
        for none in ["", "benchmark of June", "tessera: n1=mig:0/1g.5gb@0: why"] {
            assert_eq!(shards(none), Ok(Some(5)), "{none}");
        }
    }

    #[test]
    fn other_jobs_are_left_alone() {
        let site = site("");
        let judge = |request: &str, pending, comment: &str| {
            judge(&job(request), comment, "", pending, 100, Some(&site))
        };
        assert_eq!(judge("v1 iso=mig:2g.10gb", true, "benchmark of June"), Ok(None));
        assert_eq!(judge("v1 iso=whole gpus=2", true, ""), Ok(None));
        assert_eq!(judge(MOLDABLE, false, "benchmark of June"), Ok(None));
        assert_eq!(super::judge(&Submission::default(), "benchmark of June", "", true, 100, None), Ok(None));
    }

    #[test]
    fn what_has_changed_since_the_planner_looked_stays() {
        let site = site("");
        let (plan, asks) =
            ("tessera: plan v1 size=2g.10gb until=200", "tessera: asks v1 iso=mig times=1g:60");
        let judge = |comment: &str, before: &str, pending| {
            judge(&job(MOLDABLE), comment, before, pending, 100, Some(&site))
        };
        let got = "tessera: n1=mig:0/1g.5gb@0: why; asks v1 iso=mig times=1g:60";
        assert!(judge(asks, got, false).unwrap_err().text.contains("has started"));
        assert!(judge(plan, got, false).unwrap_err().text.contains("has started"));
        assert_eq!((judge(asks, plan, true), judge(plan, got, true)), (Ok(Some(5)), Ok(Some(10))));
        for comment in [plan, asks] {
            assert!(judge(comment, "benchmark of June", true).unwrap_err().text.contains("not Tessera's"));
        }
        assert_eq!(judge("", "benchmark of June", true), Ok(Some(5)));
    }

    #[test]
    fn a_note_about_idle_gpus_changes_nothing_else() {
        let site = site("");
        let judge = |comment: &str, before: &str, pending| {
            judge(&job(MOLDABLE), comment, before, pending, 100, Some(&site))
        };
        let (got, plan) = ("tessera: n1=mig:0/1g.5gb@0: why", "tessera: plan v1 size=2g.10gb until=200");
        let asks = "asks v1 iso=mig times=1g:60";
        for (says, pending) in [(got, false), (got, true), (plan, true)] {
            let before = format!("{says}; {asks}");
            for before in [&before, &format!("{says}; idle: warned; {asks}")] {
                assert_eq!(judge(&format!("{says}; idle: cancelled; {asks}"), before, pending), Ok(None));
            }
        }
        // Since it was read, the job was requeued and planned, or an administrator has written there.
        let late = format!("{got}; idle: cancelled; {asks}");
        for before in [format!("{plan}; {asks}"), "benchmark of June".to_owned()] {
            assert!(judge(&late, &before, true).unwrap_err().text.contains("has changed since"));
        }
        // A node that requeues a job leaves the note there.
        let requeued = format!("tessera: requeued by n1: no; idle: warned; {asks}");
        assert_eq!(judge(&requeued, &format!("{got}; idle: warned; {asks}"), true), Ok(Some(5)));
    }

    #[test]
    fn plans_that_cannot_be_had_are_refused_with_the_reason() {
        let limit = site("[[limits]]\npartition = \"gpu\"\nmax_mem = \"8G\"\n");
        let why = |request: &str, pending, comment: &str, config: &SiteConfig| {
            judge(&job(request), comment, "", pending, 100, Some(config)).unwrap_err().text
        };
        let site = site("");
        let plan = "tessera: plan v1 size=2g.10gb until=200";
        assert_eq!(
            why(MOLDABLE, true, "tessera: plan v1 size=2g until=x", &site),
            "the plan cannot be read: a number out of range in \"x\""
        );
        assert_eq!(why(MOLDABLE, false, plan, &site), "a plan is for a pending job, this one has started");
        assert_eq!(
            why(MOLDABLE, true, "tessera: plan v1 size=2g.10gb until=99", &site),
            "the plan lapsed at 99"
        );
        assert_eq!(
            why("v1 iso=mig mem=5", true, plan, &site),
            "the job is not moldable: it has neither --gpu-times nor --gpu-app"
        );
        assert_eq!(
            why("v1 iso=whole", true, plan, &site),
            "a plan for a job that has no MIG instance of Tessera's"
        );
        let seven = "tessera: plan v1 size=7g.40gb until=200";
        assert_eq!(
            why(MOLDABLE, true, seven, &site),
            "7g.40gb is not among the sizes of the job, 1g, 2g, 3g"
        );
        let place = |place: &str| format!("tessera: plan v1 size=2g.10gb place={place} until=200");
        assert_eq!(why(MOLDABLE, true, &place("n9:0@0"), &site), "n9 is not a node of tessera.toml");
        for at in ["n1:2@0", "n1:0@1", "n2:0@0"] {
            assert!(why(MOLDABLE, true, &place(at), &site).contains("has no place"), "{at}");
        }
        assert_eq!(
            why(MOLDABLE, true, plan, &limit),
            "--gpu-isolation=mig:2g.10gb is too much in partition gpu: at most 8.0 GB"
        );
        let h200 = "tessera: plan v1 size=1g.18gb until=200";
        assert!(why(MOLDABLE, true, h200, &site).contains("no node could ever"));
    }

    #[test]
    fn sizes_that_are_too_small_are_left_out_and_the_sites_default_is_not_for_them() {
        let admitted = |request: &str| match crate::ruling::judge(&job(request), Some(&site(""))) {
            Ruling::Accepted { request, add, .. } => (protocol::wire::encode_request(&request), add),
            other => panic!("{request}: {other:?}"),
        };
        assert_eq!(
            admitted("v1 iso=mig times=1g:60,2g:35"),
            ("v1 iso=mig times=1g:60,2g:35".to_owned(), Some(("shard", 5)))
        );
        assert_eq!(
            admitted("v1 iso=auto mem=9537 times=1g:60,2g:35,4g:30"),
            ("v1 iso=mig mem=9537 times=2g:35,4g:30".to_owned(), Some(("shard", 10)))
        );
        let refused = crate::ruling::judge(&job("v1 iso=mig mem=30000 times=1g:60,2g:35"), Some(&site("")));
        assert!(
            matches!(&refused, Ruling::Refused(why) if why.text.contains("--gpu-times=1g,2g")),
            "{refused:?}"
        );
    }
}
