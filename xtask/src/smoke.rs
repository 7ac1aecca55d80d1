//! `cargo xtask smoke`: one job of each kind, restarts and a reconfiguration, on any Slurm of the table. One line for each.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use clap::Args;
use error_chain::with_causes;
use lab::artefacts::{self, Profile};
use lab::command::wait_for;
use lab::config::Templates;
use lab::nodes::DGX_1V;
use lab::{Cluster, Daemon, HarnessError, JobId, User};
use tempfile::TempDir;

use crate::cluster::guardian;
use crate::command::{TaskError, at, output};
use crate::setup::Purpose;
use crate::slurm_table;
use crate::which::Which;

/// A node with MIG, beside a DGX-1V.
const NODE_WITH_MIG: &str = "\
[[nodes]]
names = \"n2\"
gpu = \"a100-40gb\"
count = 2
mig = \"dynamic\"
";

/// Prints what the job sees, and runs until it is cancelled.
const LOOK_AND_STAY: &str =
    "nvidia-smi -L\nenv | grep -E '^(CUDA|NVIDIA)_' | sort\necho looked\nexec sleep 3600";

/// How long any of it may take.
const PATIENCE: Duration = Duration::from_secs(180);

/// Options of `smoke`.
#[derive(Args)]
pub(crate) struct Smoke {
    #[command(flatten)]
    which: Which,
    /// Archive of `cargo xtask package --format tar` to try, instead of a build for debugging
    #[arg(long, value_name = "FILE")]
    package: Option<PathBuf>,
}

/// Runs all kinds. Whether all succeeded.
pub(crate) fn smoke(options: &Smoke) -> Result<bool, TaskError> {
    let slurm = options.which.set_up(Purpose::Tests)?;
    let mut lines = Lines { failed: 0 };
    lines.of("its table", || match slurm.source() {
        Some(source) => slurm_table::compare(source),
        None => Ok(slurm.check().map(|()| "there is one, and no source to compare it with".to_owned())?),
    });
    artefacts::build(Profile::Debug)?;
    let templates = Templates::for_nodes(&format!("{DGX_1V}{NODE_WITH_MIG}"))?;
    let mut builder = Cluster::builder().slurm(slurm).templates(templates).guardian(guardian()?);
    let unpacked = options.package.as_deref().map(unpack).transpose()?;
    if let Some(root) = &unpacked {
        builder = builder.unpacked(root.path());
    }
    show_sums(unpacked.as_ref().map(TempDir::path))?;
    let started = lines.of("start", || builder.start());
    let Some(mut cluster) = started else { return Ok(false) };
    kinds(&mut cluster, &mut lines);
    if lines.failed > 0 {
        cluster.keep_files();
        eprintln!("{}", cluster.log_tails());
    }
    Ok(lines.failed == 0)
}

/// Unpacks an archive into a new directory.
fn unpack(archive: &Path) -> Result<TempDir, TaskError> {
    let root = at(archive, tempfile::tempdir())?;
    output(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(root.path()))?;
    Ok(root)
}

/// Prints the sum of each plugin before it is stamped: runs on several releases show that they tried one build.
#[expect(clippy::print_stdout, reason = "the result of the task")]
fn show_sums(unpacked: Option<&Path>) -> Result<(), TaskError> {
    let built = || artefacts::plugins(Profile::Debug);
    for (file, name) in unpacked.map_or_else(built, artefacts::packaged_plugins) {
        let said = output(Command::new("sha256sum").arg(file))?;
        println!("      sha256 {} {name}", said.split_whitespace().next().unwrap_or_default());
    }
    Ok(())
}

/// What a kind says when it succeeds.
trait Said {
    fn said(&self) -> String;
}

impl Said for String {
    fn said(&self) -> String {
        self.clone()
    }
}

impl Said for Cluster {
    fn said(&self) -> String {
        self.run(User::Root, "slurmctld", &["-V"])
            .map_or_else(|e| e.to_string(), |done| done.stdout.trim().to_owned())
    }
}

/// A job that stays, with what it printed first.
impl Said for (JobId, String) {
    fn said(&self) -> String {
        self.1.lines().find(|line| line.starts_with("tessera: ")).unwrap_or("no line of Tessera's").to_owned()
    }
}

/// Prints one line for each kind, and counts those that fail.
struct Lines {
    failed: u32,
}

impl Lines {
    #[expect(clippy::print_stdout, reason = "the result of the task")]
    fn of<T: Said, E: std::error::Error>(
        &mut self,
        kind: &str,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Option<T> {
        let begin = Instant::now();
        let outcome = work();
        let seconds = begin.elapsed().as_secs_f64();
        match outcome {
            Ok(done) => {
                println!("ok    {kind}: {} ({seconds:.1} s)", done.said());
                Some(done)
            }
            Err(error) => {
                self.failed += 1;
                println!("FAIL  {kind}: {} ({seconds:.1} s)", with_causes(&error));
                None
            }
        }
    }
}

fn kinds(cluster: &mut Cluster, lines: &mut Lines) {
    let whole = lines.of("whole set of two on a DGX-1V", || {
        staying(
            cluster,
            User::Alice,
            &["--gpu-isolation=whole", "--gpus-per-node=2", "-w", "n1"],
            |job, _| has_gpus(cluster, job, &[0, 3]),
        )
    });
    lines.of("its end", || cancel(cluster, whole.into_iter().map(|(job, _)| job)));
    let plain = lines.of("plain --gres=gpu:2 on a DGX-1V", || {
        staying(cluster, User::Alice, &["--gres=gpu:2", "-w", "n1"], |job, _| has_gpus(cluster, job, &[0, 3]))
    });
    let instance = lines.of("MIG instance", || {
        staying(cluster, User::Bob, &["--gpu-isolation=mig:2g.10gb", "-w", "n2"], |_, saw| {
            contains(saw, "MIG 2g.10gb")
        })
    });
    let share = lines.of("MPS share", || {
        let options = ["--gpu-isolation=mps", "--gpu-mem=3G", "--gpu-sms=25%", "-w", "n1"];
        staying(cluster, User::Alice, &options, |_, saw| {
            contains(saw, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=2862M")
        })
    });
    lines.of("srun with an instance", || {
        let step = ["-n1", "-w", "n2", "--gpu-isolation=mig:1g.5gb", "nvidia-smi", "-L"];
        let saw = cluster.run(User::Alice, "srun", &step)?.ok()?;
        contains(&saw, "MIG 1g.5gb").map(|()| "one 1g.5gb".to_owned())
    });
    lines.of("refusal", || {
        let said = cluster.try_sbatch(User::Alice, &["--gpu-isolation=mig:9g.99gb"], "true")?.refused()?;
        contains(&said, "tessera: ").map(|()| said.lines().next().unwrap_or_default().to_owned())
    });
    let jobs: Vec<JobId> = [plain, instance, share].into_iter().flatten().map(|(job, _)| job).collect();
    lines.of("restart of slurmctld with these jobs", || {
        keeps_all(cluster, &jobs, |cluster| {
            cluster.stop(&Daemon::Slurmctld)?;
            cluster.start(&Daemon::Slurmctld)
        })
    });
    lines.of("reconfiguration with these jobs", || {
        keeps_all(cluster, &jobs, |cluster| {
            cluster.run(User::Root, "scontrol", &["reconfigure"])?.ok().map(drop)
        })
    });
    lines.of("restart of a slurmd with these jobs", || {
        let slurmd = Daemon::Slurmd("n2".to_owned());
        keeps_all(cluster, &jobs, |cluster| {
            cluster.stop(&slurmd)?;
            cluster.start(&slurmd)
        })
    });
    lines.of("a job after that has other GPUs", || {
        let got = staying(cluster, User::Bob, &["--gres=gpu:2", "-w", "n1"], |job, _| {
            let gpus = cluster.gpus_of(job)?;
            let free = gpus.len() == 2 && gpus.iter().all(|gpu| ![0, 3].contains(gpu));
            expect(free, || format!("it has {gpus:?}"))
        })?;
        cancel(cluster, [got.0]).map(|_| got.said())
    });
    lines.of("end of all jobs", || cancel(cluster, jobs));
    lines.of("nothing is left", || cluster.assert_clean().map(|()| "doctor on each node agrees".to_owned()));
}

fn expect(holds: bool, what: impl FnOnce() -> String) -> Result<(), HarnessError> {
    if holds { Ok(()) } else { Err(HarnessError::Unexpected(what())) }
}

fn contains(text: &str, part: &str) -> Result<(), HarnessError> {
    expect(text.contains(part), || format!("no `{part}` in:\n{text}"))
}

fn has_gpus(cluster: &Cluster, job: JobId, gpus: &[u32]) -> Result<(), HarnessError> {
    let found = cluster.gpus_of(job)?;
    expect(found == gpus, || format!("it has GPUs {found:?}, not {gpus:?}"))
}

/// Submits a job, waits until it has looked at its GPUs, and checks it.
fn staying(
    cluster: &Cluster,
    user: User,
    options: &[&str],
    check: impl FnOnce(JobId, &str) -> Result<(), HarnessError>,
) -> Result<(JobId, String), HarnessError> {
    let job = cluster.sbatch(user, options, LOOK_AND_STAY)?;
    let saw = wait_for(&format!("job {job} to look at its GPUs"), PATIENCE, || {
        let text = cluster.output(job);
        if text.contains("looked\n") { Ok(text) } else { Err(text) }
    })?;
    check(job, &saw).map(|()| (job, saw))
}

fn cancel(cluster: &Cluster, jobs: impl IntoIterator<Item = JobId>) -> Result<String, HarnessError> {
    for job in jobs {
        cluster.run(User::Root, "scancel", &[&job.to_string()])?.ok()?;
        cluster.wait_end(job)?;
    }
    // Other jobs may still run.
    cluster.wait_ready(PATIENCE).map(|()| "the nodes are up".to_owned())
}

/// The published layouts once no job is ending.
fn settled(cluster: &Cluster) -> Result<Vec<(String, String)>, HarnessError> {
    wait_for("ending jobs to be over", PATIENCE, || {
        let now = cluster.published_layouts().map_err(|error| with_causes(&error))?;
        let ending = now.iter().any(|(_, layout)| layout.contains(" ending="));
        if ending { Err(format!("{now:?}")) } else { Ok(now) }
    })
}

/// Does something to the cluster. Afterwards all jobs still run, and the layouts are what they were.
fn keeps_all(
    cluster: &mut Cluster,
    jobs: &[JobId],
    act: impl FnOnce(&mut Cluster) -> Result<(), HarnessError>,
) -> Result<String, HarnessError> {
    let before = settled(cluster)?;
    act(cluster)?;
    cluster.wait_ready(PATIENCE)?;
    wait_for("the layouts of before", PATIENCE, || {
        let now = cluster.published_layouts().map_err(|error| with_causes(&error))?;
        if now == before { Ok(()) } else { Err(format!("{now:?}, before {before:?}")) }
    })?;
    for job in jobs {
        let now = cluster.job(*job)?;
        let goes_on = now.state() == "RUNNING" && now.get("Restarts") == "0";
        let found = || format!("job {job} is {}, after {} restarts", now.state(), now.get("Restarts"));
        expect(goes_on, found)?;
    }
    Ok(before.into_iter().map(|(node, layout)| format!("{node} {layout}")).collect::<Vec<_>>().join("; "))
}
