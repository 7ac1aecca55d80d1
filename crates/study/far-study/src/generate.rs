//! Task times as in section 6.3 of the FAR paper, from a fixed sequence of numbers.
//!
//! The paper does not say which part of the tasks that scale is memory-bound (`psup`). Its Figure 11 has half of them; its Table 4
//! agrees with none.

use far::{Problem, Task};

/// Shares of tasks that scale up to 1, 2, 3, 4 and 7 slices, percent.
pub const MIXED: [usize; 5] = [20, 20, 20, 20, 20];
/// Half of them up to 1 slice, half up to 2.
pub const POOR: [usize; 5] = [50, 50, 0, 0, 0];
/// Half of them up to 4 slices, half up to 7.
pub const GOOD: [usize; 5] = [0, 0, 0, 50, 50];

/// Shortest and longest time on one slice, s.
pub const WIDE: (f64, f64) = (1.0, 100.0);
/// Shortest and longest time on one slice, s.
pub const NARROW: (f64, f64) = (90.0, 100.0);

/// A small generator: 64-bit xorshift with a multiplier. Tests need the same numbers everywhere, not good ones.
pub struct Numbers(u64);

impl Numbers {
    /// Begins a sequence.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut numbers = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        (0..8).for_each(|_| {
            numbers.bits();
        });
        numbers
    }

    fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.bits() % n as u64).unwrap_or(0)
    }

    /// Returns a number from 0 up to 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self, mean: f64, deviation: f64) -> f64 {
        let (a, b) = (1.0 - self.unit(), self.unit());
        mean + deviation * (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }
}

/// Times on the A100's sizes of one task that scales up to `up_to` slices.
fn task(numbers: &mut Numbers, up_to: usize, mut memory_bound: bool, range: (f64, f64)) -> Task {
    let mut time = range.0 + (range.1 - range.0) * numbers.unit();
    let mut times = vec![time];
    for s in 1..7 {
        if s > 1 && memory_bound && numbers.unit() < 0.3 {
            memory_bound = false;
        }
        let r = match (s < up_to, memory_bound) {
            (true, true) => numbers.normal(-0.25, 0.25).clamp(-0.5, 0.0),
            (true, false) => numbers.normal(0.1, 0.1).clamp(0.0, 0.2),
            (false, _) => numbers.normal(0.75, 0.25).clamp(0.5, 1.0),
        };
        time *= (s as f64 + r) / (s as f64 + 1.0);
        times.push(time);
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100 s")]
    let micros = |t: f64| Some(((t * 1e4).round() as u64).max(1) * 100);
    Task { times: [0, 1, 2, 3, 6].iter().map(|&i| micros(times[i])).collect() }
}

/// Choice of the tasks that scale and are memory-bound at first: `psup` of section 6.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryBound {
    /// None, psup = 0.
    None,
    /// Each second one, psup = 0.5.
    Half,
}

/// Draws a batch of `n` tasks of which half that scale are memory-bound.
#[must_use]
pub fn batch(seed: u64, n: usize, shares: [usize; 5], range: (f64, f64)) -> Vec<Task> {
    batch_with(MemoryBound::Half, seed, n, shares, range)
}

/// Draws a batch of `n` tasks. The seed alone decides which.
#[must_use]
pub fn batch_with(
    psup: MemoryBound,
    seed: u64,
    n: usize,
    shares: [usize; 5],
    range: (f64, f64),
) -> Vec<Task> {
    let mut numbers = Numbers::new(seed);
    let mut tasks = Vec::new();
    let mut due = 0;
    for (share, up_to) in shares.into_iter().zip([1, 2, 3, 4, 7]) {
        due += share * n;
        let from = tasks.len();
        while tasks.len() < (due + 50) / 100 {
            let half = (tasks.len() - from) % 2 == 0;
            let memory_bound = psup == MemoryBound::Half && up_to > 1 && half;
            tasks.push(task(&mut numbers, up_to, memory_bound, range));
        }
    }
    for i in (1..tasks.len()).rev() {
        tasks.swap(i, numbers.below(i + 1));
    }
    tasks
}

/// A batch on one A100.
///
/// # Panics
///
/// Never for tasks of this module: each runs at each size.
#[must_use]
pub fn a100(tasks: Vec<Task>) -> Problem {
    let model = geometry::Model::find("a100-40gb").expect("a known model");
    Problem::new(model, 1, tasks).expect("tasks that run at each size")
}
