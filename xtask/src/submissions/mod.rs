//! `cargo xtask fuzz-submissions`: whatever a user submits, slurmctld and nodes go on, and placement stays on.
//!
//! [`program`] fills Slurm's job description from a seed and submits it as one user through the public library. Between its
//! runs, [`look`] checks the cluster, and another user's job has to get an instance.

mod look;
pub(crate) mod program;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use lab::command::run as finish;
use lab::{Cluster, User};
use slurm_releases::Release;

use crate::cluster::guardian;
use crate::command::{TaskError, absolute, at};
use look::{Logs, without_instance, wrong};
use program::{Sums, sums};

/// Options of `cargo xtask fuzz-submissions`.
#[derive(Args)]
pub(crate) struct FuzzSubmissions {
    /// Seed of the submissions
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    count: u64,
    /// The number of the first, to repeat the end of a run
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Look at the cluster after so many
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    every: u64,
    /// Slurm to run, from Debian's packages
    #[arg(long, default_value_t = Release::MACHINE)]
    slurm: Release,
    /// Slurm alone, without any part of Tessera: what ends its slurmctld too is Slurm's own
    #[arg(long)]
    stock: bool,
    /// Directory for the cluster's files, which stay there; without it, they stay only if something is wrong
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// Limits on slurmctld's memory of ended jobs, so that the number of jobs stays far from the limit.
/// slurmd 22.05 drains a node on which more than twice `MessageTimeout` prologs begin or end while it waits for another: see
/// `docs/slurm-quirks.md`.
const SLURM_CONF: &str = "MaxJobCount=20000\nMinJobAge=5\nMessageTimeout=90";

/// Runs it. False if a rule was broken.
pub(crate) fn run(options: &FuzzSubmissions) -> Result<bool, TaskError> {
    crate::setup::run(Some(options.slurm), crate::setup::Purpose::Tests)?;
    let mut builder = Cluster::builder().slurm(options.slurm).stock(options.stock).guardian(guardian()?);
    builder = builder.slurm_conf(SLURM_CONF);
    if let Some(dir) = &options.dir {
        builder = builder.dir(&absolute(dir)?);
    }
    let mut cluster = builder.start()?;
    say(&format!("cluster of Slurm {} in {}", options.slurm, cluster.layout().dir().display()))?;
    let played = play(options, &mut cluster);
    if !matches!(played, Ok(0)) {
        cluster.keep_files();
    }
    Ok(played? == 0)
}

/// The number of violations. The first look that finds some is the last, because the cluster is then no longer sound.
fn play(options: &FuzzSubmissions, cluster: &mut Cluster) -> Result<usize, TaskError> {
    let (begin, program, mut logs, mut all) =
        (Instant::now(), program::build(cluster)?, Logs::default(), Sums::default());
    let mut found = Vec::new();
    let end = options.first + options.count;
    let mut first = options.first;
    while first < end && found.is_empty() {
        let count = options.every.min(end - first);
        let (part, problem) = submit(cluster, &program, options, first, count)?;
        found.extend(problem);
        found.extend(wrong(cluster, &mut logs)?);
        if found.is_empty() && !options.stock {
            found.extend(without_instance(cluster)?);
        }
        all = Sums {
            submitted: all.submitted + part.submitted,
            accepted: all.accepted + part.accepted,
            changed: all.changed + part.changed,
            heterogeneous: all.heterogeneous + part.heterogeneous,
        };
        say(&format!(
            "{first} to {}: {} accepted, {} changed",
            first + count - 1,
            part.accepted,
            part.changed
        ))?;
        first += count;
    }
    found.extend(wrong(cluster, &mut logs)?);
    if found.is_empty() && !options.stock {
        cluster.run(User::Root, "scancel", &["-u", User::Alice.name()])?;
        cluster.wait_idle()?;
        found.extend(cluster.leftovers()?.into_iter().map(|left| format!("left over: {left}")));
    }
    for what in &found {
        say(&format!("violation: {what}"))?;
    }
    say(&format!(
        "seed {}, {}: {} submissions, {} accepted ({} heterogeneous), {} changed, {} violations, {} s",
        options.seed,
        options.slurm,
        all.submitted,
        all.accepted,
        all.heterogeneous,
        all.changed,
        found.len(),
        begin.elapsed().as_secs()
    ))?;
    Ok(found.len())
}

/// Runs the program once, and describes the fault of its end.
fn submit(
    cluster: &Cluster,
    program: &Path,
    options: &FuzzSubmissions,
    first: u64,
    count: u64,
) -> Result<(Sums, Option<String>), TaskError> {
    let mut command = cluster.command(User::Alice, &program.display().to_string())?;
    command.current_dir(cluster.layout().jobs());
    command.arg(if options.stock { "stock" } else { "fuzz" });
    command.args([options.seed, first, count].map(|number| number.to_string()));
    let done = finish(&mut command)?;
    let sums = sums(&done.stdout);
    let problem = (done.code != Some(0) || sums.is_none()).then(|| {
        let last = done.stdout.lines().last().unwrap_or_default();
        format!(
            "submissions {first} to {}: exit {:?}, {} {last}",
            first + count - 1,
            done.code,
            done.stderr.trim()
        )
    });
    Ok((sums.unwrap_or_default(), problem))
}

fn say(what: &str) -> Result<(), TaskError> {
    at(Path::new("stdout"), writeln!(std::io::stdout(), "fuzz-submissions: {what}"))
}
