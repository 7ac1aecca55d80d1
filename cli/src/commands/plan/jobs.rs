//! A plan as Slurm jobs: what each asks for and which jobs must have ended before it.

use ::far;
use far::{Micros, PresentPlace, PresentRun};
use geometry::{JobId, Model, Slice};

use super::batch::Batch;
use super::on::{Holding, On};
use super::place::Place;
use super::planned::Planned;

/// The Slurm job of one task.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlannedJob {
    /// Index of the task.
    pub(super) task: usize,
    pub(super) name: String,
    pub(super) place: Place,
    /// Jobs of the plan, by their place in its list, all earlier, that have some of these units before it.
    pub(super) after: Vec<usize>,
    /// Jobs that run now on some of these units, where no job of the plan comes between.
    pub(super) after_running: Vec<JobId>,
    /// µs from the plan's beginning.
    pub(super) begin: Micros,
    /// First instant after it.
    pub(super) end: Micros,
}

/// The runs of a plan from empty GPUs, in the words of a plan over the present state.
pub(super) fn of_empty(planned: &Planned<'_>) -> Vec<PresentRun> {
    let nodes = &planned.answer.problem.tree.nodes;
    let (model, after) = (planned.batch.model, Vec::new());
    let run = |r: &far::Run| {
        let node = &nodes[r.node];
        // The tree has the model's own profiles.
        let profile = model.profile(&node.profile).map_or("", |p| p.name.as_str());
        let at = PresentPlace { gpu: r.gpu, profile, size: node.size, start: node.start };
        PresentRun { task: r.task, at, begin: r.begin, end: r.end, after: after.clone() }
    };
    planned.answer.schedule.runs.iter().map(run).collect()
}

/// The jobs of a plan by begin: the order in which they are submitted, so that Slurm's own order of jobs of equal
/// priority is the plan's.
pub(super) fn of(batch: &Batch, mut runs: Vec<PresentRun>, on: &On) -> Vec<PlannedJob> {
    runs.sort_by_key(|r| (r.begin, r.at.gpu, r.at.start));
    let mut jobs: Vec<PlannedJob> = Vec::new();
    // Per GPU and unit, the last job that had it.
    let mut last: Vec<[Option<usize>; 16]> = vec![[None; 16]; on.holdings.len()];
    for run in runs {
        let gpu = run.at.gpu;
        let at = &on.present.gpus()[gpu];
        let mask = mask(on.model(), &run.at);
        let units: Vec<usize> = (0..16).filter(|u| mask >> u & 1 == 1).collect();
        let mut after: Vec<usize> = units.iter().filter_map(|&u| last[gpu][u]).collect();
        after.sort_unstable();
        after.dedup();
        let untouched = |h: &&Holding| units.iter().any(|&u| h.mask >> u & 1 == 1 && last[gpu][u].is_none());
        let mut running: Vec<JobId> = on.holdings[gpu].iter().filter(untouched).map(|h| h.job).collect();
        running.sort_unstable();
        running.dedup();
        units.iter().for_each(|&u| last[gpu][u] = Some(jobs.len()));
        jobs.push(PlannedJob {
            task: run.task,
            name: batch.name(run.task),
            place: Place {
                node: at.node.clone(),
                gpu: usize::from(at.index.0),
                profile: run.at.profile.to_owned(),
                start: run.at.start,
            },
            after,
            after_running: running,
            begin: run.begin,
            end: run.end,
        });
    }
    jobs
}

fn mask(model: &Model, at: &PresentPlace) -> u16 {
    model.profile(at.profile).map_or(0, |p| p.at(Slice(at.start)).mask())
}

#[cfg(test)]
mod tests {
    use super::super::batch::NamedTask;
    use super::*;
    use far::{Policy, Present, PresentGpu, Problem, Task};

    use std::time::Duration;

    /// The jobs of a plan on two GPUs. Job 7 holds slices 0 and 1 of the first; `times` are seconds per size.
    fn check(times: &[[u64; 5]], policy: Policy) -> Vec<PlannedJob> {
        let model = Model::find("a100-40gb").unwrap();
        let tasks: Vec<Task> = times
            .iter()
            .map(|t| Task { times: t.iter().map(|&s| (s > 0).then_some(s * 1_000_000)).collect() })
            .collect();
        let problem = Problem::new(model, 2, tasks.clone()).unwrap();
        let tasks = tasks.into_iter().map(NamedTask::unnamed).collect();
        let batch = Batch { id: "b".to_owned(), model, tasks };
        let answer = far::plan(&problem, &policy, 100).unwrap();
        let makespan = answer.schedule.makespan();
        let planned = Planned { batch: &batch, policy, answer, makespan, took: Duration::ZERO };
        let gpus = vec![PresentGpu::empty("n1", 0), PresentGpu::empty("n1", 4)];
        let on = On {
            present: Present::new(model, gpus).unwrap(),
            holdings: vec![vec![Holding { job: JobId(7), mask: 0b11 }], Vec::new()],
        };
        of(&batch, of_empty(&planned), &on)
    }

    fn units(job: &PlannedJob) -> (usize, std::ops::Range<u8>) {
        let profile = Model::find("a100-40gb").unwrap().profile(&job.place.profile).unwrap();
        (job.place.gpu, job.place.start..job.place.start + profile.size)
    }

    fn overlap(a: &PlannedJob, b: &PlannedJob) -> bool {
        let ((g, x), (h, y)) = (units(a), units(b));
        g == h && x.start < y.end && y.start < x.end
    }

    /// True if `b` cannot begin before `a` has ended, by the dependencies alone.
    fn follows(jobs: &[PlannedJob], b: usize, a: usize) -> bool {
        jobs[b].after.iter().any(|&c| c == a || follows(jobs, c, a))
    }

    #[test]
    fn jobs_with_units_in_common_follow_one_another_and_no_others_do() {
        let times: Vec<[u64; 5]> = (1..=12)
            .map(|k| [0, 20 + k, 14 + k % 5, 9 + k % 4, 6 + k % 3])
            .chain([[30, 0, 0, 0, 0]; 6])
            .collect();
        for policy in [Policy::Tessera, Policy::Far, Policy::Miso] {
            let jobs = check(&times, policy);
            assert_eq!(jobs.len(), times.len());
            assert!(jobs.is_sorted_by(|a, b| a.begin <= b.begin));
            for (b, job) in jobs.iter().enumerate() {
                assert!(job.after.iter().all(|&a| a < b && overlap(&jobs[a], job)), "{job:?}");
                for a in (0..b).filter(|&a| overlap(&jobs[a], job)) {
                    assert!(follows(&jobs, b, a), "{:?} before {job:?}", jobs[a]);
                    assert!(jobs[a].end <= job.begin);
                }
            }
        }
    }

    #[test]
    fn only_the_first_on_a_running_jobs_units_waits_for_it() {
        let jobs = check(&[[9, 9, 9, 9, 9]; 40], Policy::FixPart(vec![1; 7]));
        let waiting: Vec<_> = jobs.iter().filter(|j| !j.after_running.is_empty()).collect();
        let places: Vec<_> = waiting.iter().map(|j| (j.place.gpu, j.place.start, j.begin)).collect();
        assert_eq!(places, [(0, 0, 0), (0, 1, 0)]);
    }
}
