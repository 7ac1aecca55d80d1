//! Does what an administrator would do after the kill, so that the stream can end.

use lab::{Cluster, HarnessError, User};

/// Reasons under which a job waits for an administrator, as `squeue` ends its line.
const HELD: [&str; 3] = ["held", "JobHeldAdmin", "BadConstraints"];

/// Nodes that Slurm has drained, with its reason. They are resumed so that the stream can end.
pub(super) fn resume_drained(cluster: &Cluster) -> Result<Vec<String>, HarnessError> {
    let nodes = cluster.run(User::Root, "sinfo", &["-h", "-N", "-t", "drain", "-o", "%N %E"])?.ok()?;
    for line in nodes.lines() {
        eprintln!("bench: stream: resuming {line}");
        let node = format!("nodename={}", line.split(' ').next().unwrap_or_default());
        cluster.run(User::Root, "scontrol", &["update", &node, "state=resume"])?.ok()?;
    }
    Ok(nodes.lines().map(str::to_owned).collect())
}

/// Slurm holds jobs whose start it has forgotten, and believes that others run until their nodes register again.
/// Returns the jobs that were held.
pub(super) fn as_an_admin_would(cluster: &Cluster) -> Result<Vec<String>, HarnessError> {
    let queue = cluster.run(User::Root, "squeue", &["-h", "-t", "pending", "-o", "%i %r"])?.ok()?;
    let held: Vec<String> = queue
        .lines()
        .filter(|line| HELD.iter().any(|reason| line.ends_with(reason)))
        .filter_map(|line| line.split(' ').next().map(str::to_owned))
        .collect();
    for job in &held {
        cluster.run(User::Root, "scontrol", &["release", job])?.ok()?;
    }
    cluster.run(User::Root, "scontrol", &["reconfigure"])?.ok()?;
    Ok(held)
}
