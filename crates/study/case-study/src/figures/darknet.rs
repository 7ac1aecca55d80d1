//! CASE's figures of Darknet jobs, on 4 V100.

use super::printed::{DARKNET_128, FIG9};
use super::{Figure, Goal, Row, mean, run, seeds};
use crate::mix::{Darknet, FIG8, Machine, darknet, darknet_mix};
use crate::policy::{Alg3, Sa, SchedGpu};
use crate::sim::Stuck;

/// As for Rodinia on this machine; the paper names no number.
const WORKERS: usize = 16;

/// Jobs of one workload of Fig. 8.
const ALIKE: u64 = 8;

/// Jobs of the large mix of section 5.3.
const LARGE: u64 = 128;

pub(super) fn fig8(seed: u64) -> Result<Figure, Stuck> {
    let devices = Machine::V100.devices();
    let (mut rows, mut errors) = (Vec::new(), Vec::new());
    for (kind, (_, rate, paper)) in Darknet::ALL.into_iter().zip(FIG8) {
        let jobs = darknet(kind, ALIKE);
        let schedgpu = run::<SchedGpu>(&devices, &jobs, WORKERS)?;
        let ours = run::<Alg3>(&devices, &jobs, WORKERS)?.versus(&schedgpu).throughput.unwrap_or(f64::NAN);
        errors.push((ours / paper - 1.0).abs());
        errors.push((schedgpu.summary.throughput / rate - 1.0).abs());
        rows.push(Row { label: kind.name().to_owned(), paper: Some(paper), ours, why: Some(FITTED) });
    }
    let mut gains = Vec::new();
    for seed in seeds(seed) {
        let jobs = darknet_mix(LARGE, seed);
        let sa = run::<Sa>(&devices, &jobs, devices.len())?;
        gains.push(run::<Alg3>(&devices, &jobs, WORKERS)?.versus(&sa).throughput.unwrap_or(f64::NAN));
    }
    let ours = mean(&gains);
    rows.push(Row { label: "128 jobs over sa".to_owned(), paper: Some(DARKNET_128), ours, why: None });
    let fitted = errors.into_iter().fold(0.0, f64::max);
    let goals = vec![
        Goal {
            what: "largest error of the fit, Table 8 included",
            range: (0.0, 0.01),
            ours: fitted,
            why: None,
        },
        Goal { what: "128 jobs over the paper's", range: (0.85, 1.15), ours: ours / DARKNET_128, why: None },
    ];
    Ok(Figure { name: "fig8", title: "throughput over SchedGPU, 8 Darknet jobs on 4 V100", rows, goals })
}

const FITTED: &str = "fitted: a network's time and demand are solved from this number and Table 8";

/// The paper does not say which workload Fig. 9 shows.
pub(super) fn fig9() -> Result<Figure, Stuck> {
    let devices = Machine::V100.devices();
    let percent = |kind, label| -> Result<f64, Stuck> {
        let jobs = darknet(kind, ALIKE);
        let run = match label {
            "schedgpu" => run::<SchedGpu>(&devices, &jobs, WORKERS)?,
            _ => run::<Alg3>(&devices, &jobs, WORKERS)?,
        };
        Ok(100.0 * run.summary.busy_util)
    };
    let (mut rows, mut goals) = (Vec::new(), Vec::new());
    for ((label, paper), what) in
        FIG9.into_iter().zip(["points from the paper, CASE", "points from the paper, SchedGPU"])
    {
        let all = Darknet::ALL.map(|kind| percent(kind, label));
        let all = all.into_iter().collect::<Result<Vec<f64>, Stuck>>()?;
        let ours = mean(&all);
        rows.push(Row { label: format!("{label}, mean"), paper: Some(paper), ours, why: Some(WHICH) });
        goals.push(Goal { what, range: (-5.0, 5.0), ours: ours - paper, why: Some(WHICH) });
        for (kind, ours) in Darknet::ALL.into_iter().zip(all) {
            rows.push(Row { label: format!("{label} {}", kind.name()), paper: None, ours, why: None });
        }
    }
    Ok(Figure { name: "fig9", title: "mean utilisation in percent, 8 Darknet jobs on 4 V100", rows, goals })
}

const WHICH: &str = "the paper does not name the workload; ours is the mean of all four";
