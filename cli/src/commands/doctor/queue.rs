//! Checks that jobs keep no others waiting for longer than they have to: one user's in the queue, and one with all memory of its node.

use site_config::{Most, SiteConfig};

use super::answers::SlurmAnswers;
use super::findings::Findings;

/// Settings that bound how many jobs of a user, an account or a partition backfill tests in a cycle.
const BOUNDS: [&str; 4] = ["bf_max_job_user", "bf_max_job_user_part", "bf_max_job_assoc", "bf_max_job_part"];
/// Jobs that backfill tests in a cycle, if slurm.conf does not say it [backfill.c, from 22.05 to 26.05].
const JOBS_OF_CYCLE: u64 = 500;

pub(super) fn check(slurm: &SlurmAnswers, config: &SiteConfig, findings: &mut Findings) {
    let told = crowded_out(slurm.setting_of("SchedulerParameters"), config);
    let told = told.into_iter().chain(takes_all_memory(|key| slurm.setting_of(key)));
    told.for_each(|what| findings.skipped(what));
}

/// Says that a job without `--mem` gets all of its node's memory; `None`: it does not, or Slurm does not count memory.
fn takes_all_memory<'s>(setting: impl Fn(&str) -> &'s str) -> Option<String> {
    let counts = setting("SelectTypeParameters").to_ascii_uppercase().contains("MEMORY");
    (counts && setting("DefMemPerNode").eq_ignore_ascii_case("UNLIMITED")).then(|| {
        "a job with a part of a GPU and without --mem gets all memory of its node, and no other job starts there, unless its partition has \
         DefMemPerCPU: set that (DefMemPerGPU, which may stay, counts for whole GPUs only)"
            .to_owned()
    })
}

/// Says by how many jobs at a limit of `tessera.toml` a user keeps the others' waiting; `None`: there is no such limit, or a bound.
fn crowded_out(parameters: &str, config: &SiteConfig) -> Option<String> {
    let value = |key: &str| {
        let mut words = parameters.split(',').filter_map(|word| word.trim().split_once('='));
        words.find(|(name, _)| name.eq_ignore_ascii_case(key))?.1.parse::<u64>().ok()
    };
    let has_limit = config.limits.iter().any(|limit| limit.running != Most::default());
    // 0 is Slurm's word for no bound.
    if !has_limit || BOUNDS.iter().any(|bound| value(bound).is_some_and(|most| most > 0)) {
        return None;
    }
    let most = value("bf_max_job_test").unwrap_or(JOBS_OF_CYCLE);
    Some(format!(
        "backfill tests {most} jobs in a cycle, those at a limit of running jobs among them: a user with as many at the head of the queue keeps \
         all others waiting, unless SchedulerParameters has bf_max_job_user"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_gpus_need_a_default_of_memory() {
        let told = |parameters, per_node| {
            takes_all_memory(|key| if key == "DefMemPerNode" { per_node } else { parameters }).is_some()
        };
        assert!(told("CR_CPU_MEMORY", "UNLIMITED") && told("CR_Core_Memory,CR_LLN", "UNLIMITED"));
        assert!(
            !told("CR_CPU_MEMORY", "4000") && !told("CR_CPU_MEMORY", ""),
            "DefMemPerCPU has no such line"
        );
        assert!(!told("CR_CORE", "UNLIMITED"), "it counts no memory");
    }

    #[test]
    fn limits_on_running_jobs_need_a_bound_on_a_users_jobs_in_backfill() {
        let told = |limit: &str, parameters: &str| {
            let text = format!(
                "[[limits]]\npartition = \"p\"\n{limit}\n[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 1\n"
            );
            let (config, errors) =
                site_config::parse("t", &text, &|_| Err(std::io::ErrorKind::NotFound.into()));
            assert_eq!(errors, []);
            crowded_out(parameters, &config.unwrap())
        };
        let running = "each_user = true\nrunning_gpus = 8";
        assert!(told(running, "(null)").unwrap().starts_with("backfill tests 500 jobs in a cycle"));
        assert!(told(running, "bf_continue,bf_max_job_test=40").unwrap().contains(" 40 jobs "));
        assert!(told(running, "bf_max_job_user=0").is_some());
        assert_eq!(told(running, "bf_continue,BF_MAX_JOB_USER=30"), None);
        assert_eq!(told("max_gpus = 2", ""), None, "it refuses a job, and keeps none waiting");
    }
}
