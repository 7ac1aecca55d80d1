//! Waits for another job that holds what this one was granted, and is about to end.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use geometry::JobId;

use super::job::JobContext;
use super::realise::{Realised, realise};
use crate::fault::{Fault, RealiseError};
use crate::settings::Settings;

/// Time between two attempts.
const LOOK: Duration = Duration::from_millis(200);

/// Makes real what a job was granted, as [`realise()`] does. While a live job holds some of it, tries again until
/// `patience` is over. `live` is asked before each attempt which jobs are on the node, for [`JobContext::live`].
///
/// No lock is held between two attempts: the holder's epilog, and other prologs, are not kept waiting.
///
/// # Errors
///
/// Those of [`realise()`].
pub fn realise_waiting(
    settings: &Settings,
    job: &mut JobContext,
    live: &dyn Fn() -> Option<HashSet<JobId>>,
    patience: Duration,
) -> Result<Realised, RealiseError> {
    let begin = Instant::now();
    loop {
        job.live = live();
        match realise(settings, job) {
            Err(RealiseError::JobFailed(Fault::Held { .. })) if begin.elapsed() < patience => {
                std::thread::sleep(LOOK);
            }
            outcome => return outcome,
        }
    }
}
