//! Bindings to exactly the Slurm this plugin will be loaded into: see the select plugin's build.rs, whose twin this is.
//!
//! `TESSERA_SLURM_SRC` names a configured source tree; without it, the one `cargo xtask setup` makes is taken.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Series this plugin knows, and the cfg that stands for each.
const SERIES: [(&str, &str); 2] = [("22.05", "slurm_22_05"), ("24.11", "slurm_24_11")];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-env-changed=TESSERA_SLURM_SRC");
    println!("cargo::rerun-if-changed=wrapper.h");
    println!("cargo::rerun-if-changed=build.rs");
    for (_, cfg) in SERIES {
        println!("cargo::rustc-check-cfg=cfg({cfg})");
    }
    let source = source_tree()?;
    let version_header = source.join("slurm/slurm_version.h");
    println!("cargo::rerun-if-changed={}", version_header.display());
    let version = version_number(&version_header)?;
    let series = format!("{}.{:02}", version >> 16 & 0xff, version >> 8 & 0xff);
    let (_, cfg) = SERIES
        .into_iter()
        .find(|(name, _)| *name == series)
        .ok_or_else(|| format!("Slurm {series} is not one this plugin knows: 22.05 and 24.11 are"))?;
    println!("cargo::rustc-cfg={cfg}");
    bindings(&source)?.write_to_file(PathBuf::from(env::var("OUT_DIR")?).join("slurm.rs"))?;
    Ok(())
}

fn source_tree() -> Result<PathBuf, Box<dyn Error>> {
    let default = || {
        Ok::<_, env::VarError>(
            PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../target/slurm/22.05/src"),
        )
    };
    let path = match env::var_os("TESSERA_SLURM_SRC") {
        Some(path) => PathBuf::from(path),
        None => default()?,
    };
    if !path.join("config.h").exists() {
        return Err(format!(
            "{} is not a configured Slurm source tree: run `cargo xtask setup` or set TESSERA_SLURM_SRC",
            path.display()
        )
        .into());
    }
    Ok(path)
}

/// `SLURM_VERSION_NUMBER` as the header has it: 0xMMmmuu.
fn version_number(header: &Path) -> Result<u32, Box<dyn Error>> {
    let text = fs::read_to_string(header)?;
    let value = text
        .lines()
        .find_map(|l| l.strip_prefix("#define SLURM_VERSION_NUMBER"))
        .ok_or_else(|| format!("{}: no SLURM_VERSION_NUMBER", header.display()))?;
    Ok(u32::from_str_radix(value.trim().trim_start_matches("0x"), 16)?)
}

fn bindings(source: &Path) -> Result<bindgen::Bindings, Box<dyn Error>> {
    let mut builder = bindgen::Builder::default()
        .header("wrapper.h")
        .clang_arg(format!("-I{}", source.display()))
        .default_enum_style(bindgen::EnumVariation::Consts)
        .ignore_functions()
        .derive_debug(false)
        .prepend_enum_name(false)
        .merge_extern_blocks(true);
    for name in ["job_desc_msg_t", "job_record_t", "part_record_t", "slurm_conf_t"] {
        builder = builder.allowlist_type(name);
    }
    for name in ["SLURM_VERSION_NUMBER", "JOB_MAGIC", "PART_MAGIC", "JOB_SHARED_NONE", "TESSERA_.*"] {
        builder = builder.allowlist_var(name);
    }
    Ok(builder.generate()?)
}
