//! `sbatch` and `scancel`: submitting jobs, and taking them back.

use std::io::Write as _;
use std::process::{Command, Stdio};

use super::command::prepare;

/// Submits a job: a batch script, or what `words` wrap. Returns its id, or what sbatch says where it refuses.
///
/// `without` are variables that sbatch must not see. It submits to the cluster that all other commands ask.
pub(crate) fn submit(words: &[String], script: Option<&str>, without: &[&str]) -> Result<u32, String> {
    let mut command = Command::new("sbatch");
    command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
    for variable in ["SLURM_CLUSTERS", "SBATCH_CLUSTERS"].iter().chain(without) {
        command.env_remove(variable);
    }
    command.stdin(if script.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child = command.spawn().map_err(|e| format!("cannot run sbatch: {e}"))?;
    if let (Some(text), Some(mut stdin)) = (script, child.stdin.take()) {
        // An sbatch that refuses its options does not read the script: its own words count.
        let _ = stdin.write_all(text.as_bytes());
    }
    let out = child.wait_with_output().map_err(|e| format!("sbatch: {e}"))?;
    let said = String::from_utf8_lossy(&out.stdout);
    let id = said.trim().split(';').next().and_then(|id| id.parse().ok());
    match id.filter(|_| out.status.success()) {
        Some(id) => Ok(id),
        None => Err(format!("{}{}", said.trim(), String::from_utf8_lossy(&out.stderr).trim())),
    }
}

/// Cancels jobs; whether that worked.
pub(crate) fn cancel(ids: &[String]) -> bool {
    prepare("scancel").args(ids).output().is_ok_and(|out| out.status.success())
}
