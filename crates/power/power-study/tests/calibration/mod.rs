//! A calibration made by a formula: the applications of Table 7, the workloads of Table 8, the states and caps of Table 5.
//!
//! Counters are pseudo-random. RPerf follows a linear ground truth, with a relative error of up to `noise`.
#![allow(dead_code, reason = "each test uses a part")]

use power::{Basis, Cap, CounterTable, Features};
use power_study::{Model, fit, fit_best, runs};

pub(crate) const CAPS: [u32; 6] = [150, 170, 190, 210, 230, 250];
pub(crate) const STATES: [[&str; 2]; 4] = [["4c", "3c"], ["3c", "4c"], ["4g", "3g"], ["3g", "4g"]];
pub(crate) const GPU: &str = "a100-40gb";

/// Pseudo-random numbers from 0 to 1 (Knuth's MMIX generator).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f64::from(u32::try_from(self.0 >> 40).unwrap()) / f64::from(1 << 24)
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.next();
        usize::try_from(self.0 >> 40).unwrap() % n
    }
}

/// One run of applications (by index) on parts at a cap.
#[derive(Clone)]
pub(crate) struct Measured {
    pub(crate) parts: Vec<&'static str>,
    pub(crate) cap: u32,
    pub(crate) apps: Vec<usize>,
    pub(crate) rperf: Vec<f64>,
}

pub(crate) struct Calibration {
    pub(crate) apps: Vec<(String, Features)>,
    pub(crate) runs: Vec<Measured>,
}

/// The lines of a table of the paper below its header.
fn table(text: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    text.lines().filter(|line| !line.starts_with('#')).skip(1).map(|line| line.split(',').collect())
}

pub(crate) fn table7() -> Vec<(&'static str, Vec<&'static str>)> {
    table(include_str!("../../data/table7.csv")).map(|row| (row[0], row[1].split(' ').collect())).collect()
}

pub(crate) fn table8() -> Vec<[&'static str; 2]> {
    table(include_str!("../../data/table8.csv")).map(|row| [row[1], row[2]]).collect()
}

fn slices(part: &str) -> f64 {
    part[..1].parse().unwrap()
}

/// C of the ground truth.
pub(crate) fn true_c(part: &str, cap: u32) -> [f64; 6] {
    let (share, watts) = (slices(part) / 7.0, f64::from(cap) / 250.0);
    let own = if part.ends_with('g') { 0.05 } else { -0.03 };
    [0.2 * share, 0.15 * share * watts, -0.02 + own, 0.03 * watts, 0.1 - own, 0.4 + 0.2 * share * watts]
}

/// D of the ground truth. The parts beside matter only by what kind they are.
pub(crate) fn true_d(part: &str, cap: u32) -> [f64; 3] {
    let shared = if part.ends_with('c') { 1.0 } else { 0.2 };
    [-0.12 * shared, 0.02 * shared, -0.03 * 250.0 / f64::from(cap) * slices(part) / 4.0]
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

pub(crate) fn h(f: &Features) -> [f64; 6] {
    let h2 = (f[5] + f[6] + f[7]) / 100.0;
    [f[0] / 100.0 - h2, h2, f[1] / f[0], f[3] / 100.0, f[4] / 100.0, 1.0]
}

pub(crate) fn j(f: &Features) -> [f64; 3] {
    [f[2] / 100.0, f[3] / 100.0, 1.0]
}

fn features(class: &str, random: &mut Numbers) -> Features {
    let mut percent = |from: f64, to: f64| (from + (to - from) * random.next()).round();
    let (f1, f2) = if class == "MI" {
        (percent(20.0, 50.0), percent(60.0, 95.0))
    } else {
        (percent(40.0, 95.0), percent(10.0, 45.0))
    };
    let (f3, f4, f5) = (percent(5.0, 80.0), percent(20.0, 95.0), percent(10.0, 90.0));
    let mut tensor = |has: bool| if has { percent(5.0, 13.0) } else { 0.0 };
    let is_tensor = class == "TI";
    [f1, f2, f3, f4, f5, tensor(is_tensor), tensor(is_tensor), tensor(is_tensor)]
}

impl Calibration {
    /// All 576 runs alone and 432 together.
    pub(crate) fn new(seed: u64, noise: f64) -> Self {
        let mut random = Numbers(seed);
        let mut apps = Vec::new();
        for (class, names) in table7() {
            apps.extend(names.into_iter().map(|name| (name.to_owned(), features(class, &mut random))));
        }
        let mut all = Self { apps, runs: Vec::new() };
        let place = |name: &str| all.apps.iter().position(|(app, _)| app == name).unwrap();
        let pairs: Vec<Vec<usize>> = table8().iter().map(|pair| pair.map(place).to_vec()).collect();
        for cap in CAPS {
            for part in ["4c", "3c", "4g", "3g"] {
                (0..all.apps.len()).for_each(|app| all.add(&[part], cap, &[app], noise, &mut random));
            }
            for state in &STATES {
                pairs.iter().for_each(|pair| all.add(state, cap, pair, noise, &mut random));
            }
        }
        all
    }

    /// Adds the run that the ground truth gives.
    pub(crate) fn add(
        &mut self,
        parts: &[&'static str],
        cap: u32,
        apps: &[usize],
        noise: f64,
        random: &mut Numbers,
    ) {
        let mut rperf = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            let mut value = dot(&true_c(part, cap), &h(&self.apps[apps[at]].1));
            for (_, other) in apps.iter().enumerate().filter(|(place, _)| *place != at) {
                value += dot(&true_d(part, cap), &j(&self.apps[*other].1));
            }
            rperf.push(value * (1.0 + noise * (2.0 * random.next() - 1.0)));
        }
        assert!(rperf.iter().all(|r| *r > 0.0), "{parts:?} {cap} {apps:?} {rperf:?}");
        self.runs.push(Measured { parts: parts.to_vec(), cap, apps: apps.to_vec(), rperf });
    }

    pub(crate) fn counters_csv(&self) -> String {
        let line = |(app, f): &(String, Features)| {
            let values: Vec<String> = f.iter().map(f64::to_string).collect();
            format!("{app},{GPU},ncu,{}\n", values.join(","))
        };
        "app,gpu,source,f1,f2,f3,f4,f5,f6,f7,f8\n".to_owned()
            + &self.apps.iter().map(line).collect::<String>()
    }

    pub(crate) fn runs_csv(&self) -> String {
        let line = |run: &Measured| {
            let apps: Vec<&str> = run.apps.iter().map(|app| self.apps[*app].0.as_str()).collect();
            let rperf: Vec<String> = run.rperf.iter().map(f64::to_string).collect();
            format!("{},{},{},{}\n", run.parts.join("+"), run.cap, apps.join("+"), rperf.join("+"))
        };
        "state,cap_w,apps,rperf\n".to_owned() + &self.runs.iter().map(line).collect::<String>()
    }

    /// Lets every co-run lose what its neighbours compute: the paper's J does not know of that.
    pub(crate) fn with_hungry_neighbours(mut self) -> Self {
        for run in self.runs.iter_mut().filter(|run| run.apps.len() > 1) {
            let draw = |app: &usize| h(&self.apps[*app].1)[0] + 1.5 * h(&self.apps[*app].1)[1];
            let all: f64 = run.apps.iter().map(draw).sum();
            run.rperf.iter_mut().zip(&run.apps).for_each(|(rperf, app)| *rperf -= 0.2 * (all - draw(app)));
        }
        self
    }

    /// Through the files to the model.
    pub(crate) fn fit(&self) -> Result<Model, power_study::FitError> {
        self.fit_from(&self.counters_csv(), Some(Basis::Arima2022))
    }

    /// With other counters. `None` is the better basis.
    pub(crate) fn fit_from(
        &self,
        counters: &str,
        basis: Option<Basis>,
    ) -> Result<Model, power_study::FitError> {
        let counters = CounterTable::parse("counters.csv", counters).unwrap();
        let runs = runs::parse("runs.csv", &self.runs_csv()).unwrap();
        let gpu = geometry::Model::find(GPU).unwrap();
        match basis {
            Some(basis) => fit(gpu, &counters, &runs, basis),
            None => fit_best(gpu, &counters, &runs),
        }
    }

    /// Names and counters of some applications.
    pub(crate) fn of(&self, apps: &[usize]) -> (Vec<String>, Vec<Features>) {
        apps.iter().map(|app| self.apps[*app].clone()).unzip()
    }
}

pub(crate) fn cap(watts: u32) -> Cap {
    Cap::new(watts).unwrap()
}
