//! Deciding what one job gets on one node.

mod mig;
mod mps;
mod view;
pub mod whole;

pub(crate) use view::coexist;

use crate::ask::{Ask, Kind, Policy};
use crate::decision::Grant;
use crate::report::{KindTried, Report, Takes, Unsuitable};
use crate::request::Isolation;
use crate::state::Node;
use view::View;

/// What one job gets on one node, and why.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a decision nobody reads is a GPU nobody gets"]
pub struct Decision {
    /// `None`: nothing fits now. `report` names the constraint that ruled out each candidate.
    pub chosen: Option<Grant>,
    /// Every candidate weighed, in the order weighed.
    pub report: Report,
}

/// Decides what `ask` gets on `node` as it is now; changes nothing.
///
/// `None` is chosen only where no legal choice exists, except for [`Isolation::None`], which asks for no decision.
/// What is legal and what is best: the modules of each kind. `auto` takes the kind that takes least away from
/// everyone else ([`Takes`]), on ties the first in the site's order.
pub fn decide(node: &Node, ask: &Ask, policy: &Policy) -> Decision {
    let views: Vec<View<'_>> = node.gpus.iter().enumerate().map(|(i, gpu)| View::new(i, gpu)).collect();
    let mut search = Search { node, ask, policy, views: &views, report: Report::default() };
    search.report.placements_before = views.iter().map(|v| v.left(0, None)).sum();
    search.report.weighed.reserve_exact((8 * views.len()).min(crate::report::MAX_WEIGHED));
    let chosen = match &ask.request.isolation {
        Isolation::Mig(_) => search.one(Kind::Mig),
        Isolation::Mps => search.one(Kind::Mps),
        Isolation::Whole => search.one(Kind::Whole),
        Isolation::Auto => search.auto(),
        Isolation::None => None,
    };
    Decision { chosen, report: search.report }
}

struct Search<'a> {
    node: &'a Node,
    ask: &'a Ask,
    policy: &'a Policy,
    views: &'a [View<'a>],
    report: Report,
}

impl Search<'_> {
    fn one(&mut self, kind: Kind) -> Option<Grant> {
        let found = self.attempt(kind);
        let outcome = found.as_ref().map(|(_, takes)| *takes).map_err(|why| *why);
        self.report.kinds.push(KindTried { kind, outcome, chosen: found.is_ok() });
        found.ok().map(|(grant, _)| grant)
    }

    fn auto(&mut self) -> Option<Grant> {
        let mut best: Option<(Grant, Takes, usize)> = None;
        for (i, kind) in self.policy.auto.iter().enumerate() {
            let found = self.attempt(*kind);
            let outcome = found.as_ref().map(|(_, takes)| *takes).map_err(|why| *why);
            self.report.kinds.push(KindTried { kind: *kind, outcome, chosen: false });
            if let Ok((grant, takes)) = found
                && best
                    .as_ref()
                    .is_none_or(|(_, b, _)| (takes.oversubscribed, takes.parts) < (b.oversubscribed, b.parts))
            {
                best = Some((grant, takes, i));
            }
        }
        let (grant, _, i) = best?;
        if let Some(tried) = self.report.kinds.get_mut(i) {
            tried.chosen = true;
        }
        Some(grant)
    }

    /// The best grant of one kind; the error says why the kind does not suit the request at all, if so.
    fn attempt(&mut self, kind: Kind) -> Result<(Grant, Takes), Option<Unsuitable>> {
        let request = &self.ask.request;
        if let Some(why) = unsuitable(request, kind, self.policy) {
            return Err(Some(why));
        }
        let mem = memory(request, kind, self.policy);
        self.report.mem_mib = mem;
        let mem_mib = mem.unwrap_or(0);
        match kind {
            Kind::Mig => {
                let profile = match &request.isolation {
                    Isolation::Mig(profile) => profile.as_deref(),
                    _ => None,
                };
                let sm_percent = request.threads.map_or(0, u32::from);
                let want = mig::Want { profile, mem_mib, sm_percent };
                let found = mig::search(self.views, self.ask, want, &mut self.report);
                found.map(|f| (Grant::Mig(f.specs), f.takes))
            }
            Kind::Mps => {
                let found = mps::search(self.views, self.ask, self.policy, mem_mib, &mut self.report);
                found.map(|f| (Grant::Mps { on: f.on, mem_mib, threads: f.threads }, f.takes))
            }
            Kind::Whole => {
                let found = whole::search(self.views, &self.node.links, self.ask, mem_mib, &mut self.report);
                found.map(|f| (Grant::Whole(f.gpus), f.takes))
            }
        }
        .ok_or(None)
    }
}

/// Why a request cannot be met by this kind on any node.
pub(crate) fn unsuitable(request: &crate::Request, kind: Kind, policy: &Policy) -> Option<Unsuitable> {
    let auto = request.isolation == Isolation::Auto;
    match kind {
        Kind::Mig | Kind::Mps if auto && request.gpus.is_some() => Some(Unsuitable::CountsGpus),
        Kind::Mps if request.instances > 1 => Some(Unsuitable::SeveralInstances),
        Kind::Whole if auto && request.instances > 1 => Some(Unsuitable::SeveralInstances),
        Kind::Mps if memory(request, kind, policy).is_none() => Some(Unsuitable::NoMemoryNamed),
        _ => None,
    }
}

/// Memory that the request means for a grant of this kind, MiB.
pub(crate) fn memory(request: &crate::Request, kind: Kind, policy: &Policy) -> Option<u64> {
    let takes_default = match (&request.isolation, kind) {
        (Isolation::Mig(Some(_)), _) | (_, Kind::Whole) => false,
        (_, Kind::Mig | Kind::Mps) => true,
    };
    request.mem_mib.or(policy.default_mem_mib.filter(|_| takes_default))
}
