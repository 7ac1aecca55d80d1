//! `sacct`: jobs that slurmctld has forgotten, in Slurm's accounting.

mod columns;
mod fields;
pub(crate) mod jobs;
pub(crate) mod lines;

use protocol::AdminComment;
use std::collections::HashMap;
use std::process::Command;

use super::command::prepare;
use super::records::SlurmTable;
use super::squeue::MOST_IDS;
use crate::only_instance::OnlyInstance;
use crate::outcome::Failure;

/// A completed job of a job profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Past {
    pub(crate) user: String,
    pub(crate) account: String,
    pub(crate) job_profile: String,
    /// The MIG profile of its one instance.
    pub(crate) instance: String,
    pub(crate) seconds: u64,
}

/// The columns asked for. What is cut from a comment is the end of its reason.
const COLUMNS: [(&str, usize); 6] = [
    ("JobIDRaw", 14),
    ("User", 64),
    ("Account", 64),
    ("State", 20),
    ("ElapsedRaw", 12),
    ("AdminComment", 512),
];
const TABLE: SlurmTable<'_> = SlurmTable { program: "sacct", columns: &COLUMNS, gap: 1 };

/// Makes sacct's `-o` of columns.
fn format(columns: &[(&str, usize)]) -> String {
    columns.iter().map(|(name, width)| format!("{name}%{width}")).collect::<Vec<_>>().join(",")
}

/// Gives the instant so many seconds ago, as sacct takes it.
fn ago(seconds: u64) -> String {
    format!("now-{seconds}seconds")
}

/// Lists the jobs that completed in the last `since_s` seconds, of all users that the caller may see.
pub(crate) fn completed(since_s: u64) -> Result<Vec<Past>, Failure> {
    let since = ago(since_s);
    let mut command = prepare("sacct");
    command.args(["-a", "-X", "-n", "-s", "CD", "-S", &since, "-E", "now", "-o", &format(&COLUMNS)]);
    let hint = "times are learnt from Slurm's accounting, which needs AccountingStorageType=accounting_storage/slurmdbd; \
                jobs can also give their times with --gpu-times";
    parse(&answer(&mut command, hint)?)
}

/// Hint for a failure of sacct.
const NEEDS: &str = "this needs Slurm's accounting: AccountingStorageType=accounting_storage/slurmdbd";

/// Runs sacct and returns its output.
///
/// # Errors
///
/// It cannot be run, or fails: with this hint.
fn answer(command: &mut Command, hint: &str) -> Result<Vec<u8>, Failure> {
    let out = command.output().map_err(|e| not_run(&e))?;
    if out.status.success() { Ok(out.stdout) } else { Err(failed(&out.stderr, hint)) }
}

fn not_run(why: &std::io::Error) -> Failure {
    Failure::new(format!("cannot run sacct: {why}")).hint("is Slurm's client package installed here?")
}

/// Makes a failure of what sacct says on stderr.
fn failed(said: &[u8], hint: &str) -> Failure {
    let said = String::from_utf8_lossy(said);
    let said = said.trim().trim_start_matches("sacct: ").trim_start_matches("error: ");
    let is_silent = said.contains("talking to the database");
    let hint = if is_silent { "slurmdbd does not answer: try again when it runs" } else { hint };
    Failure::new(format!("sacct: {}", said.replace('\n', ": "))).hint(hint)
}

/// Records of sacct in [`COLUMNS`]; those that are not a completed job of a job profile on one instance are passed over.
///
/// # Errors
///
/// It is no such table.
pub(crate) fn parse(table: &[u8]) -> Result<Vec<Past>, Failure> {
    Ok(TABLE.read(table)?.into_iter().filter_map(one).collect())
}

fn one(cells: Vec<String>) -> Option<Past> {
    let [_, user, account, state, elapsed, comment] = <[String; 6]>::try_from(cells).ok()?;
    let comment = AdminComment::parse(&comment);
    let started = comment.started().filter(|_| state == "COMPLETED")?;
    let instance = OnlyInstance::parse(&started.got)?.profile.to_owned();
    let (job_profile, seconds) = (started.job_profile.clone()?, elapsed.parse().ok()?);
    Some(Past { user, account, job_profile, instance, seconds })
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
    let mut rows = HashMap::new();
    for ids in ids.chunks(MOST_IDS) {
        let list: Vec<String> = ids.iter().map(u32::to_string).collect();
        let mut command = prepare("sacct");
        command.args(["-X", "-n", "-o", &format(&all), "-j", &list.join(",")]);
        let Ok(out) = command.env("SLURM_TIME_FORMAT", "%s").output() else { continue };
        if !out.status.success() {
            continue;
        }
        for mut cells in (SlurmTable { program: "sacct", columns: &all, gap: 1 }).read(&out.stdout)? {
            let id = cells.remove(0).parse();
            if let (Ok(id), Ok(cells)) = (id, <[String; N]>::try_from(cells)) {
                rows.insert(id, cells);
            }
        }
    }
    Ok(rows)
}

/// A job's own line and those of its steps: the number of each, then these columns. `N` is their number and one.
///
/// # Errors
///
/// sacct cannot be run or fails, or its table is not what was asked for.
pub(crate) fn job_and_steps<const M: usize, const N: usize>(
    job: &str,
    columns: [(&str, usize); M],
) -> Result<Vec<[String; N]>, Failure> {
    let all: Vec<(&str, usize)> = [("JobIDRaw", 24)].into_iter().chain(columns).collect();
    let mut command = prepare("sacct");
    command.args(["-n", "-o", &format(&all), "-j", job]).env("SLURM_TIME_FORMAT", "%s");
    let out = answer(&mut command, NEEDS)?;
    let records = SlurmTable { program: "sacct", columns: &all, gap: 1 }.read(&out)?;
    Ok(records.into_iter().filter_map(|cells| <[String; N]>::try_from(cells).ok()).collect())
}

/// Whose jobs are asked for.
pub(crate) enum Whose {
    User(String),
    Account(String),
}

/// Lists the lines of the jobs and steps of the last `since_s` seconds: the number of each, then these columns. `N` is their number and one.
///
/// # Errors
///
/// sacct cannot be run or fails, or its table is not what was asked for.
pub(crate) fn jobs_and_steps<const M: usize, const N: usize>(
    whose: &Whose,
    since_s: u64,
    columns: [(&str, usize); M],
) -> Result<Vec<[String; N]>, Failure> {
    let all: Vec<(&str, usize)> = [("JobIDRaw", 24)].into_iter().chain(columns).collect();
    let mut command = prepare("sacct");
    command.args(["-n", "-S", &ago(since_s), "-E", "now", "-o", &format(&all)]);
    match whose {
        Whose::User(name) => command.args(["-u", name]),
        Whose::Account(name) => command.args(["-a", "-A", name]),
    };
    let out = answer(&mut command, NEEDS)?;
    let records = SlurmTable { program: "sacct", columns: &all, gap: 1 }.read(&out)?;
    Ok(records.into_iter().filter_map(|cells| <[String; N]>::try_from(cells).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completed_jobs_on_one_instance_count() {
        let rows = [
            (12, "COMPLETED", 35, "tessera: n1=mig:3/2g.10gb@4 job-profile=bert: why | with a bar"),
            (13, "COMPLETED", 61, "tessera: n1=mig:3/1g.5gb@4 job-profile=bert planned=5-66: as planned"),
            (14, "FAILED", 3, "tessera: n1=mig:3/1g.5gb@4 job-profile=bert: why"),
            (15, "COMPLETED", 3, "tessera: n1=mig:3/1g.5gb@4: why"),
            (16, "COMPLETED", 3, "tessera: n1=mig:3/1g.5gb@4,3/1g.5gb@5 job-profile=bert: why"),
            (17, "COMPLETED", 3, "tessera: n1=whole:0 job-profile=bert: why"),
            (18, "COMPLETED", 3, "somebody's own"),
            (19, "COMPLETED", 3, ""),
        ];
        let line = |(id, state, seconds, comment): &(u32, &str, u32, &str)| {
            format!("{id:>14} {:>64} {:>64} {state:>20} {seconds:>12} {comment:>512} \n", "alice", "lab\n|x")
        };
        let past = |instance: &str, seconds| Past {
            user: "alice".to_owned(),
            account: "lab\n|x".to_owned(),
            job_profile: "bert".to_owned(),
            instance: instance.to_owned(),
            seconds,
        };
        let table: String = rows.iter().map(line).collect();
        assert_eq!(parse(table.as_bytes()).unwrap(), [past("2g.10gb", 35), past("1g.5gb", 61)]);
        assert!(parse(b"12|COMPLETED|35|\n").is_err());
    }
}
