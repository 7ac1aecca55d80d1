//! The site of a replay, under Tessera and under stock Slurm.

use std::collections::HashMap;

use admission::Ruling;
use node_state::Node;
use protocol::Request;
use protocol::wire::encode_request;
use replay::{Job, NodeChoice, Site};
use site_config::SiteConfig;
use site_limits::Submission;
use site_limits::counted::{Counted, as_counted};

use super::ask::AskedPerNode;
use crate::site;

/// The nodes of a configuration, without jobs, in its order.
pub(super) fn nodes(config: &SiteConfig) -> Vec<Node> {
    site::nodes(config).map(|(_, node)| node).collect()
}

/// The site under Tessera.
pub(super) fn tessera(config: &SiteConfig) -> Site {
    let choice = site_limits::node_order(config, None).map_or(NodeChoice::Slurm, NodeChoice::Rank);
    Site {
        nodes: nodes(config),
        hosts: Vec::new(),
        choice,
        policy: site_limits::policy_for(config, None, &[]),
    }
}

/// Admits jobs as slurmctld's plugin does, each kind of request once.
pub(super) struct Door<'a> {
    config: &'a SiteConfig,
    known: HashMap<String, Option<Request>>,
}

impl<'a> Door<'a> {
    pub(super) fn new(config: &'a SiteConfig) -> Self {
        Self { config, known: HashMap::new() }
    }

    /// The job with the request that Tessera makes of what it asked; `None`: it is refused.
    pub(super) fn admit(&mut self, job: Job, asked: &AskedPerNode) -> Option<Job> {
        if asked.plain {
            let gpus = Counted::Gpus(asked.request.gpus.unwrap_or(1).into());
            return Some(Job { request: as_counted(None, gpus)?.request, plain: true, ..job });
        }
        let config = self.config;
        let text = encode_request(&asked.request);
        let request = self.known.entry(text.clone()).or_insert_with(|| {
            let submission = Submission { request: Some(text), ..Submission::default() };
            match admission::judge(&submission, Some(config)) {
                Ruling::Accepted { request, .. } => Some(request),
                Ruling::Untouched | Ruling::Refused(_) => None,
            }
        });
        Some(Job { request: request.clone()?, plain: false, ..job })
    }
}
