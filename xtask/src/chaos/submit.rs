//! Submits jobs. A submission may take long while slurmctld is away, so it goes on beside everything else.

use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use lab::{Cluster, User};

use super::check::Finding;
use super::plan::{Manner, Order};
use super::run::Run;
use super::seen::name_of;
use super::strike::user_of;
use super::wounds::may_refuse;
use crate::command::{TaskError, at};

/// A submission under way.
#[derive(Debug)]
pub(super) struct Submission {
    sbatch: Child,
    order: u32,
    kind: &'static str,
    /// Its job is cancelled so many milliseconds later.
    cancel_after: Option<u32>,
}

/// The command that submits an order.
fn sbatch(cluster: &Cluster, order: &Order) -> Result<Command, TaskError> {
    let jobs = cluster.layout().jobs();
    let mut command = cluster.command(user_of(order.user), "sbatch")?;
    command.args(["--parsable", &format!("--job-name={}", name_of(order.number))]);
    command.arg(format!("--chdir={}", jobs.display()));
    command.arg(format!("--output={}", jobs.join("%x.%j.out").display()));
    command.args(order.kind().options);
    command.arg(jobs.join("chaos.sh")).arg(order.seconds.to_string());
    command.arg(if order.manner == Manner::Stubborn { "stubborn" } else { "meek" });
    command.args(order.kind().step.is_some().then_some("step"));
    Ok(command)
}

impl Run<'_> {
    pub(super) fn submit(&mut self, order: Order) -> Result<(), TaskError> {
        let mut command = sbatch(&self.cluster, &order)?;
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
