//! Bindings to exactly the Slurm this plugin will be loaded into.

fn main() -> Result<(), slurm_bindings_build::Failure> {
    slurm_bindings_build::asked_symbols(
        &["src/interfaces/acct_gather_energy.c", "src/common/slurm_acct_gather_energy.c"],
        "acct_gather_energy_p_update_node_energy",
    )?;
    slurm_bindings_build::internal(
        &["acct_energy_type", "acct_gather_energy_t", "stepd_step_rec_t"],
        &["SLURM_VERSION_NUMBER", "ENERGY_DATA_.*", "TESSERA_.*"],
    )
}
