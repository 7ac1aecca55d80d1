//! Submits jobs. A submission may take long while slurmctld is away, so it goes on beside everything else.

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use lab::{Cluster, User};

use super::check::Finding;
use super::plan::{KINDS, Manner, Order, Promise};
use super::run::ChaosRun;
use super::seen::{Processes, name_of, scan};
use super::submission::Submission;
use super::users::user_of;
use super::wounds::may_refuse;
use crate::command::{TaskError, at};

/// Jobs that a run adds to the plan count from here.
const ADDED: u32 = 1_000_000;

/// How long an added job is waited for; other jobs may have the devices until then.
const MEET: Duration = Duration::from_secs(25);

/// The command that submits an order.
fn sbatch(cluster: &Cluster, order: &Order, options: &[&str]) -> Result<Command, TaskError> {
    let jobs = cluster.layout().jobs();
    let mut command = cluster.command(user_of(order.user), "sbatch")?;
    command.args(["--parsable", &format!("--job-name={}", name_of(order.number))]);
    command.arg(format!("--chdir={}", jobs.display()));
    command.arg(format!("--output={}", jobs.join("%x.%j.out").display()));
    command.args(order.kind().options).args(options);
    command.arg(jobs.join("chaos.sh")).arg(order.seconds.to_string());
    command.arg(if order.manner == Manner::Stubborn { "stubborn" } else { "meek" });
    command.args(order.kind().step.is_some().then_some("step"));
    Ok(command)
}

impl ChaosRun<'_> {
    /// Waits until a job of GPU tasks runs on the node, and submits one if none does: only then is there a broker to be met.
    pub(super) fn meet_seats(&mut self, node: &str, fault: u32) -> Result<(), TaskError> {
        let runs = |seen: &Processes, node: &str| {
            let has_broker = seen.brokers.iter().any(|broker| broker.node.as_deref() == Some(node));
            has_broker && seen.tasks.iter().any(|task| task.node == node && task.has_seats)
        };
        self.meet(node, fault, runs, |promise| matches!(promise, Promise::Seats { preloaded: true }))
    }

    /// Waits for a share under MPS: only then has a user a directory in the node's run directory.
    pub(super) fn meet_share(&mut self, node: &str, fault: u32) -> Result<(), TaskError> {
        let runs = |seen: &Processes, node: &str| {
            seen.mps.iter().any(|daemon| daemon.node.as_deref() == Some(node) && daemon.uid != 0)
        };
        self.meet(node, fault, runs, |promise| matches!(promise, Promise::Share { .. }))
    }

    fn meet(
        &mut self,
        node: &str,
        fault: u32,
        runs: fn(&Processes, &str) -> bool,
        is_plain: fn(Promise) -> bool,
    ) -> Result<(), TaskError> {
        let runs = |run: &Self| runs(&scan(&run.cluster), node);
        let kind = KINDS.iter().position(|kind| is_plain(kind.promise) && kind.step.is_none());
        if runs(self) {
            return Ok(());
        }
        let Some(kind) = kind else { return Ok(()) };
        let order = Order { number: ADDED + fault, user: fault % 2, kind, seconds: 20, manner: Manner::Meek };
        self.submit_with(order, &["-w", node])?;
        let begin = Instant::now();
        while begin.elapsed() < MEET && !runs(self) {
            self.watch(Duration::from_millis(300))?;
        }
        Ok(())
    }

    /// Submits a job that needs every GPU of the node.
    pub(super) fn need_all(&mut self, node: &str) -> Result<(), TaskError> {
        let Some(kind) = KINDS.iter().position(|kind| kind.promise == Promise::Everything) else {
            return Ok(());
        };
        let fault = self.outcome.faults;
        let order = Order { number: ADDED + fault, user: fault % 2, kind, seconds: 1, manner: Manner::Meek };
        self.submit_with(order, &["-w", node])
    }

    pub(super) fn submit(&mut self, order: Order) -> Result<(), TaskError> {
        self.submit_with(order, &[])
    }

    fn submit_with(&mut self, order: Order, options: &[&str]) -> Result<(), TaskError> {
        let mut command = sbatch(&self.cluster, &order, options)?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let sbatch = at("sbatch".as_ref(), command.spawn())?;
        self.outcome.jobs += 1;
        let (number, kind) = (order.number, order.kind().name);
        self.submissions.push(Submission {
            sbatch,
            order: number,
            kind,
            cancel_after: self.cancel_young.take(),
        });
        self.orders.push(order);
        Ok(())
    }

    /// Takes the answers of the submissions that have ended, or of all.
    pub(super) fn answers(&mut self, wait: bool) -> Result<(), TaskError> {
        for mut one in std::mem::take(&mut self.submissions) {
            if !wait && matches!(one.sbatch.try_wait(), Ok(None)) {
                self.submissions.push(one);
                continue;
            }
            let done = at("sbatch".as_ref(), one.sbatch.wait_with_output())?;
            if !done.status.success() {
                self.outcome.refused += 1;
                let text = String::from_utf8_lossy(&done.stderr).into_owned();
                let why = text.lines().next().unwrap_or_default();
                self.outcome.say(&format!("  order {} ({}) refused: {why}", one.order, one.kind))?;
                if !self.has_second_led() && !self.recent().any(|fault| may_refuse(fault, &text)) {
                    let subject = format!("order {} ({})", one.order, one.kind);
                    self.violation(Finding::new("refused", subject, why))?;
                }
            } else if let Some(ms) = one.cancel_after {
                sleep(Duration::from_millis(ms.into()));
                let job = String::from_utf8_lossy(&done.stdout).into_owned();
                self.cluster.run(User::Root, "scancel", &[job.trim()])?;
            }
        }
        Ok(())
    }
}
