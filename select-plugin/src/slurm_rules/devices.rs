//! The devices of a node that cons_tres has chosen for a job, and those that the job could have.

use geometry::GpuIndex;
use topology::GpuSet;

use super::shards::amount;
use crate::view::{ChosenView, EntryChoice, GresKind, union};

/// Slurm's account of one GRES of a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    /// Number of its devices, of which each has a bit; 0 without device files.
    pub(crate) devices: usize,
    /// Devices that are allocated.
    pub(crate) allocated: GpuSet,
    /// Records of devices that are alike.
    pub(crate) topology: Vec<Topology>,
}

/// Slurm's record of some devices of a GRES.
#[derive(Clone, Debug, Default)]
pub(crate) struct Topology {
    pub(crate) devices: GpuSet,
    /// Number of their type; `None`: they have none.
    pub(crate) type_id: Option<u32>,
    /// Cores that they are near to, numbered within the node; `None`: near every core.
    pub(crate) cores: Option<Vec<usize>>,
    /// Amount of the GRES that jobs have, and that there is; `None`: Slurm does not count it.
    pub(crate) used_of_total: Option<(u64, u64)>,
}

impl Account {
    fn all(&self) -> impl Iterator<Item = GpuIndex> {
        (0..u16::try_from(self.devices).unwrap_or(u16::MAX)).map(GpuIndex)
    }

    fn records(&self, gpu: GpuIndex) -> impl Iterator<Item = &Topology> {
        self.topology.iter().filter(move |record| record.devices.contains(gpu))
    }

    fn used_of_total(&self, gpu: GpuIndex) -> Option<(u64, u64)> {
        self.records(gpu).next()?.used_of_total
    }

    /// Finds the devices of which jobs have some.
    pub(crate) fn in_use(&self) -> GpuSet {
        self.all().filter(|gpu| self.used_of_total(*gpu).is_some_and(|(used, _)| used > 0)).collect()
    }

    /// Tells whether a device is of the type asked for and, where that is enforced, near the job's cores.
    fn suits(&self, gpu: GpuIndex, type_id: u32, cores: Option<&[usize]>) -> bool {
        let of_type = |record: &Topology| record.type_id == Some(type_id);
        let near = |record: &Topology| match (cores, &record.cores) {
            (Some(cores), Some(near)) => cores.iter().any(|core| near.contains(core)),
            _ => true,
        };
        let mut records = self.records(gpu).peekable();
        let any_near = records.peek().is_none() || self.records(gpu).any(near);
        (type_id == 0 || self.records(gpu).any(of_type)) && any_near
    }

    /// Groups devices by the cores that they are near to; no cores for those near every core.
    fn sockets(&self, devices: GpuSet) -> Vec<(&[usize], GpuSet)> {
        let mut groups: Vec<(&[usize], GpuSet)> = Vec::new();
        for gpu in devices.iter() {
            let cores =
                self.records(gpu).next().and_then(|record| record.cores.as_deref()).unwrap_or_default();
            match groups.iter_mut().find(|(known, _)| *known == cores) {
                Some((_, group)) => group.insert(gpu),
                None => groups.push((cores, [gpu].into_iter().collect())),
            }
        }
        groups
    }
}

/// Devices of a node that reservations hold, as far as they concern a job.
#[derive(Clone, Debug)]
pub(crate) struct Reservation {
    /// The job is in the reservation: it may use these devices alone. Else it may use the others alone.
    pub(crate) keeps_to: bool,
    /// Kind, number of the type, and devices of each entry.
    pub(crate) devices: Vec<(GresKind, u32, GpuSet)>,
}

impl Reservation {
    /// Leaves the devices that a job's entry may use. Slurm holds whole GPUs by entries of the same type alone
    /// [gres_sock_list.c, `gres_find_job_by_key_exact_type`], and shards by no reservation of GPUs.
    fn leaves(&self, kind: GresKind, type_id: u32, gpus: GpuSet) -> GpuSet {
        let concerns =
            |held: &&(GresKind, u32, GpuSet)| kind == GresKind::Shard || (held.0, held.1) == (kind, type_id);
        let mut held = self.devices.iter().filter(concerns).map(|held| held.2).peekable();
        if held.peek().is_none() {
            return gpus;
        }
        let held = union(held);
        gpus.iter().filter(|gpu| held.contains(*gpu) == self.keeps_to).collect()
    }
}

/// A job's GRES entry and the account that it is taken from, on one node.
#[derive(Clone, Debug)]
pub(crate) struct ReadEntry {
    pub(crate) kind: GresKind,
    /// Devices that cons_tres chose.
    pub(crate) chosen: GpuSet,
    /// Number of the type asked for; 0: any.
    pub(crate) type_id: u32,
    /// Amount that cons_tres has selected, if it says so.
    pub(crate) selected: Option<u64>,
    pub(crate) per_node: u64,
    pub(crate) is_per_socket: bool,
    /// Account of the entry's kind.
    pub(crate) account: Account,
    /// Account of the GRES that shares the same devices: shards for GPUs, and the other way round.
    pub(crate) sharing: Option<Account>,
    pub(crate) reserved: Option<Reservation>,
}

impl ReadEntry {
    fn amount(&self) -> u64 {
        amount(self.selected, self.per_node)
    }

    /// Finds the devices that Slurm could give: unallocated GPUs, or devices with enough shards left that are not allocated whole.
    fn free(&self, cores: Option<&[usize]>) -> GpuSet {
        let Self { account, sharing, .. } = self;
        let is_free = |gpu: &GpuIndex| match self.kind {
            GresKind::Gpu => {
                let used = sharing.as_ref().and_then(|shards| shards.used_of_total(*gpu));
                !account.allocated.contains(*gpu) && used.is_none_or(|(used, _)| used == 0)
            }
            GresKind::Shard => {
                let has_room = |(used, total): (u64, u64)| used.saturating_add(self.amount()) <= total;
                account.used_of_total(*gpu).is_some_and(has_room)
                    && !sharing.as_ref().is_some_and(|whole| whole.allocated.contains(*gpu))
            }
        };
        account.all().filter(is_free).filter(|gpu| account.suits(*gpu, self.type_id, cores)).collect()
    }

    /// Leaves the devices that no reservation keeps from the job.
    fn unreserved(&self, gpus: GpuSet) -> GpuSet {
        self.reserved.as_ref().map_or(gpus, |reserved| reserved.leaves(self.kind, self.type_id, gpus))
    }
}

/// Puts together Slurm's choice on one node over all entries of the job, and what else it had. `cores` are those that cons_tres chose
/// there; `binds`: the job takes no device far from them; `keeps_cores`: cores of the node go with one GPU.
pub(crate) fn choice(
    name: String,
    read: &[ReadEntry],
    cores: &[usize],
    binds: bool,
    keeps_cores: bool,
) -> ChosenView {
    let bound = Some(cores).filter(|_| binds);
    let mut near = GpuSet::EMPTY;
    let mut entries = Vec::new();
    for entry in read {
        let chosen = entry.chosen;
        // Cores that Slurm keeps for one GPU go with that GPU: then only its own choice has its cores.
        let available = if keeps_cores { chosen } else { union([entry.free(bound), chosen].into_iter()) };
        let available = entry.unreserved(available);
        let sockets = entry.account.sockets(available);
        let is_near = |at: &[usize]| at.is_empty() || at.iter().any(|core| cores.contains(core));
        let local = sockets.iter().filter(|(at, _)| is_near(at)).map(|(_, gpus)| *gpus);
        near = union(local.chain([near]));
        let sockets = if entry.is_per_socket {
            sockets.into_iter().map(|(_, gpus)| gpus).collect()
        } else {
            Vec::new()
        };
        entries.push(EntryChoice { chosen, available, sockets, amount: entry.amount() });
    }
    ChosenView { name, entries, near }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(bits: u64) -> GpuSet {
        GpuSet::from_bits(bits)
    }

    /// Four devices, two near the cores 0-1 and two near 2-3, of the types 7 and 8.
    fn account(used: u64) -> Account {
        let record = |devices, type_id, cores: [usize; 2]| Topology {
            devices: set(devices),
            type_id: Some(type_id),
            cores: Some(cores.to_vec()),
            used_of_total: Some((used, 10)),
        };
        Account {
            devices: 4,
            allocated: GpuSet::EMPTY,
            topology: vec![record(3, 7, [0, 1]), record(12, 8, [2, 3])],
        }
    }

    fn entry(kind: GresKind, account: Account, sharing: Option<Account>) -> ReadEntry {
        let (selected, per_node) = (None, 4);
        ReadEntry {
            kind,
            chosen: set(1),
            type_id: 0,
            selected,
            per_node,
            is_per_socket: false,
            account,
            sharing,
            reserved: None,
        }
    }

    #[test]
    fn a_gpu_is_free_if_neither_it_nor_a_shard_of_it_is_taken() {
        let mut gpus = entry(GresKind::Gpu, account(0), None);
        assert_eq!(gpus.free(None), set(0b1111));
        gpus.account.allocated = set(0b0010);
        assert_eq!(gpus.free(None), set(0b1101));
        gpus.sharing = Some(account(1));
        assert_eq!(gpus.free(None), GpuSet::EMPTY);
        assert_eq!(gpus.sharing.unwrap().in_use(), set(0b1111));
    }

    #[test]
    fn shards_are_free_on_devices_that_are_not_whole_and_have_so_many_left() {
        let whole = Account { allocated: set(0b1000), ..account(0) };
        let mut shards = entry(GresKind::Shard, account(6), Some(whole));
        assert_eq!(shards.free(None), set(0b0111));
        shards.per_node = 5;
        assert_eq!(shards.free(None), GpuSet::EMPTY);
        // What cons_tres has selected there counts before what the job asks per node.
        shards.selected = Some(3);
        assert_eq!(shards.free(None), set(0b0111));
        shards.account.topology.iter_mut().for_each(|record| record.used_of_total = None);
        assert_eq!(shards.free(None), GpuSet::EMPTY, "nobody counts them");
    }

    #[test]
    fn the_type_and_where_enforced_the_cores_must_fit() {
        let mut gpus = entry(GresKind::Gpu, account(0), None);
        gpus.type_id = 8;
        assert_eq!(gpus.free(None), set(0b1100));
        gpus.type_id = 0;
        assert_eq!(gpus.free(Some(&[1])), set(0b0011));
        assert_eq!(gpus.free(Some(&[])), GpuSet::EMPTY);
        gpus.account.topology[1].cores = None;
        assert_eq!(gpus.free(Some(&[1])), set(0b1111), "near every core");
        gpus.account.topology.clear();
        assert_eq!(gpus.free(Some(&[1])), set(0b1111), "nothing is known of them");
        gpus.type_id = 8;
        assert_eq!(gpus.free(None), GpuSet::EMPTY, "nor whether they are of that type");
    }

    #[test]
    fn sockets_and_near_devices_follow_the_cores() {
        let mut gpus = entry(GresKind::Gpu, account(0), None);
        gpus.is_per_socket = true;
        let view = choice("n1".to_owned(), &[gpus.clone()], &[3], false, false);
        assert_eq!(view.entries[0].sockets, [set(0b0011), set(0b1100)]);
        assert_eq!((view.near, view.entries[0].available), (set(0b1100), set(0b1111)));
        gpus.is_per_socket = false;
        let kept = choice("n1".to_owned(), &[gpus], &[3], false, true);
        assert_eq!((kept.entries[0].available, kept.near), (set(1), GpuSet::EMPTY));
        assert!(kept.entries[0].sockets.is_empty());
    }

    #[test]
    fn reservations_of_gpus_keep_parts_of_them_too() {
        let held = |keeps_to, devices| Some(Reservation { keeps_to, devices });
        let available = |kind, type_id, reserved: Option<Reservation>| {
            let entry = ReadEntry { type_id, chosen: set(1), reserved, ..entry(kind, account(0), None) };
            choice("n1".to_owned(), &[entry], &[], false, false).entries[0].available
        };
        for kind in [GresKind::Gpu, GresKind::Shard] {
            assert_eq!(available(kind, 0, None), set(0b1111));
            let of = |type_id, devices| vec![(GresKind::Gpu, type_id, set(devices))];
            assert_eq!(available(kind, 0, held(false, of(0, 0b0110))), set(0b1001), "{kind:?}");
            assert_eq!(available(kind, 0, held(true, of(0, 0b0011))), set(0b0011), "{kind:?}");
            assert_eq!(available(kind, 0, held(true, Vec::new())), set(0b1111), "no GPUs are reserved");
            assert_eq!(available(kind, 0, held(true, of(0, 0))), GpuSet::EMPTY, "none on this node");
        }
        // Slurm compares types of whole GPUs; a part has none.
        let typed = || held(false, vec![(GresKind::Gpu, 7, set(0b0011))]);
        assert_eq!(available(GresKind::Gpu, 0, typed()), set(0b1111));
        assert_eq!(available(GresKind::Gpu, 7, typed()), GpuSet::EMPTY);
        assert_eq!(available(GresKind::Shard, 0, typed()), set(0b1100));
        // Shards that are reserved hold their devices.
        let shards = held(false, vec![(GresKind::Shard, 0, set(0b1000))]);
        assert_eq!(available(GresKind::Shard, 0, shards), set(0b0111));
    }

    #[test]
    fn amounts_that_a_user_fills_do_not_overflow() {
        let mut shards = entry(GresKind::Shard, account(6), None);
        shards.per_node = u64::MAX;
        assert_eq!(shards.free(None), GpuSet::EMPTY);
    }
}
