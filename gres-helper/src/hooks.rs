//! The two hooks of slurmctld as a whole: a submission or a change in, what to write and perhaps a refusal out.
//!
//! Effects are written in their order. Those of a refused change are written as well: a placement that somebody has put
//! into it goes in any case.

use admission::change::{self, Change};
use admission::{Refusal, Ruling, plan};
use decision_counts::decisions::Reason;
use plugin_rt::spank_env::is_named;
use protocol::gres_list::{with_entry, with_gpus_of, with_shards};
use protocol::set_summary::MATCH_ENV;
use protocol::slices::{LICENSE, names_slices, names_slices_per_task, slices_in};
use protocol::wire::{PLACEMENT_ENV, REQUEST_ENV, WHY_ENV, encode_request, parse_request};
use protocol::{AdminComment, Isolation, Says};

use crate::harm::Harm;
use crate::site::Rules;
use crate::submission::{self, Described, Recorded, Slurm, asks_for_shards, left_to_slurm};

/// What is written into the job's description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Removes every placement from the SPANK environment, and sets the request there if one is given.
    Env(Option<String>),
    /// Replaces the AdminComment.
    Comment(String),
    /// Replaces the list of GRES per node.
    PerNode(String),
    /// Takes from a change the flags by which slurmctld notes that it takes licenses away: a user could have set them.
    KeepLicenses,
}

impl Effect {
    /// Whether an entry of the SPANK environment goes for [`Effect::Env`]: what claims to be a placement, its reason or its
    /// match, and the old request where there is a new one.
    pub(crate) fn drops(entry: &str, request: Option<&str>) -> bool {
        [PLACEMENT_ENV, WHY_ENV, MATCH_ENV].iter().any(|name| is_named(entry, name))
            || request.is_some() && is_named(entry, REQUEST_ENV)
    }
}

/// What becomes of a submission or a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) effects: Vec<Effect>,
    /// Why it is refused: for the user, and for the log.
    pub(crate) refused: Option<Refusal>,
    /// What the user of an accepted job should know.
    pub(crate) note: Option<String>,
}

impl Answer {
    fn accepted(effects: Vec<Effect>) -> Self {
        Self { effects, refused: None, note: None }
    }

    fn refused(effects: Vec<Effect>, why: Refusal) -> Self {
        Self { effects, refused: Some(why), note: None }
    }

    /// What is counted: yes, or why not. `None`: nothing of Tessera's was asked.
    pub(crate) fn counts(&self) -> Option<Result<(), Reason>> {
        let given = |effect: &Effect| matches!(effect, Effect::Env(Some(_)) | Effect::PerNode(_));
        match &self.refused {
            Some(refusal) => Some(Err(refusal.reason)),
            None => self.effects.iter().any(given).then_some(Ok(())),
        }
    }
}

/// What becomes of a submission.
pub(crate) fn submit(job: &Described, rules: Rules<'_>, slurm: &impl Slurm) -> Answer {
    let config = rules.config();
    if let Some(why) =
        bad_env(job).or_else(|| job.harm.as_ref().map(Harm::refusal)).or_else(|| slices_named(job, slurm))
    {
        return Answer::refused(Vec::new(), why);
    }
    if let Some(why) = job.request.as_deref().filter(|text| concerns_us(text)).and_then(|_| rules.unknown()) {
        return Answer::refused(Vec::new(), why);
    }
    // Without limits there is nothing to ask of a job that asks nothing of us, unless no GPU may give what it asks for.
    let unlimited = config.is_none_or(|config| config.limits.is_empty());
    if unlimited && job.request.is_none() && !asks_for_shards(&job.tres) {
        return Answer::accepted(vec![Effect::Env(None)]);
    }
    let mut submitted = submission::submitted(job, slurm);
    submitted.left_to_slurm = left_to_slurm(&submitted, config, slurm);
    let (request, add, note) = match admission::judge(&submitted, config) {
        Ruling::Untouched => return Answer::accepted(vec![Effect::Env(None)]),
        Ruling::Refused(why) => return Answer::refused(Vec::new(), why),
        Ruling::Accepted { request, add, note } => (request, add, note),
    };
    let wire = encode_request(&request);
    let mut effects = vec![Effect::Env(Some(wire.clone()))];
    // The AdminComment is the only place where a planner and `tessera why` can see the request.
    if request.isolation != Isolation::None
        && AdminComment::parse(job.comment.as_deref().unwrap_or_default()).is_ours()
    {
        effects.push(Effect::Comment(AdminComment::asking(&wire).to_string()));
    }
    effects.extend(add.map(|(name, count)| {
        Effect::PerNode(with_entry(job.tres.per_node.as_deref(), &slurm.gres(name, count)))
    }));
    Answer { effects, refused: None, note }
}

/// What becomes of a `change` to a job; `root` asks for it or somebody else.
pub(crate) fn modify(
    change: &Described,
    job: &Recorded,
    root: bool,
    rules: Rules<'_>,
    slurm: &impl Slurm,
) -> Answer {
    let config = rules.config();
    if let Some(why) = bad_env(change) {
        return Answer::refused(Vec::new(), why);
    }
    let mut effects = vec![Effect::Env(None)];
    effects.extend((!root).then_some(Effect::KeepLicenses));
    if let Some(why) = slices_changed(change, job, slurm).filter(|_| !root) {
        return Answer::refused(effects, why);
    }
    let matters = change.partition.is_some()
        || change.account.is_some()
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
    let mut after = submission::changed(change, job, slurm);
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
            effects.extend(shown_still(change.comment.as_deref(), job.request.as_deref()));
            Answer::accepted(effects)
        }
        Err(why) => Answer::refused(effects, why),
    }
}

/// A list of another GRES takes the place of the one that holds a managed job's GPUs, and Slurm then gives it none: they stay.
fn keeps_gpus(change: &Described, job: &Recorded) -> Option<Effect> {
    let managed = job.pending && job.request.as_deref().is_some_and(concerns_us);
    let (list, before) = (change.tres.per_node.as_deref()?, job.tres.per_node.as_deref()?);
    with_gpus_of(list, before).filter(|_| managed).map(Effect::PerNode)
}

/// Why a job's SPANK environment is not accepted; `None` if it is. No site can change these bounds: they keep a job from draining
/// the nodes that it is given.
fn bad_env(job: &Described) -> Option<Refusal> {
    job.bad_env.as_ref().map(|why| Refusal::new(Reason::Options, why.to_string()))
}

/// Why a job may not name the license that counts its slices itself; `None` if it does not.
fn slices_named(job: &Described, slurm: &impl Slurm) -> Option<Refusal> {
    let of_job = job.licenses.as_deref().filter(|list| names_slices(list)).map(|list| ("licenses", list));
    let of_task = job.tres.per_task.as_deref().filter(|list| names_slices_per_task(list));
    let (option, list) =
        of_job.or(of_task.map(|list| ("tres-per-task", list))).filter(|_| slurm.counts_slices())?;
    let why = format!(
        "--{option}={list}: Slurm counts the slices of each job's GPUs by the license {LICENSE}; leave it out"
    );
    Some(Refusal::new(Reason::Licenses, why))
}

/// Why a change may not touch a job's licenses; `None` if it may. Slurm lets any user give back the licenses of their running
/// jobs, which then would cost nothing.
fn slices_changed(change: &Described, job: &Recorded, slurm: &impl Slurm) -> Option<Refusal> {
    if let Some(why) = slices_named(change, slurm) {
        return Some(why);
    }
    let list = change.licenses.as_deref()?;
    (!job.pending && slices_in(&job.licenses) != slices_in(list) && slurm.counts_slices()).then(|| {
        let why =
            "the job runs, and the slices of its GPUs are among its licenses: only root can change them now";
        Refusal::new(Reason::Licenses, why)
    })
}

/// Whether a request asks anything of Tessera; one that nobody can read does.
fn concerns_us(text: &str) -> bool {
    parse_request(text).map_or(true, |request| request.isolation != Isolation::None)
}

/// The AdminComment of a pending job that says why a change of it was refused; `None` where another text must stay, or
/// where the change was to this very text.
pub(crate) fn refusal_noted(change: &Described, job: &Recorded, why: &str) -> Option<String> {
    let AdminComment { says, asks } = AdminComment::parse(&job.comment);
    // That it waits for slices is no news to the user of a job that waits.
    let replaceable = matches!(says, Says::Nothing | Says::Slices(_) | Says::Unchanged(_));
    let comment = AdminComment { says: Says::Unchanged(why.to_owned()), asks };
    (job.pending && replaceable && change.comment.is_none()).then(|| comment.to_string())
}

/// Lets a new AdminComment of ours still show what the job asks.
fn shown_still(comment: Option<&str>, request: Option<&str>) -> Option<Effect> {
    let comment = AdminComment::parse(comment?);
    let comment = Some(comment).filter(|c| c.is_ours() && c.asks.is_none())?;
    let asks = Some(request?.to_owned());
    Some(Effect::Comment(AdminComment { asks, ..comment }.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::submission::tests::Fake;
    use plugin_rt::spank_env::BadEnv;
    use protocol::gres_list::Tres;
    use site_config::SiteConfig;

    fn site() -> SiteConfig {
        let text = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 2\nmig = \"dynamic\"\n\
                    [[limits]]\npartition = \"debug\"\nisolation = [\"mps\"]\n";
        let (config, errors) = site_config::parse("t", text, &|_| Err(std::io::ErrorKind::NotFound.into()));
        assert_eq!(errors, []);
        config.unwrap()
    }

    fn described(request: &str) -> Described {
        let tres = Tres { per_node: Some("gres:nic:1".to_owned()), ..Tres::default() };
        Described { request: Some(request.to_owned()), tres, ..Described::default() }
    }

    const MOLDABLE: &str = "v1 iso=mig times=1g:60,2g:35";

    #[test]
    fn a_submission_gets_its_gres_and_loses_what_claims_to_be_a_placement() {
        let submit = |job: &Described| submit(job, Rules::Of(&site()), &Fake::default());
        let set = |request: &str| Effect::Env(Some(request.to_owned()));
        let add = |count| Effect::PerNode(format!("gres:nic:1,gres:shard:{count}"));
        let found = submit(&described("v1 iso=mig:2g.10gb"));
        let shown = |request: &str| Effect::Comment(format!("tessera: asks {request}"));
        let two = "v1 iso=mig:2g.10gb";
        assert_eq!(found, Answer::accepted(vec![set(two), shown(two), add(10)]));
        let moldable = submit(&described(MOLDABLE));
        assert_eq!(moldable.effects, [set(MOLDABLE), shown(MOLDABLE), add(5)]);
        let theirs = Described { comment: Some("benchmark of June".to_owned()), ..described(MOLDABLE) };
        let theirs_alone = submit(&theirs);
        assert_eq!(theirs_alone.effects, [set(MOLDABLE), add(5)]);
        let untouched = Answer::accepted(vec![Effect::Env(None)]);
        assert_eq!(submit(&described("v1 iso=none")), untouched);
        let refused = submit(&described("v1 iso=mig:9g.90gb"));
        assert!(refused.effects.is_empty() && refused.refused.is_some());
        let counts = [&found, &theirs_alone, &untouched, &refused].map(Answer::counts);
        assert_eq!(counts, [Some(Ok(())), Some(Ok(())), None, Some(Err(Reason::Impossible))]);
    }

    #[test]
    fn whole_gpus_in_place_of_a_part_are_noted() {
        let noted = |list: &str| {
            let tres = Tres { per_node: Some(list.to_owned()), ..Tres::default() };
            let job = Described { tres, ..described("v1 iso=auto mem=9537") };
            let answer = submit(&job, Rules::Of(&site()), &Fake::default());
            assert_eq!(answer.refused, None);
            answer.note.unwrap_or_default()
        };
        assert!(noted("gres:gpu:1").starts_with("--gres=gpu:1 asks for a whole GPU, "));
        assert_eq!(noted("gres:nic:1"), "");
    }

    #[test]
    fn shards_of_a_node_that_is_left_to_slurm_are_slurms_to_give() {
        let whole = "gpu = \"a100-40gb\"\ncount = 2\ngpu_use = { \"0-1\" = \"whole\" }\n";
        let text = format!("[[nodes]]\nnames = \"n1\"\n{whole}[[nodes]]\nnames = \"n2\"\n{whole}");
        let (config, errors) = site_config::parse("t", &text, &|_| Err(std::io::ErrorKind::NotFound.into()));
        assert_eq!(errors, []);
        let config = config.unwrap();
        let refused = |nodes: Option<&str>| {
            let tres = Tres { per_node: Some("gres:shard:10".to_owned()), ..Tres::default() };
            let job = Described { tres, required_nodes: nodes.map(str::to_owned), ..Described::default() };
            submit(&job, Rules::Of(&config), &Fake::default()).refused
        };
        assert!(refused(Some("n1")).is_some_and(|why| why.text.contains("for whole jobs only")));
        assert_eq!(
            refused(Some("n2")),
            None,
            "Slurm counts three GPUs there, so the plugin leaves it to Slurm"
        );
        assert_eq!(refused(None), None);
    }

    #[test]
    fn what_claims_to_be_ours_goes_from_the_environment() {
        let forged = ["TESSERA_PLACEMENT=x", "SPANK_TESSERA_WHY=x", "TESSERA_MATCH=x"];
        assert!(forged.iter().all(|entry| Effect::drops(entry, None)));
        assert!(!Effect::drops("TESSERA_REQUEST=x", None) && Effect::drops("TESSERA_REQUEST=x", Some("v1")));
        assert!(!Effect::drops("TESSERA_GPU=x", Some("v1")));
    }

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
            modify(change, job, true, Rules::Of(&site()), &Fake { now: 100 })
        };
        let found = modify(&change(plan), &job);
        let shown = format!("{plan}; asks {MOLDABLE}");
        let shards = |n: u32| Effect::PerNode(format!("gres:nic:1,gres:shard:{n}"));
        assert_eq!(found.effects, [Effect::Env(None), shards(10), Effect::Comment(shown)]);
        assert_eq!(found.refused, None);
        let cleared = Effect::Comment(format!("tessera: asks {MOLDABLE}"));
        assert_eq!(modify(&change(""), &job).effects, [Effect::Env(None), shards(5), cleared]);
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
            modify(&change, job, true, Rules::Of(&site()), &Fake { now: 100 })
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
            refusal_noted(&Described::default(), &job, "no")
        };
        let planning = Described { comment: Some("x".to_owned()), ..Described::default() };
        assert_eq!(refusal_noted(&planning, &Recorded { pending: true, ..Recorded::default() }, "no"), None);
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
    fn users_neither_ask_for_slices_nor_give_them_back() {
        let with = |list: &str| Described { licenses: Some(list.to_owned()), ..Described::default() };
        let submit = |list| submit(&with(list), Rules::None, &Fake::default()).refused.map(|why| why.text);
        assert_eq!(
            submit("a,slice:9").as_deref(),
            Some(
                "--licenses=a,slice:9: Slurm counts the slices of each job's GPUs by the license slice; leave it out"
            )
        );
        assert_eq!(submit("matlab:2"), None);
        let refused = |list, has: &str, pending, root| {
            let job = Recorded { licenses: has.to_owned(), pending, ..Recorded::default() };
            modify(&with(list), &job, root, Rules::None, &Fake::default()).refused.is_some()
        };
        assert!(refused("", "slice:7", false, false) && refused("slice:1", "", true, false));
        assert!(!refused("", "slice:7", false, true) && !refused("", "matlab", false, false));
        let per_task = |list: &str| Described {
            tres: Tres { per_task: Some(list.to_owned()), ..Tres::default() },
            ..Described::default()
        };
        let asks = per_task("cpu=1,license/slice=5");
        let why = super::submit(&asks, Rules::None, &Fake::default()).refused;
        assert!(
            why.is_some_and(|why| why
                .text
                .starts_with("--tres-per-task=cpu=1,license/slice=5: Slurm counts"))
        );
        let pending = Recorded { pending: true, ..Recorded::default() };
        assert!(modify(&asks, &pending, false, Rules::None, &Fake::default()).refused.is_some());
        let matlab = per_task("license/matlab=2");
        assert_eq!(super::submit(&matlab, Rules::None, &Fake::default()).refused, None);
        // An array's pending part has what its last task had.
        assert!(!refused("", "slice:7", true, false));
    }

    #[test]
    fn only_roots_change_keeps_the_flags_that_take_licenses_away() {
        let job = Recorded { licenses: "slice:7".to_owned(), ..Recorded::default() };
        let effects = |root| modify(&Described::default(), &job, root, Rules::None, &Fake::default()).effects;
        assert_eq!(effects(false), [Effect::Env(None), Effect::KeepLicenses]);
        assert_eq!(effects(true), [Effect::Env(None)]);
    }

    #[test]
    fn a_move_is_held_to_the_limits_of_the_partition() {
        let job = Recorded { request: Some("v1 iso=whole".to_owned()), ..Recorded::default() };
        let change = Described { partition: Some("debug".to_owned()), ..Described::default() };
        let refused =
            |root| modify(&change, &job, root, Rules::Of(&site()), &Fake::default()).refused.is_some();
        assert!(refused(false) && !refused(true));
    }

    #[test]
    fn a_job_that_would_drain_nodes_by_its_environment_is_refused() {
        let job = Described { bad_env: Some(BadEnv::Entries(65_536)), ..Described::default() };
        let why = "the job has 65536 variables for SPANK plugins; at most 256 are accepted";
        for rules in [Rules::None, Rules::Of(&site())] {
            let submitted = submit(&job, rules, &Fake::default());
            let changed = modify(&job, &Recorded::default(), true, rules, &Fake::default());
            for answer in [submitted, changed] {
                assert_eq!(answer, Answer::refused(Vec::new(), Refusal::new(Reason::Options, why)));
            }
        }
    }

    #[test]
    fn without_a_good_file_only_jobs_that_ask_nothing_of_us_are_accepted() {
        let rules = Rules::Unknown("tessera.toml:7:24: it is wrong");
        let submit = |job: &Described| submit(job, rules, &Fake::default()).refused;
        let why = submit(&described("v1 iso=mig:2g.10gb")).unwrap();
        assert_eq!(why.reason, Reason::Config);
        assert_eq!(
            why.text,
            "jobs with --gpu options cannot be accepted until an administrator has corrected tessera.toml: \
             tessera.toml:7:24: it is wrong"
        );
        assert!(submit(&described("rubbish")).is_some());
        assert_eq!(submit(&described("v1 iso=none")), None);
        assert_eq!(submit(&Described::default()), None);
        let job = Recorded { request: Some("v1 iso=mig".to_owned()), ..Recorded::default() };
        let change = Described { partition: Some("debug".to_owned()), ..Described::default() };
        let refused = |job, root| modify(&change, job, root, rules, &Fake::default()).refused.is_some();
        assert!(refused(&job, false) && !refused(&job, true) && !refused(&Recorded::default(), false));
    }
}
