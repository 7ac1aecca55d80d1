//! Runs in Slurm's accounting, by the jobs that count as the same program, and what they say. Pure.

use std::collections::HashMap;

use learnt_bandwidth::{Jobs, LearntTable, ProgramKey};
use link_learning::{CountedRun, MOST_RUNS, learn};
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

/// Most groups of runs that are kept. A month has fewer, unless users make up names.
const MOST_GROUPS: usize = 100_000;

/// Runs of jobs that count as the same program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TrafficRow {
    pub(super) key: ProgramKey,
    /// Name of the user.
    pub(super) user: String,
    /// Rates of the runs that count, bytes per second and GPU, ascending. At least one.
    pub(super) rates: Vec<u64>,
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

/// The rows of this accounting, those with the newest runs first. `lines` are in the order of time, and a job's steps follow it.
pub(super) fn rows(lines: Vec<Cells>) -> Vec<TrafficRow> {
    let mut jobs: Vec<(Cells, Option<u64>)> = Vec::new();
    for line in lines {
        match line[0].split_once('.') {
            None => jobs.push((line, None)),
            Some((of, _)) => {
                let sent = sent(&line[6]);
                if let Some((_, all)) = jobs.last_mut().filter(|(job, _)| job[0] == of) {
                    // Steps that count do so one after the other, or on different nodes.
                    *all = sent.into_iter().chain(*all).reduce(u64::saturating_add);
                }
            }
        }
    }
    let mut rows: Vec<(TrafficRow, Vec<CountedRun>)> = Vec::new();
    let mut places: HashMap<ProgramKey, usize> = HashMap::new();
    for (job, sent) in jobs.into_iter().rev() {
        let Some((key, run)) = sent.and_then(|sent| of(&job, sent)) else { continue };
        let place = match places.get(&key) {
            Some(place) => *place,
            None if rows.len() >= MOST_GROUPS => continue,
            None => {
                places.insert(key.clone(), rows.len());
                let user = job[2].clone();
                rows.push((TrafficRow { key, user, rates: Vec::new(), learnt: None }, Vec::new()));
                rows.len() - 1
            }
        };
        if let Some((_, runs)) = rows.get_mut(place).filter(|(_, runs)| runs.len() < MOST_RUNS) {
            runs.push(run);
        }
    }
    rows.into_iter().map(|(row, runs)| judged(row, &runs)).collect()
}

fn judged(row: TrafficRow, runs: &[CountedRun]) -> TrafficRow {
    let mut rates: Vec<u64> = runs.iter().filter_map(CountedRun::rate).collect();
    rates.sort_unstable();
    TrafficRow { rates, learnt: learn(runs.iter().copied()), ..row }
}

/// Bytes that a step's list says the job's GPUs have sent.
fn sent(list: &str) -> Option<u64> {
    let of = |name| tres(list, name).and_then(bytes);
    CountedRun::all_sent(of("ic/nvlink"), of("ic/pcie"))
}

/// A completed job whose GPUs sent so much, and the jobs that it is one of; `None`: it says nothing.
fn of(job: &Cells, sent: u64) -> Option<(ProgramKey, CountedRun)> {
    let [_, uid, _, state, elapsed, allocated, _, comment, name] = job;
    if state != "COMPLETED" {
        return None;
    }
    let gpus: u32 = tres(allocated, "gres/gpu")?.parse().ok()?;
    let run = CountedRun { gpus: gpus.into(), seconds: elapsed.parse().ok()?, sent };
    run.rate()?;
    let asks = AdminComment::parse(comment).asks;
    let app = asks.and_then(|asks| parse_request(&asks).ok()?.job_profile);
    Some((ProgramKey::of(uid.parse().ok()?, app.as_deref(), Some(name), gpus)?, run))
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
    fn the_newest_runs_count() {
        let cells = ["7", "COMPLETED", "1000", "2", "", "train.sh"];
        let (low, high) = ("ic/nvlink=0", "ic/nvlink=1T");
        let old = (0..90).map(|id| job(id, cells, high));
        let new = (100..100 + u32::try_from(MOST_RUNS).unwrap()).map(|id| job(id, cells, low));
        let jobs: Vec<[Cells; 2]> = old.chain(new).collect();
        assert_eq!(shown(jobs), [("train.sh on 2 GPUs".to_owned(), MOST_RUNS, Some(Bandwidth::Insensitive))]);
    }
}
