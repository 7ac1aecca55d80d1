//! CASE-MIG's tables and figures. Each value is the mean over ten random batches.

use super::printed::{MIG_MEANS, MIG_TABLE2, MIG_UTILISATION};
use super::{Figure, Goal, Row, mean, run, seeds};
use crate::mix::{Ratio, System, mig};
use crate::policy::{CaseMig, Slurm};
use crate::sim::Stuck;

const A30: [System; 3] = [System::A, System::B, System::C];

const NOT_PRINTED: &str = "the paper shows a bar without a number";

/// Gain of a batch over Slurm.
#[derive(Clone, Copy)]
struct Gain {
    throughput: f64,
    turnaround: f64,
    memory: f64,
    slowdown: f64,
}

/// The gains of `case-mig` on batches of one ratio.
fn gains(system: System, ratio: Ratio, small: bool, seed: u64) -> Result<Vec<Gain>, Stuck> {
    let devices = system.devices();
    let one = |seed| {
        let jobs = mig(system, ratio, small, seed);
        let slurm = run::<Slurm>(&devices, &jobs, devices.len())?;
        let ours = run::<CaseMig>(&devices, &jobs, system.workers())?;
        let versus = ours.versus(&slurm);
        Ok(Gain {
            throughput: versus.throughput.unwrap_or(f64::NAN),
            turnaround: versus.turnaround.unwrap_or(f64::NAN),
            memory: ours.summary.mem_util / slurm.summary.mem_util,
            slowdown: ours.summary.slowdown_mean,
        })
    };
    seeds(seed).map(one).collect()
}

fn mean_of(gains: &[Gain], of: Of) -> f64 {
    mean(&gains.iter().map(of).collect::<Vec<_>>())
}

/// A number of a gain.
type Of = fn(&Gain) -> f64;

const MEASURES: [(&str, Of); 2] =
    [("throughput", |gain| gain.throughput), ("turnaround", |gain| gain.turnaround)];

/// The rows of Figs. 1 to 3: the two means over the mixed ratios first, then every bar.
fn bars(systems: &[System], small: bool, seed: u64, printed: [f64; 2]) -> Result<Vec<Row>, Stuck> {
    let (mut rows, mut mixed) = (Vec::new(), Vec::new());
    for system in systems {
        for ratio in Ratio::ALL {
            let gains = gains(*system, ratio, small, seed)?;
            for (measure, of) in MEASURES {
                let label = format!("{} {ratio} {measure}", system.name());
                rows.push(Row { label, paper: None, ours: mean_of(&gains, of), why: Some(NOT_PRINTED) });
            }
            if ratio.is_mixed() {
                mixed.extend(gains);
            }
        }
    }
    let means = MEASURES.iter().zip(printed).map(|((measure, of), paper)| Row {
        label: format!("mean {measure}"),
        paper: Some(paper),
        ours: mean_of(&mixed, *of),
        why: None,
    });
    Ok(means.chain(rows).collect())
}

/// The goals of the two means.
fn goals(rows: &[Row], throughput: f64, why: Option<&'static str>) -> Vec<Goal> {
    let goal = |what, row: &Row, part: f64, why| {
        let ours = row.ours / row.paper.unwrap_or(1.0);
        Goal { what, range: (1.0 - part, 1.0 + part), ours, why }
    };
    let isolated = rows.iter().filter(|row| row.label.contains(" 1:0 "));
    let off = isolated.map(|row| (row.ours - 1.0).abs()).fold(0.0, f64::max);
    vec![
        goal("mean throughput over the paper's", &rows[0], throughput, None),
        goal("mean turnaround over the paper's", &rows[1], 0.15, why),
        Goal { what: "isolated jobs alone, distance from 1", range: (0.0, 1e-6), ours: off, why: None },
    ]
}

pub(super) fn fig1(seed: u64) -> Result<Figure, Stuck> {
    let rows = bars(&A30, false, seed, MIG_MEANS[0])?;
    let goals = goals(&rows, 0.15, None);
    Ok(Figure { name: "mig:fig1", title: "over Slurm, A30, jobs of 1 to 6 GB", rows, goals })
}

pub(super) fn fig2(seed: u64) -> Result<Figure, Stuck> {
    let rows = bars(&A30, true, seed, MIG_MEANS[1])?;
    let goals = goals(&rows, 0.15, None);
    Ok(Figure { name: "mig:fig2", title: "over Slurm, A30, jobs of 0.3 to 6 GB", rows, goals })
}

pub(super) fn fig3(seed: u64) -> Result<Figure, Stuck> {
    let mut rows = bars(&[System::D], false, seed, MIG_MEANS[2])?;
    rows[1].why = Some(FIG3_TURNAROUND);
    let goals = goals(&rows, 0.15, Some(FIG3_TURNAROUND));
    Ok(Figure { name: "mig:fig3", title: "over Slurm, A100", rows, goals })
}

const FIG3_TURNAROUND: &str = "it needs a Slurm that starts no job before one that waits for another size, and then a batch of isolated jobs alone \
     gains as much; the paper observes that Slurm and CASE are then identical";

pub(super) fn fig4(seed: u64) -> Result<Figure, Stuck> {
    let mut all = Vec::new();
    let mut rows = Vec::new();
    for system in A30 {
        for ratio in Ratio::ALL.into_iter().filter(|ratio| ratio.is_mixed()) {
            let gains = gains(system, ratio, false, seed)?;
            let label = format!("{} {ratio} utilisation", system.name());
            let ours = mean_of(&gains, |gain| gain.memory);
            rows.push(Row { label, paper: None, ours, why: Some(NOT_PRINTED) });
            all.extend(gains);
        }
    }
    let ours = mean_of(&all, |gain| gain.memory);
    let label = "mean utilisation".to_owned();
    rows.insert(0, Row { label, paper: Some(MIG_UTILISATION), ours, why: Some(MEMORY) });
    let ratio = ours / MIG_UTILISATION;
    let goals =
        vec![Goal { what: "mean over the paper's", range: (0.85, 1.15), ours: ratio, why: Some(MEMORY) }];
    Ok(Figure { name: "mig:fig4", title: "memory utilisation over Slurm's, A30", rows, goals })
}

const MEMORY: &str = "a task holds the same memory under both, so the ratio is throughput times slowdown, 1.45 times 1.02 by \
                      the paper's own numbers; the paper does not say what its samples count";

pub(super) fn table2(seed: u64) -> Result<Figure, Stuck> {
    let mut rows = Vec::new();
    for (label, paper) in MIG_TABLE2 {
        let of_label = A30.into_iter().zip(["A", "B", "C"]).find(|(_, name)| label.ends_with(name));
        let system = of_label.map_or(System::A, |(system, _)| system);
        let ratio = if label.starts_with("1:4") { Ratio(1, 4) } else { Ratio(0, 1) };
        let ours = 100.0 * mean_of(&gains(system, ratio, false, seed)?, |gain| gain.slowdown);
        rows.push(Row { label: label.to_owned(), paper: Some(paper), ours, why: Some(KERNELS) });
    }
    Ok(Figure { name: "mig:table2", title: "slowdown in percent, A30", rows, goals: Vec::new() })
}

const KERNELS: &str = "the paper measures kernels, the simulator whole tasks with their copies";
