//! Checks jobs: they have what they were promised, use it, and end as they should.

use std::fs;
use std::time::Duration;

use lab::command::run;
use lab::{HarnessError, User};
use serde_json::Value;

use super::check::{Finding, Reality, broken_promise, failed_work};
use super::plan::Order;
use super::run::ChaosRun;
use super::seen::report::Report;
use super::seen::{Job, Seen, Task, name_of};
use super::wounds::{Victim, may_fail_job, needs_daemon, silences_driver, spoils_work};
use crate::command::TaskError;

/// How much memory each process takes on its GPU.
const MEMORY_MIB: &str = "500";

/// A job that asked the driver before a fault was mended has written its answer after this time.
const REPORT: Duration = Duration::from_secs(10);

/// States of jobs that did not do what their scripts say.
const FAILED: [&str; 3] = ["FAILED", "BOOT_FAIL", "OUT_OF_MEMORY"];

impl ChaosRun<'_> {
    /// Looks at reports and at ended jobs.
    pub(super) fn jobs(&mut self, seen: &Seen) -> Result<(), TaskError> {
        self.promises()?;
        // A job with a fat environment has no order, and may fail: its node cannot run its script.
        let ordered = seen.jobs.iter().filter(|job| job.order.is_some());
        for job in ordered.filter(|job| FAILED.contains(&job.state.as_str())) {
            // slurmctld keeps a record of a submission that it refused.
            let is_refused = job.reason == "BadConstraints" && job.nodes.is_empty();
            let victim = self.victim(job);
            let excused = self.met(job).any(|fault| may_fail_job(fault, &victim));
            if !self.failed.insert((job.id, job.order)) || excused || is_refused {
                continue;
            }
            if self.clock_is_behind() && self.is_known_as_over(job) {
                self.outcome.stock("a requeued job that slurmd took for over: the clock was set back")?;
                continue;
            }
            let finding = self.failure(job);
            self.violation(finding)?;
        }
        Ok(())
    }

    /// The job, as far as a fault may have hit it.
    fn victim(&self, job: &Job) -> Victim {
        let order = self.orders.iter().find(|order| Some(order.number) == job.order);
        let gpus = job.order.and_then(|order| self.gpus.get(&(job.id, order)));
        Victim {
            nodes: job.nodes.clone(),
            user: order.map_or(0, |order| order.user),
            has_daemon: order.is_some_and(|order| needs_daemon(order.kind())),
            gpus: gpus.into_iter().flatten().cloned().collect(),
        }
    }

    /// The task that wrote a report, as far as a fault may have hit it.
    fn reporter(&self, report: &Report, order: &Order) -> Victim {
        let uuids = report.devices.iter().map(|name| self.devices.uuid(&report.node, name));
        Victim {
            nodes: vec![report.node.clone()],
            user: order.user,
            has_daemon: needs_daemon(order.kind()),
            gpus: uuids.filter_map(|uuid| self.devices.place(&uuid).cloned()).collect(),
        }
    }

    /// True if slurmd has refused to start it.
    fn is_known_as_over(&self, job: &Job) -> bool {
        let line = format!("Job {} already killed, do not launch batch job", job.id);
        job.nodes.iter().any(|node| {
            let log = fs::read(self.cluster.layout().log(&format!("slurmd-{node}"))).unwrap_or_default();
            String::from_utf8_lossy(&log).contains(&line)
        })
    }

    fn failure(&self, job: &Job) -> Finding {
        let kind =
            self.orders.iter().find(|order| Some(order.number) == job.order).map(|order| order.kind().name);
        let name = job.order.map(name_of).unwrap_or_default();
        let path = self.cluster.layout().jobs().join(format!("{name}.{}.out", job.id));
        let said = fs::read_to_string(path).unwrap_or_default();
        let last = said.lines().last().unwrap_or_default().to_owned();
        let subject = format!("job {} (order {:?}, {})", job.id, job.order, kind.unwrap_or_default());
        Finding::new(
            "job failed",
            subject,
            format!("{} ({}) on {:?}: {last}", job.state, job.reason, job.nodes),
        )
    }

    /// Holds what the jobs wrote against what they were promised.
    pub(super) fn promises(&mut self) -> Result<(), TaskError> {
        for report in self.reports.fresh() {
            self.find_instances(&report)?;
            let Some(order) = self.orders.iter().find(|order| order.number == report.order) else { continue };
            let task = self.reporter(&report, order);
            let driver_is_ill = self.within(REPORT).any(|fault| silences_driver(fault, &task));
            let reality = Reality { gpus: self.devices.count(&report.node), driver_is_ill };
            let kind = order.kind();
            let spoiled = self.recent().any(|fault| spoils_work(fault, &task));
            self.gpus.entry((report.job, report.order)).or_default().extend(task.gpus);
            let work = failed_work(&report, kind).filter(|_| !spoiled);
            for finding in broken_promise(&report, kind, reality).into_iter().chain(work) {
                self.violation(finding)?;
            }
        }
        Ok(())
    }

    /// Learns which GPUs the report's instances are on, also those that no look has met: one whose GPU has gone since it was made is shown
    /// to nobody.
    fn find_instances(&mut self, report: &Report) -> Result<(), TaskError> {
        let is_new = |name: &&String| name.starts_with("MIG-") && self.devices.place(name).is_none();
        let new: Vec<String> = report.devices.iter().filter(is_new).cloned().collect();
        if new.is_empty() {
            return Ok(());
        }
        let state = self.driver_state(&report.node)?;
        for uuid in new {
            if let Some((gpu, _)) = place(&state, &uuid) {
                self.devices.learn_parent(&report.node, gpu, &uuid);
            }
        }
        Ok(())
    }

    /// All that the simulated driver of a node has, shown or not.
    fn driver_state(&self, node: &str) -> Result<Value, TaskError> {
        let shown = run(self.cluster.command_on(node, User::Root, "nvml-sim")?.args(["show", "--json"]))?;
        Ok(serde_json::from_str(&shown.stdout).unwrap_or_default())
    }

    /// Makes the driver count the jobs' processes as users of their devices, as if they had a CUDA context there.
    pub(super) fn use_gpus(&mut self, tasks: &[Task]) -> Result<(), TaskError> {
        let fresh: Vec<&Task> = tasks
            .iter()
            // A job of GPU tasks runs programs that use the driver.
            .filter(|task| task.is_script && !task.devices.is_empty() && !task.has_seats)
            .filter(|task| !self.on_gpus.contains(&(task.pid, task.since)))
            .collect();
        for node in self.cluster.nodes() {
            let here: Vec<&&Task> = fresh.iter().filter(|task| task.node == *node).collect();
            if here.is_empty() {
                continue;
            }
            let state = self.driver_state(node)?;
            for task in here {
                for device in &task.devices {
                    let uuid = self.devices.uuid(node, device);
                    if let Some((gpu, place)) = place(&state, &uuid) {
                        self.devices.learn_parent(node, gpu, &uuid);
                        self.use_gpu(node, task, &place)?;
                    }
                }
            }
        }
        self.on_gpus.extend(fresh.iter().map(|task| (task.pid, task.since)));
        Ok(())
    }

    /// A process that has ended meanwhile uses nothing.
    fn use_gpu(&self, node: &str, task: &Task, place: &[String]) -> Result<(), HarnessError> {
        let mut command = self.cluster.command_on(node, User::Root, "nvml-sim")?;
        command.args(["proc", "add", "--memory-mib", MEMORY_MIB, "--pid", &task.pid.to_string()]).args(place);
        run(command.args(task.mps.as_ref().map(|_| "--mps"))).map(drop)
    }
}

/// A device's place in the simulator's state: the GPU, and options of `nvml-sim proc add`.
fn place(state: &Value, uuid: &str) -> Option<(u32, Vec<String>)> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let words = |words: &[(&str, &Value)]| -> Vec<String> {
        words.iter().flat_map(|(name, value)| [format!("--{name}"), value.to_string()]).collect()
    };
    let specs = list(&state["node"]["gpus"]);
    if let Some(gpu) = specs.iter().position(|spec| spec["uuid"] == uuid) {
        return Some((u32::try_from(gpu).ok()?, words(&[("gpu", &gpu.into())])));
    }
    list(&state["gpus"]).iter().enumerate().find_map(|(gpu, live)| {
        list(&live["instances"]).iter().find_map(|instance| {
            let cis = list(&instance["cis"]);
            let ci = cis.iter().find(|ci| ci["uuid"] == uuid)?;
            let options = words(&[("gpu", &gpu.into()), ("gi", &instance["id"]), ("ci", &ci["id"])]);
            Some((u32::try_from(gpu).ok()?, options))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_has_its_place() {
        let text = r#"{"node": {"gpus": [{"uuid": "GPU-a"}, {"uuid": "GPU-b"}]},
            "gpus": [{"instances": []}, {"instances": [{"id": 7, "cis": [{"id": 0, "uuid": "MIG-c"}]}]}]}"#;
        let state: Value = serde_json::from_str(text).unwrap();
        let found = |uuid: &str| place(&state, uuid).map(|(_, words)| words.join(" "));
        assert_eq!(found("GPU-b").as_deref(), Some("--gpu 1"));
        assert_eq!(found("MIG-c").as_deref(), Some("--gpu 1 --gi 7 --ci 0"));
        assert_eq!(found("MIG-x"), None);
    }
}
