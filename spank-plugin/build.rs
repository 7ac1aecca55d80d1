//! Bindings to `slurm/spank.h` of exactly the Slurm that the plugin will be loaded into.
//!
//! Slurm loads a SPANK plugin only if `SLURM_VERSION_NUMBER` agrees in major and minor with its own, so that number
//! comes from the headers and not from us. They are looked for in `TESSERA_SLURM_SRC` (a configured source tree or
//! any directory with `slurm/spank.h` in it), then in the tree that `cargo xtask setup` fetches, then in `/usr/include`.

use std::env;
use std::error::Error;
use std::path::PathBuf;

const FUNCTIONS: [&str; 8] = [
    "spank_context",
    "spank_option_register",
    "spank_get_item",
    "spank_getenv",
    "spank_setenv",
    "spank_job_control_setenv",
    "spank_job_control_getenv",
    "spank_job_control_unsetenv",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-env-changed=TESSERA_SLURM_SRC");
    let include = headers()?;
    println!("cargo::rerun-if-changed={}", include.join("slurm/spank.h").display());
    println!("cargo::rerun-if-changed={}", include.join("slurm/slurm_version.h").display());
    let mut builder = bindgen::Builder::default()
        .header_contents("tessera_spank.h", "#include <slurm/spank.h>\n")
        .clang_arg(format!("-I{}", include.display()))
        .allowlist_type("spank_option|spank_item|spank_context")
        .allowlist_var("SLURM_VERSION_NUMBER|ESPANK_.*|SLURM_SUCCESS|SLURM_ERROR")
        .prepend_enum_name(false)
        .layout_tests(true)
        .generate_comments(false);
    for function in FUNCTIONS {
        builder = builder.allowlist_function(function);
    }
    let out = PathBuf::from(env::var("OUT_DIR")?).join("spank.rs");
    builder.generate()?.write_to_file(out)?;
    Ok(())
}

/// The directory that holds `slurm/spank.h`.
fn headers() -> Result<PathBuf, Box<dyn Error>> {
    if let Some(tree) = env::var_os("TESSERA_SLURM_SRC") {
        let tree = PathBuf::from(tree);
        if tree.join("slurm/slurm_version.h").is_file() {
            return Ok(tree);
        }
        return Err(format!(
            "TESSERA_SLURM_SRC={}: no slurm/slurm_version.h in it (is the tree configured?)",
            tree.display()
        )
        .into());
    }
    let workspace = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("..");
    [workspace.join("target/slurm/22.05/src"), PathBuf::from("/usr/include")]
        .into_iter()
        .find(|dir| dir.join("slurm/slurm_version.h").is_file())
        .ok_or_else(|| "no Slurm headers: run `cargo xtask setup`, or set TESSERA_SLURM_SRC".into())
}
