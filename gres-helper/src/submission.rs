//! A submission as plain values: from what slurmctld has read of it, and what it knows of partitions and accounts.

use std::collections::BTreeSet;

use placement::wire::REQUEST_ENV;
use plugin_rt::spank_env;
use site_config::hostlist;

use crate::tres::Tres;

/// A job description as it was sent: a submission, or a change that names only what it changes. Of the texts, only
/// partition and comment can be empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct Described {
    /// The SPANK environment: text from the user.
    pub(crate) env: Vec<String>,
    /// What it asks from Slurm itself.
    pub(crate) tres: Tres,
    /// Partitions, in a list with commas.
    pub(crate) partition: Option<String>,
    /// Nodes it insists on, as a host list.
    pub(crate) required_nodes: Option<String>,
    pub(crate) account: Option<String>,
    /// Its user's id.
    pub(crate) user: u32,
    /// `--exclusive`.
    pub(crate) exclusive: bool,
    /// AdminComment; an empty one clears it.
    pub(crate) comment: Option<String>,
}

/// A job as slurmctld has recorded it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) env: Vec<String>,
    pub(crate) partition: Option<String>,
    pub(crate) required_nodes: Option<String>,
    pub(crate) account: Option<String>,
    /// Its list of GRES per node.
    pub(crate) per_node: Option<String>,
    /// AdminComment, empty without one.
    pub(crate) comment: String,
    pub(crate) pending: bool,
}

impl Recorded {
    /// The request that SPANK stored, as text from the user.
    pub(crate) fn request(&self) -> Option<String> {
        spank_env::value(&self.env, REQUEST_ENV)
    }
}

/// A partition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Partition {
    /// Its nodes, as a host list; `None`: not known.
    pub(crate) nodes: Option<String>,
    /// It gives whole nodes (`OverSubscribe=EXCLUSIVE`).
    pub(crate) exclusive: bool,
}

/// What slurmctld answers about its configuration.
pub(crate) trait Slurm {
    /// The name of the default partition.
    fn default_partition(&self) -> Option<String>;
    /// The partition of this name.
    fn partition(&self, name: &str) -> Option<Partition>;
    /// The account that a user is charged to who names none; `None` without accounting.
    fn default_account(&self, user: u32) -> Option<String>;
    /// One entry of a list of GRES, as this Slurm writes it.
    fn gres(&self, name: &str, count: u32) -> String;
    /// Seconds since 1970.
    fn now(&self) -> u64;
}

/// A submission, as far as it concerns GPUs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Submission {
    /// The request SPANK stored: text from the user.
    pub(crate) request: Option<String>,
    /// What it asks from Slurm itself.
    pub(crate) tres: Tres,
    /// Partitions it may run in, the default one where it names none.
    pub(crate) partitions: Vec<String>,
    /// The nodes of those; `None`: not known, all.
    pub(crate) partition_nodes: Option<BTreeSet<String>>,
    /// Nodes it insists on.
    pub(crate) required_nodes: Option<BTreeSet<String>>,
    /// The account it is charged to.
    pub(crate) account: Option<String>,
    /// `--exclusive`, or a partition that is so: Slurm gives it every GPU of its nodes as a whole.
    pub(crate) exclusive: bool,
}

impl Submission {
    /// A new one. Nothing is looked up for a job that asks nothing of Tessera.
    pub(crate) fn of(job: &Described, slurm: &impl Slurm) -> Self {
        let request = spank_env::value(&job.env, REQUEST_ENV);
        if request.is_none() {
            return Self::default();
        }
        let named = job.partition.clone().or_else(|| slurm.default_partition());
        let partitions = distinct(&named.unwrap_or_default());
        let known: Vec<Option<Partition>> = partitions.iter().map(|p| slurm.partition(p)).collect();
        Self {
            request,
            tres: job.tres.clone(),
            exclusive: job.exclusive || known.iter().flatten().any(|p| p.exclusive),
            partition_nodes: nodes_of(known),
            required_nodes: job.required_nodes.as_deref().and_then(expanded),
            account: job.account.clone().or_else(|| slurm.default_account(job.user)),
            partitions,
        }
    }

    /// What a pending job would be after a change.
    pub(crate) fn of_changed(change: &Described, job: &Recorded, slurm: &impl Slurm) -> Self {
        let filled = |text: &Option<String>| text.clone().filter(|t| !t.is_empty());
        let first = |new, old| filled(new).or_else(|| filled(old));
        let partitions = distinct(&first(&change.partition, &job.partition).unwrap_or_default());
        let known = partitions.iter().map(|p| slurm.partition(p)).collect();
        let required = first(&change.required_nodes, &job.required_nodes);
        Self {
            request: job.request(),
            tres: Tres::default(),
            partition_nodes: nodes_of(known),
            required_nodes: required.as_deref().and_then(expanded),
            account: first(&change.account, &job.account),
            exclusive: false,
            partitions,
        }
    }

    /// Whether the job may run on the node.
    pub(crate) fn reaches(&self, node: &str) -> bool {
        let within = |set: &Option<BTreeSet<String>>| set.as_ref().is_none_or(|s| s.contains(node));
        within(&self.partition_nodes) && within(&self.required_nodes)
    }
}

/// The nodes of all these partitions; `None`: not known of one, or no partition.
fn nodes_of(partitions: Vec<Option<Partition>>) -> Option<BTreeSet<String>> {
    let sets: Option<Vec<_>> = partitions.into_iter().map(|p| expanded(&p?.nodes?)).collect();
    sets.filter(|sets| !sets.is_empty()).map(|sets| sets.into_iter().flatten().collect())
}

/// The names in a host list; `None` for one that cannot be read.
fn expanded(list: &str) -> Option<BTreeSet<String>> {
    hostlist::expand(list).ok().map(|names| names.into_iter().collect())
}

/// The names in a list of partitions, each once: a user may write one a thousand times, and each is looked up with all
/// its nodes under slurmctld's locks.
pub(crate) fn distinct(list: &str) -> Vec<String> {
    let mut seen = BTreeSet::new();
    list.split(',').filter(|name| !name.is_empty() && seen.insert(*name)).map(str::to_owned).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A slurmctld of 22.05 with the partitions `gpu` and, for whole nodes, `whole`.
    #[derive(Default)]
    pub(crate) struct Fake {
        pub(crate) now: u64,
    }

    impl Slurm for Fake {
        fn default_partition(&self) -> Option<String> {
            Some("gpu".to_owned())
        }

        fn partition(&self, name: &str) -> Option<Partition> {
            let exclusive = name == "whole";
            (exclusive || name == "gpu").then(|| Partition { nodes: Some("n[1-2]".to_owned()), exclusive })
        }

        fn default_account(&self, user: u32) -> Option<String> {
            (user == 7).then(|| "physics".to_owned())
        }

        fn gres(&self, name: &str, count: u32) -> String {
            format!("gres:{name}:{count}")
        }

        fn now(&self) -> u64 {
            self.now
        }
    }

    fn described(partition: Option<&str>) -> Described {
        let env = vec![format!("{REQUEST_ENV}=v1 iso=whole")];
        Described { env, partition: partition.map(str::to_owned), ..Described::default() }
    }

    #[test]
    fn a_job_reaches_the_nodes_of_its_partitions_and_no_others() {
        let of = |partition| Submission::of(&described(partition), &Fake::default());
        let default = of(None);
        assert_eq!(default.partitions, ["gpu"]);
        assert!(default.reaches("n2") && !default.reaches("n3") && !default.exclusive);
        assert!(of(Some("gpu,whole")).exclusive);
        assert!(of(Some("gpu,unknown")).reaches("n3"), "of one partition the nodes are not known");
        let one = Described { required_nodes: Some("n1".to_owned()), ..described(None) };
        assert!(!Submission::of(&one, &Fake::default()).reaches("n2"));
        let nothing = Described { env: Vec::new(), ..one };
        assert!(Submission::of(&nothing, &Fake::default()).partitions.is_empty());
    }

    #[test]
    fn an_account_is_the_jobs_own_or_its_users() {
        let account = |account: Option<&str>, user| {
            let job = Described { account: account.map(str::to_owned), user, ..described(None) };
            Submission::of(&job, &Fake::default()).account
        };
        assert_eq!(account(Some("art"), 7).as_deref(), Some("art"));
        assert_eq!([account(None, 7), account(None, 8)], [Some("physics".to_owned()), None]);
    }

    #[test]
    fn a_change_counts_before_what_is_recorded() {
        let job = Recorded {
            env: vec![format!("{REQUEST_ENV}=v1 iso=whole")],
            partition: Some("gpu".to_owned()),
            required_nodes: Some("n1".to_owned()),
            account: Some("art".to_owned()),
            ..Recorded::default()
        };
        let changed = |change: &Described| Submission::of_changed(change, &job, &Fake::default());
        let same = changed(&Described::default());
        assert_eq!((&same.partitions[..], same.account.as_deref()), (&["gpu".to_owned()][..], Some("art")));
        assert!(same.reaches("n1") && !same.reaches("n2"));
        let moved = changed(&Described { required_nodes: Some("n2".to_owned()), ..described(Some("whole")) });
        assert_eq!(moved.partitions, ["whole"]);
        assert!(moved.reaches("n2") && !moved.reaches("n1"));
    }

    #[test]
    fn a_partition_that_is_named_often_is_looked_up_once() {
        assert_eq!(distinct("gpu,,debug,gpu,"), ["gpu", "debug"]);
        assert_eq!(distinct(&"debug,".repeat(20_000)), ["debug"]);
        assert_eq!(distinct(""), Vec::<String>::new());
    }
}
