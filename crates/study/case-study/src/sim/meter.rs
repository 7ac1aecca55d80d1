//! Counts while a run goes on.

use crate::sim::summary::{JobTimes, Summary, mean};
use task_sched::{Device, Pool, Warps};

/// Sums of a run.
#[derive(Default)]
pub(super) struct Meter {
    /// Per granted task the job's position and seconds.
    waits: Vec<(usize, f64)>,
    /// Per granted task the job's position and its duration over its seconds alone, less 1.
    slowdowns: Vec<(usize, f64)>,
    /// Integrals over time of memory, warps and busy devices, as parts of the capacity.
    used: [f64; 3],
}

impl Meter {
    /// `dt` seconds pass with `pool` as it is and tasks of these demands on its devices.
    pub(super) fn pass(&mut self, dt: f64, pool: &Pool, demands: &[f64]) {
        let (mut mem, mut warps) = (0.0, 0.0);
        for held in pool.devices() {
            mem += (held.device().mem.0 - held.free().0) as f64;
            warps += held.warps().min(held.device().warps()).0 as f64;
        }
        let (all, all_warps) = capacity(pool);
        let busy: f64 = demands.iter().map(|d| d.min(1.0)).sum();
        let parts = [
            mem / f64::max(all as f64, 1.0),
            warps / f64::max(all_warps.0 as f64, 1.0),
            busy / demands.len().max(1) as f64,
        ];
        self.used.iter_mut().zip(parts).for_each(|(used, part)| *used += part * dt);
    }

    /// A granted task of `job` is over: it waited and lasted so many seconds, and would have lasted `alone`.
    pub(super) fn task(&mut self, job: usize, waited: f64, lasted: f64, alone: f64) {
        self.waits.push((job, waited));
        if alone > 0.0 {
            // Rounding must not make a task faster than alone.
            self.slowdowns.push((job, (lasted / alone - 1.0).max(0.0)));
        }
    }

    /// The measures of the whole run.
    pub(super) fn summary(&self, jobs: &[JobTimes]) -> Summary {
        let finished = || jobs.iter().filter(|j| !j.crashed);
        let first = jobs.iter().map(|j| j.arrival).min_by(f64::total_cmp).unwrap_or(0.0);
        let last = jobs.iter().map(|j| j.end).max_by(f64::total_cmp).unwrap_or(0.0);
        let makespan = last - first;
        let rate = |amount: f64| if makespan > 0.0 { amount / makespan } else { 0.0 };
        let [mem, warps, busy] = self.used;
        let of_finished = |values: &[(usize, f64)]| -> Vec<f64> {
            values.iter().filter(|(job, _)| !jobs[*job].crashed).map(|(_, value)| *value).collect()
        };
        let (waits, slowdowns) = (of_finished(&self.waits), of_finished(&self.slowdowns));
        Summary {
            jobs: jobs.len(),
            crashed: jobs.iter().filter(|j| j.crashed).count(),
            makespan,
            throughput: rate(finished().count() as f64),
            turnaround_mean: mean(finished().map(JobTimes::turnaround)),
            wait_mean: mean(waits.iter().copied()),
            wait_max: waits.iter().copied().fold(0.0, f64::max),
            mem_util: rate(mem),
            warp_util: rate(warps),
            busy_util: rate(busy),
            slowdown_mean: mean(slowdowns.iter().copied()),
        }
    }
}

/// Memory and warps that all devices hold together; of GPUs whose instances come and go, one instance as large as each.
fn capacity(pool: &Pool) -> (u128, Warps) {
    let sum = |devices: &mut dyn Iterator<Item = Device>| {
        devices
            .fold((0, Warps(0)), |(mem, warps), d| (mem + u128::from(d.mem.0), Warps(warps.0 + d.warps().0)))
    };
    match pool.gpus() {
        Some(gpus) => sum(&mut gpus.largest().into_iter().cycle().take(gpus.count())),
        None => sum(&mut pool.devices().map(|held| *held.device())),
    }
}
