//! Writes the rows of the two files of GPU models as JSON: every `sbatch`, step and prolog reads them, and TOML takes 1.6 ms.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    for name in ["models", "whole-models"] {
        let path = format!("data/{name}.toml");
        println!("cargo:rerun-if-changed={path}");
        let text = fs::read_to_string(&path).expect("it is part of the package");
        let file: toml::Value = toml::from_str(&text).expect("a unit test reads it");
        let rows = serde_json::to_string(&file["model"]).expect("TOML has nothing that JSON lacks");
        fs::write(out.join(name).with_extension("json"), rows).expect("cargo gives a directory");
    }
}
