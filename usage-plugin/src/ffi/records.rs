//! Slurm's records, as far as they are read or written here. Where their fields lie: [`slurm_tables`].

use std::ffi::c_char;

use slurm_tables::table::BadTable;
use slurm_tables::{Layout, Text, record};

record! {
    /// Samples of one TRES [acct_gather.h].
    pub(super) struct Data, DataLayout = "acct_gather_data" {
        size_read: u64, at size_read_at;
        size_write: u64, at size_write_at;
    }
}

record! {
    /// A TRES [slurm/slurmdb.h].
    pub(super) struct Tres, TresLayout = "slurmdb_tres_rec" {
        name: *mut c_char, at name_at;
        kind = "type": *mut c_char, at kind_at;
    }
}

record! {
    /// slurmd's configuration [src/slurmd/slurmd/slurmd.h].
    pub(super) struct SlurmdConf, SlurmdConfLayout = "slurmd_conf" {
        node_name: Text;
    }
}

/// Learns where the fields of all records lie.
///
/// # Errors
///
/// The first that the table has not, or not as it is read here.
pub(super) fn learn(layout: &Layout) -> Result<(), BadTable> {
    Data::learn(layout)?;
    Tres::learn(layout)?;
    SlurmdConf::learn(layout)
}
