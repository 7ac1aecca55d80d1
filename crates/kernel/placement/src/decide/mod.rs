//! Decides what one job gets on one node: one search per kind of grant, and the choice between kinds for `auto`.

mod compute;
pub mod link_sum;
mod mig;
mod mps;
mod profile_choice;
mod quotas;
mod spread;
mod starts;
mod statics;
mod tasks;
mod view;
mod whole;

use decision_report::Decision;
use decision_report::report::{Fate, KindTried, Report, Takes, Unsuitable};
use mapa::Memo;
use node_state::{Ask, Kind, Node, Policy};
use profile_choice::Want;
use protocol::{Grant, Isolation, TaskDevices, TaskGrant};
use view::{View, views};

/// Decides what `ask` gets on `node` as it is now; changes nothing.
///
/// [`Decision::chosen`] is `None` only if no legal choice exists, and for [`Isolation::None`], which asks for no
/// decision. The module of each kind says what is legal and what is best. `auto` takes the kind that takes least away
/// from everyone else ([`Takes`]), on ties the first in the site's order.
pub fn decide(node: &Node, ask: &Ask, policy: &Policy) -> Decision {
    decide_with(node, ask, policy, &mut Memo::default())
}

/// As [`decide`]; sets of whole GPUs that were chosen before come from `memo`, new ones go there.
pub fn decide_with(node: &Node, ask: &Ask, policy: &Policy, memo: &mut Memo) -> Decision {
    let views = views(node);
    let mut search = Search { node, ask, policy, views: &views, memo, report: Report::default() };
    search.report.placements_before = views.iter().map(|v| v.left(0, None)).sum();
    search.report.weighed.reserve_exact((8 * views.len()).min(decision_report::report::MAX_WEIGHED));
    search.report.named = matches!(ask.request.isolation, Isolation::Mig(Some(_)));
    search.report.times.clone_from(&ask.request.times);
    search.report.models = node.gpus.iter().map(|g| g.model).collect();
    let chosen = match &ask.request.isolation {
        Isolation::Mig(_) => search.one(Kind::Mig),
        Isolation::Mps => search.one(Kind::Mps),
        Isolation::Tasks { .. } => search.one(Kind::Tasks),
        Isolation::Whole => search.one(Kind::Whole),
        Isolation::Auto => search.auto(),
        Isolation::None => None,
    };
    Decision { chosen, report: search.report }
}

/// Tells whether [`decide`] would choose something. Faster for whole GPUs: free ones are counted, and no set is searched.
#[must_use]
pub fn fits(node: &Node, ask: &Ask, policy: &Policy) -> bool {
    if ask.request.isolation != Isolation::Whole {
        return decide(node, ask, policy).chosen.is_some();
    }
    let mem_mib = memory(&ask.request, Kind::Whole, policy).unwrap_or(0);
    whole::Place { views: &views(node), links: &node.links, ask, policy, mem_mib, seats: None }.fits()
}

struct Search<'a> {
    node: &'a Node,
    ask: &'a Ask,
    policy: &'a Policy,
    views: &'a [View<'a>],
    memo: &'a mut Memo,
    report: Report,
}

/// The best grant of one kind.
struct Best {
    grant: Grant,
    takes: Takes,
    fate: Fate,
}

impl Search<'_> {
    fn one(&mut self, kind: Kind) -> Option<Grant> {
        let found = self.attempt(kind)?;
        self.choose(0, found)
    }

    fn auto(&mut self) -> Option<Grant> {
        let mut best: Option<(usize, Best)> = None;
        for (i, kind) in self.policy.auto.iter().enumerate() {
            if let Some(found) = self.attempt(*kind)
                && best.as_ref().is_none_or(|(_, b)| found.takes.less_than(b.takes))
            {
                best = Some((i, found));
            }
        }
        let (i, found) = best?;
        self.choose(i, found)
    }

    fn choose(&mut self, tried: usize, best: Best) -> Option<Grant> {
        self.report.kinds.get_mut(tried)?.chosen = true;
        self.report.best = Some(best.fate);
        Some(best.grant)
    }

    /// The best grant of one kind, and an entry in the report on how it went.
    fn attempt(&mut self, kind: Kind) -> Option<Best> {
        let before = self.report.feasible_now;
        let unsuitable = unsuitable(&self.ask.request, kind, self.policy);
        let found = if unsuitable.is_some() { None } else { self.search(kind) };
        let outcome = found.as_ref().map(|b| b.takes).ok_or(unsuitable);
        let feasible = self.report.feasible_now - before;
        self.report.kinds.push(KindTried { kind, outcome, feasible, chosen: false });
        found
    }

    fn search(&mut self, kind: Kind) -> Option<Best> {
        let request = &self.ask.request;
        let mem = memory(request, kind, self.policy);
        self.report.mem_mib = self.report.mem_mib.or(mem);
        let mem_mib = mem.unwrap_or(0);
        let (views, report) = (self.views, &mut self.report);
        Some(match kind {
            Kind::Mig if request.compute_name().is_some() => {
                let name = request.compute_name().unwrap_or_default();
                let found = compute::search(views, self.ask, self.policy, (name, mem_mib), report)?;
                let grant = Grant::Compute { within: found.within, part: found.score.part, mem_mib };
                Best { grant, takes: found.takes, fate: Fate::Compute(found.score) }
            }
            Kind::Mig => {
                let profile = match &request.isolation {
                    Isolation::Mig(profile) => profile.as_deref(),
                    _ => None,
                };
                let want = Want {
                    profile,
                    mem_mib,
                    sm_percent: request.threads.unwrap_or(0),
                    least_work: Some(request).filter(|r| !r.times.is_empty()),
                    limit: &self.policy.instances,
                };
                let found = mig::search(views, self.node.may_be_cut(), self.ask, want, report)?;
                Best { grant: Grant::Mig(found.specs), takes: found.takes, fate: Fate::Costs(found.cost) }
            }
            Kind::Mps => {
                let found = mps::search(views, self.ask, self.policy, mem_mib, report)?;
                let grant = Grant::Mps { on: found.on, mem_mib, threads: found.threads };
                Best { grant, takes: found.takes, fate: Fate::Share(found.score) }
            }
            Kind::Tasks => {
                let (links, ask, policy) = (&self.node.links, self.ask, self.policy);
                let pool = policy.tasks?;
                let probes = request.isolation == Isolation::Tasks { probes: true };
                let grant = |on| Grant::Tasks(TaskGrant { on, mem_mib: request.mem_mib, probes });
                let Some(gpus) = request.gpus else {
                    let found = tasks::search(self.node, views, (ask, policy), pool, report)?;
                    let (takes, fate) = (found.takes, Fate::Seats(found.score));
                    return Some(Best { grant: grant(TaskDevices::Pool(found.on)), takes, fate });
                };
                let mem_mib = pool.needed_mib(request.mem_mib);
                let seats = Some((pool, request.seats.div_ceil(gpus.max(1))));
                let place = whole::Place { views, links, ask, policy, mem_mib, seats };
                let found = whole::search(&place, self.memo, report)?;
                let on = TaskDevices::Own { gpus: found.gpus, seats: request.seats };
                Best { grant: grant(on), takes: found.takes, fate: found.fate }
            }
            Kind::Whole => {
                let (links, ask, policy) = (&self.node.links, self.ask, self.policy);
                let place = whole::Place { views, links, ask, policy, mem_mib, seats: None };
                let found = whole::search(&place, self.memo, report)?;
                Best { grant: Grant::Whole(found.gpus), takes: found.takes, fate: found.fate }
            }
        })
    }
}

/// Why no node can satisfy the request with this kind; `None` if some node may.
pub(crate) fn unsuitable(request: &protocol::Request, kind: Kind, policy: &Policy) -> Option<Unsuitable> {
    let auto = request.isolation == Isolation::Auto;
    match kind {
        Kind::Tasks if policy.tasks.is_none() => Some(Unsuitable::NoPool),
        Kind::Mig | Kind::Mps | Kind::Tasks if auto && request.gpus.is_some() => Some(Unsuitable::CountsGpus),
        Kind::Tasks if request.threads.is_some() => Some(Unsuitable::LimitsThreads),
        Kind::Mps | Kind::Tasks if request.instances > 1 => Some(Unsuitable::SeveralInstances),
        Kind::Whole if auto && request.instances > 1 => Some(Unsuitable::SeveralInstances),
        Kind::Mig if request.compute_name().is_some() && request.instances > 1 => {
            Some(Unsuitable::SeveralInstances)
        }
        Kind::Mig if request.compute_name().is_some() && request.mem_mib.is_none() => {
            Some(Unsuitable::NoMemoryNamed)
        }
        Kind::Mps if memory(request, kind, policy).is_none() => Some(Unsuitable::NoMemoryNamed),
        _ => None,
    }
}

/// Memory that a grant of this kind must have for the request, MiB; `None` if any will do.
pub(crate) fn memory(request: &protocol::Request, kind: Kind, policy: &Policy) -> Option<u64> {
    let takes_default = match (&request.isolation, kind) {
        (Isolation::Mig(Some(_)), _) | (_, Kind::Whole | Kind::Tasks) => false,
        // A job that states its run time on a size also states that it fits there.
        (_, Kind::Mig) => request.times.is_empty(),
        (_, Kind::Mps) => true,
    };
    request.mem_mib.or(policy.default_mem_mib.filter(|_| takes_default))
}
