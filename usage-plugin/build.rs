//! Bindings to exactly the Slurm this plugin will be loaded into.

fn main() -> Result<(), slurm_bindings_build::Failure> {
    slurm_bindings_build::asked_symbols(
        &["src/interfaces/acct_gather_interconnect.c", "src/common/slurm_acct_gather_interconnect.c"],
        "acct_gather_interconnect_p_node_update",
    )?;
    slurm_bindings_build::internal(
        &["acct_gather_data_t", "slurmdb_tres_rec_t"],
        &["SLURM_VERSION_NUMBER", "TESSERA_.*"],
    )
}
