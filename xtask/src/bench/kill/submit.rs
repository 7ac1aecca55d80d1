//! Submits a stream's jobs, each of which leaves a trace of every time that it is begun.

use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use error_chain::with_causes;
use lab::command::wait_for;
use lab::{Cluster, HarnessError, JobId, User};

use super::super::kinds::MIX;
use super::super::stream::Share;
use crate::command::{TaskError, at};

/// A job as it was submitted.
pub(super) struct Submitted {
    pub(super) job: JobId,
    pub(super) kind: &'static str,
    pub(super) user: User,
}

/// The site's prolog and epilog: each leaves a trace that it ran. On plain Slurm they take about as long as Tessera's work
/// does, so that the kill hits them as often.
pub(super) fn scripts(cluster: &Cluster, stock: bool) -> Result<(), TaskError> {
    for name in ["prolog", "epilog"] {
        let trace = cluster.layout().jobs().join(format!("{name}.$SLURM_JOB_ID"));
        let text = format!(
            "#!/bin/sh\necho done >> {}\nsleep {}\n",
            trace.display(),
            if stock { "0.2" } else { "0" }
        );
        let path = cluster.layout().etc(name);
        at(&path, std::fs::write(&path, text))?;
        at(&path, std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)))?;
    }
    Ok(())
}

/// Submits a user's jobs, one after the other. While slurmctld is away, `sbatch` fails and is tried again.
pub(super) fn submit(
    cluster: &Cluster,
    share: &Share,
    stock: bool,
    sent: &AtomicUsize,
) -> Result<Vec<Submitted>, HarnessError> {
    let one = |&(kind, script): &(usize, &'static str)| {
        let kind = &MIX[kind];
        let options = if stock { kind.stock } else { kind.ours };
        // How often a script is begun is only known by what it leaves.
        let script = format!("echo begun >> ran.$SLURM_JOB_ID; {script}");
        let job = wait_for("a submission", Duration::from_secs(120), || {
            cluster.sbatch(share.user, options, &script).map_err(|error| with_causes(&error))
        })?;
        sent.fetch_add(1, Ordering::Relaxed);
        Ok(Submitted { job, kind: kind.name, user: share.user })
    };
    share.jobs.iter().map(one).collect()
}
