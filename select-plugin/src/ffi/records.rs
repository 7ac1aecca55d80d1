//! Slurm's records, as far as they are read or written here. Where their fields lie: [`slurm_tables`].

use std::ffi::{c_char, c_void};

use slurm_tables::table::BadTable;
use slurm_tables::{Behind, Bitmap, Layout, List, ListOf, Text, Wide, record};
use slurmctld_rt::{BitString, item, learn_qos};

type Bits = *mut BitString;

record! {
    /// A job [src/slurmctld/slurmctld.h].
    pub(crate) struct Job, JobLayout = "job_record", magic "JOB_MAGIC" {
        job_id: u32;
        user_id: u32;
        account: Text;
        admin_comment: Text, at admin_comment_at;
        bit_flags: u64;
        deadline: i64;
        details: Behind<Details>;
        end_time: i64;
        gres_list_alloc: ListOf<Gres>;
        gres_list_req: ListOf<Gres>;
        job_resrcs: Behind<Resources>, at job_resrcs_at;
        job_state: u32;
        license_list: *mut List, at license_list_at;
        licenses: Text, at licenses_at;
        part_ptr: Behind<Partition>;
        part_ptr_list: ListOf<Partition>;
        qos_ptr: *mut c_void;
        spank_job_env: *mut *mut c_char, at spank_job_env_at;
        spank_job_env_size: u32, at spank_job_env_size_at;
        start_time: i64, at start_time_at;
        time_limit: u32;
        time_min: u32;
        tres_per_node: Text, at tres_per_node_at;
        tres_req_cnt: *mut u64;
    } optional {
        licenses_allocated: Text;
    }
}

record! {
    /// A kind of resources in slurmctld's copy of the accounting [slurm/slurmdb.h].
    pub(crate) struct Tres, TresLayout = "slurmdb_tres_rec" {
        kind = "type": *mut c_char, at kind_at;
        name: *mut c_char, at name_at;
    }
}

record! {
    /// A job's wishes [src/slurmctld/slurmctld.h].
    pub(crate) struct Details, DetailsLayout = "job_details", magic "DETAILS_MAGIC" {
        max_nodes: u32;
        min_cpus: u32;
        min_nodes: u32;
        num_tasks: u32;
        req_node_bitmap: Bitmap;
        whole_node: u8;
    }
}

record! {
    /// A job's cores and memory [src/common/job_resources.h].
    pub(crate) struct Resources, ResourcesLayout = "job_resources" {
        core_bitmap: Bitmap;
        memory_allocated: *mut u64;
        node_bitmap: Bitmap;
    }
}

record! {
    /// A node [src/common/node_conf.h].
    pub(crate) struct Node, NodeLayout = "node_record", magic "NODE_MAGIC" {
        boot_time: i64;
        config_ptr: *mut c_void;
        cpus: u16;
        extra: *mut c_char, at extra_at;
        gres_list: ListOf<Gres>;
        mem_spec_limit: u64;
        name: *mut c_char;
        real_memory: u64;
        sched_weight: u64, at sched_weight_at;
        slurmd_start_time: i64;
        tot_cores: u16;
    } optional {
        res_cores_per_gpu: u16;
    }
}

record! {
    /// A partition [src/slurmctld/slurmctld.h].
    pub(crate) struct Partition, PartitionLayout = "part_record", magic "PART_MAGIC" {
        default_time: u32;
        flags: Wide;
        max_time: u32;
        name: Text;
        node_bitmap: Bitmap;
    }
}

record! {
    /// An entry of a list of GRES [gres.h].
    pub(crate) struct Gres, GresLayout = "gres_state" {
        gres_data: *mut c_void;
        gres_name: Text;
    }
}

record! {
    /// A GRES of a job [gres.h]. Its arrays ending in `select` are over the node table, those in `alloc` over the job's nodes.
    pub(crate) struct JobGres, JobGresLayout = "gres_job_state" {
        gres_bit_alloc: *mut Bits;
        gres_bit_select: *mut Bits;
        gres_cnt_node_alloc: *mut u64;
        gres_cnt_node_select: *mut u64;
        gres_per_job: u64;
        gres_per_node: u64, at gres_per_node_at;
        gres_per_socket: u64;
        gres_per_task: u64;
        node_cnt: u32;
        total_gres: u64, at total_gres_at;
        type_id: u32;
    } optional {
        gres_per_bit_select: *mut *mut u64;
    }
}

record! {
    /// A GRES of a node [gres.h].
    pub(crate) struct NodeGres, NodeGresLayout = "gres_node_state" {
        gres_bit_alloc: Bitmap;
        gres_cnt_config: u64;
        no_consume: u8;
        topo_cnt: u16;
        topo_core_bitmap: *mut Bits;
        topo_gres_bitmap: *mut Bits;
        topo_gres_cnt_alloc: *mut u64;
        topo_gres_cnt_avail: *mut u64;
        topo_type_id: *mut u32;
    } optional {
        alt_gres: Behind<Gres>;
        alt_gres_ns: Behind<NodeGres>;
    }
}

record! {
    /// A GRES of a step [gres.h].
    pub(crate) struct StepGres, StepGresLayout = "gres_step_state" {
        gres_bit_alloc: *mut Bits;
        node_cnt: u32;
        type_id: u32;
    }
}

record! {
    /// A step [src/slurmctld/slurmctld.h].
    pub(crate) struct Step, StepLayout = "step_record" {
        gres_list_alloc: ListOf<Gres>;
        job_ptr: Behind<Job>;
    }
}

record! {
    /// Nodes and devices that reservations keep from a job [src/slurmctld/slurmctld.h].
    pub(crate) struct Reserved, ReservedLayout = "resv_exc" {
    } optional {
        gres_list_exc: ListOf<Gres>;
        gres_list_inc: ListOf<Gres>, at gres_list_inc_at;
    }
}

record! {
    /// Times between which backfill asks for a start [src/interfaces/select.h].
    pub(crate) struct Window, WindowLayout = "will_run_data" {
    } optional {
        start: i64;
    }
}

record! {
    /// slurm.conf as slurmctld has read it [src/common/read_config.h].
    pub(crate) struct Conf, ConfLayout = "slurm_conf" {
        licenses: Text;
        plugindir: Text;
        select_type_param: u16;
        slurm_conf: Text;
        state_save_location: Text;
    }
}

impl Resources {
    /// Memory in MiB on the job's node of this place among its nodes.
    pub(crate) fn memory_at(self, place: usize) -> u64 {
        // SAFETY: src/common/job_resources.h: an element for each of the job's nodes, or null.
        unsafe { item(self.memory_allocated(), place) }.unwrap_or(0)
    }
}

/// Learns where the fields of all records lie.
///
/// # Errors
///
/// The first that the table has not, or not as it is read here.
pub(crate) fn learn(layout: &Layout) -> Result<(), BadTable> {
    Job::learn(layout)?;
    Tres::learn(layout)?;
    Details::learn(layout)?;
    Resources::learn(layout)?;
    Node::learn(layout)?;
    Partition::learn(layout)?;
    Gres::learn(layout)?;
    JobGres::learn(layout)?;
    NodeGres::learn(layout)?;
    StepGres::learn(layout)?;
    Step::learn(layout)?;
    Reserved::learn(layout)?;
    Window::learn(layout)?;
    learn_qos(layout)?;
    Conf::learn(layout)
}

#[cfg(test)]
pub(crate) mod tests {
    use slurm_tables::{TABLES, Tables, Version};

    use super::*;

    pub(crate) const JOB_MAGIC: u32 = 0xf0b7_392c;
    pub(crate) const NODE_MAGIC: u32 = 0x0de5_75ed;
    pub(crate) const PART_MAGIC: u32 = 0xaefe_8495;

    /// A record of Slurm 22.05.8, zeroed as C would make it.
    pub(crate) struct Zeroed {
        words: Vec<u64>,
        structure: &'static str,
        layout: Layout,
    }

    impl Zeroed {
        pub(crate) fn of(structure: &'static str) -> Self {
            let layout = Tables::parse(TABLES).unwrap().layout(Version::new(22, 5, 8)).unwrap();
            learn(&layout).unwrap();
            let words = vec![0; layout.size(structure).unwrap() / 8];
            Self { words, structure, layout }
        }

        pub(crate) fn address(&self) -> usize {
            self.words.as_ptr().addr()
        }

        /// Fills a field.
        pub(crate) fn put(&mut self, field: &str, bytes: &[u8]) {
            let (position, size) =
                self.layout.field(&format!("{}.{field}", self.structure)).unwrap().unwrap();
            assert_eq!(size, bytes.len());
            let shift = position % 8 * 8;
            let value = bytes.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
            let mask = if size == 8 { u64::MAX } else { ((1 << (size * 8)) - 1) << shift };
            let word = &mut self.words[position / 8];
            *word = *word & !mask | value << shift;
        }

        pub(crate) fn job(&self) -> Job {
            // SAFETY: a record of that layout, which lives as long as this.
            unsafe { Job::at(self.words.as_ptr()) }.unwrap()
        }
    }
}
