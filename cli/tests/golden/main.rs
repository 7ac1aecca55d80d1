//! What a person reads from each command, exit status included.
#![allow(clippy::unwrap_used, reason = "tests")]

mod check;
mod explain;
mod free;
mod help;
mod layout;
mod machine;
mod power;
mod power_simulate;
mod profiles;
mod tasks;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const SITE: &str = r#"
[defaults]
gpu_mem = "5G"

[node]
nvml_library = "/nowhere/libnvidia-ml.so.1"

[[nodes]]
names = "n1"
gpu = "a100-40gb"
count = 8
interconnect = "dgx-v"

[[nodes]]
names = "n2"
gpu = "h100-80gb-sxm"
count = 2

[[limits]]
partition = "debug"
isolation = ["mps", "whole"]
max_mem = "20G"
"#;

const LAYOUT: &str = "\
NODELIST            EXTRA
n1                  tessera gpu0=mig[2g.10gb@0:job12,1g.5gb@2:idle,1g.5gb@3:mps[job31:1000M/10%],3g.20gb@4:mps[job18:2862M/25%,job19:2862M/25%]] gpu1=mig[1g.5gb@0:job123456] gpu2=mps[job14:2862M/25%,job15:2862M/25%] gpu3-4=whole[job13] gpu5-7=free
n2                  tessera gpu0=mps[job14:2862M/25%,job15:2862M/25%,job16:2862M/25%+12:34344M/300%] gpu1=free
";

/// A scratch directory with the site's files.
struct Site {
    dir: tempfile::TempDir,
}

impl Site {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("tessera.toml"), SITE).unwrap();
        fs::write(dir.path().join("layout"), LAYOUT).unwrap();
        Self { dir }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tessera"));
        // Nothing of the machine is seen: no Slurm on PATH, no driver, no terminal.
        command.args(args).current_dir(self.dir.path()).env_clear().env("PATH", "/nowhere");
        command.env("TESSERA_CONF", "tessera.toml").env("SLURMD_NODENAME", "n1").env("COLUMNS", "100");
        command
    }

    /// What is printed, then the exit status.
    fn run(&self, args: &[&str]) -> String {
        let out = self.command(args).stdin(Stdio::null()).output().unwrap();
        let (stdout, stderr) =
            (String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap());
        let stderr: String = stderr.lines().map(|l| format!("stderr: {l}\n")).collect();
        format!("{stdout}{stderr}exit {}", out.status.code().unwrap())
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }
}

fn run(args: &str) -> String {
    Site::new().run(&args.split(' ').filter(|a| !a.is_empty()).collect::<Vec<_>>())
}
