//! Runs in Slurm's accounting, by the jobs that count as the same program, and what they say. Pure.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};

use learnt_bandwidth::{Jobs, LearntTable, ProgramKey};
use link_learning::{CountedRun, MOST_RUNS, SentBytes, learn};
use protocol::wire::parse_request;
use protocol::{AdminComment, Bandwidth};

use crate::slurm::tres::{bytes, tres};

/// Columns that sacct is asked for, behind the number of job or step. A longer name is cut, and is then too long to be learnt by.
pub(super) const COLUMNS: [(&str, usize); 8] = [
    ("UID", 12),
    ("User", 64),
    ("State", 20),
    ("ElapsedRaw", 12),
    ("AllocTRES", 256),
    ("TRESUsageOutTot", 512),
    ("AdminComment", 512),
    ("JobName", 66),
];

/// The cells of a job or a step: its number and [`COLUMNS`].
pub(super) type Cells = [String; 9];

/// Most programs that are kept. A month has fewer, unless users make up names.
const MOST_PROGRAMS: usize = 100_000;

/// Runs of jobs that count as the same program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TrafficRow {
    pub(super) key: ProgramKey,
    /// Name of the user.
    pub(super) user: String,
    /// Rates of the runs that count, bytes per second and GPU, ascending. At least one.
    pub(super) rates: Vec<u64>,
    /// True if of some run only NVLink or only PCIe was counted.
    pub(super) in_part: bool,
    /// Word that follows from the runs; `None`: they are too few, or do not agree.
    pub(super) learnt: Option<Bandwidth>,
}

impl TrafficRow {
    /// The middle of the rates, bytes per second.
    pub(super) fn median(&self) -> u64 {
        self.rates.get(self.rates.len() / 2).copied().unwrap_or(0)
    }

    /// The application, or the name and the number of GPUs.
    pub(super) fn jobs(&self) -> String {
        match &self.key.jobs {
            Jobs::App(app) => format!("application {app}"),
            Jobs::Name(name, gpus) => format!("{name} on {gpus} GPUs"),
        }
    }
}

/// Programs of users, from the lines of the accounting. It keeps the newest runs of each program, and of the job whose steps come next
/// what it needs.
#[derive(Default)]
pub(super) struct Programs {
    job: Option<Job>,
    found: HashMap<ProgramKey, Program>,
    /// Runs so far.
    runs: u64,
}

/// A completed job with several GPUs.
struct Job {
    id: String,
    user: String,
    key: ProgramKey,
    gpus: u64,
    seconds: u64,
    sent: Option<SentBytes>,
}

struct Program {
    user: String,
    /// At most [`MOST_RUNS`], the oldest first.
    runs: VecDeque<CountedRun>,
    /// Place of the newest run among all runs.
    last: u64,
}

impl Programs {
    /// Takes the next line. Lines are in the order of time, and a job's steps follow it.
    pub(super) fn take(&mut self, line: Cells) {
        let Some((of, _)) = line[0].split_once('.') else {
            self.end_job();
            self.job = Job::of(line);
            return;
        };
        if let (Some(job), Some(sent)) = (self.job.as_mut().filter(|job| job.id == of), sent(&line[6])) {
            // Steps that count do so one after the other, or on different nodes.
            job.sent = Some(job.sent.map_or(sent, |so_far| so_far.and(sent)));
        }
    }

    /// Adds the run of the job whose steps were read.
    fn end_job(&mut self) {
        let Some(Job { user, key, gpus, seconds, sent: Some(sent), .. }) = self.job.take() else { return };
        let run = CountedRun { gpus, seconds, sent };
        if run.rate().is_none() {
            return;
        }
        self.runs += 1;
        let of_program = || Program { user, runs: VecDeque::new(), last: 0 };
        let program = self.found.entry(key).or_insert_with(of_program);
        program.last = self.runs;
        program.runs.push_back(run);
        if program.runs.len() > MOST_RUNS {
            program.runs.pop_front();
        }
        if self.found.len() >= 2 * MOST_PROGRAMS {
            let mut last: Vec<u64> = self.found.values().map(|program| program.last).collect();
            let (_, least, _) = last.select_nth_unstable(MOST_PROGRAMS);
            self.found.retain(|_, program| program.last >= *least);
        }
    }

    /// Gives a row for each program, those with the newest runs first.
    pub(super) fn rows(mut self) -> Vec<TrafficRow> {
        self.end_job();
        let mut found: Vec<(ProgramKey, Program)> = self.found.into_iter().collect();
        found.sort_by_key(|(_, program)| Reverse(program.last));
        found.truncate(MOST_PROGRAMS);
        found.into_iter().map(|(key, program)| row(key, program)).collect()
    }
}

fn row(key: ProgramKey, Program { user, runs, .. }: Program) -> TrafficRow {
    let mut rates: Vec<u64> = runs.iter().filter_map(CountedRun::rate).collect();
    rates.sort_unstable();
    let in_part = runs.iter().any(|run| !run.sent.all);
    TrafficRow { key, user, rates, in_part, learnt: learn(runs.into_iter().rev()) }
}

/// Bytes that a step's list says the job's GPUs have sent.
fn sent(list: &str) -> Option<SentBytes> {
    let of = |name| tres(list, name).and_then(bytes);
    SentBytes::of(of("ic/nvlink"), of("ic/pcie"))
}

impl Job {
    /// Reads a job's own line; `None`: links cannot be learnt about from it.
    fn of(line: Cells) -> Option<Self> {
        let [id, uid, user, state, elapsed, allocated, _, comment, name] = line;
        if state != "COMPLETED" {
            return None;
        }
        let gpus: u32 = tres(&allocated, "gres/gpu")?.parse().ok()?;
        let asks = AdminComment::parse(&comment).asks;
        let app = asks.and_then(|asks| parse_request(&asks).ok()?.job_profile);
        let key = ProgramKey::of(uid.parse().ok()?, app.as_deref(), Some(&name), gpus)?;
        Some(Self { id, user, key, gpus: gpus.into(), seconds: elapsed.parse().ok()?, sent: None })
    }
}

/// The table that slurmctld reads.
pub(super) fn table(rows: &[TrafficRow]) -> LearntTable {
    LearntTable::of(rows.iter().filter_map(|row| Some((row.key.clone(), row.learnt?))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: u32, [uid, state, elapsed, gpus, comment, name]: [&str; 6], sent: &str) -> [Cells; 2] {
        let gpus = format!("cpu=4,gres/gpu={gpus}");
        let cells = [&id.to_string(), uid, "bob", state, elapsed, &gpus, "", comment, name];
        let step = [&format!("{id}.extern"), "", "", state, elapsed, "", sent, "", "extern"];
        [cells.map(str::to_owned), step.map(str::to_owned)]
    }

    fn rows(lines: Vec<Cells>) -> Vec<TrafficRow> {
        let mut programs = Programs::default();
        lines.into_iter().for_each(|line| programs.take(line));
        programs.rows()
    }

    fn shown(jobs: Vec<[Cells; 2]>) -> Vec<(String, usize, Option<Bandwidth>)> {
        rows(jobs.concat()).iter().map(|row| (row.jobs(), row.rates.len(), row.learnt)).collect()
    }

    #[test]
    fn runs_count_by_user_and_application_or_name_and_size() {
        let app = "tessera: n1=whole:0,1: why; asks v1 iso=whole gpus=2 job-profile=bert";
        // 1000 s on two GPUs: 0.5 GB/s are 10^12 bytes.
        let (low, high) = ("ic/nvlink=9999999999,ic/pcie=1M", "ic/nvlink=1000000000000");
        let many = |id, cells, sent, n: u32| (id..id + n).map(move |id| job(id, cells, sent));
        let train = ["7", "COMPLETED", "1000", "2", "", "train.sh"];
        let jobs: Vec<[Cells; 2]> = many(1, train, low, 3)
            .chain(many(10, ["7", "COMPLETED", "1000", "4", "", "train.sh"], low, 2))
            .chain(many(20, ["8", "COMPLETED", "1000", "2", "", "train.sh"], high, 3))
            .chain(many(30, ["7", "COMPLETED", "1000", "2", app, "x y"], high, 3))
            .chain(many(40, ["7", "FAILED", "1000", "2", "", "bad.sh"], low, 9))
            .chain(many(50, ["7", "COMPLETED", "1000", "1", "", "one.sh"], low, 9))
            .chain(many(60, ["7", "COMPLETED", "1000", "2", "", "x y"], low, 9))
            .chain(many(70, ["7", "COMPLETED", "9", "2", "", "short.sh"], low, 9))
            .chain(many(80, ["7", "COMPLETED", "1000", "2", "", "uncounted.sh"], "cpu=1", 9))
            .collect();
        let expected = [
            ("application bert".to_owned(), 3, Some(Bandwidth::Sensitive)),
            ("train.sh on 2 GPUs".to_owned(), 3, Some(Bandwidth::Sensitive)),
            ("train.sh on 4 GPUs".to_owned(), 2, None),
            ("train.sh on 2 GPUs".to_owned(), 3, Some(Bandwidth::Insensitive)),
        ];
        assert_eq!(shown(jobs.clone()), expected, "newest first, and each user has rows of his own");
        let table = table(&rows(jobs.concat()));
        assert_eq!(
            table.to_string(),
            "tessera-bandwidth 1\n7 app bert sensitive\n7 name train.sh 2 insensitive\n8 name train.sh 2 sensitive\n"
        );
    }

    #[test]
    fn a_run_is_all_that_its_steps_sent() {
        let (mut run, half) = (Vec::new(), "ic/nvlink=600000000000");
        for id in 1..=3 {
            let [cells, script] = job(id, ["7", "COMPLETED", "1000", "2", "", "train.sh"], half);
            let mut step = script.clone();
            step[0] = format!("{id}.0");
            run.extend([cells, script, step]);
        }
        let rows = rows(run);
        let [row] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!((row.median(), row.learnt), (600_000_000, Some(Bandwidth::Sensitive)));
    }

    #[test]
    fn one_kind_of_traffic_alone_is_not_enough_to_be_insensitive() {
        let cells = ["7", "COMPLETED", "1000", "2", "", "train.sh"];
        for (sent, learnt) in [
            ("ic/pcie=1M", None),
            ("ic/nvlink=0", None),
            ("ic/nvlink=0,ic/pcie=1M", Some(Bandwidth::Insensitive)),
            ("ic/pcie=1T", Some(Bandwidth::Sensitive)),
        ] {
            let rows = rows((1..=3).flat_map(|id| job(id, cells, sent)).collect());
            let [row] = &rows[..] else { panic!("{rows:?}") };
            assert_eq!((row.in_part, row.learnt), (!sent.contains(','), learnt), "{sent}");
        }
        let [first, step] = job(1, cells, "ic/nvlink=0,ic/pcie=0");
        let second = {
            let mut second = step.clone();
            second[0] = "1.0".to_owned();
            second[6] = "ic/pcie=0".to_owned();
            second
        };
        assert!(rows(vec![first, step, second])[0].in_part);
    }

    #[test]
    fn made_up_names_do_not_fill_the_memory() {
        let sent = "ic/nvlink=0,ic/pcie=0";
        let mut programs = Programs::default();
        let mut run = |id: u32, name: &str| {
            job(id, ["7", "COMPLETED", "1000", "2", "", name], sent)
                .into_iter()
                .for_each(|line| programs.take(line));
            programs.found.len()
        };
        run(0, "old");
        let most =
            (1..u32::try_from(2 * MOST_PROGRAMS).unwrap() + 9).map(|id| run(id, &format!("n{id}"))).max();
        assert!(most.is_some_and(|most| most <= 2 * MOST_PROGRAMS), "{most:?}");
        assert!(!programs.found.values().any(|program| program.last == 1));
        let rows = programs.rows();
        assert_eq!(
            (rows.len(), rows[0].jobs()),
            (MOST_PROGRAMS, format!("n{} on 2 GPUs", 2 * MOST_PROGRAMS + 8))
        );
    }

    #[test]
    fn the_newest_runs_count() {
        let cells = ["7", "COMPLETED", "1000", "2", "", "train.sh"];
        let (low, high) = ("ic/nvlink=0,ic/pcie=0", "ic/nvlink=1T");
        let old = (0..90).map(|id| job(id, cells, high));
        let new = (100..100 + u32::try_from(MOST_RUNS).unwrap()).map(|id| job(id, cells, low));
        let jobs: Vec<[Cells; 2]> = old.chain(new).collect();
        assert_eq!(shown(jobs), [("train.sh on 2 GPUs".to_owned(), MOST_RUNS, Some(Bandwidth::Insensitive))]);
    }
}
