//! Jobs with GPUs that a limit of Slurm never lets start. Slurm accepts them, unless the QOS has the flag `DenyOnLimit`, and then names
//! neither the limit's value nor what would fit. The user is told both; the job is left to Slurm.

use std::cell::LazyCell;

use protocol::Request;
use site_config::SiteConfig;
use site_limits::Submission;
use site_limits::amounts::least;
use site_limits::tres::Entry;
use slurm_limits::{LimitKind, Need, SLICES, SlurmLimit, never};

use crate::submission::{Described, JobOwner, Slurm, few_partitions};

/// Says which limit never lets the job start, and what would fit; `None`: none does, or that is not known. `request`: of ours, with the
/// GRES that it adds. `submission`: the job, read once.
pub(crate) fn note(
    job: &Described,
    submission: &LazyCell<Submission, impl FnOnce() -> Submission>,
    (request, add): (Option<&Request>, Option<(&'static str, u32)>),
    config: &SiteConfig,
    slurm: &impl Slurm,
) -> Option<String> {
    let counted = match add {
        Some((name, count)) => vec![Entry::per_node(name, count.into())],
        None => job.tres.gpu_entries(),
    };
    let has_gpus = request.is_some() || job.exclusive || counted.iter().any(|entry| entry.count > 0);
    if !config.tell_slurm_limits || !has_gpus {
        return None;
    }
    let partitions = few_partitions(job, slurm)?;
    let of = |partition: &String| {
        slurm.limits(&JobOwner {
            user: job.user,
            account: job.account.as_deref(),
            partition,
            qos: job.qos.as_deref(),
        })
    };
    // A partition without limits lets it start.
    let kept: Option<Vec<Vec<SlurmLimit>>> =
        partitions.iter().map(|name| Some(of(name)).filter(|limits| !limits.is_empty())).collect();
    let mut kept = kept?;
    if !counts_per_node(job, &counted) {
        kept.iter_mut().for_each(|limits| limits.retain(|limit| limit.kind != LimitKind::PerNode));
    }
    if kept.iter().flatten().any(|limit| limit.kind == LimitKind::Least) && submission.exclusive {
        // Slurm counts whole GPUs for it once it has a node.
        kept.iter_mut().for_each(|limits| limits.retain(|limit| limit.kind != LimitKind::Least));
    }
    let counts_slices = kept.iter().flatten().any(|limit| limit.tres == SLICES) && slurm.counts_slices();
    let slices = if counts_slices { least(request, &counted, submission, config).slices } else { 0 };
    let need = need(job, &counted, slices);
    let told: Option<Vec<String>> = kept.iter().map(|limits| never(limits, &need)).collect();
    told?.into_iter().next()
}

/// Tells whether the fewest nodes say how many GPUs are on each: Slurm may spread those of `--gpus` over more.
fn counts_per_node(job: &Described, counted: &[Entry]) -> bool {
    let fewest = job.nodes.unwrap_or(1).max(1);
    job.most_nodes == Some(fewest) || counted.iter().all(|entry| entry.per_node || entry.count == 0)
}

/// The least that Slurm counts for the job. A time limit that its user does not name Slurm cuts to what the limits leave.
fn need(job: &Described, counted: &[Entry], slices: u64) -> Need {
    let nodes = u64::from(job.nodes.unwrap_or(1).max(1));
    let sum = |name: &str| {
        let all = counted.iter().filter(|entry| entry.name == name);
        all.map(|entry| entry.on(nodes)).fold(0, u64::saturating_add)
    };
    Need { gpus: sum("gpu"), shards: sum("shard"), slices, nodes, minutes: job.minutes.map(u64::from) }
}

#[cfg(test)]
mod tests {
    use site_limits::tres::Tres;
    use slurm_limits::Holder;

    use super::*;
    use crate::fixtures::{Fake, asking, site};
    use crate::site::Rules;
    use crate::submission::submitted;
    use crate::submit::submit;

    fn note(job: &Described, config: &SiteConfig, slurm: &Fake) -> Option<String> {
        super::note(job, &LazyCell::new(|| submitted(job, slurm)), (None, None), config, slurm)
    }

    fn limit(tres: &str, most: u64) -> SlurmLimit {
        let holder = Holder::Account("bio".to_owned());
        SlurmLimit { kind: LimitKind::Together, tres: tres.to_owned(), most, holder }
    }

    fn noted(job: &Described, limits: &[(&'static str, SlurmLimit)]) -> Option<String> {
        let slurm = Fake { limits: limits.to_vec(), ..Fake::default() };
        let answer = submit(job, Rules::Of(&site()), &slurm);
        assert_eq!(answer.refused, None);
        answer.note
    }

    fn plain(list: &str, partition: &str) -> Described {
        let tres = Tres { per_node: Some(list.to_owned()), ..Tres::default() };
        Described { tres, partition: Some(partition.to_owned()), nodes: Some(2), ..Described::default() }
    }

    #[test]
    fn gpus_and_slices_of_any_option_are_held_to_the_limits() {
        let told = "a limit of Slurm never lets this job start: account bio may have 3 GPUs at once, and this job needs 4 GPUs; ask for \
                    3 GPUs or less, or take another QOS or account";
        let three = [("gpu", limit("gres/gpu", 3))];
        assert_eq!(noted(&plain("gres:gpu:2", "gpu"), &three).as_deref(), Some(told));
        assert_eq!(noted(&plain("gres:gpu:1", "gpu"), &three), None);
        assert_eq!(noted(&plain("gres:nic:9", "gpu"), &[("gpu", limit("node", 1))]), None, "no GPU");
        let shards = noted(&asking("v1 iso=mig:2g.10gb"), &[("gpu", limit("gres/shard", 9))]).unwrap();
        assert!(shards.contains("this job needs 10 shards; ask for 9 shards or less"), "{shards}");
        let slices = noted(&asking("v1 iso=mig:2g.10gb"), &[("gpu", limit(SLICES, 1))]).unwrap();
        assert!(slices.contains("1 slice at once, and this job needs 2 slices"), "{slices}");
        assert_eq!(noted(&asking("v1 iso=mig:2g.10gb"), &[("gpu", limit(SLICES, 2))]), None);
        assert_eq!(noted(&asking("v1 iso=none"), &three), None);
    }

    #[test]
    fn a_job_that_one_of_its_partitions_lets_start_is_not_told() {
        let of = |partition| (partition, limit("gres/gpu", 3));
        let both = plain("gres:gpu:2", "gpu,whole");
        assert_eq!(noted(&both, &[of("gpu")]), None, "whole has no limits");
        assert!(noted(&both, &[of("gpu"), of("whole")]).is_some());
        assert_eq!(noted(&both, &[of("gpu"), ("whole", limit("gres/gpu", 4))]), None);
        let many: Vec<String> = (0..17).map(|n| format!("p{n}")).collect();
        let limits: Vec<&'static str> = (0..17).map(|n| &*format!("p{n}").leak()).collect();
        let limits: Vec<_> = limits.into_iter().map(of).collect();
        assert!(noted(&plain("gres:gpu:2", &many[..16].join(",")), &limits).is_some());
        assert_eq!(noted(&plain("gres:gpu:2", &many.join(",")), &limits), None, "too many to be read");
    }

    #[test]
    fn a_qos_for_whole_gpus_is_told_to_a_job_of_shards() {
        let holder = Holder::Qos("big".to_owned());
        let least = SlurmLimit { kind: LimitKind::Least, tres: "gres/gpu".to_owned(), most: 2, holder };
        let part = asking("v1 iso=mig:2g.10gb");
        let told = noted(&part, &[("gpu", least.clone())]).unwrap();
        assert!(told.contains("must have at least 2 GPUs, and Slurm counts 0 GPUs for this job"), "{told}");
        assert_eq!(
            noted(&plain("gres:gpu:1", "gpu"), &[("gpu", least.clone())]),
            None,
            "it may get two nodes"
        );
        let alone = Described { exclusive: true, ..part };
        let slurm = Fake { limits: vec![("gpu", least)], ..Fake::default() };
        assert_eq!(note(&alone, &site(), &slurm), None);
    }

    #[test]
    fn gpus_of_the_whole_job_may_be_spread_over_more_nodes() {
        let per_node = SlurmLimit { kind: LimitKind::PerNode, ..limit("gres/gpu", 8) };
        let told = |tres: Tres, nodes, most_nodes| {
            let job = Described { tres, nodes, most_nodes, ..plain("", "gpu") };
            let slurm = Fake { limits: vec![("gpu", per_node.clone())], ..Fake::default() };
            note(&job, &site(), &slurm).is_some()
        };
        let gpus = |n: u32| Tres { per_job: Some(format!("gres/gpu:{n}")), ..Tres::default() };
        assert!(!told(gpus(16), Some(1), Some(2)), "8 on each of two nodes");
        assert!(!told(gpus(16), None, None) && !told(gpus(16), Some(2), Some(2)));
        assert!(told(gpus(16), Some(1), Some(1)) && told(gpus(18), Some(2), Some(2)));
        let each = Tres { per_node: Some("gres/gpu:9".to_owned()), ..Tres::default() };
        assert!(told(each, Some(1), Some(2)));
    }

    #[test]
    fn a_site_can_leave_it_off() {
        let config = SiteConfig { tell_slurm_limits: false, ..site() };
        let slurm = Fake { limits: vec![("gpu", limit("gres/gpu", 3))], ..Fake::default() };
        assert_eq!(note(&plain("gres:gpu:2", "gpu"), &config, &slurm), None);
    }
}
