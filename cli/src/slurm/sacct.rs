//! `sacct`: jobs that slurmctld has forgotten, in Slurm's accounting.

use protocol::AdminComment;
use std::collections::HashMap;
use std::process::Command;

use super::records::Table;
use super::squeue::MOST_IDS;
use crate::outcome::Failure;

/// One completed job of a job profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Past {
    pub(crate) job_profile: String,
    /// The MIG profile of its one instance.
    pub(crate) instance: String,
    pub(crate) seconds: u64,
}

/// The fields asked for. No user writes any of them; the comment is last, because it may contain the separator.
const FIELDS: &str = "JobIDRaw,State,ElapsedRaw,AdminComment";

/// The jobs of the last `days` days, of all users that the caller may see.
pub(crate) fn completed(days: u32) -> Result<Vec<Past>, Failure> {
    let since = format!("now-{days}days");
    let mut command = Command::new("sacct");
    command.args(["-a", "-X", "-n", "-P", "-s", "CD", "-S", &since, "-E", "now", "-o", FIELDS]);
    let out = command.output().map_err(|e| {
        Failure::new(format!("cannot run sacct: {e}")).hint("is Slurm's client package installed here?")
    })?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        let said = said.trim().trim_start_matches("sacct: ").trim_start_matches("error: ");
        let hint = "times are learnt from Slurm's accounting, which needs AccountingStorageType=accounting_storage/slurmdbd; \
                    jobs can also give their times with --gpu-times";
        return Err(Failure::new(format!("sacct: {}", said.replace('\n', ": "))).hint(hint));
    }
    Ok(parse(&String::from_utf8_lossy(&out.stdout)))
}

/// Lines of sacct; those that are not a completed job of a job profile on one instance are passed over.
pub(crate) fn parse(text: &str) -> Vec<Past> {
    text.lines().filter_map(one).collect()
}

fn one(line: &str) -> Option<Past> {
    let mut fields = line.splitn(4, '|');
    let (_, state, elapsed, comment) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let comment = AdminComment::parse(comment);
    let started = comment.started().filter(|_| state == "COMPLETED")?;
    let instance = started.only_instance()?.profile.to_owned();
    let seconds = elapsed.parse().ok()?;
    Some(Past { job_profile: started.job_profile.clone()?, instance, seconds })
}

/// These columns of these jobs, by job id; empty if the site has no accounting.
///
/// # Errors
///
/// sacct's table is not what was asked for.
pub(crate) fn rows<const N: usize>(
    ids: &[u32],
    columns: [(&str, usize); N],
) -> Result<HashMap<u32, [String; N]>, Failure> {
    let all: Vec<(&str, usize)> = [("JobIDRaw", 14)].into_iter().chain(columns).collect();
    let format: Vec<String> = all.iter().map(|(name, width)| format!("{name}%{width}")).collect();
    let mut rows = HashMap::new();
    for ids in ids.chunks(MOST_IDS) {
        let list: Vec<String> = ids.iter().map(u32::to_string).collect();
        let mut command = Command::new("sacct");
        command.args(["-X", "-n", "-o", &format.join(","), "-j", &list.join(",")]);
        let Ok(out) = command.env("SLURM_TIME_FORMAT", "%s").output() else { continue };
        if !out.status.success() {
            continue;
        }
        for mut cells in (Table { program: "sacct", columns: &all, gap: 1 }).read(&out.stdout)? {
            let id = cells.remove(0).parse();
            if let (Ok(id), Ok(cells)) = (id, <[String; N]>::try_from(cells)) {
                rows.insert(id, cells);
            }
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completed_jobs_on_one_instance_count() {
        let text = "12|COMPLETED|35|tessera: n1=mig:3/2g.10gb@4 job-profile=bert: why | with a bar\n\
                    13|COMPLETED|61|tessera: n1=mig:3/1g.5gb@4 job-profile=bert planned=5-66: as planned\n\
                    14|FAILED|3|tessera: n1=mig:3/1g.5gb@4 job-profile=bert: why\n\
                    15|COMPLETED|3|tessera: n1=mig:3/1g.5gb@4: why\n\
                    16|COMPLETED|3|tessera: n1=mig:3/1g.5gb@4,3/1g.5gb@5 job-profile=bert: why\n\
                    17|COMPLETED|3|tessera: n1=whole:0 job-profile=bert: why\n\
                    18|COMPLETED|3|somebody's own\n\
                    19|COMPLETED|3|\n\
                    nonsense\n";
        let past = |instance: &str, seconds| Past {
            job_profile: "bert".to_owned(),
            instance: instance.to_owned(),
            seconds,
        };
        assert_eq!(parse(text), [past("2g.10gb", 35), past("1g.5gb", 61)]);
    }
}
