//! Rules for changes that a user makes to a pending job.

use protocol::wire::parse_request;
use protocol::{Isolation, Request};
use site_config::SiteConfig;
use site_limits::Submission;
use site_limits::tres::{Entry, Tres};

use crate::limits::forbids;
use crate::meaning::{SlurmAsks, meaning, not_exclusively};
use crate::ruling::admit;
use crate::{Refusal, shares};

/// A change to a job.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// GRES that it names.
    pub tres: &'a Tres,
    /// GRES that the job asks for before it.
    pub had: &'a Tres,
    /// Names a list of GRES with nothing in it.
    pub empties: bool,
    /// Names GRES, a partition, an account or the exclusive use of nodes: what limits are held against.
    pub matters: bool,
    /// The number of shards that a planner's change brings, see [`crate::plan`].
    pub planned: Option<u32>,
    /// The job has not started.
    pub pending: bool,
    /// Root makes it. Limits do not hold for root.
    pub root: bool,
}

/// Judges a change. `job` is what the job would be after it.
///
/// The GRES of a managed job come from its request: other ones would let Slurm and the engine disagree, whoever asks. Of
/// whole GPUs, what Slurm counts is what the job gets, so a pending job may ask for another number of these.
///
/// # Errors
///
/// Why the change is refused: for the log and, where Slurm has a place for it, the user.
pub fn judge(change: Change<'_>, job: &Submission, config: Option<&SiteConfig>) -> Result<(), Refusal> {
    let request = job.request.as_deref().and_then(|text| parse_request(text).ok());
    let request = request.filter(|request| request.isolation != Isolation::None);
    match (&request, config) {
        (Some(request), _) => keeps_its_gres(change, request, job, config)?,
        (None, Some(config)) if change.matters && change.pending => {
            shares::refusal(job, config).map_or(Ok(()), |why| Err(Refusal::impossible(why)))?;
        }
        (None, _) => {}
    }
    let Some(config) = config.filter(|_| change.matters && !change.root) else { return Ok(()) };
    forbids(job, config).map_or(Ok(()), |why| Err(Refusal::limit(why)))
}

fn keeps_its_gres(
    change: Change<'_>,
    request: &Request,
    job: &Submission,
    config: Option<&SiteConfig>,
) -> Result<(), Refusal> {
    let has_shards = || job.tres.gpu_entries().iter().any(|entry| entry.name == "shard" && entry.count > 0);
    if job.exclusive && change.pending && change.matters && has_shards() {
        return Err(not_exclusively(request).into());
    }
    let new = change.tres.gpu_entries();
    if let (Isolation::Whole, Some(config), true) = (&request.isolation, config, change.pending)
        && !new.is_empty()
        && new.iter().all(|e| e.name == "gpu")
    {
        let request = Request { gpus: None, ..request.clone() };
        let slurm = SlurmAsks { tres: &job.tres, exclusive: job.exclusive };
        let resized = meaning(request, slurm, &config.defaults.of_requests())?;
        return admit(job, resized, config).map(drop);
    }
    let instead = match (&request.isolation, change.pending) {
        (Isolation::Whole, true) => "ask for another number of GPUs, such as gres=gpu:2",
        (_, true) => "its size is that of its options; change these with tessera change",
        (_, false) => "the job has started; cancel it and submit it again",
    };
    if change.empties {
        let why =
            format!("a job with --gpu-isolation={} cannot give up its GRES: {instead}", request.isolation);
        return Err(why.into());
    }
    // Per node or per job is part of what it asked for. One change reaches the records of an array one after another: our shards are in it from the second on.
    let had = change.had.gpu_entries();
    let ours = |e: &&Entry| {
        had.iter().any(|h| (&h.name, h.count, h.option) == (&e.name, e.count, e.option))
            || e.name == "shard" && change.planned.is_some_and(|n| e.count == u64::from(n))
    };
    match new.iter().find(|e| !ours(e)) {
        Some(entry) => {
            let (gres, n, kind) = (&entry.name, entry.count, &request.isolation);
            Err(format!("gres {gres}:{n} cannot be combined with --gpu-isolation={kind}: {instead}").into())
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gres(per_node: &str) -> Tres {
        Tres { per_node: Some(per_node.to_owned()), ..Tres::default() }
    }

    /// Makes the change of a user to a pending job.
    fn by_user<'a>(tres: &'a Tres, had: &'a Tres) -> Change<'a> {
        Change { tres, had, empties: false, matters: true, planned: None, pending: true, root: false }
    }

    fn job(request: Option<&str>) -> Submission {
        Submission { request: request.map(str::to_owned), ..Submission::default() }
    }

    #[test]
    fn gres_of_a_managed_job_stay() {
        let none = Tres::default();
        let judged = |request: Option<&str>, tres: &Tres, root, planned| {
            let change = Change { planned, root, ..by_user(tres, &none) };
            judge(change, &job(request), None)
        };
        let (gpus, shards) = (gres("gres:gpu:8"), gres("gres:shard:10"));
        assert!(judged(Some("v1 iso=mig:1g.5gb"), &gpus, true, None).is_err());
        let planned = |n| judged(Some("v1 iso=mig times=1g:5,2g:3"), &shards, true, n);
        assert!(planned(Some(10)).is_ok() && planned(Some(5)).is_err() && planned(None).is_err());
        assert!(judged(None, &gpus, false, None).is_ok());
        assert!(judged(Some("v1 iso=none"), &gpus, false, None).is_ok());
        assert!(judged(Some("v1 iso=mig:1g.5gb"), &Tres::default(), false, None).is_ok());
    }

    #[test]
    fn what_a_managed_job_has_may_be_named_again_as_it_was_asked_for() {
        let had = gres("gres:shard:10");
        let judged = |tres: &Tres| judge(by_user(tres, &had), &job(Some("v1 iso=mig:1g.5gb")), None);
        assert_eq!(judged(&had), Ok(()));
        let per_job = Tres { per_job: Some("gres:shard:10".to_owned()), ..had.clone() };
        assert!(judged(&per_job).is_err(), "a limit for the job beside that per node");
        let gpus = Tres { per_job: Some("gres:gpu:2".to_owned()), ..Tres::default() };
        assert!(judged(&gpus).unwrap_err().text.starts_with("gres gpu:2 cannot be combined with"));
        assert!(judged(&gres("gres:shard:11")).is_err());
    }

    #[test]
    fn a_managed_job_does_not_lose_its_gres() {
        let judged = |request: Option<&str>, root| {
            let tres = Tres::default();
            let change = Change { empties: true, matters: false, root, ..by_user(&tres, &tres) };
            judge(change, &job(request), None).map_err(|why| why.text)
        };
        let why = "a job with --gpu-isolation=mig:1g.5gb cannot give up its GRES: its size is that of its options; change these \
                   with tessera change";
        assert_eq!(judged(Some("v1 iso=mig:1g.5gb"), false), Err(why.to_owned()));
        assert!(judged(Some("v1 iso=whole gpus=1"), true).unwrap_err().ends_with("such as gres=gpu:2"));
        assert_eq!(judged(None, false), Ok(()));
        assert_eq!(judged(Some("v1 iso=none"), false), Ok(()));
    }

    #[test]
    fn a_pending_job_may_have_another_number_of_whole_gpus() {
        let text = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 4\n";
        let (config, _) = site_config::parse("t", text, &|_| Err(std::io::ErrorKind::NotFound.into()));
        let config = config.unwrap();
        let none = Tres::default();
        let resized = |request: &str, to: &str, pending| {
            let tres = gres(to);
            let job = Submission { tres: tres.clone(), ..job(Some(request)) };
            let change = Change { pending, ..by_user(&tres, &none) };
            judge(change, &job, Some(&config))
        };
        assert_eq!(resized("v1 iso=whole gpus=1", "gres:gpu:4", true), Ok(()));
        let why = |request: &str, to: &str, pending| resized(request, to, pending).unwrap_err().text;
        assert!(why("v1 iso=whole gpus=1", "gres:gpu:5", true).contains("5 GPUs do not fit"));
        assert_eq!(
            why("v1 iso=whole gpus=1", "gres:gpu:2", false),
            "gres gpu:2 cannot be combined with --gpu-isolation=whole: the job has started; cancel it and submit it again"
        );
        assert_eq!(
            why("v1 iso=whole gpus=1", "gres:shard:2", true),
            "gres shard:2 cannot be combined with --gpu-isolation=whole: ask for another number of GPUs, such as gres=gpu:2"
        );
        assert!(why("v1 iso=mig:1g.5gb", "gres:shard:20", true).contains("its size is that of its options"));
        assert!(
            why("v1 iso=whole gpus=3 pattern=edges:0-1,1-2", "gres:gpu:2", true).contains("--gpu-pattern")
        );
    }

    #[test]
    fn a_job_with_a_part_of_a_gpu_is_not_moved_to_whole_nodes() {
        let none = Tres::default();
        let moved = |request: &str, tres: &str, exclusive| {
            let job = Submission { tres: gres(tres), exclusive, ..job(Some(request)) };
            judge(by_user(&none, &none), &job, None).map_err(|why| why.text)
        };
        assert_eq!(moved("v1 iso=mig mem=9537", "gres:shard:10", false), Ok(()));
        assert_eq!(moved("v1 iso=whole gpus=1", "gres:gpu:1", true), Ok(()));
        let said = moved("v1 iso=mig mem=9537", "gres:shard:10", true).unwrap_err();
        assert!(said.starts_with("--exclusive, or a partition of whole nodes"), "{said}");
    }

    #[test]
    fn a_change_is_held_to_the_limits_of_where_it_leads() {
        let text = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 2\nmig = \"dynamic\"\n\
                    [[limits]]\npartition = \"gpu\"\nisolation = [\"mig\", \"mps\"]\n";
        let (config, errors) = site_config::parse("t", text, &|_| Err(std::io::ErrorKind::NotFound.into()));
        assert_eq!(errors, []);
        let config = config.unwrap();
        let moved = |request: Option<&str>, tres: &str, root| {
            let job = Submission { tres: gres(tres), partitions: vec!["gpu".to_owned()], ..job(request) };
            let tres = Tres::default();
            judge(Change { root, ..by_user(&tres, &tres) }, &job, Some(&config))
        };
        let why = "--gres=gpu:1 asks for whole GPUs: --gpu-isolation=whole is not allowed in partition gpu: use mig, mps";
        assert_eq!(moved(None, "gres:gpu:1", false), Err(Refusal::limit(why.to_owned())));
        assert_eq!(moved(Some("v1 iso=none"), "gres:gpu:1", false), Err(Refusal::limit(why.to_owned())));
        assert_eq!(moved(None, "gres:gpu:1", true), Ok(()), "root");
        assert_eq!(moved(None, "gres:shard:10", false), Ok(()));
        assert!(moved(Some("v1 iso=whole gpus=1"), "gres:gpu:1", false).is_err());
    }

    #[test]
    fn a_job_is_not_moved_to_where_limits_leave_it_no_instance() {
        let text = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 2\nmig = \"dynamic\"\n\
                    [[limits]]\npartition = \"gpu\"\nisolation = [\"mig:1g.5gb\"]\n";
        let (config, errors) = site_config::parse("t", text, &|_| Err(std::io::ErrorKind::NotFound.into()));
        assert_eq!(errors, []);
        let config = config.unwrap();
        let moved = |request: &str, partition: &str| {
            let partitions = vec![partition.to_owned()];
            let job = Submission { tres: gres("gres:shard:20"), partitions, ..job(Some(request)) };
            let tres = Tres::default();
            judge(by_user(&tres, &tres), &job, Some(&config))
        };
        let why = "--gpu-mem=20.0GB (taken as --gpu-isolation=mig): no instance that would do is allowed in partition gpu \
                   (line 6 of tessera.toml)";
        assert_eq!(moved("v1 iso=mig mem=19073", "gpu"), Err(Refusal::limit(why.to_owned())));
        assert_eq!(moved("v1 iso=mig mem=19073", "debug"), Ok(()));
        assert_eq!(moved("v1 iso=mig mem=4000", "gpu"), Ok(()));
        // One node that serves the job is enough for one node alone.
        let text = text.replace("mig:1g.5gb", "mig:4g.40gb")
            + "[[nodes]]\nnames = \"n2\"\ngpu = \"a100-80gb\"\ncount = 2\nmig = \"dynamic\"\n";
        let (config, errors) = site_config::parse("t", &text, &|_| Err(std::io::ErrorKind::NotFound.into()));
        assert_eq!(errors, []);
        let on = |nodes| {
            let partitions = vec!["gpu".to_owned()];
            let job = Submission { partitions, nodes, ..job(Some("v1 iso=mig mem=19073")) };
            judge(by_user(&Tres::default(), &Tres::default()), &job, config.as_ref()).is_ok()
        };
        assert_eq!([on(1), on(2)], [true, false]);
    }
}
