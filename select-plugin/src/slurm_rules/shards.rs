//! Numbers of shards in Slurm's accounts: what a job asks, and what of it comes from which device.

use topology::GpuSet;

/// Gives the amount of an entry that cons_tres means to take on a node: what it has `selected`, or what the job asks per node.
pub(crate) fn amount(selected: Option<u64>, per_node: u64) -> u64 {
    selected.filter(|n| *n > 0).unwrap_or(per_node)
}

/// Slurm's request for a job's shards, and the text that shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShardRequest {
    pub(crate) per_node: u64,
    /// Shards on all nodes; 0 while nobody has counted them.
    pub(crate) of_job: u64,
    /// `tres_per_node` of the job.
    pub(crate) shown: Option<String>,
}

impl ShardRequest {
    /// Changes the request to `count` shards per node; `None`: it stays, because it asks for none per node or for as many.
    pub(crate) fn resized(&self, count: u64) -> Option<Self> {
        let before = self.per_node;
        if before == 0 || before == count {
            return None;
        }
        let (from, to) = (format!("shard:{before}"), format!("shard:{count}"));
        let shown = self.shown.as_ref().map(|shown| shown.replace(&from, &to));
        Some(Self { per_node: count, of_job: (self.of_job / before).saturating_mul(count), shown })
    }
}

/// Divides devices among a job's GRES entries: each has those that it may have. `None`: Slurm's choice stays, because it has another
/// number of entries, or several for shards.
pub(crate) fn devices_of_entries(
    devices: &[(usize, u64)],
    entries: &[GpuSet],
    slurms_entries: usize,
    are_shards: bool,
) -> Option<Vec<Vec<(usize, u64)>>> {
    if slurms_entries != entries.len() || (slurms_entries > 1 && are_shards) {
        return None;
    }
    let of = |own: &GpuSet| {
        let may_have = |(device, _): &(usize, u64)| own.iter().any(|gpu| usize::from(gpu.0) == *device);
        devices.iter().copied().filter(may_have).collect()
    };
    Some(entries.iter().map(of).collect())
}

/// Splits a job's shards on a node over its devices in proportion to their parts; the first gets what is left over.
fn split(total: u64, devices: &[(usize, u64)]) -> Vec<(usize, u64)> {
    let parts: u64 = devices.iter().map(|(_, n)| n).sum::<u64>().max(1);
    let share =
        |n: u64| u64::try_from(u128::from(total) * u128::from(n) / u128::from(parts)).unwrap_or(total);
    let mut out: Vec<(usize, u64)> = devices.iter().map(|(i, n)| (*i, share(*n))).collect();
    let given: u64 = out.iter().map(|(_, n)| n).sum();
    if let Some(first) = out.first_mut() {
        first.1 += total - given;
    }
    out
}

/// Gives the amount of a job's `total` that comes from each of a node's `n_devices`, by the parts of the job on some of them.
pub(crate) fn amounts_by_device(total: u64, parts: &[(usize, u64)], n_devices: usize) -> Vec<u64> {
    let mut all = vec![0; n_devices];
    for (device, amount) in split(total, parts) {
        if let Some(slot) = all.get_mut(device) {
            *slot = amount;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_split_without_loss() {
        assert_eq!(split(40, &[(3, 1)]), [(3, 40)]);
        assert_eq!(split(25, &[(1, 2), (4, 1)]), [(1, 17), (4, 8)]);
        assert_eq!(split(0, &[]), []);
        assert_eq!(split(u64::MAX, &[(0, 1), (1, 1)]).iter().map(|(_, n)| n).sum::<u64>(), u64::MAX);
        assert_eq!(amounts_by_device(25, &[(1, 2), (4, 1)], 5), [0, 17, 0, 0, 8]);
        assert_eq!(amounts_by_device(25, &[(1, 2), (4, 1)], 2), [0, 17], "a device that Slurm does not know");
    }

    #[test]
    fn a_request_changes_its_number_and_its_text() {
        let asks = |per_node, of_job, shown: Option<&str>| ShardRequest {
            per_node,
            of_job,
            shown: shown.map(str::to_owned),
        };
        let two_nodes = asks(10, 20, Some("gres:shard:10"));
        assert_eq!(two_nodes.resized(5), Some(asks(5, 10, Some("gres:shard:5"))));
        assert_eq!(two_nodes.resized(10), None);
        assert_eq!(asks(0, 8, None).resized(5), None, "not counted per node");
        assert_eq!(asks(10, 0, None).resized(5), Some(asks(5, 0, None)));
    }

    #[test]
    fn each_entry_gets_the_devices_that_it_may_have() {
        let (devices, sets) = ([(0, 1), (3, 1)], [GpuSet::from_bits(0b0011), GpuSet::from_bits(0b1100)]);
        let of = |entries: &[GpuSet], slurms, shards| devices_of_entries(&devices, entries, slurms, shards);
        assert_eq!(of(&sets, 2, false), Some(vec![vec![(0, 1)], vec![(3, 1)]]));
        assert_eq!(of(&sets, 1, false), None, "Slurm has another number of entries");
        assert_eq!(of(&sets, 2, true), None, "shards of several entries keep theirs");
        assert_eq!(of(&sets[..1], 1, true), Some(vec![vec![(0, 1)]]));
    }

    #[test]
    fn what_is_selected_counts_before_what_is_asked() {
        assert_eq!([amount(Some(3), 4), amount(Some(0), 4), amount(None, 4)], [3, 4, 4]);
    }
}
