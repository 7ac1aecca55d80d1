//! A submission as plain values: from what slurmctld has read of it, and what it knows of partitions and accounts.

use std::collections::BTreeSet;
use std::sync::Arc;

use admission::distinct;
use protocol::wire::parse_request;
use protocol::{Bandwidth, Isolation, Request};
use site_config::SiteConfig;
use site_limits::Submission;
use site_limits::tres::Tres;
use slurm_limits::SlurmLimit;
use slurmctld_rt::spank_env::BadEnv;

use crate::harm::Harm;
use crate::node_lists::required;

/// A job description as it was sent: a submission, or a change that names only what it changes. Of the texts, only
/// partition and comment can be empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct Described {
    /// The request that SPANK stored: text from the user.
    pub(crate) request: Option<String>,
    /// Why no job may have its SPANK environment: it is too large, or its entries are not variables.
    pub(crate) bad_env: Option<BadEnv>,
    /// Part of it that harms more than the job itself, on any Slurm of this release.
    pub(crate) harm: Option<Harm>,
    /// A change: another request, or why it cannot be read.
    pub(crate) new_request: Option<Result<Request, String>>,
    /// GRES that it asks from Slurm itself.
    pub(crate) tres: Tres,
    /// Names a list of GRES that has nothing in it, as `scontrol update gres=` does.
    pub(crate) empties_gres: bool,
    /// Partitions, in a list with commas.
    pub(crate) partition: Option<String>,
    /// Nodes it insists on, as a host list.
    pub(crate) required_nodes: Option<String>,
    /// `--gpu-bind`, as the user gave it.
    pub(crate) gpu_bind: Option<String>,
    /// Slurm tasks per node, at least 1; of a change: `None`.
    pub(crate) tasks_per_node: Option<u32>,
    pub(crate) account: Option<String>,
    pub(crate) user: u32,
    /// Name of the job.
    pub(crate) name: Option<String>,
    /// Dependence of such jobs on bandwidth, as their traffic says it.
    pub(crate) learnt: Option<Bandwidth>,
    /// QOS; `None`: none is named.
    pub(crate) qos: Option<String>,
    /// Time limit, minutes; `None`: none is named.
    pub(crate) minutes: Option<u32>,
    /// The fewest nodes; `None`: no number is named.
    pub(crate) nodes: Option<u32>,
    /// The most nodes; `None`: no number is named.
    pub(crate) most_nodes: Option<u32>,
    /// Number of a heterogeneous job's component, from 0; `None`: it is a job of its own.
    pub(crate) component: Option<u32>,
    /// `--exclusive`.
    pub(crate) exclusive: bool,
    /// AdminComment; an empty one clears it.
    pub(crate) comment: Option<String>,
    /// Licenses; an empty list clears them.
    pub(crate) licenses: Option<String>,
}

/// A job as slurmctld has recorded it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorded {
    /// The request that SPANK stored: text from the user.
    pub(crate) request: Option<String>,
    /// The last change of the request, which Slurm may have refused ([`protocol::wire::encode_change`]).
    pub(crate) change: Option<String>,
    /// Bytes of its SPANK environment. Only counted for a change of the request.
    pub(crate) env_bytes: usize,
    /// Slurm tasks per node, at least 1; `None`: not known.
    pub(crate) tasks_per_node: Option<u32>,
    pub(crate) partition: Option<String>,
    pub(crate) required_nodes: Option<String>,
    pub(crate) account: Option<String>,
    pub(crate) user: u32,
    pub(crate) qos: Option<String>,
    /// Time limit, minutes; `None`: its user has named none.
    pub(crate) minutes: Option<u32>,
    /// The fewest nodes.
    pub(crate) nodes: u32,
    /// Lists of GRES.
    pub(crate) tres: Tres,
    /// `--exclusive`.
    pub(crate) exclusive: bool,
    /// `--spread-job`, on a Slurm that ends when it spreads GRES of the job as a whole.
    pub(crate) spread: bool,
    /// AdminComment, empty without one.
    pub(crate) comment: String,
    /// Licenses that it has, else those that it asks for; empty without any.
    pub(crate) licenses: String,
    pub(crate) pending: bool,
    /// Number of GRES that it was allocated, each type of GPU on its nodes being one.
    pub(crate) kinds_of_gres: usize,
}

/// A partition as it is configured now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Partition {
    /// Nodes; `None`: not known.
    pub(crate) nodes: Option<Arc<BTreeSet<String>>>,
    /// Gives whole nodes (`OverSubscribe=EXCLUSIVE`).
    pub(crate) exclusive: bool,
    /// Time limit of jobs that name none, minutes.
    pub(crate) minutes: u32,
    /// The longest time limit that it lets start, minutes.
    pub(crate) most_minutes: u32,
}

/// Properties of a job that decide which limits of Slurm hold for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobOwner<'a> {
    pub(crate) user: u32,
    /// `None`: the user's default account.
    pub(crate) account: Option<&'a str>,
    pub(crate) partition: &'a str,
    /// `None`: the QOS that slurmctld gives such a job.
    pub(crate) qos: Option<&'a str>,
}

/// slurmctld's answers about its configuration.
pub(crate) trait Slurm {
    fn default_partition(&self) -> Option<String>;
    fn partition(&self, name: &str) -> Option<Partition>;
    /// The account that a user is charged to who names none; `None` without accounting.
    fn default_account(&self, user: u32) -> Option<String>;
    /// The limits that slurmctld keeps of such a job; none if it keeps none, or that is not known.
    fn limits(&self, owner: &JobOwner<'_>) -> Vec<SlurmLimit>;
    /// `Gres=` of a node in `slurm.conf`; `None` for a node without any, and one that is not known.
    fn node_gres(&self, name: &str) -> Option<String>;
    /// An entry of a list of GRES, as this Slurm writes it.
    fn gres(&self, name: &str, count: u32) -> String;
    /// Tells whether slurmctld adds the GRES of a change to those that a job has, and takes none away.
    fn adds_gres(&self) -> bool;
    /// Tells whether the site has Slurm count slices.
    fn counts_slices(&self) -> bool;
    /// Seconds since 1970.
    fn now(&self) -> u64;
}

/// A job as it is submitted. Its accounts are not looked up if it asks for no GPU by any option and may not get one by
/// having its nodes to itself.
pub(crate) fn submitted(job: &Described, slurm: &impl Slurm) -> Submission {
    let named = job.partition.clone().or_else(|| slurm.default_partition());
    let partitions = distinct(&named.unwrap_or_default());
    let known: Vec<Option<Partition>> = partitions.iter().map(|p| slurm.partition(p)).collect();
    let exclusive = job.exclusive || known.iter().flatten().any(|p| p.exclusive);
    if job.request.is_none() && !exclusive && job.tres.gpu_entries().is_empty() {
        return Submission::default();
    }
    let nodes = nodes_of(&known);
    Submission {
        request: job.request.clone(),
        tres: job.tres.clone(),
        tasks_per_node: Some(job.tasks_per_node.unwrap_or(1)),
        gpu_bind: job.gpu_bind.clone(),
        exclusive,
        minutes: job.minutes.or_else(|| minutes_of(&known)),
        required_nodes: job.required_nodes.as_deref().and_then(|list| required(list, nodes.as_deref())),
        partition_nodes: nodes,
        left_to_slurm: BTreeSet::new(),
        account: job.account.clone().or_else(|| slurm.default_account(job.user)),
        user: Some(job.user),
        qos: job.qos.clone(),
        nodes: job.nodes.unwrap_or(1),
        partitions,
    }
}

/// Gives the note for a job with GPUs that no partition which it names ever starts, because it asks for too much time; `None`:
/// one does, or it names no time. Slurm itself says so only where `EnforcePartLimits` is set.
pub(crate) fn never_for_its_time(job: &Described, slurm: &impl Slurm) -> Option<String> {
    let asks = job.minutes.filter(|_| job.request.is_some() || !job.tres.gpu_entries().is_empty())?;
    let named = job.partition.clone().or_else(|| slurm.default_partition())?;
    let most =
        distinct(&named).iter().filter_map(|name| slurm.partition(name)).map(|p| p.most_minutes).max()?;
    (asks > most).then(|| {
        format!(
            "--time asks for more than partition {named} lets start: Slurm keeps the job with the reason PartitionTimeLimit; use \
             --time={most} or less (minutes)"
        )
    })
}

/// Gives the note for a job with GPUs that asks for more nodes than each partition which it names has; `None`: one has enough, or that is
/// not known. Slurm keeps such a job for ever.
pub(crate) fn never_for_its_nodes(job: &Described, slurm: &impl Slurm) -> Option<String> {
    let asks = job.nodes.filter(|_| job.request.is_some() || !job.tres.gpu_entries().is_empty())?;
    let partitions = few_partitions(job, slurm).filter(|_| asks > 1)?;
    let has = |name: &String| Some(slurm.partition(name)?.nodes?.len());
    let all: Option<Vec<usize>> = partitions.iter().map(has).collect();
    let most = all?.into_iter().max()?;
    (u64::from(asks) > most as u64).then(|| {
        let named = partitions.join(",");
        format!("-N{asks}: partition {named} has only {most}, so Slurm never starts this job; use -N{most} or fewer")
    })
}

/// Most partitions of a job that are looked at for a note, under slurmctld's locks. A job that names more is not told.
const MOST_PARTITIONS: usize = 16;

/// Gives the partitions that a job names, or the default one; `None`: there is none, or they are too many for a note.
pub(crate) fn few_partitions(job: &Described, slurm: &impl Slurm) -> Option<Vec<String>> {
    let named = job.partition.clone().or_else(|| slurm.default_partition())?;
    Some(distinct(&named)).filter(|all| all.len() <= MOST_PARTITIONS)
}

/// The shortest time limit that one of these partitions gives a job that names none.
fn minutes_of(known: &[Option<Partition>]) -> Option<u32> {
    known.iter().flatten().map(|partition| partition.minutes).min()
}

/// Gives the pending job as it would be after a change.
pub(crate) fn changed(change: &Described, job: &Recorded, slurm: &impl Slurm) -> Submission {
    let partitions = distinct(&first(&change.partition, &job.partition).unwrap_or_default());
    let known: Vec<Option<Partition>> = partitions.iter().map(|p| slurm.partition(p)).collect();
    let list = first(&change.required_nodes, &job.required_nodes);
    let nodes = nodes_of(&known);
    Submission {
        gpu_bind: None,
        tasks_per_node: None,
        request: job.request.clone(),
        tres: tres_after(&change.tres, &job.tres),
        exclusive: change.exclusive || job.exclusive || known.iter().flatten().any(|p| p.exclusive),
        minutes: change.minutes.or(job.minutes).or_else(|| minutes_of(&known)),
        required_nodes: list.and_then(|list| required(&list, nodes.as_deref())),
        partition_nodes: nodes,
        left_to_slurm: BTreeSet::new(),
        account: first(&change.account, &job.account),
        user: Some(job.user),
        qos: first(&change.qos, &job.qos),
        nodes: change.nodes.unwrap_or(job.nodes),
        partitions,
    }
}

/// Gives the lists of a job after a change that names some of them.
pub(crate) fn tres_after(change: &Tres, job: &Tres) -> Tres {
    Tres {
        per_job: first(&change.per_job, &job.per_job),
        per_node: first(&change.per_node, &job.per_node),
        per_socket: first(&change.per_socket, &job.per_socket),
        per_task: first(&change.per_task, &job.per_task),
        tasks_per_gpu: change.tasks_per_gpu.or(job.tasks_per_gpu),
    }
}

/// Gives the first text that is not empty.
fn first(new: &Option<String>, old: &Option<String>) -> Option<String> {
    [new, old].into_iter().flatten().find(|text| !text.is_empty()).cloned()
}

/// Finds the nodes that a job may run on and that Tessera leaves to Slurm. Only for a job that asks for shards:
/// for no other does it matter.
pub(crate) fn left_to_slurm(
    job: &Submission,
    config: Option<&SiteConfig>,
    slurm: &impl Slurm,
) -> BTreeSet<String> {
    let Some(config) = config.filter(|_| asks_for_shards(&job.tres)) else { return BTreeSet::new() };
    admission::left_to_slurm(job, config, &|name| slurm.node_gres(name))
}

/// Tells whether a job asks Slurm itself for shards.
pub(crate) fn asks_for_shards(tres: &Tres) -> bool {
    tres.gpu_entries().iter().any(|entry| entry.name == "shard")
}

/// Tells whether a request asks anything of Tessera; an unreadable one does.
pub(crate) fn concerns_us(text: &str) -> bool {
    parse_request(text).map_or(true, |request| request.isolation != Isolation::None)
}

/// The nodes of all these partitions; `None`: not known of one, or no partition.
fn nodes_of(partitions: &[Option<Partition>]) -> Option<Arc<BTreeSet<String>>> {
    let sets: Option<Vec<_>> = partitions.iter().map(|p| p.as_ref()?.nodes.as_ref()).collect();
    match &sets?[..] {
        [] => None,
        [one] => Some(Arc::clone(one)),
        several => Some(Arc::new(several.iter().flat_map(|set| set.iter().cloned()).collect())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::Fake;

    fn described(partition: Option<&str>) -> Described {
        let request = Some("v1 iso=whole".to_owned());
        Described { request, partition: partition.map(str::to_owned), ..Described::default() }
    }

    #[test]
    fn a_job_reaches_the_nodes_of_its_partitions_and_no_others() {
        let of = |partition| submitted(&described(partition), &Fake::default());
        let default = of(None);
        assert_eq!(default.partitions, ["gpu"]);
        assert!(default.reaches("n2") && !default.reaches("n3") && !default.exclusive);
        assert!(of(Some("gpu,whole")).exclusive);
        assert!(of(Some("gpu,unknown")).reaches("n3"), "of one partition the nodes are not known");
        let one = Described { required_nodes: Some("n1".to_owned()), ..described(None) };
        assert!(!submitted(&one, &Fake::default()).reaches("n2"));
        let nothing = Described { request: None, ..one };
        assert!(submitted(&nothing, &Fake::default()).partitions.is_empty());
        let tres = Tres { per_node: Some("gres:gpu:1".to_owned()), ..Tres::default() };
        assert_eq!(submitted(&Described { tres, ..nothing.clone() }, &Fake::default()).partitions, ["gpu"]);
        assert_eq!(
            submitted(&Described { exclusive: true, ..nothing }, &Fake::default()).partitions,
            ["gpu"]
        );
    }

    #[test]
    fn more_nodes_than_a_partition_has_are_told() {
        let of = |nodes, partition| {
            never_for_its_nodes(&Described { nodes: Some(nodes), ..described(partition) }, &Fake::default())
        };
        assert_eq!(
            of(3, None).unwrap(),
            "-N3: partition gpu has only 2, so Slurm never starts this job; use -N2 or fewer"
        );
        assert_eq!([of(2, None), of(1, None), of(9, Some("gpu,unknown"))], [None, None, None]);
        assert!(of(3, Some("gpu,whole")).is_some());
        let many = |n: usize| (0..n).map(|i| format!("gpu{i}")).collect::<Vec<_>>().join(",");
        let (few, many) = (many(16), many(17));
        assert!(of(3, Some(&few)).is_some());
        assert_eq!(of(3, Some(&many)), None, "too many to be looked at");
        let cores = Described { nodes: Some(3), ..Described::default() };
        assert_eq!(never_for_its_nodes(&cores, &Fake::default()), None, "it asks for no GPU");
    }

    #[test]
    fn an_account_is_the_jobs_own_or_its_users() {
        let account = |account: Option<&str>, user| {
            let job = Described { account: account.map(str::to_owned), user, ..described(None) };
            submitted(&job, &Fake::default()).account
        };
        assert_eq!(account(Some("art"), 7).as_deref(), Some("art"));
        assert_eq!([account(None, 7), account(None, 8)], [Some("physics".to_owned()), None]);
    }

    #[test]
    fn a_change_counts_before_what_is_recorded() {
        let job = Recorded {
            request: Some("v1 iso=whole".to_owned()),
            partition: Some("gpu".to_owned()),
            required_nodes: Some("n1".to_owned()),
            account: Some("art".to_owned()),
            ..Recorded::default()
        };
        let after = |change: &Described| changed(change, &job, &Fake::default());
        let same = after(&Described::default());
        assert_eq!((&same.partitions[..], same.account.as_deref()), (&["gpu".to_owned()][..], Some("art")));
        assert!(same.reaches("n1") && !same.reaches("n2"));
        let moved = after(&Described { required_nodes: Some("n2".to_owned()), ..described(Some("whole")) });
        assert_eq!(moved.partitions, ["whole"]);
        assert!(moved.reaches("n2") && !moved.reaches("n1"));
    }
}
