//! Waits until a cluster's daemons answer.

use std::fs;
use std::time::Duration;

use error_chain::with_causes;
use protocol::Standing;

use crate::cluster::Cluster;
use crate::command::{PATIENCE, run, wait_for};
use crate::daemon::Daemon;
use crate::error::HarnessError;
use crate::user::User;

impl Cluster {
    /// Waits until munged can be asked.
    ///
    /// # Errors
    ///
    /// If it has no socket.
    pub fn wait_munged(&self) -> Result<(), HarnessError> {
        let socket = self.layout.munge_socket();
        wait_for("munged's socket", PATIENCE, || {
            if socket.exists() { Ok(()) } else { Err("no socket".to_owned()) }
        })
    }

    /// Waits until the first slurmctld answers: the second one must not find its place empty.
    pub(crate) fn wait_primary(&self) -> Result<(), HarnessError> {
        wait_for("slurmctld to answer", PATIENCE, || {
            let done = self.run(User::Root, "scontrol", &["ping"]).map_err(|e| with_causes(&e))?;
            let is_up = done.stdout.lines().any(|line| line.contains("(primary)") && line.ends_with("UP"));
            if is_up { Ok(()) } else { Err(done.stdout) }
        })
    }

    /// Waits until every node is idle or busy with jobs, that is, up.
    ///
    /// # Errors
    ///
    /// The nodes' states and the end of the daemons' logs.
    pub fn wait_ready(&self, limit: Duration) -> Result<(), HarnessError> {
        // Up also means: a job is ending there (+), or backfill keeps the rest of the node for a pending job (-, planned).
        let states = ["idle", "planned", "mixed", "allocated", "completing"];
        let ready = |state: &str| states.contains(&state.trim().trim_end_matches(['-', '+']));
        let waited = wait_for("all nodes to be up", limit, || {
            if let Some(dead) = self.dead_daemon() {
                return Ok(Err(HarnessError::Unexpected(format!("{dead} ended"))));
            }
            let done =
                self.run(User::Root, "sinfo", &["-h", "-N", "-o", "%T"]).map_err(|e| with_causes(&e))?;
            let all_up = done.stdout.lines().count() >= self.nodes.len() && done.stdout.lines().all(ready);
            if !all_up {
                return Err(format!("{}{}", done.stdout, done.stderr));
            }
            // slurmctld notices late that a slurmd is gone or new.
            self.nodes.iter().try_for_each(|node| self.answers(node)).map(Ok)
        });
        waited.and_then(|outcome| outcome).map_err(|error| {
            HarnessError::Unexpected(format!("{}\n{}", with_causes(&error), self.log_tails()))
        })
    }

    /// Waits until no node that `tessera.toml` describes is silent: it would take no jobs with requests of Tessera's.
    ///
    /// # Errors
    ///
    /// The silent nodes, and the end of the daemons' logs.
    pub fn wait_spoken(&self, limit: Duration) -> Result<(), HarnessError> {
        let spoken = || {
            let mut all = self.standings().map_err(|e| with_causes(&e))?;
            all.retain(|(_, standing)| *standing == Standing::Silent);
            if all.is_empty() { Ok(()) } else { Err(format!("{all:?}")) }
        };
        wait_for("all nodes to say that they load Tessera", limit, spoken).map_err(|error| {
            HarnessError::Unexpected(format!("{}\n{}", with_causes(&error), self.log_tails()))
        })
    }

    /// Checks that the slurmd we started for this node answers.
    fn answers(&self, node: &str) -> Result<(), String> {
        let Some(process) = self.process(&Daemon::Slurmd(node.to_owned())) else { return Ok(()) };
        let asked = self.command_on(node, User::Root, "scontrol").map_err(|e| with_causes(&e))?;
        let done = run({ asked }.args(["show", "slurmd"])).map_err(|e| with_causes(&e))?;
        let pid =
            done.stdout.lines().find_map(|line| line.strip_prefix("Slurmd PID")?.split_whitespace().last());
        if pid == Some(&process.pid.to_string()) {
            Ok(())
        } else {
            Err(format!("{}{}", done.stdout, done.stderr))
        }
    }

    /// The last lines of every daemon's log.
    #[must_use]
    pub fn log_tails(&self) -> String {
        let mut names = vec!["slurmctld".to_owned()];
        names.extend(self.nodes.iter().map(|node| format!("slurmd-{node}")));
        let mut out = String::new();
        for name in names {
            for path in [self.layout.log(&name), self.layout.at("log").join(format!("{name}.out"))] {
                let text =
                    fs::read(&path).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default();
                let lines: Vec<&str> = text.lines().collect();
                let tail = lines[lines.len().saturating_sub(15)..].join("\n");
                out.push_str(&format!("--- {}\n{tail}\n", path.display()));
            }
        }
        out
    }
}
