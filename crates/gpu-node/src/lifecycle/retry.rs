//! Waits for a job that holds what another one was granted and is about to be ended.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use placement::JobId;

use super::job::JobContext;
use super::realise::{Realised, realise};
use crate::fault::{Fault, RealiseError};
use crate::settings::Settings;

/// How often it is looked again.
const LOOK: Duration = Duration::from_millis(200);

/// Makes real what a job was granted, as [`realise()`]; while a live job holds some of it, tries again for `patience`.
/// `live` tells each time which jobs are on the node, for [`JobContext::live`].
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
