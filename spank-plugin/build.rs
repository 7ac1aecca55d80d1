//! Bindings to `slurm/spank.h` of the Slurm that the plugin will be loaded into.
//!
//! Slurm loads a SPANK plugin only if `SLURM_VERSION_NUMBER` agrees in major and minor with its own, so that number
//! comes from the headers and not from us.

use slurm_bindings_build::{Builder, Failure, public};

const FUNCTIONS: [&str; 9] = [
    "spank_context",
    "spank_option_register",
    "spank_get_item",
    "spank_getenv",
    "spank_setenv",
    "spank_unsetenv",
    "spank_job_control_setenv",
    "spank_job_control_getenv",
    "spank_job_control_unsetenv",
];

fn main() -> Result<(), Failure> {
    let mut builder = Builder::default()
        .header_contents("tessera_spank.h", "#include <slurm/spank.h>\n")
        .allowlist_type("spank_option|spank_item|spank_context")
        .allowlist_var("SLURM_VERSION_NUMBER|ESPANK_.*|SLURM_SUCCESS|SLURM_ERROR");
    for function in FUNCTIONS {
        builder = builder.allowlist_function(function);
    }
    public(builder)
}
