//! The end of a stretch: all jobs end, and nothing of them is left.

use std::fs;
use std::time::{Duration, Instant};

use lab::User;

use super::cancel::cancel;
use super::check::{Finding, changed_limits, counted_slices, disagreements, leftovers};
use super::run::{ChaosRun, SETTLE, SLOW};
use super::seen::look;
use super::sick::check_health;
use crate::command::TaskError;

/// How long all jobs may take to end once no more are submitted and everything is mended.
const REST: Duration = Duration::from_secs(400);

impl ChaosRun<'_> {
    /// Lets all jobs end, and looks for what they left.
    pub(super) fn rest(&mut self) -> Result<(), TaskError> {
        self.fault = None;
        let (begin, mut left, mut told) = (Instant::now(), Vec::new(), Duration::ZERO);
        while begin.elapsed() < REST {
            let seen = look(&self.cluster)?;
            self.devices.learn(&seen);
            self.jobs(&seen)?;
            self.help(&seen)?;
            left = seen.jobs.into_iter().filter(|job| job.state == "PENDING" || job.is_there()).collect();
            if left.is_empty() {
                break;
            }
            if begin.elapsed() > told + SLOW {
                told = begin.elapsed();
                let jobs: Vec<String> = left
                    .iter()
                    .take(4)
                    .map(|job| format!("{} {} ({})", job.id, job.state, job.reason))
                    .collect();
                self.outcome.say(&format!("  {} jobs left: {}", left.len(), jobs.join(", ")))?;
            }
            self.watch(Duration::from_millis(1_000))?;
        }
        for job in &left {
            let what = format!("{} ({}) for {} s", job.state, job.reason, REST.as_secs());
            self.violation(Finding::new(
                "job does not end",
                format!("job {} (order {:?})", job.id, job.order),
                what,
            ))?;
            cancel(&self.cluster, job.id)?;
        }
        self.settle(SETTLE, |seen, devices| {
            let mut found = disagreements(seen, devices);
            found.extend(leftovers(seen));
            found
        })?;
        self.logs()?;
        self.limits()?;
        let shown = self.cluster.run(User::Root, "scontrol", &["-o", "show", "licenses", "slice"])?.ok()?;
        if let Some(finding) = counted_slices(&shown) {
            self.violation(finding)?;
        }
        self.doctor()?;
        let waited = begin.elapsed().as_secs();
        self.past.clear();
        let (jobs, faults) = (self.outcome.jobs, self.outcome.faults);
        self.outcome.say(&format!("rest after {waited} s: {jobs} jobs and {faults} faults so far"))
    }

    /// Bugs that a plugin has noticed itself.
    fn logs(&mut self) -> Result<(), TaskError> {
        let nodes: Vec<String> = self.cluster.nodes().iter().map(|node| format!("slurmd-{node}")).collect();
        for daemon in nodes.into_iter().chain(["slurmctld".to_owned()]) {
            let path = self.cluster.layout().log(&daemon);
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).into_owned();
            let bad = |line: &&str| line.contains("bug in this plugin") || line.contains("panicked");
            let lines: Vec<String> = text.lines().filter(bad).map(str::to_owned).collect();
            for line in lines {
                self.violation(Finding::new("bug logged", format!("{daemon}: {line}"), "in its log"))?;
            }
        }
        Ok(())
    }

    /// Power limits that are not as found: nobody but jobs sets any here.
    fn limits(&mut self) -> Result<(), TaskError> {
        for node in self.cluster.nodes().to_vec() {
            let mut command = self.cluster.command_on(&node, User::Root, "nvidia-smi")?;
            command.args(["--query-gpu=index,power.limit,power.default_limit", "--format=csv,noheader"]);
            for finding in changed_limits(&node, &lab::command::run(&mut command)?.ok()?) {
                self.violation(finding)?;
            }
        }
        Ok(())
    }

    /// The last word is Tessera's own, after everything else has been looked at without it.
    fn doctor(&mut self) -> Result<(), TaskError> {
        for node in self.cluster.nodes().to_vec() {
            // A killed slurmctld may show an unhealthy GPU again that was repaired before, until the next check, a minute later.
            check_health(&self.cluster, &node)?;
        }
        for node in self.cluster.nodes().to_vec() {
            let mut command = self.cluster.command_on(&node, User::Root, "tessera")?;
            let done = lab::command::run(command.arg("doctor"))?;
            if done.code != Some(0) {
                let subject = format!("{node} after {} faults", self.outcome.faults);
                self.violation(Finding::new("doctor", subject, format!("{}{}", done.stdout, done.stderr)))?;
            }
        }
        Ok(())
    }
}
