//! Bindings to exactly the Slurm this plugin will be loaded into.

fn main() -> Result<(), slurm_bindings_build::Failure> {
    slurm_bindings_build::internal(
        &["job_desc_msg_t", "job_record_t", "part_record_t", "slurm_conf_t", "job_states"],
        &[
            "SLURM_VERSION_NUMBER",
            "JOB_MAGIC",
            "JOB_PENDING",
            "JOB_STATE_BASE",
            "PART_MAGIC",
            "JOB_SHARED_NONE",
            "TESSERA_.*",
        ],
    )
}
