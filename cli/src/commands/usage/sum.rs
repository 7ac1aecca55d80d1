//! Adds up jobs with their steps.

use std::collections::BTreeMap;

use crate::slurm::step_use::{StepUse, mean_busy};
use crate::slurm::tres::tres;

/// Fields that sacct is asked for, behind the raw number of job or step.
pub(super) const COLUMNS: [(&str, usize); 7] = [
    ("JobID", 64),
    ("User", 64),
    ("State", 40),
    ("ElapsedRaw", 12),
    ("AllocTRES", 256),
    ("NNodes", 12),
    ("TRESUsageOutTot", 512),
];

/// No job runs as long, seconds: sums must not run over.
const LONGEST_S: u64 = 1 << 40;

/// Sums of a job, an array or a user: held and used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    /// Jobs, each task of an array too.
    pub(super) jobs: u64,
    /// Jobs among these whose utilisation is recorded.
    pub(super) recorded: u64,
    /// Jobs whose slices Slurm does not count: nobody knows how much of them was used.
    pub(super) uncounted: u64,
    /// Whole GPUs that Slurm counts, times seconds.
    pub(super) gpu_s: u64,
    /// Compute slices, times seconds.
    pub(super) slice_s: u64,
    /// Slices times seconds of jobs whose utilisation is recorded, times the utilisation.
    pub(super) used_s: u64,
    /// The rest of theirs.
    pub(super) wasted_s: u64,
}

impl Sum {
    /// True if how much was used is known of any job: its utilisation is recorded, and its slices are counted.
    pub(super) fn knows_use(&self) -> bool {
        self.used_s > 0 || self.wasted_s > 0
    }

    fn add(&mut self, other: &Self) {
        self.jobs += other.jobs;
        self.recorded += other.recorded;
        self.uncounted += other.uncounted;
        self.gpu_s = self.gpu_s.saturating_add(other.gpu_s);
        self.slice_s = self.slice_s.saturating_add(other.slice_s);
        self.used_s = self.used_s.saturating_add(other.used_s);
        self.wasted_s = self.wasted_s.saturating_add(other.wasted_s);
    }
}

/// Everything that was read.
#[derive(Debug, Default)]
pub(super) struct Sums {
    /// By job, array or user.
    pub(super) rows: Vec<(String, Sum)>,
    pub(super) total: Sum,
    /// A row is a user, not a job.
    pub(super) by_user: bool,
}

impl Sums {
    /// Adds up lines as sacct prints them: steps stand behind their job. Jobs without GPUs are left out.
    pub(super) fn of(lines: Vec<[String; 8]>, by_user: bool) -> Self {
        let mut jobs: Vec<([String; 8], Vec<[String; 8]>)> = Vec::new();
        for line in lines {
            let Some((of, _)) = line[0].split_once('.') else {
                jobs.push((line, Vec::new()));
                continue;
            };
            if let Some((_, steps)) = jobs.last_mut().filter(|(job, _)| job[0] == of) {
                steps.push(line);
            }
        }
        let mut rows: BTreeMap<(u64, String), Sum> = BTreeMap::new();
        let mut total = Sum::default();
        for (job, steps) in jobs {
            let uses: Vec<StepUse> = steps.iter().map(step_use).collect();
            let Some(sum) = one(&job, mean_busy(&uses, job[6].parse().unwrap_or(1))) else { continue };
            total.add(&sum);
            rows.entry(key(&job, by_user)).or_default().add(&sum);
        }
        let rows = rows.into_iter().map(|((_, name), sum)| (name, sum)).collect();
        Self { rows, total, by_user }
    }
}

fn step_use(line: &[String; 8]) -> StepUse<'_> {
    StepUse { id: &line[0], nodes: &line[6], elapsed_s: &line[4], total_in: "", total_out: &line[7] }
}

/// The row of a job, with what orders it: the user, or its number, that of its array for a task.
fn key(job: &[String; 8], by_user: bool) -> (u64, String) {
    if by_user {
        return (0, job[2].clone());
    }
    // `14_3`, `14_[5-9]`, and `14+1` for a component.
    let shown = job[1].split(['_', '+']).next().unwrap_or_default();
    (shown.parse().unwrap_or(0), shown.to_owned())
}

/// Gives what a job held; `None`: no GPU.
fn one(job: &[String; 8], mean: Option<u64>) -> Option<Sum> {
    let counted = |name: &str| tres(&job[5], name).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
    let seconds = job[4].parse::<u64>().unwrap_or(0).min(LONGEST_S);
    let (gpus, slices) = (counted("gres/gpu"), counted("license/slice"));
    if gpus == 0 && slices == 0 && counted("gres/shard") == 0 {
        return None;
    }
    let slice_s = slices.saturating_mul(seconds);
    let used_s =
        mean.map_or(0, |percent| slice_s / 100 * percent.min(100) + slice_s % 100 * percent.min(100) / 100);
    Some(Sum {
        jobs: 1,
        recorded: mean.is_some().into(),
        uncounted: (slices == 0).into(),
        gpu_s: gpus.saturating_mul(seconds),
        slice_s,
        used_s,
        wasted_s: if mean.is_some() { slice_s - used_s } else { 0 },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(cells: [&str; 8]) -> [String; 8] {
        cells.map(str::to_owned)
    }

    #[test]
    fn an_array_is_one_row_and_its_steps_say_what_it_used() {
        let lines = vec![
            line(["15", "14_1", "bob", "COMPLETED", "3600", "gres/shard=5,license/slice=2", "1", ""]),
            line(["15.batch", "14_1.batch", "", "COMPLETED", "3600", "", "1", "gres/gpuutil=50"]),
            line(["15.0", "14_1.0", "", "COMPLETED", "60", "", "1", "gres/gpuutil=0"]),
            line(["14", "14_2", "bob", "RUNNING", "3600", "license/slice=2", "1", ""]),
            line(["9", "9", "bob", "COMPLETED", "1800", "gres/gpu=8,license/slice=56", "1", ""]),
            line(["10", "10", "bob", "COMPLETED", "1800", "cpu=8", "1", ""]),
        ];
        let sums = Sums::of(lines.clone(), false);
        let names: Vec<&str> = sums.rows.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["9", "14"]);
        let array = &sums.rows[1].1;
        assert_eq!((array.jobs, array.recorded, array.slice_s), (2, 1, 4 * 3600));
        assert_eq!((array.used_s, array.wasted_s), (3600, 3600));
        assert_eq!((sums.total.jobs, sums.total.gpu_s), (3, 8 * 1800));
        assert_eq!(Sums::of(lines, true).rows.len(), 1);
    }
}
