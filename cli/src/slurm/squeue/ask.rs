//! Runs squeue.

use super::super::command::prepare;
use super::super::records::SlurmTable;
use crate::outcome::Failure;

/// How many jobs one command line names at most.
pub(crate) const MOST_IDS: usize = 5000;

fn arguments([option, format]: [&str; 2], only: Option<&[u32]>, own: bool) -> Vec<String> {
    let mut arguments: Vec<String> = ["-h", "-a", "-t", "all", option, format].map(str::to_owned).to_vec();
    // A longer list would not fit into an argument: then all jobs are asked for.
    if let Some(ids) = only.filter(|ids| ids.len() <= MOST_IDS) {
        let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
        arguments.push(format!("--jobs={}", ids.join(",")));
    }
    if own {
        arguments.push("--me".to_owned());
    }
    arguments
}

/// Returns squeue's output in these columns, of these jobs or of all, of one's `own` alone.
pub(super) fn printed(
    columns: &[(&str, usize)],
    only: Option<&[u32]>,
    own: bool,
) -> Result<Vec<u8>, Failure> {
    let format: Vec<String> = columns.iter().map(|(name, width)| format!("{name}:{width}")).collect();
    output(["-O", &format.join(",")], only, own)
}

/// Runs squeue with this option for its columns.
pub(super) fn output(format: [&str; 2], only: Option<&[u32]>, own: bool) -> Result<Vec<u8>, Failure> {
    let mut command = prepare("squeue");
    let out = command
        .args(arguments(format, only, own))
        .env("SLURM_TIME_FORMAT", "%s")
        .output()
        .map_err(|e| Failure::new(format!("cannot run squeue: {e}")).hint("is Slurm installed here?"))?;
    let said = String::from_utf8_lossy(&out.stderr);
    // Slurm forgets a job MinJobAge after its end, and squeue fails when it knows none of those asked for.
    if !out.status.success() && !said.contains("Invalid job id specified") {
        return Err(Failure::new(format!("squeue failed: {}", said.trim())));
    }
    Ok(out.stdout)
}

/// Returns squeue's output as cells.
pub(super) fn asked(
    columns: &[(&str, usize)],
    only: Option<&[u32]>,
    own: bool,
) -> Result<Vec<Vec<String>>, Failure> {
    Ok(SlurmTable { program: "squeue", columns, gap: 0 }.read(&printed(columns, only, own)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ones_own_jobs_are_asked_for_by_me() {
        let of = |only: Option<&[u32]>, own| arguments(["-O", "JobID:14"], only, own)[6..].join(" ");
        assert_eq!((of(None, false), of(None, true)), (String::new(), "--me".to_owned()));
        assert_eq!(of(Some(&[7, 9]), false), "--jobs=7,9");
        assert_eq!(of(Some(&[1; MOST_IDS + 1]), false), "");
    }
}
