//! Slurm's knowledge of the nodes, and which of them a job may run on.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use geometry::{JobId, Uid};
use node_layout::ConfigInForce;
use node_layout::parse_layout;
use protocol::node_word::UNFIT;
use protocol::{SickGpu, Standing};
use site_config::SiteConfig;
use site_limits::{NodeGres, Submission};

use super::Whose;
use super::away::{Away, CallersJob};
use crate::outcome::Failure;
use crate::slurm::constraint::Constraint;
use crate::slurm::reservations::{Reservation, reservations};
use crate::slurm::{gres_type, scontrol, sinfo, squeue};

/// Source of the layouts.
pub(crate) struct Published {
    pub(super) layouts: HashMap<String, String>,
    /// `None`: every job is the caller's own, and every node takes jobs of every partition.
    pub(super) slurm: Option<Known>,
}

/// Slurm's further knowledge.
pub(super) struct Known {
    pub(super) owners: HashMap<JobId, Uid>,
    pub(super) nodes: HashMap<String, sinfo::SinfoNode>,
    /// Each node's active features.
    features: HashMap<String, Vec<String>>,
    /// Each node's `Gres`.
    gres: HashMap<String, String>,
    /// Each node's `Weight`.
    weights: HashMap<String, u64>,
    /// How slurmctld judges what each node says of itself.
    standings: HashMap<String, Standing>,
    /// The unhealthy GPUs that nodes name.
    pub(super) sick: HashMap<String, Vec<SickGpu>>,
    pub(super) reservations: Vec<Reservation>,
}

/// The nodes that a job may run on.
#[derive(Clone, Copy, Default)]
pub(crate) struct Among<'a> {
    /// Only nodes of these names.
    pub(crate) names: Option<&'a [String]>,
    /// Only nodes in one of these partitions; all for an empty list.
    pub(crate) partitions: &'a [String],
    /// No nodes of these names.
    pub(crate) excluded: &'a [String],
    /// Only nodes with these features.
    pub(crate) constraint: Option<&'a Constraint>,
    /// Only nodes with GPUs of these types, as far as Slurm says which they have.
    pub(crate) types: &'a [String],
    /// The reservation that the job is to run in, or several with commas: it may run in any of them.
    pub(crate) reservation: Option<&'a str>,
    /// Whose job it is; `None`: the caller's.
    pub(crate) user: Option<Uid>,
    /// How long the job may run, seconds: no reservation may begin before its end. `None`: nobody said.
    pub(crate) runs_s: Option<u64>,
}

impl Published {
    /// Asks Slurm.
    pub(crate) fn by_slurm() -> Result<Self, Failure> {
        let shown = scontrol::nodes()?;
        let (layouts, gres) = (scontrol::layouts_in(&shown), scontrol::field_by_node(&shown, "Gres="));
        let (standings, sick) = (scontrol::standings_in(&shown), scontrol::sick_in(&shown));
        let features = scontrol::field_by_node(&shown, "ActiveFeatures=").into_iter();
        let features =
            features.map(|(node, list)| (node, list.split(',').map(str::to_owned).collect())).collect();
        let weights = scontrol::weights_in(&shown);
        let (owners, nodes, reservations) = (squeue::owners()?, sinfo::nodes()?, reservations()?);
        Ok(Self {
            layouts,
            slurm: Some(Known { owners, nodes, features, gres, weights, standings, sick, reservations }),
        })
    }

    /// Layouts by node, without a Slurm.
    pub(crate) fn in_file(layouts: HashMap<String, String>) -> Self {
        Self { layouts, slurm: None }
    }

    /// Whose a job is; `None`: Slurm does not know it.
    pub(crate) fn owner(&self, job: JobId) -> Option<Uid> {
        self.slurm.as_ref().and_then(|known| known.owners.get(&job)).copied()
    }

    /// A node's `Weight`; 0 if it is not known.
    pub(super) fn weight(&self, node: &str) -> u64 {
        self.slurm.as_ref().and_then(|known| known.weights.get(node)).copied().unwrap_or(0)
    }

    /// True if Slurm shows a node of this partition.
    pub(crate) fn has_node_in(&self, partition: &str) -> bool {
        let nodes = self.slurm.iter().flat_map(|known| known.nodes.values());
        nodes.flat_map(|node| &node.partitions).any(|name| name == partition)
    }

    /// True if Slurm shows a reservation of this name that has not ended.
    pub(crate) fn has_reservation(&self, name: &str, now: u64) -> bool {
        let mut all = self.slurm.iter().flat_map(|known| &known.reservations);
        all.any(|known| known.name == name && known.end >= now)
    }

    /// True if some node has GPUs of this type, or Slurm shows no node's GPUs.
    pub(crate) fn has_gpu_type(&self, name: &str) -> bool {
        let mut all = self.slurm.iter().flat_map(|known| known.gres.values()).peekable();
        all.peek().is_none() || all.any(|gres| gres_type::has(gres, name))
    }

    /// True if some node has this feature.
    pub(crate) fn has_feature(&self, feature: &str) -> bool {
        let mut all = self.slurm.iter().flat_map(|known| known.features.values().flatten());
        all.any(|known| known == feature)
    }

    /// A job of these partitions and this account, with what slurmctld knows of the nodes that it may run on.
    pub(crate) fn submission(
        &self,
        config: &SiteConfig,
        partitions: Vec<String>,
        account: Option<String>,
    ) -> Submission {
        let job = Submission { partitions, account, ..Submission::default() };
        let Some(known) = self.slurm.as_ref().filter(|_| !job.partitions.is_empty()) else { return job };
        let within = known.nodes.iter().filter(|(_, node)| node.is_in(&job.partitions));
        let within: BTreeSet<String> = within.map(|(name, _)| name.clone()).collect();
        let mut whole = known.nodes.values().flat_map(|node| &node.whole_in);
        let exclusive = whole.any(|name| job.partitions.contains(name));
        let job = Submission { partition_nodes: Some(Arc::new(within)), exclusive, ..job };
        let left_to_slurm = admission::left_to_slurm(&job, config, &|name| known.gres.get(name).cloned());
        Submission { left_to_slurm, ..job }
    }

    /// Why Tessera places no job on a node for which `tessera.toml` describes so many GPUs; `None`: it does.
    pub(super) fn aside(&self, name: &str, described: usize) -> Option<(Whose, String)> {
        let known = self.slurm.as_ref();
        let gres = known.and_then(|known| known.gres.get(name));
        if let Some(why) = gres.and_then(|gres| NodeGres::of_gres(gres).left_to_slurm(described as u64)) {
            return Some((Whose::Slurms, why));
        }
        let Some(line) = self.layouts.get(name) else {
            return Some((Whose::Slurms, "it publishes no layout".to_owned()));
        };
        if let Some(why) = line.trim_start().strip_prefix(UNFIT) {
            return Some((Whose::Nobodys, why.trim().to_owned()));
        }
        let standing = known.and_then(|known| known.standings.get(name));
        if let Some(why) = standing.and_then(|standing| standing.why_not(name)) {
            return Some((Whose::SlurmsForNow, why));
        }
        let bad = parse_layout(line.trim()).is_ok_and(|layout| layout.config == ConfigInForce::Bad);
        bad.then(|| (Whose::SlurmsForNow, "slurmctld knows no good version of tessera.toml".to_owned()))
    }
}

impl Known {
    /// True if a job may run on this node at all.
    pub(super) fn allows(&self, name: &str, among: &Among<'_>) -> bool {
        let node = self.nodes.get(name);
        let inside = node.is_none_or(|node| among.partitions.is_empty() || node.is_in(among.partitions));
        let has = |feature: &str| self.features.get(name).is_some_and(|own| own.iter().any(|f| f == feature));
        inside
            && among.constraint.is_none_or(|wanted| wanted.is_met(&has))
            && self
                .gres
                .get(name)
                .is_none_or(|gres| among.types.iter().all(|name| gres_type::has(gres, name)))
            && self.own_reservations(among, name).is_none_or(|own| !own.is_empty())
    }

    /// The job's reservations that admit it to this node; `None`: it has none that Slurm shows.
    fn own_reservations(&self, among: &Among<'_>, node: &str) -> Option<Vec<&Reservation>> {
        let names = || among.reservation.into_iter().flat_map(|list| list.split(','));
        let own = self.reservations.iter().filter(|known| names().any(|name| name == known.name));
        let own: Vec<&Reservation> = own.collect();
        (!own.is_empty()).then(|| own.into_iter().filter(|own| own.admits(node)).collect())
    }

    /// Why a node starts no such job now; `None`: it may. Of several reservations, one that lets the job start is enough.
    pub(super) fn away(&self, name: &str, among: &Among<'_>, now: u64) -> Option<Away> {
        let of = |own| {
            let job = CallersJob { own, now, runs_s: among.runs_s };
            Away::of(name, self.nodes.get(name), &self.reservations, &job)
        };
        match self.own_reservations(among, name) {
            None => of(None),
            Some(own) => {
                let all: Option<Vec<Away>> = own.into_iter().map(|own| of(Some(own))).collect();
                all?.into_iter().next()
            }
        }
    }
}
