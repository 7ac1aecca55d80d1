//! A submission as a whole.

use std::cell::LazyCell;

use admission::gres_list::with_entry;
use admission::{Refusal, Ruling};
use protocol::wire::encode_request;
use protocol::{AdminComment, Isolation};
use site_limits::Submission;

use crate::answer::{Answer, Effect};
use crate::harm::{self, Harm};
use crate::kept;
use crate::learnt;
use crate::site::Rules;
use crate::slices::slices_named;
use crate::submission::{
    Described, Slurm, asks_for_shards, concerns_us, left_to_slurm, never_for_its_nodes, never_for_its_time,
    submitted,
};
use crate::too_much;

/// Decides about a submission.
pub(crate) fn submit(job: &Described, rules: Rules<'_>, slurm: &impl Slurm) -> Answer {
    let answer = learnt::noted(job, ruled(job, rules, slurm));
    if answer.refused.is_some() {
        return answer;
    }
    let waits = never_for_its_time(job, slurm).into_iter().chain(never_for_its_nodes(job, slurm));
    Answer { note: joined(answer.note.iter().cloned().chain(waits)), ..answer }
}

/// Several notes as one; `None` of none.
fn joined(notes: impl Iterator<Item = String>) -> Option<String> {
    notes.reduce(|all, next| format!("{all}; {next}"))
}

/// Refuses the GRES that stands for another request of a pending job. Slurm passes over it if its count is 0, and gives the job the rest of
/// the list, which would then be held to no limit here.
fn change_named(job: &Described) -> Option<Refusal> {
    job.new_request.as_ref()?;
    Some(
        "the GRES tessera is for tessera change of a job that waits; leave it out, and use the --gpu options of sbatch, srun and salloc"
            .to_owned()
            .into(),
    )
}

fn ruled(job: &Described, rules: Rules<'_>, slurm: &impl Slurm) -> Answer {
    let config = rules.config();
    if let Some(why) = harm::of_env(job.bad_env.as_ref())
        .or_else(|| job.harm.as_ref().map(Harm::refusal))
        .or_else(|| slices_named(job, slurm))
        .or_else(|| change_named(job))
    {
        return Answer::refused(Vec::new(), why);
    }
    if let Some(why) = job.request.as_deref().filter(|text| concerns_us(text)).and_then(|_| rules.unknown()) {
        return Answer::refused(Vec::new(), why);
    }
    // Without limits there is nothing to ask of a job that asks nothing of us, unless no GPU may give what it asks for.
    let unlimited = config.is_none_or(|config| config.limits.is_empty());
    // A user's list of nodes may be long, and slurmctld holds its locks: it is read once.
    let asked = LazyCell::new(|| {
        let asked = submitted(job, slurm);
        Submission { left_to_slurm: left_to_slurm(&asked, config, slurm), ..asked }
    });
    let plain = || {
        let ours = config.filter(|_| job.request.is_none());
        let note = ours.and_then(|config| too_much::note(job, &asked, config, slurm));
        let kept = config.and_then(|config| kept::note(job, &asked, (None, None), config, slurm));
        Answer { note: note.or(kept), ..Answer::accepted(vec![Effect::Env(None)]) }
    };
    if unlimited && job.request.is_none() && !asks_for_shards(&job.tres) {
        return plain();
    }
    let (request, add, note) = match admission::judge(&asked, config) {
        Ruling::Untouched => return plain(),
        Ruling::Refused(why) => return Answer::refused(Vec::new(), why),
        Ruling::Accepted { request, add, note } => (request, add, note),
    };
    let kept = config.and_then(|config| kept::note(job, &asked, (Some(&request), add), config, slurm));
    let note = joined(note.into_iter().chain(kept));
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
    Answer { note, ..Answer::accepted(effects) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{Fake, MOLDABLE, asking, site};
    use decision_counts::decisions::Reason;
    use protocol::wire::request_in_gres;
    use site_limits::tres::Tres;

    #[test]
    fn a_submission_gets_its_gres_and_loses_what_claims_to_be_a_placement() {
        let submit = |job: &Described| submit(job, Rules::Of(&site()), &Fake::default());
        let set = |request: &str| Effect::Env(Some(request.to_owned()));
        let add = |count| Effect::PerNode(format!("gres:nic:1,gres:shard:{count}"));
        let found = submit(&asking("v1 iso=mig:2g.10gb"));
        let shown = |request: &str| Effect::Comment(format!("tessera: asks {request}"));
        let two = "v1 iso=mig:2g.10gb";
        assert_eq!(found, Answer::accepted(vec![set(two), shown(two), add(10)]));
        let moldable = submit(&asking(MOLDABLE));
        assert_eq!(moldable.effects, [set(MOLDABLE), shown(MOLDABLE), add(5)]);
        let theirs = Described { comment: Some("benchmark of June".to_owned()), ..asking(MOLDABLE) };
        let theirs_alone = submit(&theirs);
        assert_eq!(theirs_alone.effects, [set(MOLDABLE), add(5)]);
        let untouched = Answer::accepted(vec![Effect::Env(None)]);
        assert_eq!(submit(&asking("v1 iso=none")), untouched);
        let refused = submit(&asking("v1 iso=mig:9g.90gb"));
        assert!(refused.effects.is_empty() && refused.refused.is_some());
        let counts = [&found, &theirs_alone, &untouched, &refused].map(Answer::counts);
        assert_eq!(counts, [Some(Ok(())), Some(Ok(())), None, Some(Err(Reason::Impossible))]);
    }

    #[test]
    fn a_job_that_would_end_slurmctld_is_refused_on_any_site() {
        for rules in [Rules::None, Rules::Of(&site())] {
            let job = Described { harm: Some(Harm::SpreadGres), ..Described::default() };
            let answer = submit(&job, rules, &Fake::default());
            assert_eq!(answer, Answer::refused(Vec::new(), Harm::SpreadGres.refusal()));
        }
    }

    #[test]
    fn the_gres_of_a_change_hides_no_other_gres_of_a_submission() {
        let named = |list: &str| {
            let new_request = request_in_gres(list).map(|read| read.map_err(|why| why.to_string()));
            Described { new_request, ..Described::default() }
        };
        for list in ["gres/tessera:0,gres/gpu:8", "gres/gpu:8,gres/tessera=0", "tessera", "tessera:7631"] {
            for rules in [Rules::None, Rules::Of(&site())] {
                let why = submit(&named(list), rules, &Fake::default()).refused.map(|why| why.text);
                assert!(why.is_some_and(|why| why.contains("leave it out")), "{list}");
            }
        }
        assert_eq!(submit(&named("gres/gpu:1"), Rules::None, &Fake::default()).refused, None);
    }

    #[test]
    fn a_time_that_no_partition_lets_start_is_noted() {
        let noted = |minutes, gres: &str, rules: Rules<'_>| {
            let tres = Tres { per_node: Some(gres.to_owned()), ..Tres::default() };
            let partition = Some("gpu".to_owned());
            let job = Described { tres, partition, minutes, ..Described::default() };
            submit(&job, rules, &Fake::default()).note
        };
        let why = noted(Some(121), "gres:gpu:1", Rules::None).unwrap();
        assert!(
            why.starts_with("--time asks for more than partition gpu lets start: ")
                && why.contains("--time=120"),
            "{why}"
        );
        assert_eq!(noted(Some(120), "gres:gpu:1", Rules::None), None);
        assert_eq!(noted(None, "gres:gpu:1", Rules::None), None);
        assert_eq!(noted(Some(121), "gres:nic:1", Rules::None), None, "it asks for no GPU");
    }

    #[test]
    fn whole_gpus_in_place_of_a_part_are_noted() {
        let noted = |list: &str| {
            let tres = Tres { per_node: Some(list.to_owned()), ..Tres::default() };
            let job = Described { tres, ..asking("v1 iso=auto mem=9537") };
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
}
