//! Acts as an administrator meanwhile: by docs/operations.md, and no more. Faults without an excuse are reported.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

use lab::User;
use slurm_releases::Release;

use super::cancel::cancel;
use super::check::Finding;
use super::drains::{Drain, judge};
use super::lost_launch::is_lost;
use super::run::ChaosRun;
use super::seen::Seen;
use super::strike::{reconcile, resume};
use super::wounds::leaves_phantoms;
use crate::command::TaskError;

/// Reasons under which a job waits for an administrator.
const HELD: [&str; 3] = ["launch_failed_requeued_held", "JobHeldAdmin", "BadConstraints"];

/// How long a job may be running without a process before the administrator doubts it.
const PHANTOM: Duration = Duration::from_secs(20);

/// How long a requeued job is left alone. slurmd compares whole seconds: it refuses a job that starts again in the second in which
/// its old credential was revoked, and slurmctld then ends the job as failed ("Job credential revoked").
const REQUEUE_REST: Duration = Duration::from_secs(3);

/// Returns the jobs of `waiting` that have rested by `now`; each begins a new rest. `since` knows when the others began theirs.
fn rested(
    since: &mut BTreeMap<u32, Instant>,
    waiting: impl Iterator<Item = u32>,
    now: Instant,
) -> BTreeSet<u32> {
    let waiting: BTreeSet<u32> = waiting.collect();
    since.retain(|id, _| waiting.contains(id));
    let is_due = |id: &u32| now.duration_since(*since.entry(*id).or_insert(now)) >= REQUEUE_REST;
    let due: BTreeSet<u32> = waiting.into_iter().filter(is_due).collect();
    since.retain(|id, _| !due.contains(id));
    due
}

impl ChaosRun<'_> {
    /// Resumes nodes, releases jobs, and cancels what Slurm takes for running.
    pub(super) fn help(&mut self, seen: &Seen) -> Result<(), TaskError> {
        for node in &seen.nodes {
            let is_down = node.state.contains("drain") || node.state.starts_with("down");
            if !is_down || node.reason == "none" || node.reason.is_empty() {
                continue;
            }
            let log = self.fresh_log(&format!("slurmd-{}", node.name));
            let (second_led, recent) = (self.has_second_led(), self.recent().cloned().collect::<Vec<_>>());
            let is_back = self.drains.is_back(node, recent.iter(), second_led);
            match judge(&node.name, &node.reason, &log, recent.iter(), second_led) {
                Drain::Unexplained if is_back => {
                    let what = format!(
                        "{} drained again after slurmctld had forgotten its resumption: {}",
                        node.name, node.reason
                    );
                    self.outcome.stock(&what)?;
                }
                Drain::Asked => {}
                Drain::Stock => self.outcome.stock(&format!("{} drained: {}", node.name, node.reason))?,
                Drain::Unfit => reconcile(&self.cluster, &node.name)?,
                Drain::Unexplained => {
                    let subject = format!("{} after {} faults", node.name, self.outcome.faults);
                    self.violation(Finding::new(
                        "node drained",
                        subject,
                        format!("{}: {}", node.state, node.reason),
                    ))?;
                }
            }
            resume(&self.cluster, &node.name)?;
        }
        for job in seen.jobs.iter().filter(|job| job.state == "PENDING") {
            let id = job.id.to_string();
            if HELD.iter().any(|held| job.reason.contains(held)) {
                self.outcome.stock(&format!("job held: {}", job.reason))?;
                self.cluster.run(User::Root, "scontrol", &["release", &id])?;
            }
        }
        self.shorten_delays(seen)?;
        self.phantoms(seen)
    }

    /// Lets requeued jobs start before Slurm's delay is over, but not at once.
    fn shorten_delays(&mut self, seen: &Seen) -> Result<(), TaskError> {
        let waits = seen.jobs.iter().filter(|job| job.state == "PENDING" && job.reason == "BeginTime");
        for id in rested(&mut self.delayed, waits.map(|job| job.id), Instant::now()) {
            self.cluster.run(User::Root, "scontrol", &["update", &format!("jobid={id}"), "starttime=now"])?;
        }
        Ok(())
    }

    /// Jobs that Slurm takes for running although no process of them is there. After some faults that is Slurm's own way:
    /// the administrator has the nodes register, and cancels what is still there then.
    fn phantoms(&mut self, seen: &Seen) -> Result<(), TaskError> {
        let has_process = |id: u32| {
            let tasks = seen.tasks.iter().any(|task| task.job == id);
            tasks || seen.nodes.iter().any(|node| node.steps.iter().any(|step| step.job == id))
        };
        let now: BTreeSet<u32> = seen
            .jobs
            .iter()
            .filter(|job| job.state == "RUNNING" && !has_process(job.id))
            .map(|job| job.id)
            .collect();
        self.phantoms.retain(|id, _| now.contains(id));
        for id in now {
            let since = self.phantoms.entry(id).or_insert_with(Instant::now).elapsed();
            if since < PHANTOM {
                continue;
            }
            let excused = self.past.iter().map(|(fault, _)| fault).chain(&self.fault).any(leaves_phantoms);
            if excused {
                self.outcome.stock("job running without a process")?;
            } else if self.is_launch_lost(seen, id) {
                self.outcome.stock("a launch that was lost beside a reconfiguration")?;
            } else {
                let what = "RUNNING, and no fault explains that it has no process";
                self.violation(Finding::new("job without a process", format!("job {id}"), what))?;
            }
            self.outcome.say(&format!("  job {id} has no process: cancelled"))?;
            cancel(&self.cluster, id)?;
            self.phantoms.insert(id, Instant::now());
        }
        Ok(())
    }

    /// True if Slurm has lost the launch of this job, as seen of stock 22.05.
    fn is_launch_lost(&self, seen: &Seen, id: u32) -> bool {
        let read = |daemon: &str| {
            let bytes = fs::read(self.cluster.layout().log(daemon)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let Some(job) = seen.jobs.iter().find(|job| job.id == id) else { return false };
        let slurmd: Vec<String> = job.nodes.iter().map(|node| read(&format!("slurmd-{node}"))).collect();
        self.slurm() == Release::V22_05 && is_lost(id, &read("slurmctld"), &slurmd)
    }

    /// Returns the lines that a daemon has logged since the last call.
    fn fresh_log(&mut self, daemon: &str) -> String {
        let path = self.cluster.layout().log(daemon);
        let bytes = fs::read(&path).unwrap_or_default();
        let from = self.read.insert(path, bytes.len()).unwrap_or(0).min(bytes.len());
        String::from_utf8_lossy(&bytes[from..]).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_requeued_job_rests_each_time() {
        let (mut since, start) = (BTreeMap::new(), Instant::now());
        let mut due = |seconds, ids: &[u32], expected: &[u32]| {
            let now = start + Duration::from_secs(seconds);
            let due = rested(&mut since, ids.iter().copied(), now);
            assert!(due.iter().eq(expected), "after {seconds} s: {due:?}");
        };
        due(0, &[1], &[]);
        due(2, &[1, 2], &[]);
        due(3, &[1, 2], &[1]);
        // 1 has been requeued again; then 2 has started, and come back.
        due(4, &[1, 2], &[]);
        due(5, &[1], &[]);
        due(7, &[1, 2], &[1]);
    }
}
