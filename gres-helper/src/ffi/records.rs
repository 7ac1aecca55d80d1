//! Slurm's records, as far as they are read or written here. Where their fields lie: [`slurm_tables`].

use std::ffi::{c_char, c_void};

use slurm_tables::table::BadTable;
use slurm_tables::{Behind, Layout, List, Text, record};
use slurmctld_rt::learn_qos;

record! {
    /// A job that is submitted or changed [slurm/slurm.h].
    pub(super) struct Desc, DescLayout = "job_desc_msg" {
        account: *mut c_char;
        admin_comment: *mut c_char, at admin_comment_at;
        array_inx: *mut c_char;
        bitflags: u64, at bitflags_at;
        env_size: u32;
        extra: *mut c_char;
        het_job_offset: u32;
        licenses: *mut c_char;
        max_nodes: u32;
        min_nodes: u32;
        name: *mut c_char;
        ntasks_per_node: u16;
        ntasks_per_socket: u16;
        ntasks_per_tres: u16;
        num_tasks: u32;
        partition: *mut c_char;
        qos: *mut c_char;
        req_nodes: *mut c_char;
        shared: u16;
        spank_job_env: *mut *mut c_char, at spank_job_env_at;
        spank_job_env_size: u32, at spank_job_env_size_at;
        time_limit: u32;
        tres_bind: *mut c_char;
        tres_per_job: *mut c_char;
        tres_per_node: *mut c_char, at tres_per_node_at;
        tres_per_socket: *mut c_char;
        tres_per_task: *mut c_char;
        user_id: u32;
        x11_target: *mut c_char;
    }
}

record! {
    /// A job [src/slurmctld/slurmctld.h].
    pub(super) struct Job, JobLayout = "job_record", magic "JOB_MAGIC" {
        account: Text;
        admin_comment: Text, at admin_comment_at;
        bit_flags: u64;
        details: Behind<Details>;
        gres_list_alloc: *mut List;
        job_id: u32;
        job_state: u32;
        licenses: Text;
        partition: Text;
        qos_ptr: *mut c_void;
        spank_job_env: *mut *mut c_char, at spank_job_env_at;
        spank_job_env_size: u32, at spank_job_env_size_at;
        time_limit: u32;
        tres_per_job: Text;
        tres_per_node: Text;
        tres_per_socket: Text;
        tres_per_task: Text;
        user_id: u32;
    } optional {
        licenses_allocated: Text;
    }
}

record! {
    /// A job's wishes [src/slurmctld/slurmctld.h].
    pub(super) struct Details, DetailsLayout = "job_details", magic "DETAILS_MAGIC" {
        min_nodes: u32;
        ntasks_per_tres: u16;
        num_tasks: u32;
        req_nodes: Text;
        whole_node: u8;
    }
}

record! {
    /// A node [src/common/node_conf.h].
    pub(super) struct Node, NodeLayout = "node_record", magic "NODE_MAGIC" {
        config_ptr: Behind<NodeLine>;
        name: Text;
    }
}

record! {
    /// A line of slurm.conf with nodes [src/common/node_conf.h].
    pub(super) struct NodeLine, NodeLineLayout = "config_record", magic "CONFIG_MAGIC" {
        gres: Text;
    }
}

record! {
    /// A partition [src/slurmctld/slurmctld.h].
    pub(super) struct Partition, PartitionLayout = "part_record", magic "PART_MAGIC" {
        default_time: u32;
        max_share: u16;
        max_time: u32;
        name: Text;
        nodes: Text;
    } optional {
        qos_ptr: *mut c_void;
    }
}

record! {
    /// slurm.conf as slurmctld has read it [src/common/read_config.h].
    pub(super) struct Conf, ConfLayout = "slurm_conf" {
        last_update: i64;
        licenses: Text;
        plugindir: Text;
        slurm_conf: Text;
        state_save_location: Text;
    }
}

record! {
    /// The locks of the accounting's copy [src/common/assoc_mgr.h].
    pub(super) struct AccountLocks, AccountLocksLayout = "assoc_mgr_lock" {
        user: u32, at user_at;
    }
}

record! {
    /// A user in the accounting [slurm/slurmdb.h].
    pub(super) struct User, UserLayout = "slurmdb_user_rec" {
        default_acct: Text;
        uid: u32, at uid_at;
    } optional {
        name: Text;
    }
}

record! {
    /// Locks that limits are read under [src/common/assoc_mgr.h].
    pub(super) struct AllLocks, AllLocksLayout = "assoc_mgr_lock" {
        assoc: u32, at assoc_at;
        qos: u32, at qos_at;
        tres: u32, at tres_at;
        user: u32, at user_at;
    }
}

record! {
    /// An association with its limits [slurm/slurmdb.h].
    pub(super) struct Association, AssociationLayout = "slurmdb_assoc_rec" {
        acct: Text, at acct_at;
        grp_jobs: u32;
        grp_tres_ctld: *mut u64;
        grp_tres_mins_ctld: *mut u64;
        grp_tres_run_mins_ctld: *mut u64;
        max_jobs: u32;
        max_tres_ctld: *mut u64;
        max_tres_mins_ctld: *mut u64;
        max_tres_pn_ctld: *mut u64;
        max_wall_pj: u32;
        partition: Text, at partition_at;
        uid: u32, at uid_at;
        usage: Behind<AssociationUsage>;
        user: Text;
    }
}

record! {
    /// Usage of an association, which has its place in the tree of accounts [slurm/slurmdb.h].
    pub(super) struct AssociationUsage, AssociationUsageLayout = "slurmdb_assoc_usage" {
        parent_assoc_ptr: Behind<Association>;
    }
}

record! {
    /// A QOS with its limits [slurm/slurmdb.h].
    pub(super) struct Qos, QosLayout = "slurmdb_qos_rec" {
        flags: u32;
        grp_jobs: u32;
        grp_tres_ctld: *mut u64;
        grp_tres_mins_ctld: *mut u64;
        grp_tres_run_mins_ctld: *mut u64;
        limit_factor: u64;
        max_jobs_pa: u32;
        max_jobs_pu: u32;
        max_tres_mins_pj_ctld: *mut u64;
        max_tres_pa_ctld: *mut u64;
        max_tres_pj_ctld: *mut u64;
        max_tres_pn_ctld: *mut u64;
        max_tres_pu_ctld: *mut u64;
        max_wall_pj: u32;
        min_tres_pj_ctld: *mut u64;
        name: Text, at name_at;
    }
}

/// Learns where the limits of the accounting lie. A table that a site has made before Tessera read them lacks them: then no limit is
/// told.
///
/// # Errors
///
/// The first record that the table has not.
pub(super) fn learn_limits(layout: &Layout) -> Result<(), BadTable> {
    AllLocks::learn(layout)?;
    Association::learn(layout)?;
    AssociationUsage::learn(layout)?;
    Qos::learn(layout)
}

/// Learns where the fields of all records lie.
///
/// # Errors
///
/// The first that the table has not, or not as it is read here.
pub(super) fn learn(layout: &Layout) -> Result<(), BadTable> {
    Desc::learn(layout)?;
    Job::learn(layout)?;
    Details::learn(layout)?;
    Node::learn(layout)?;
    NodeLine::learn(layout)?;
    Partition::learn(layout)?;
    AccountLocks::learn(layout)?;
    User::learn(layout)?;
    learn_qos(layout)?;
    Conf::learn(layout)
}

#[cfg(test)]
mod tests {
    use slurm_tables::{TABLES, Tables};

    #[test]
    fn every_release_has_the_fields_that_are_read() {
        let table = Tables::parse(TABLES).unwrap();
        for release in &table.releases {
            let layout = table.layout(*release).unwrap();
            super::learn(&layout).unwrap();
            super::learn_limits(&layout).unwrap();
            assert!(layout.field("part_record.qos_ptr").unwrap().is_some(), "{release}");
            assert_eq!(layout.asked("job_"), ["job_modify", "job_submit"], "{release}");
        }
    }
}
