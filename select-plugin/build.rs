//! Bindings to exactly the Slurm this plugin will be loaded into.

fn main() -> Result<(), slurm_bindings_build::Failure> {
    slurm_bindings_build::asked_symbols(&["src/interfaces/select.c", "src/common/select.c"], "plugin_id")?;
    slurm_bindings_build::internal(
        &[
            "job_record_t",
            "job_details",
            "job_resources_t",
            "node_record_t",
            "gres_state_t",
            "gres_job_state_t",
            "gres_node_state_t",
            "gres_step_state_t",
            "step_record_t",
            "part_record_t",
            "resv_exc_t",
            "slurm_conf_t",
            "bitstr_t",
            "select_plugin_type",
            "job_states",
        ],
        &[
            "SLURM_VERSION_NUMBER",
            "SLURM_SUCCESS",
            "SLURM_ERROR",
            "JOB_MAGIC",
            "NODE_MAGIC",
            "DETAILS_MAGIC",
            "PART_MAGIC",
            "SELECT_MODE_.*",
            "JOB_STATE_BASE",
            "WHOLE_NODE_REQUIRED",
            "NO_VAL",
            "INFINITE",
            "PREEMPT_MODE_(REQUEUE|CANCEL)",
            "TESSERA_.*",
        ],
    )
}
