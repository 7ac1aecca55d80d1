//! The meaning of Slurm's numbers: rules of slurmctld and cons_tres, restated on plain values. `ffi` reads these values, asks,
//! and writes the answer.

mod asked;
mod devices;
mod licenses;
mod preemption;
mod shards;
mod steps;
mod times;

pub(crate) use asked::{
    AskedNumbers, CountedEntry, count_gpus, cpus, cpus_per_node, gets_one_node, kind_of, requests,
    says_unfit, within_reach,
};
pub(crate) use devices::{Account, ReadEntry, Reservation, Topology, choice};
pub(crate) use licenses::LicenseChange;
pub(crate) use preemption::{PreemptMode, jobs_to_list};
pub(crate) use shards::{ShardRequest, amount, amounts_by_device, devices_of_entries};
pub(crate) use steps::{Given, missing_gpus};
pub(crate) use times::starts_by;
