//! A GPU that becomes unhealthy, and is well again later.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::{Duration, Instant};

use lab::command::{Done, run};
use lab::{Cluster, HarnessError, User};

use super::check::{Devices, Finding, LeftOut, sick_gpu};
use super::kill::one_of;
use super::mended::Mended;
use super::plan::{Ailment, Fault, Pick};
use super::run::ChaosRun;
use super::seen::{Seen, look, ticks};
use super::wounds::leaves_phantoms;
use crate::command::TaskError;

/// How long a node may take to tell slurmctld about its GPUs.
const TELL: Duration = Duration::from_secs(30);

/// Makes the GPU unhealthy, and starts the node's health check, as slurmd does once a minute.
pub(super) fn sicken(
    cluster: &Cluster,
    node: &str,
    gpu: u32,
    ailment: Ailment,
) -> Result<String, HarnessError> {
    let gpu = gpu.to_string();
    let add = |words: &[&str]| cluster.fault(node, &[&["add", "--gpu", &gpu, "--kind"], words].concat());
    let xid = |number: u32, times: &str| add(&["xid", "--number", &number.to_string(), "--times", times]);
    match ailment {
        Ailment::Xid(number) => xid(number, "1")?,
        Ailment::AsksForReset(number) => {
            add(&["needs-reset"])?;
            xid(number, "1")?;
        }
        Ailment::Ecc => add(&["ecc-uncorrected"])?,
        Ailment::RemapFailed => add(&["remap-failed"])?,
        Ailment::Hot => add(&["hot"])?,
        Ailment::Storm => {
            xid(48, "1")?;
            xid(31, "10000")?;
        }
        Ailment::Told => return said(&tessera(cluster, node, &["sick", &gpu, "--reason", "chaos"])?),
    }
    said(&tessera(cluster, node, &["health"])?)
}

/// Repairs the GPU, and does what docs/operations.md tells an administrator to do then.
pub(super) fn cure(cluster: &Cluster, node: &str, gpu: u32, ailment: Ailment) -> Result<Done, HarnessError> {
    let gpu = gpu.to_string();
    for kind in ["xid", "needs-reset", "ecc-uncorrected", "remap-failed", "hot"] {
        cluster.fault(node, &["clear", "--gpu", &gpu, "--kind", kind])?;
    }
    match ailment {
        Ailment::AsksForReset(_) => tessera(cluster, node, &["health"]),
        Ailment::Told => tessera(cluster, node, &["sick", &gpu, "--over"]),
        _ => tessera(cluster, node, &["accept", &gpu]),
    }
}

/// Starts the node's health check, as slurmd does once a minute.
pub(super) fn check_health(cluster: &Cluster, node: &str) -> Result<(), HarnessError> {
    tessera(cluster, node, &["health"]).map(drop)
}

fn tessera(cluster: &Cluster, node: &str, args: &[&str]) -> Result<Done, HarnessError> {
    let mut command = cluster.command_on(node, User::Root, "tessera")?;
    command.arg("--config").arg(cluster.layout().etc("tessera.toml"));
    run(command.arg("node").args(args))
}

/// The lines about what happened, without the table of all findings.
fn said(done: &Done) -> Result<String, HarnessError> {
    let lines = done.stdout.lines().take_while(|line| !line.trim_start().starts_with("GPU "));
    Ok(lines.chain(done.stderr.lines()).collect::<Vec<_>>().join("; "))
}

/// Picks one of the node's GPUs that jobs use, or `gpu` if they use none.
fn used(seen: &Seen, devices: &Devices, node: &str, gpu: u32) -> u32 {
    let tasks = seen.tasks.iter().filter(|task| task.node == node);
    let names = tasks.flat_map(|task| &task.devices).map(|name| devices.uuid(node, name));
    let all: BTreeSet<u32> = names.filter_map(|uuid| devices.place(&uuid).map(|(_, gpu)| *gpu)).collect();
    let all: Vec<u32> = all.into_iter().collect();
    one_of(&all, Pick(gpu)).copied().unwrap_or(gpu)
}

impl ChaosRun<'_> {
    /// Begins to watch a GPU that is about to become unhealthy, and returns the fault on it. That is one that jobs use, if there is any and
    /// the GPU does not only get 10,000 harmless errors in addition.
    pub(super) fn before_sickness(&mut self, fault: Fault) -> Result<Fault, TaskError> {
        let Fault::GpuSick(node, gpu, ailment) = fault else { return Ok(fault) };
        let seen = look(&self.cluster)?;
        self.devices.learn(&seen);
        let gpu = if ailment == Ailment::Storm { gpu } else { used(&seen, &self.devices, node.name(), gpu) };
        self.sick = LeftOut::new(&seen, &self.devices, node.name(), gpu, ailment.requeues());
        let is_disturbed = self.recent().any(leaves_phantoms);
        if let Some(sick) = &mut self.sick {
            sick.is_disturbed = is_disturbed;
        }
        Ok(Fault::GpuSick(node, gpu, ailment))
    }

    /// Waits until slurmctld knows that the GPU is unhealthy.
    pub(super) fn has_sickened(&mut self) -> Result<(), TaskError> {
        let Some(mut sick) = self.sick.take() else { return Ok(()) };
        if self.told(&sick, true)?.is_some() {
            sick.is_known(Mended::now().second, ticks());
        }
        self.sick = Some(sick);
        Ok(())
    }

    /// Gives what the node says when slurmctld knows whether it leaves the GPU out; `None`: it does not get to know.
    fn told(&self, sick: &LeftOut, is_out: bool) -> Result<Option<Seen>, TaskError> {
        let begin = Instant::now();
        while begin.elapsed() < TELL {
            let seen = look(&self.cluster)?;
            let node = seen.nodes.iter().find(|node| node.name == sick.node);
            if node.is_some_and(|node| node.left_out.contains(&sick.gpu) == is_out) {
                return Ok(Some(seen));
            }
            sleep(Duration::from_millis(300));
        }
        Ok(None)
    }

    /// Judges what happened while the GPU was unhealthy.
    pub(super) fn judge_sickness(&mut self) -> Result<(), TaskError> {
        let Some(sick) = self.sick.take() else { return Ok(()) };
        let seen = look(&self.cluster)?;
        for finding in sick_gpu(&seen, &sick) {
            self.violation(finding)?;
        }
        let (before, elsewhere) = sick.counts();
        self.outcome
            .say(&format!("  {before} jobs were on it; {elsewhere} began on the node's other GPUs"))?;
        self.sick = Some(sick);
        Ok(())
    }

    /// Sees that the GPU is back, and submits a job that needs it: one that needs all GPUs of the node.
    pub(super) fn has_recovered(&mut self) -> Result<(), TaskError> {
        let Some(sick) = self.sick.take() else { return Ok(()) };
        if self.told(&sick, false)?.is_none() {
            let subject = format!("{}: GPU {}", sick.node, sick.gpu);
            let what = "slurmctld still leaves it out, although it was repaired and accepted";
            self.violation(Finding::new("sick GPU not back", subject, what))?;
        }
        self.need_all(&sick.node)
    }
}
