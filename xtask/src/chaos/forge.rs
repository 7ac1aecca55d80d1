//! Two processes that look like jobs on one GPU: a run has to find them, or it finds nothing.

use std::process::{Child, Command, Stdio};

use lab::{HarnessError, User};

use super::run::ChaosRun;
use crate::command::{TaskError, at};

impl ChaosRun<'_> {
    pub(super) fn forge(&mut self) -> Result<(), TaskError> {
        let mut both = Vec::new();
        for (user, job) in [(User::Alice, "9001"), (User::Bob, "9002")] {
            both.push(at("sleep".as_ref(), self.forged(user, job)?.spawn())?);
        }
        // Both have to be there for more than a clock tick before they are seen. A busy machine takes seconds to start them.
        let seen = self.watch(std::time::Duration::from_secs(5));
        both.iter_mut().for_each(end);
        seen
    }

    fn forged(&self, user: User, job: &str) -> Result<Command, HarnessError> {
        let mut command = self.cluster.command_on("n1", user, "sleep")?;
        command.args(["60"]).stdin(Stdio::null());
        command.env("SLURM_JOB_ID", job).env("SLURM_JOB_NAME", "forged").env("CUDA_VISIBLE_DEVICES", "0");
        Ok(command)
    }
}

fn end(child: &mut Child) {
    // It may have ended already.
    let _ = child.kill();
    let _ = child.wait();
}
