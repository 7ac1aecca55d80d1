//! Measurements of the simulated A100: counters, runs, and the truth about every candidate.

use std::fmt::Write as _;

use physics::{App, Board, Tenant};
use power::{Cap, CounterTable, Memory, Part};
use power_study::{Run, State, Truth, Workload, workloads};

use crate::outcome::Failure;

/// The paper's GPU, as geometry knows it.
pub(super) const GPU: &str = "a100-40gb";

/// The paper's caps, W.
pub(super) const CAPS: [u32; 6] = [150, 170, 190, 210, 230, 250];

/// S1 to S4.
pub(super) const STATES: [&str; 4] = ["4c+3c", "3c+4c", "4g+3g", "3g+4g"];

/// A workload with the truth about its 24 candidates.
pub(super) struct Case {
    pub(super) workload: Workload,
    pub(super) apps: Vec<String>,
    pub(super) truths: Vec<Truth>,
}

pub(super) struct World {
    board: Board,
    pub(super) counters: CounterTable,
    /// 576 runs alone, 432 together, each with its measurement error.
    pub(super) runs: Vec<Run>,
    /// 144 runs alone on all compute slices. The paper has none, so its figures are made without them; `--gpu-power=auto` needs them.
    on_all_slices: Vec<Run>,
    pub(super) cases: Vec<Case>,
}

impl World {
    /// Runs everything. `noise` is the standard deviation of a measurement, as a part of it.
    pub(super) fn new(seed: u64, noise: f64) -> Result<Self, Failure> {
        let board = Board::a100_pcie();
        let counters = CounterTable::parse("simulated counters", &counters(&board));
        let counters = counters.map_err(|e| Failure::of(&e))?;
        let mut world =
            Self { board, counters, runs: Vec::new(), on_all_slices: Vec::new(), cases: Vec::new() };
        let mut random = Random(seed);
        for watts in CAPS {
            for part in ["4c", "3c", "4g", "3g"] {
                for app in physics::apps() {
                    let truth = world.truth(part, watts, &[app.name])?;
                    world.runs.push(random.measured(truth, &[app.name], noise));
                }
            }
        }
        for workload in workloads() {
            let mut truths = Vec::new();
            for (watts, state) in CAPS.into_iter().flat_map(|watts| STATES.map(|state| (watts, state))) {
                let truth = world.truth(state, watts, &workload.apps)?;
                world.runs.push(random.measured(truth.clone(), &workload.apps, noise));
                truths.push(truth);
            }
            let apps = workload.apps.map(str::to_owned).to_vec();
            world.cases.push(Case { workload, apps, truths });
        }
        // Last, so that the errors of the other runs are those of the paper's figures.
        for watts in CAPS {
            for app in physics::apps() {
                let truth = world.truth("7g", watts, &[app.name])?;
                world.on_all_slices.push(random.measured(truth, &[app.name], noise));
            }
        }
        Ok(world)
    }

    /// `counters.csv` of all applications.
    pub(super) fn counters_csv(&self) -> String {
        counters(&self.board)
    }

    /// `runs.csv` of all runs.
    pub(super) fn runs_csv(&self) -> String {
        let mut out = "state,cap_w,apps,rperf\n".to_owned();
        for Run { state, cap, apps, rperf } in self.runs.iter().chain(&self.on_all_slices) {
            let speeds: Vec<String> = rperf.iter().map(|speed| format!("{speed:.6}")).collect();
            let _ = writeln!(out, "{state},{},{},{}", cap.watts(), apps.join("+"), speeds.join("+"));
        }
        out
    }

    /// RPerf of applications in a state under a cap.
    pub(super) fn truth(&self, state: &str, watts: u32, apps: &[&str]) -> Result<Truth, Failure> {
        let state: State = state.parse().map_err(|e| Failure::of(&e))?;
        let cap = Cap::new(watts).map_err(|e| Failure::of(&e))?;
        let of = |name: &&str| {
            physics::find(name).ok_or_else(|| Failure::new(format!("no simulated application {name}")))
        };
        let apps: Vec<&'static App> = apps.iter().map(of).collect::<Result<_, _>>()?;
        let tenant = |(at, (app, part)): (u8, (&&'static App, &Part))| match part.memory {
            Memory::Shared => Tenant { app, gpcs: part.slices, instance: 0, modules: self.board.modules },
            Memory::Private => {
                Tenant { app, gpcs: part.slices, instance: at, modules: self.board.modules_of(part.slices) }
            }
        };
        let tenants: Vec<Tenant<'_>> = (0..).zip(apps.iter().zip(state.parts())).map(tenant).collect();
        let speeds = physics::run(&self.board, &tenants, f64::from(watts)).speeds;
        let rperf = apps.iter().zip(speeds).map(|(app, speed)| speed / self.alone(app)).collect();
        Ok(Truth { state, cap, rperf })
    }

    /// Speed alone without MIG and without a lower cap.
    fn alone(&self, app: &App) -> f64 {
        let Board { gpcs, modules, limit_w, .. } = self.board;
        physics::run(&self.board, &[Tenant { app, gpcs, instance: 0, modules }], f64::from(limit_w)).speeds[0]
    }
}

/// `counters.csv` of all applications, from a source with all counters and from one without F2 and F4.
fn counters(board: &Board) -> String {
    let mut out = "app,gpu,source,f1,f2,f3,f4,f5,f6,f7,f8\n".to_owned();
    for app in physics::apps() {
        let mut f = physics::counters(board, app).map(|f| f.to_string());
        let _ = writeln!(out, "{},{GPU},ncu,{}", app.name, f.join(","));
        (f[1], f[3]) = (String::new(), String::new());
        let _ = writeln!(out, "{},{GPU},dcgm,{}", app.name, f.join(","));
    }
    out
}

/// Pseudo-random numbers (Steele, Lea and Flood's `SplitMix64`).
struct Random(u64);

impl Random {
    /// A number from 0 to 1.
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        f64::from(u32::try_from((z ^ (z >> 31)) >> 32).unwrap_or_default()) / f64::from(u32::MAX)
    }

    /// A number with mean 0 and standard deviation 1, at most 6: the sum of twelve.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }

    fn measured(&mut self, truth: Truth, apps: &[&str], noise: f64) -> Run {
        let rperf = truth.rperf.iter().map(|value| value * (1.0 + noise * self.normal())).collect();
        let apps = apps.iter().map(|app| (*app).to_owned()).collect();
        Run { state: truth.state, cap: truth.cap, apps, rperf }
    }
}

#[cfg(test)]
mod tests {
    use power_cap::choose_alone;
    use power_study::{fit_best, runs};

    use super::*;

    #[test]
    fn a_cap_for_an_application_alone_can_be_chosen_by_what_was_measured() {
        let world = World::new(1, 0.01).unwrap();
        let gpu = geometry::Model::find(GPU).unwrap();
        let runs = runs::parse_on(gpu, "runs.csv", &world.runs_csv()).unwrap();
        let file = fit_best(gpu, &world.counters, &runs).unwrap().to_json().to_string();
        let model = power::Model::from_json(&file).unwrap();
        let cap = |app: &str, alpha: f64| {
            let features = world.counters.features(model.inputs(), app).unwrap();
            choose_alone(&model, gpu.compute_slices, &features, alpha, false).unwrap().cap.watts()
        };
        // Figures 4 and 5: stream hardly needs power, dgemm has a speed of 0.70 at 150 W.
        assert_eq!((cap("stream", 0.8), cap("dgemm", 0.6)), (150, 150));
        assert!(cap("dgemm", 0.8) > 150);
    }
}
