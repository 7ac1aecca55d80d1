//! Components of heterogeneous jobs, held together to the limits on running jobs.

use admission::Refusal;
use decision_counts::decisions::Reason;
use protocol::wire::parse_request;
use site_config::SiteConfig;
use site_limits::Submission;
use site_limits::amounts::{Amount, least};
use site_limits::tres::Tres;

use crate::answer::{Answer, Effect};
use crate::components::{Components, Sender};
use crate::site::Rules;
use crate::submission::{Described, Slurm, submitted};

/// Refuses an accepted component that lets its job exceed a limit. `thread`: the thread of slurmctld that asks.
pub(crate) fn together(
    job: &Described,
    thread: u64,
    answer: Answer,
    rules: Rules<'_>,
    slurm: &impl Slurm,
    components: &mut Components,
) -> Answer {
    let (Some(number), Some(config), None) = (job.component, rules.config(), &answer.refused) else {
        return answer;
    };
    if !config.limits.iter().any(|limit| limit.running.gpus.is_some() || limit.running.slices.is_some()) {
        return answer;
    }
    let from = Sender { thread, user: job.user };
    let submission = submitted(job, slurm);
    let takes = takes(job, &answer, &submission, config);
    match components.add(from, number, takes, &submission, config) {
        None => answer,
        Some(why) => Answer::refused(Vec::new(), Refusal::new(Reason::Limit, why)),
    }
}

/// The least that a component takes, with the request and the GRES that the answer gives it.
fn takes(job: &Described, answer: &Answer, submission: &Submission, config: &SiteConfig) -> Amount {
    let (mut request, mut tres) = (None, job.tres.clone());
    for effect in &answer.effects {
        match effect {
            Effect::Env(Some(wire)) => request = parse_request(wire).ok(),
            Effect::PerNode(list) => tres = Tres { per_node: Some(list.clone()), ..tres },
            _ => {}
        }
    }
    least(request.as_ref(), &tres.gpu_entries(), submission, config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{Fake, asking};
    use crate::submit::submit;

    #[test]
    fn components_are_held_to_limits_together() {
        let text = "[[nodes]]\nnames = \"n[1-2]\"\ngpu = \"a100-40gb\"\ncount = 2\nmig = \"dynamic\"\n\
                    [[limits]]\npartition = \"gpu\"\nrunning_slices = 10\n";
        let (config, errors) = site_config::parse("t", text, &|_| Err(std::io::ErrorKind::NotFound.into()));
        assert_eq!(errors, []);
        let config = config.unwrap();
        let mut components = Components::default();
        let mut answer = |job: &Described| {
            let (rules, slurm) = (Rules::Of(&config), Fake::default());
            let alone = submit(job, rules, &slurm);
            assert_eq!(alone.refused, None, "{job:?}");
            together(job, 1, alone, rules, &slurm, &mut components)
        };
        let part = |component| Described { component, ..asking("v1 iso=mig:2g.10gb") };
        let tres = Tres { per_node: Some("gres:gpu:1".to_owned()), ..Tres::default() };
        let whole = |component| Described { tres: tres.clone(), component, ..Described::default() };
        assert_eq!(answer(&part(Some(0))).refused, None);
        assert_eq!(answer(&whole(Some(1))).refused, None, "2 and 7 slices");
        let refused = answer(&part(Some(2)));
        assert!(refused.effects.is_empty());
        let why = refused.refused.unwrap().text;
        assert!(why.contains("need 11 slices") && why.contains("at most 10"), "{why}");
        for _ in 0..3 {
            assert_eq!(answer(&whole(None)).refused, None, "jobs of their own");
        }
    }
}
