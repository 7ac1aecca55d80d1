//! Values that the plugin takes from Slurm's structs. `live` reads them once per hook; everything after
//! that is safe code on these types.

use std::sync::Arc;

use geometry::{JobId, Uid};
use protocol::{AdminComment, Bandwidth, Isolation, Plan, Request};
use site_limits::counted::{Counted, CountedRequest, as_counted};
use site_limits::{NodeGres, Submission};
use topology::GpuSet;

/// The kinds of GRES this plugin knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GresKind {
    /// `gpu`: whole devices.
    Gpu,
    /// `shard`: nominal GB of one.
    Shard,
}

/// An entry of a job's GRES request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GresRequest {
    pub(crate) kind: GresKind,
    /// Asked per node; 0 where it was asked per job on several nodes, per socket or task.
    pub(crate) per_node: u64,
    /// Asked per socket: as many of each socket's GPUs as Slurm chose.
    pub(crate) per_socket: bool,
}

/// A job as its record in slurmctld shows it.
#[derive(Clone, Debug)]
pub(crate) struct JobView {
    /// Id. An array task gets another one when it starts: a decision is stamped at commit.
    pub(crate) id: JobId,
    pub(crate) uid: Uid,
    /// The request SPANK stored, as text from the user that was read once; `None` also for one that cannot be read.
    pub(crate) request: Option<Request>,
    /// Entries for `gpu` and `shard`; others do not concern us.
    pub(crate) gres: Vec<GresRequest>,
    /// The most GPUs that Slurm may choose for it on one of several nodes; 0: it says how many per node.
    pub(crate) most_gpus: u64,
    /// `--exclusive`: Slurm gives it every device of its nodes.
    pub(crate) exclusive: bool,
    /// `--gres-flags=enforce-binding`.
    pub(crate) enforce_bind: bool,
    /// Slurm may be told in which order to take nodes for it: it runs on a single one, whatever Slurm chooses, and the site does
    /// not want the least loaded one.
    pub(crate) ranked: bool,
    /// CPUs that it asks for on each of its nodes.
    pub(crate) cpus: u32,
    /// The partition it is tested in.
    pub(crate) partition: Option<String>,
    /// The account that it is charged to.
    pub(crate) account: Option<String>,
    /// QOS; `None` without one.
    pub(crate) qos: Option<String>,
    /// Time limit, minutes, or that of its partition.
    pub(crate) minutes: u32,
    /// AdminComment: a planner's decision may stand there.
    pub(crate) comment: AdminComment,
    /// Time at which this was read, seconds since 1970: plans lapse.
    pub(crate) now: u64,
    /// The last start that its deadline leaves, seconds since 1970.
    pub(crate) starts_by: Option<u64>,
}

/// The need of a job for a node's GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Want {
    /// The request, its isolation never `none`.
    pub(crate) request: Request,
    /// GRES that counts for it in Slurm's accounts.
    pub(crate) kind: GresKind,
    /// Came from our options: nodes that Tessera does not manage cannot serve it.
    pub(crate) managed: bool,
    /// For shards: only Slurm's own choice may be used, because there are several entries or numbers per socket.
    pub(crate) keep_choice: bool,
    /// For whole GPUs: Slurm's own choice is taken where the site keeps none of it for something else.
    pub(crate) slurms_choice: bool,
    /// See [`JobView::most_gpus`].
    pub(crate) most_gpus: u64,
    /// The partition that the job is tested in.
    pub(crate) partition: Option<String>,
    /// The planner's decision that made the request what it is.
    pub(crate) plan: Option<Plan>,
    /// A planner's decision stands in the job's AdminComment and counts no more.
    pub(crate) lapsed: bool,
}

/// Subject of a cap: a request, and the partition that its job is tested in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CapOf<'a> {
    pub(crate) request: &'a Request,
    pub(crate) partition: Option<&'a str>,
}

impl Want {
    /// Names the job for its power cap.
    pub(crate) fn cap_of(&self) -> CapOf<'_> {
        CapOf { request: &self.request, partition: self.partition.as_deref() }
    }
}

impl JobView {
    /// Derives the job's need; `None`: no GPU, or a mixture that is left to Slurm alone.
    ///
    /// Where the GRES counts and the request disagree, see [`as_counted`].
    pub(crate) fn want(&self) -> Option<Want> {
        let kind = self.gres.first()?.kind;
        // `--exclusive` gives it every GPU of the node, whatever it asked for.
        if self.gres.iter().any(|g| g.kind != kind) || kind == GresKind::Gpu && self.exclusive {
            return None;
        }
        let counted = match kind {
            GresKind::Gpu => Counted::Gpus(self.gres.iter().map(|g| g.per_node).fold(0, u64::saturating_add)),
            GresKind::Shard => Counted::Shards(self.gres.first()?.per_node),
        };
        let left = |asked: &Request| kind == GresKind::Gpu && asked.isolation == Isolation::None;
        let slurms_choice = self.request.as_ref().is_some_and(left);
        let CountedRequest { mut request, managed } =
            as_counted(self.request.clone().filter(|asked| !left(asked)), counted)?;
        if slurms_choice {
            // It neither waits for links nor takes any from others.
            request.bandwidth = Some(Bandwidth::Insensitive);
        }
        if request.isolation == Isolation::Whole {
            // What its user says counts more.
            request.bandwidth = request.bandwidth.or(self.comment.learnt);
        }
        let keep_choice = self.gres.len() > 1 || self.gres.iter().any(|g| g.per_socket);
        let (partition, most_gpus) = (self.partition.clone(), self.most_gpus);
        let (plan, lapsed) = (None, false);
        let want =
            Want { request, kind, managed, keep_choice, slurms_choice, most_gpus, partition, plan, lapsed };
        if kind == GresKind::Gpu || !managed {
            return Some(want);
        }
        Some(match self.comment.plan_for(&want.request, self.now) {
            Some((plan, request)) => Want { plan: Some(plan.clone()), request, ..want },
            None => Want { lapsed: self.had_plan(), ..want },
        })
    }

    /// The job as a submission: what limits are chosen by, and held against.
    pub(crate) fn submission(&self) -> Submission {
        Submission {
            partitions: self.partition.iter().cloned().collect(),
            account: self.account.clone(),
            user: Some(self.uid.0),
            qos: self.qos.clone(),
            minutes: Some(self.minutes),
            exclusive: self.exclusive,
            ..Submission::default()
        }
    }

    /// Derives the job's need where its plan cannot be carried out.
    pub(crate) fn want_unplanned(&self) -> Option<Want> {
        let view = Self { comment: AdminComment::default(), ..self.clone() };
        Some(Want { lapsed: self.had_plan(), ..view.want()? })
    }

    fn had_plan(&self) -> bool {
        self.comment.plan().is_some()
    }

    /// Tells whether Slurm may give it GPUs: those that it counts, or all of a node that it has for itself.
    pub(crate) fn may_have_gpus(&self) -> bool {
        self.exclusive || !self.gres.is_empty()
    }

    /// Tells whether it has a request of ours, rather than one that leaves its GPUs to Slurm.
    pub(crate) fn asks_us(&self) -> bool {
        self.request.as_ref().is_some_and(|asked| asked.isolation != Isolation::None)
    }

    /// Tells whether its shards may be those of another size than it is to run on: it was planned, or ran before.
    pub(crate) fn was_resized(&self) -> bool {
        self.had_plan() || self.comment.started().is_some()
    }
}

#[cfg(test)]
impl JobView {
    /// A job that asks for nothing.
    pub(crate) fn of_tests() -> Self {
        Self {
            id: JobId(9),
            uid: Uid(1000),
            request: None,
            gres: Vec::new(),
            most_gpus: 0,
            exclusive: false,
            enforce_bind: false,
            ranked: false,
            cpus: 1,
            partition: None,
            account: None,
            qos: None,
            minutes: 60,
            comment: AdminComment::default(),
            now: 100,
            starts_by: None,
        }
    }
}

/// A node's slot in the engine. It is the node's as long as the configuration holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeSlot(pub(crate) usize);

/// A node a job may get.
#[derive(Clone, Debug)]
pub(crate) struct NodeView {
    /// Place in Slurm's node table and in every bitmap over it.
    pub(crate) index: usize,
    pub(crate) name: Arc<str>,
    /// Slot in the engine; `None`: it is looked up by its name, if it is there at all.
    pub(crate) slot: Option<NodeSlot>,
    /// Identity of its configuration record: equal for nodes that are configured alike.
    pub(crate) config: usize,
    /// A job's epilog is not over.
    pub(crate) completing: bool,
    /// slurmd has registered since slurmctld's start, or the node is one of a cloud: of others Slurm knows before that how many devices
    /// there are, but not which.
    pub(crate) registered: bool,
    /// Says of itself that its GPUs are not those that the site describes.
    pub(crate) unfit: bool,
    /// The job insists on it.
    pub(crate) required: bool,
}

/// Slurm's counts of a node.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NodeCounts {
    /// Place in the node table.
    pub(crate) place: usize,
    pub(crate) node: String,
    /// Its GPUs.
    pub(crate) counted: NodeGres,
    pub(crate) cpus: u32,
}

/// Slurm's choice of devices for a job on one node.
#[derive(Clone, Debug)]
pub(crate) struct ChosenView {
    pub(crate) name: String,
    /// Choice for each of the job's entries.
    pub(crate) entries: Vec<EntryChoice>,
    /// GPUs near the cores that it chose.
    pub(crate) near: GpuSet,
}

/// Slurm's choice for one entry of a job, such as one type of GPU.
#[derive(Clone, Debug, Default)]
pub(crate) struct EntryChoice {
    /// Devices that cons_tres chose.
    pub(crate) chosen: GpuSet,
    /// Devices that cons_tres could have chosen: enough is free there, of the right type, near the job's cores where that
    /// is enforced. A superset of `chosen`.
    pub(crate) available: GpuSet,
    /// The entry is per socket: each socket's devices. Empty otherwise.
    pub(crate) sockets: Vec<GpuSet>,
    /// Amount of the GRES that cons_tres means to take here.
    pub(crate) amount: u64,
}

impl ChosenView {
    /// Devices that cons_tres chose, over all entries.
    pub(crate) fn chosen(&self) -> GpuSet {
        union(self.entries.iter().map(|e| e.chosen))
    }

    /// Devices that cons_tres could have chosen, over all entries.
    pub(crate) fn available(&self) -> GpuSet {
        union(self.entries.iter().map(|e| e.available))
    }
}

/// Unites the sets.
pub(crate) fn union(sets: impl Iterator<Item = GpuSet>) -> GpuSet {
    GpuSet::from_bits(sets.fold(0, |bits, set| bits | set.bits()))
}

/// Devices that Slurm has allocated to a running job on one node.
#[derive(Clone, Debug)]
pub(crate) struct Allocated {
    pub(crate) node: String,
    pub(crate) kind: GresKind,
    /// The devices, never none.
    pub(crate) gpus: GpuSet,
    /// Amount of the GRES.
    pub(crate) amount: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(request: Option<&str>, gres: &[(GresKind, u64)]) -> JobView {
        let entry = |(kind, per_node): &(GresKind, u64)| GresRequest {
            kind: *kind,
            per_node: *per_node,
            per_socket: false,
        };
        JobView {
            id: JobId(1),
            request: request.and_then(|text| protocol::wire::parse_request(text).ok()),
            gres: gres.iter().map(entry).collect(),
            ..JobView::of_tests()
        }
    }

    #[test]
    fn a_plan_counts_while_it_lasts_and_only_for_the_sizes_listed() {
        let mut view = job(Some("v1 iso=mig times=1g:60,2g:35"), &[(GresKind::Shard, 5)]);
        let mut wanted = |comment: &str| {
            view.comment = AdminComment::parse(comment);
            let want = view.want().unwrap();
            (want.request.isolation, want.plan.is_some(), want.lapsed)
        };
        let ten = || Isolation::Mig(Some("2g.10gb".to_owned()));
        assert_eq!(wanted(""), (Isolation::Mig(None), false, false));
        assert_eq!(wanted("benchmark of June"), (Isolation::Mig(None), false, false));
        assert_eq!(wanted("tessera: plan v1 size=2g.10gb until=101"), (ten(), true, false));
        assert_eq!(wanted("tessera: plan v1 size=2g.10gb until=100"), (Isolation::Mig(None), false, true));
        assert_eq!(wanted("tessera: plan v1 size=3g.20gb until=101"), (Isolation::Mig(None), false, true));
        assert_eq!(wanted("tessera: plan v1 size=rubbish"), (Isolation::Mig(None), false, false));
        let mut other = job(Some("v1 iso=mps mem=100"), &[(GresKind::Shard, 5)]);
        other.comment = AdminComment::parse("tessera: plan v1 size=2g.10gb until=101");
        assert_eq!(other.want().unwrap().request.isolation, Isolation::Mps);
    }

    #[test]
    fn jobs_without_gpus_want_nothing() {
        assert_eq!(job(Some("v1 iso=mig mem=10"), &[]).want(), None);
    }

    #[test]
    fn plain_gpus_are_whole_ones() {
        let want = job(None, &[(GresKind::Gpu, 3)]).want().unwrap();
        assert_eq!(
            (want.request.isolation, want.request.gpus, want.managed),
            (Isolation::Whole, Some(3), false)
        );
        // A user wrote two halves of more than a number can be.
        let most = job(None, &[(GresKind::Gpu, u64::MAX), (GresKind::Gpu, 2)]).want().unwrap();
        assert_eq!(most.request.gpus, Some(u32::MAX));
    }

    #[test]
    fn what_was_learnt_counts_for_whole_gpus_without_a_label() {
        let bandwidth = |request, kind| {
            let mut view = job(request, &[(kind, 3)]);
            view.comment = AdminComment::parse("tessera: learnt insensitive");
            view.want().unwrap().request.bandwidth
        };
        assert_eq!(bandwidth(None, GresKind::Gpu), Some(Bandwidth::Insensitive));
        assert_eq!(bandwidth(Some("v1 iso=whole bw=sensitive"), GresKind::Gpu), Some(Bandwidth::Sensitive));
        assert_eq!(bandwidth(None, GresKind::Shard), None);
    }

    #[test]
    fn two_types_of_gpu_add_up() {
        let want = job(None, &[(GresKind::Gpu, 1), (GresKind::Gpu, 2)]).want().unwrap();
        assert_eq!(want.request.gpus, Some(3));
    }

    #[test]
    fn plain_shards_are_a_share_of_that_memory() {
        let want = job(None, &[(GresKind::Shard, 10)]).want().unwrap();
        assert_eq!((want.request.isolation, want.request.mem_mib), (Isolation::Mps, Some(9540)));
    }

    #[test]
    fn a_crafted_request_does_not_turn_shards_into_whole_gpus() {
        for text in ["v1 iso=whole gpus=8", "v1 iso=none", "rubbish"] {
            let want = job(Some(text), &[(GresKind::Shard, 1)]).want().unwrap();
            assert_eq!((want.request.isolation, want.kind), (Isolation::Mps, GresKind::Shard), "{text}");
        }
    }

    #[test]
    fn whoever_asks_for_no_change_gets_slurms_choice() {
        let want = job(Some("v1 iso=none"), &[(GresKind::Gpu, 2)]).want().unwrap();
        assert!(want.slurms_choice && !want.managed);
        assert_eq!((want.request.isolation, want.request.gpus), (Isolation::Whole, Some(2)));
        assert!(!job(None, &[(GresKind::Gpu, 2)]).want().unwrap().slurms_choice);
    }

    #[test]
    fn a_mixture_is_left_to_slurm() {
        assert_eq!(job(None, &[(GresKind::Gpu, 1), (GresKind::Shard, 1)]).want(), None);
    }
}
