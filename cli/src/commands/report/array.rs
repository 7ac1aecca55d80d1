//! The tasks of an array as one report.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use geometry::counted;
use geometry::size::display_gb;
use serde_json::{Value, json};

use super::record::Record;
use super::text::{enough_gb, tenths};
use crate::clock::span;
use crate::slurm::squeue::count_tasks;

/// Sums of what the tasks of an array held and used.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Array {
    number: String,
    user: String,
    /// Tasks by state, those that wait too.
    states: BTreeMap<String, u64>,
    /// Tasks that have started.
    started: u64,
    waited_s: u64,
    most_waited_s: u64,
    ran_s: u64,
    longest_s: u64,
    /// Slices times seconds; `None`: not counted for any task.
    slice_s: Option<u64>,
    energy_j: Option<u64>,
    /// The most that a task used and asked for, in [`Record::device_mib`] and [`Record::asked_mib`].
    most: Record,
}

/// The array whose tasks these are; `None`: they are something else, such as the components of a heterogeneous job.
pub(super) fn of(number: &str, jobs: &[Record]) -> Option<Array> {
    let tasks = |job: &Record| job.number.strip_prefix(number)?.strip_prefix('_').map(str::to_owned);
    let lists: Vec<String> = jobs.iter().map(tasks).collect::<Option<_>>()?;
    let mut array = Array { number: number.to_owned(), user: jobs.first()?.user.clone(), ..Array::default() };
    for (job, list) in jobs.iter().zip(lists) {
        let n = u64::try_from(count_tasks(list.trim_matches(['[', ']']))).unwrap_or(u64::MAX);
        let state = array.states.entry(job.state.clone()).or_default();
        *state = state.saturating_add(n);
        if job.start.is_some() {
            array.add(job);
        }
    }
    Some(array)
}

/// The larger of two values that may not be known.
fn larger(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.max(b)
}

/// The sum of two values that may not be known.
fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    if a.is_none() && b.is_none() {
        return None;
    }
    Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0)))
}

impl Array {
    fn add(&mut self, job: &Record) {
        let waited = job.waited_s.unwrap_or(0);
        self.started += 1;
        self.waited_s = self.waited_s.saturating_add(waited);
        self.most_waited_s = self.most_waited_s.max(waited);
        self.ran_s = self.ran_s.saturating_add(job.ran_s);
        self.longest_s = self.longest_s.max(job.ran_s);
        self.slice_s = sum(self.slice_s, job.slices.map(|slices| slices.saturating_mul(job.ran_s)));
        self.energy_j = sum(self.energy_j, job.energy_j);
        let most = &mut self.most;
        most.asked_mib = larger(most.asked_mib, job.asked_mib);
        most.device_mib = larger(most.device_mib, job.device_mib);
        most.busy_percent = larger(most.busy_percent, job.busy_percent);
    }

    fn mean_wait(&self) -> u64 {
        self.waited_s.checked_div(self.started).unwrap_or(0)
    }

    /// A line for each thing that is known.
    pub(super) fn text(&self) -> String {
        let states: Vec<String> = self.states.iter().map(|(state, n)| format!("{n} {state}")).collect();
        let mut out = format!("array {} of {}: {}\n", self.number, self.user, states.join(", "));
        let mut line = |name: &str, text: String| {
            let _ = writeln!(out, "  {name:<11} {text}");
        };
        line(
            "waited",
            format!("{} on average, at most {}", span(self.mean_wait()), span(self.most_waited_s)),
        );
        line("ran", format!("{} in all, at most {}", span(self.ran_s), span(self.longest_s)));
        if let Some(slice_s) = self.slice_s {
            line("slices", format!("{} slice hours", tenths(slice_s, 3600)));
        }
        if let Some(joules) = self.energy_j {
            line("energy", format!("{} kJ", tenths(joules, 1000)));
        }
        if let Some(most) = self.most.device_mib {
            let asked = self.most.asked_mib.map(|asked| format!(" of the {} asked for", display_gb(asked)));
            line("GPU memory", format!("at most {}{}", display_gb(most), asked.unwrap_or_default()));
        }
        if let Some(busy) = self.most.busy_percent {
            line("GPU busy", format!("at most {busy} %"));
        }
        if let Some(gb) = enough_gb(&self.most) {
            line(
                "next time",
                format!(
                    "--gpu-mem={gb}G is enough for each task: smaller requests start sooner and cost less."
                ),
            );
        }
        let started = counted(self.started, "task");
        let _ = writeln!(
            out,
            "Sums of the {started} that have started; `tessera report {}_N` shows one.",
            self.number
        );
        out
    }

    /// Gives the sums as JSON; `null` for what is not known.
    pub(super) fn json(&self) -> Value {
        json!({
            "array": self.number,
            "user": self.user,
            "states": self.states,
            "started": self.started,
            "mean_waited_s": self.mean_wait(),
            "most_waited_s": self.most_waited_s,
            "ran_s": self.ran_s,
            "longest_s": self.longest_s,
            "slice_s": self.slice_s,
            "energy_j": self.energy_j,
            "asked_mib": self.most.asked_mib,
            "device_mib": self.most.device_mib,
            "busy_percent": self.most.busy_percent,
            "enough_gb": enough_gb(&self.most),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_no_array() {
        let job = |number: &str| Record { number: number.to_owned(), ..Record::default() };
        assert_eq!(of("14", &[job("14+0"), job("14+1")]), None);
        assert_eq!(of("14", &[job("14_1"), job("141_2")]), None);
        let array = of("14", &[job("14_1"), job("14_[2-9%3]")]).unwrap();
        assert_eq!(array.states.values().sum::<u64>(), 9, "{array:?}");
    }
}
