//! Whole months of jobs, as the accounting has them: what each asked, got and used, and when.

use protocol::AdminComment;

use super::columns::COLUMNS;
use super::{fields, format};
use crate::outcome::Failure;
use crate::slurm::command::prepare;
use crate::slurm::records::SlurmTable;
use crate::slurm::squeue;
use crate::slurm::tres::{mib, tres};

const TABLE: SlurmTable<'_> = SlurmTable { program: "sacct", columns: &COLUMNS, gap: 1 };

/// Latest time that counts as one, s, and longest run: sums of both must not overflow.
const LATEST_S: u64 = 1 << 40;

/// Lists what a user types after `sacct -o` for [`parse`].
pub(crate) fn columns() -> String {
    format(&COLUMNS)
}

/// A job in Slurm's accounting. Times are seconds since 1970.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Accounted {
    pub(crate) id: String,
    pub(crate) user: String,
    /// The first word of its state.
    pub(crate) state: String,
    /// When it could have started: its submission, or the end of a hold or a dependency.
    pub(crate) eligible: u64,
    /// `None`: it has not started.
    pub(crate) start: Option<u64>,
    pub(crate) ran_s: u64,
    /// `None`: no limit.
    pub(crate) limit_s: Option<u64>,
    pub(crate) nodes: usize,
    /// Resources that it asked Slurm for, all nodes together.
    pub(crate) asked: String,
    /// The most GPU memory that the tasks of one of its steps used together, MiB; `None`: not recorded.
    pub(crate) memory_mib: Option<u64>,
    pub(crate) comment: AdminComment,
}

impl Accounted {
    /// True if it neither waits nor runs.
    pub(crate) fn is_over(&self) -> bool {
        is_over(&self.state)
    }

    /// True if it asked for GPUs, or got some.
    pub(crate) fn has_gpus(&self) -> bool {
        counts_gpus(&self.asked) || self.comment.asks.is_some() || self.comment.started().is_some()
    }
}

/// True if a job in this state neither waits nor runs. The state is the first word that sacct prints.
pub(crate) fn is_over(state: &str) -> bool {
    !["RUNNING", "PENDING", "SUSPENDED", "REQUEUED", "RESIZING"].contains(&state)
}

/// True if a list of trackable resources counts GPUs, in any of the ways in which a site may account them.
fn counts_gpus(list: &str) -> bool {
    ["gres/gpu", "gres/shard", "license/slice"].into_iter().any(|name| tres(list, name).is_some())
}

/// Lists the jobs of the last `since_s` seconds, of all users that the caller may see.
pub(crate) fn since(since_s: u64) -> Result<Vec<Accounted>, Failure> {
    let mut command = prepare("sacct");
    command.args(["-a", "-X", "-n", "-S", &super::ago(since_s), "-E", "now", "-o", &columns()]);
    let mut jobs = parse(&super::answer(command.env("SLURM_TIME_FORMAT", "%s"), super::NEEDS)?)?;
    name_running(jobs.iter_mut());
    Ok(jobs)
}

/// Fills in the comments of jobs that are not over: slurmctld hands a job's comment to the accounting at its end.
fn name_running<'a>(jobs: impl Iterator<Item = &'a mut Accounted>) {
    let silent = |job: &&mut Accounted| !job.is_over() && job.comment == AdminComment::default();
    let silent: Vec<&mut Accounted> = jobs.filter(silent).collect();
    if silent.is_empty() {
        return;
    }
    let comments = squeue::admin_comments(None);
    for job in silent {
        if let Some(comment) = comments.get(&job.id) {
            job.comment = AdminComment::parse(comment);
        }
    }
}

/// A run of a job on a node, and what Slurm gave it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunOn {
    pub(crate) job: Accounted,
    /// All that it had in Slurm's accounts, on all of its nodes.
    pub(crate) allocated: String,
}

impl RunOn {
    /// True if the job asked for GPUs, or got some.
    pub(crate) fn has_gpus(&self) -> bool {
        counts_gpus(&self.allocated) || self.job.has_gpus()
    }
}

/// All runs, those that were requeued too, of jobs that were on `node` between two instants, seconds since 1970. `now`: the
/// present.
pub(crate) fn on_node(node: &str, (from, to): (u64, u64), now: u64) -> Result<Vec<RunOn>, Failure> {
    // sacct takes times of the local calendar, or so long ago. A run may be of the second before.
    let ago = |at: u64| super::ago(now.saturating_sub(at));
    // Several runs of a job have the same number, and no two this.
    let all: Vec<(&str, usize)> =
        [("DBIndex", 20)].into_iter().chain(COLUMNS).chain([("AllocTRES", 256)]).collect();
    let mut command = prepare("sacct");
    command.args(["-a", "-X", "-n", "-D", "-N", node, "-S", &ago(from.saturating_sub(5)), "-E"]);
    command.args([&ago((to + 5).min(now)), "-o", &format(&all)]).env("SLURM_TIME_FORMAT", "%s");
    let table = super::answer(&mut command, super::NEEDS)?;
    let rows = SlurmTable { program: "sacct", columns: &all, gap: 1 }.read(&table)?;
    let mut runs = rows.into_iter().filter_map(run).collect::<Result<Vec<RunOn>, Failure>>()?;
    name_running(runs.iter_mut().map(|run| &mut run.job));
    Ok(runs)
}

fn run(mut cells: Vec<String>) -> Option<Result<RunOn, Failure>> {
    let allocated = cells.pop()?;
    let cells = <[String; 12]>::try_from(cells.get(1..)?.to_vec()).ok()?;
    Some(job(cells).map(|job| RunOn { job, allocated }))
}

/// Jobs in a table of sacct with [`COLUMNS`], or in what `sacct -P` prints, with times in seconds; lines of steps add to their job.
///
/// # Errors
///
/// It is no such table: the line of the first bad record.
pub(crate) fn parse(table: &[u8]) -> Result<Vec<Accounted>, Failure> {
    let mut jobs: Vec<Accounted> = Vec::new();
    let made_by =
        || format!("the file must be what sacct -n -o {} prints, or sacct -P with these columns", columns());
    let text = std::str::from_utf8(table).ok().filter(|text| fields::is_such(text));
    let records = match text {
        Some(text) => fields::records(text)?,
        None => {
            let read =
                TABLE.read(table).map_err(|e| Failure::from(e).within(first_bad(table)).hint(made_by()))?;
            let numbered = read.into_iter().zip(1..);
            numbered.filter_map(|(cells, line)| Some((line, <[String; 12]>::try_from(cells).ok()?))).collect()
        }
    };
    for (line, cells) in records {
        let step = cells[0].split_once('.').map(|(job, _)| job);
        match step {
            None => jobs.push(job(cells).map_err(|e| e.within(format!("line {line}")))?),
            // sacct prints steps behind their job.
            Some(of) => {
                let used = tres(&cells[10], "gres/gpumem").and_then(mib).filter(|mib| *mib > 0);
                if let Some(job) = jobs.last_mut().filter(|job| job.id == of) {
                    job.memory_mib = job.memory_mib.max(used);
                }
            }
        }
    }
    Ok(jobs)
}

/// Says where the first record of another length begins, `line 12`, or the whole table if all have the right one.
fn first_bad(table: &[u8]) -> String {
    let length: usize = COLUMNS.iter().map(|(_, width)| width + 1).sum();
    let whole = |record: &&[u8]| {
        record.len() == length + 1 && record[..length].iter().all(|b| *b != b'\n') && record[length] == b'\n'
    };
    let good = table.chunks(length + 1).take_while(whole).count();
    if good * (length + 1) >= table.len() { "the table".to_owned() } else { format!("line {}", good + 1) }
}

fn job(cells: [String; 12]) -> Result<Accounted, Failure> {
    let [id, user, state, submit, eligible, start, elapsed, limit, nodes, asked, _, comment] = cells;
    let [submit, eligible, start] = [("Submit", submit), ("Eligible", eligible), ("Start", start)]
        .map(|(column, text)| instant(&id, column, &text));
    let submit = submit?.unwrap_or(0);
    let minutes: Option<u64> = limit.parse().ok();
    Ok(Accounted {
        user,
        // `CANCELLED by 1000`
        state: state.split_whitespace().next().unwrap_or_default().to_owned(),
        eligible: eligible?.unwrap_or(0).max(submit),
        start: start?,
        ran_s: elapsed.parse().unwrap_or(0).min(LATEST_S),
        limit_s: minutes.map(|minutes| minutes.saturating_mul(60)),
        nodes: nodes.parse().unwrap_or(1).max(1),
        asked,
        memory_mib: None,
        comment: AdminComment::parse(&comment),
        id,
    })
}

/// A time in seconds; `None` for one that has not come.
fn instant(job: &str, column: &str, text: &str) -> Result<Option<u64>, Failure> {
    if text.is_empty() || text == "Unknown" || text == "None" {
        return Ok(None);
    }
    text.parse().ok().filter(|seconds| *seconds < LATEST_S).map(Some).ok_or_else(|| {
        Failure::new(format!("job {job}: {column} is {text:?}, not seconds since 1970"))
            .hint("run sacct with SLURM_TIME_FORMAT=%s in its environment")
    })
}

#[cfg(test)]
mod tests {
    use super::super::columns::line;
    use super::*;

    #[test]
    fn jobs_have_what_their_steps_used() {
        let job = ["7", "bob", "CANCELLED b+", "100", "150", "160", "60", "2", "1", "gres/gpu=1", "", ""];
        let step = |id, usage| [id, "", "COMPLETED", "160", "160", "160", "60", "", "1", "", usage, ""];
        let waits = ["8", "bob", "PENDING", "100", "Unknown", "Unknown", "0", "UNLIMITED", "1", "", "", ""];
        let lines = [job, step("7.batch", "gres/gpumem=5.5G"), step("7.0", "gres/gpumem=100M"), waits];
        let table: String = lines.into_iter().map(line).collect();
        let jobs = parse(table.as_bytes()).unwrap();
        let seen = Accounted {
            id: "7".into(),
            user: "bob".into(),
            state: "CANCELLED".into(),
            eligible: 150,
            start: Some(160),
            ran_s: 60,
            limit_s: Some(120),
            nodes: 1,
            asked: "gres/gpu=1".into(),
            memory_mib: Some(5632),
            comment: AdminComment::default(),
        };
        assert_eq!(jobs[0], seen);
        assert_eq!(
            (jobs[1].eligible, jobs[1].start, jobs[1].limit_s, jobs[1].memory_mib),
            (100, None, None, None)
        );
    }

    #[test]
    fn fields_between_bars_are_the_same_jobs() {
        let cells = ["7", "bob", "COMPLETED", "100", "150", "160", "60", "2", "1", "gres/gpu=1", "", ""];
        let padded = parse(line(cells).as_bytes()).unwrap();
        assert_eq!(parse((cells.join("|") + "\n").as_bytes()).unwrap(), padded);
    }

    #[test]
    fn the_line_of_a_bad_record_is_named() {
        let good = line(["7", "bob", "COMPLETED", "1", "1", "1", "6", "2", "1", "", "", ""]);
        let why =
            parse(format!("{good}{}\n", &good[..40].replace('7', "8")).as_bytes()).unwrap_err().to_string();
        assert!(why.contains("line 2") && why.contains("another length"), "{why}");
        let why = parse(
            (good.clone() + &line(["8", "bob", "COMPLETED", "x", "1", "1", "6", "2", "1", "", "", ""]))
                .as_bytes(),
        );
        let why = why.unwrap_err().to_string();
        assert!(why.contains("line 2") && why.contains("Submit is \"x\""), "{why}");
    }

    #[test]
    fn times_must_be_seconds() {
        let job = ["7", "bob", "COMPLETED", "2026-10-01+", "150", "160", "60", "2", "1", "", "", ""];
        let why = parse(line(job).as_bytes()).unwrap_err().to_string();
        assert!(why.contains("Submit is \"2026-10-01+\"") && why.contains("SLURM_TIME_FORMAT=%s"), "{why}");
    }
}
