//! `cargo xtask demo`: users' jobs get what they ask for, on a real Slurm with simulated GPUs, and give it back.
//!
//! The demo checks what it shows, and ends with status 1 if anything differs from what it says.

mod held;
mod show;
mod steps;

use std::path::PathBuf;

use lab::config::Templates;
use lab::nodes::DGX_1V;
use lab::{Cluster, User, artefacts};

use crate::cluster::{build, guardian};
use crate::command::TaskError;
use crate::setup::Purpose;
use crate::which::Which;
use show::Show;

/// Nodes with MIG, beside a DGX-1V.
const NODES_WITH_MIG: &str = "\
[[nodes]]
names = \"n2\"
gpu = \"h100-80gb-sxm\"
count = 4
mig = \"dynamic\"

[[nodes]]
names = \"n3\"
gpu = \"a100-40gb\"
count = 2
mig = \"dynamic\"
";

/// Sets up, builds, and runs the demo; with `keep`, its cluster stays.
pub(crate) fn run(which: &Which, keep: bool, dir: Option<PathBuf>) -> Result<(), TaskError> {
    let slurm = which.set_up_beside(Purpose::Clusters, || build(artefacts::Profile::Debug))?;
    let mut templates = Templates::for_nodes(&format!("{DGX_1V}{NODES_WITH_MIG}"))?;
    // Compiled as for the tests: a release build takes three times as long. The simulated driver takes as long as the real one.
    templates.time_scale = 1.0;
    let mut builder = Cluster::builder().slurm(slurm).templates(templates).guardian(guardian()?);
    if let Some(dir) = dir {
        builder = builder.dir(&crate::command::absolute(&dir)?);
    }
    let mut cluster = builder.start()?;
    let mut show = Show::new();
    let outcome = steps::all(&cluster, &mut show);
    if keep {
        cluster.keep();
        let dir = cluster.layout().dir().display();
        eprintln!(
            "demo: the cluster stays; `eval \"$(cargo xtask cluster env --dir {dir})\"`, `cargo xtask cluster down --dir {dir}`"
        );
    } else if outcome.is_err() {
        eprintln!("{}", cluster.log_tails());
    }
    outcome?;
    show.verdict().map_err(TaskError::Other)
}

/// Name of a user in the demo's prompts.
fn short(user: User) -> &'static str {
    match user {
        User::Root => "root",
        User::Alice => "alice",
        User::Bob => "bob",
    }
}
