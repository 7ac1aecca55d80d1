//! Jobs that were ending when slurmd started.
//!
//! A slurmd that is killed after it was told to end a job never runs that job's epilog (`docs/slurm-quirks.md`). The job may
//! live on for some seconds, so what it has can only be given back later, and by somebody else.

use std::thread::sleep;
use std::time::{Duration, Instant};

use node_journal::Entry;

use super::give_back;
use crate::local_node::{Local, compare, still_here};
use crate::outcome::Failure;

/// Longer than Slurm waits at any job's end by its defaults: `KillWait` 30 s, slurmctld's repeated order 65 s,
/// `UnkillableStepTimeout` 60 s.
const LONGEST: Duration = Duration::from_secs(600);

/// How often the node is asked whether a job still lives. Slurm is asked only when one does not.
const EVERY: Duration = Duration::from_secs(1);

/// Gives back what these jobs have as soon as they have ended; what was done.
///
/// # Errors
///
/// The journal cannot be used, or another process works on the node for too long.
pub(super) fn until_ended(local: &Local<'_>, mut ending: Vec<Entry>) -> Result<String, Failure> {
    let mut text = String::new();
    let begun = Instant::now();
    while !ending.is_empty() && begun.elapsed() < LONGEST && local.settings.node.state_dir.exists() {
        sleep(EVERY);
        let here = still_here(&local.name, &ending);
        if ending.iter().all(|e| here.contains(&e.job())) {
            continue;
        }
        // A slurmctld that does not answer now may in a second.
        if let Ok(now) = compare(local, true) {
            give_back(local, now.dead, &mut text)?;
            ending = now.ending;
        }
    }
    Ok(text)
}
