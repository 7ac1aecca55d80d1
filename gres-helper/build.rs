//! Bindings to exactly the Slurm this plugin will be loaded into.

fn main() -> Result<(), slurm_bindings_build::Failure> {
    slurm_bindings_build::internal(
        &[
            "assoc_mgr_lock_t",
            "job_desc_msg_t",
            "job_record_t",
            "job_states",
            "node_record_t",
            "part_record_t",
            "slurm_conf_t",
            "slurmdb_user_rec_t",
        ],
        &[
            "SLURM_VERSION_NUMBER",
            "JOB_MAGIC",
            "JOB_PENDING",
            "JOB_STATE_BASE",
            "NODE_MAGIC",
            "PART_MAGIC",
            "INFINITE",
            "JOB_SHARED_NONE",
            "NO_VAL",
            "NO_VAL16",
            "WHOLE_NODE_REQUIRED",
            "TESSERA_.*",
        ],
    )
}
