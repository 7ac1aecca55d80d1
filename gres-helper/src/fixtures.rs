//! Fixtures of this crate's tests: a slurmctld, a site, a submission.

use std::sync::Arc;

use site_config::SiteConfig;
use site_limits::tres::Tres;
use slurm_limits::SlurmLimit;

use crate::node_lists::expanded;
use crate::submission::{Described, JobOwner, Partition, Slurm};

/// A request of a moldable job.
pub(crate) const MOLDABLE: &str = "v1 iso=mig times=1g:60,2g:35";

/// A slurmctld of 22.05 with the partitions `gpu` and, for whole nodes, `whole`.
#[derive(Default)]
pub(crate) struct Fake {
    pub(crate) now: u64,
    pub(crate) adds_gres: bool,
    /// Limits of Slurm, each with its partition.
    pub(crate) limits: Vec<(&'static str, SlurmLimit)>,
    /// The GPUs of n1 are of another type.
    pub(crate) kinds: bool,
}

impl Slurm for Fake {
    fn default_partition(&self) -> Option<String> {
        Some("gpu".to_owned())
    }

    fn partition(&self, name: &str) -> Option<Partition> {
        let exclusive = name == "whole";
        (exclusive || name.starts_with("gpu")).then(|| Partition {
            nodes: expanded("n[1-2]").map(Arc::new),
            exclusive,
            minutes: 60,
            most_minutes: 120,
        })
    }

    fn default_account(&self, user: u32) -> Option<String> {
        (user == 7).then(|| "physics".to_owned())
    }

    fn node_gres(&self, name: &str) -> Option<String> {
        if self.kinds && name == "n1" {
            return Some("gpu:h100:4,shard:320".to_owned());
        }
        // slurm.conf gives n2 one GPU more than tessera.toml of these tests.
        Some(if name == "n2" { "gpu:a100:3,shard:120" } else { "gpu:a100:2,shard:80" }.to_owned())
    }

    fn limits(&self, owner: &JobOwner<'_>) -> Vec<SlurmLimit> {
        let here = self.limits.iter().filter(|(partition, _)| *partition == owner.partition);
        here.map(|(_, limit)| limit.clone()).collect()
    }

    fn gres(&self, name: &str, count: u32) -> String {
        format!("gres:{name}:{count}")
    }

    fn adds_gres(&self) -> bool {
        self.adds_gres
    }

    fn counts_slices(&self) -> bool {
        true
    }

    fn now(&self) -> u64 {
        self.now
    }
}

/// Two GPUs for parts; in the partition `debug`, shares alone.
pub(crate) fn site() -> SiteConfig {
    let text = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 2\nmig = \"dynamic\"\n\
                [[limits]]\npartition = \"debug\"\nisolation = [\"mps\"]\n";
    let (config, errors) = site_config::parse("t", text, &|_| Err(std::io::ErrorKind::NotFound.into()));
    assert_eq!(errors, []);
    config.unwrap()
}

/// A submission with this request and another GRES.
pub(crate) fn asking(request: &str) -> Described {
    let tres = Tres { per_node: Some("gres:nic:1".to_owned()), ..Tres::default() };
    Described { request: Some(request.to_owned()), tres, ..Described::default() }
}
