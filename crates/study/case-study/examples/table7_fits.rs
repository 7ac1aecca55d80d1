//! Prints `data/fits.csv`: twenty fits for each machine of the rates of Rodinia's families to Table 7's single assignment, each with no
//! error above 1.75 %. `cargo run --release -p case-study --example table7_fits > crates/study/case-study/data/fits.csv`
//!
//! A fit begins at random and is changed in one or all rates at a time while that makes the largest error smaller.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "a tool for the laboratory"
)]

use case_study::mix::{Machine, commands, rodinia};

/// Jobs per second of single assignment, W1 to W8.
const TABLE7_SA: [(Machine, &str, [f64; 8]); 2] = [
    (Machine::P100, "p100", [0.073, 0.068, 0.083, 0.108, 0.088, 0.099, 0.107, 0.07]),
    (Machine::V100, "v100", [0.139, 0.123, 0.17, 0.189, 0.174, 0.184, 0.182, 0.143]),
];
const FAMILIES: [&str; 7] = ["backprop", "bfs", "srad_v2", "dwt2d", "needle", "srad_v1", "lavaMD"];
const WORST: f64 = 0.0175;

struct Numbers(u64);

impl Numbers {
    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A job's family and size.
type Mix = Vec<(usize, f64)>;

fn mixes(machine: Machine) -> Vec<Mix> {
    let commands = commands();
    let of = |i: usize| {
        let jobs = rodinia(&format!("W{i}"), machine).into_iter();
        let command = |name: &str| commands.iter().find(|c| c.id == name).unwrap();
        let family = |name: &str| FAMILIES.iter().position(|f| *f == command(name).family).unwrap();
        jobs.map(|job| (family(&job.name), command(&job.name).size)).collect()
    };
    (1..=8).map(of).collect()
}

/// The largest error of list scheduling in the order of the jobs.
fn error(mixes: &[Mix], rates: &[f64; 8], gpus: usize, printed: &[f64; 8]) -> f64 {
    let one = |(mix, printed): (&Mix, &f64)| {
        let mut free = vec![0.0_f64; gpus];
        for (family, size) in mix {
            let at = (0..gpus).min_by(|a, b| free[*a].total_cmp(&free[*b])).unwrap();
            free[at] += rates[7] + rates[*family] * size;
        }
        let end = free.into_iter().fold(0.0, f64::max);
        (mix.len() as f64 / end / printed - 1.0).abs()
    };
    mixes.iter().zip(printed).map(one).fold(0.0, f64::max)
}

fn fit(numbers: &mut Numbers, mixes: &[Mix], gpus: usize, printed: &[f64; 8]) -> Option<[f64; 8]> {
    let between =
        |numbers: &mut Numbers, from: f64, to: f64| (from.ln() + (to / from).ln() * numbers.unit()).exp();
    let mut rates = [0.0; 8].map(|_| between(numbers, 0.5, 60.0));
    rates[7] = between(numbers, 0.5, 8.0);
    let mut worst = error(mixes, &rates, gpus, printed);
    for step in 0..60_000 {
        let width = 0.5 * (1.0 - f64::from(step) / 60_000.0) + 0.002;
        let mut next = rates;
        let which = (numbers.unit() * 10.0) as usize;
        for (at, rate) in next.iter_mut().enumerate().filter(|(at, _)| *at == which || which >= 8) {
            let most = if at == 7 { 8.0 } else { 80.0 };
            *rate = (*rate * (width * (2.0 * numbers.unit() - 1.0)).exp()).clamp(0.3, most);
        }
        let now = error(mixes, &next, gpus, printed);
        if now <= worst {
            (rates, worst) = (next, now);
        }
        if worst < 0.8 * WORST {
            break;
        }
    }
    let rounded = rates.map(|rate| (rate * 100.0).round() / 100.0);
    (error(mixes, &rounded, gpus, printed) <= WORST && rounded[7] >= 0.5).then_some(rounded)
}

fn main() {
    println!("machine,{},start-up", FAMILIES.join(","));
    for (machine, name, printed) in TABLE7_SA {
        let (mixes, gpus) = (mixes(machine), machine.devices().len());
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
        let mut found = 0;
        while found < 20 {
            if let Some(rates) = fit(&mut numbers, &mixes, gpus, &printed) {
                let cells: Vec<String> = rates.iter().map(|rate| format!("{rate:.2}")).collect();
                println!("{name},{}", cells.join(","));
                found += 1;
            }
        }
    }
}
