//! Counting tests by what the test programs print.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;
use std::time::Duration;

use super::lanes::Outcome;

/// How many tests ended how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    passed: u64,
    failed: u64,
    /// Tests marked `#[ignore]`.
    skipped: u64,
}

impl Tally {
    /// Adds up the lines `test result: …`. A program of tests that fails without a failed test, because it was killed
    /// for instance, counts as one failed test.
    pub(super) fn of(outcome: &Outcome) -> Self {
        let mut tally = Self::default();
        if !outcome.has_tests {
            return tally;
        }
        for result in outcome.output.lines().filter_map(|line| line.strip_prefix("test result: ")) {
            let count = |what: &str| {
                let part = result.split([';', '.']).map(str::trim).find_map(|part| part.strip_suffix(what));
                part.and_then(|number| number.trim().parse::<u64>().ok()).unwrap_or_default()
            };
            let (passed, failed, skipped) = (count("passed"), count("failed"), count("ignored"));
            tally += Self { passed, failed, skipped };
        }
        if !outcome.succeeded && tally.failed == 0 {
            tally.failed = 1;
        }
        tally
    }

    /// What its tests say that they did not do, for lack of something on this machine.
    pub(super) fn skipped_parts(outcome: &Outcome) -> Vec<String> {
        let parts = outcome.output.lines().filter_map(|line| line.strip_prefix("skipped: "));
        parts.map(|part| format!("{}: {part}", outcome.name)).collect()
    }

    /// Whether there was no test.
    pub(super) fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// The names of what failed: tests, or the whole job when it names none.
    pub(super) fn failed_names(self, outcome: &Outcome) -> Vec<String> {
        if outcome.succeeded {
            return Vec::new();
        }
        let name = |line: &str| line.strip_prefix("test ")?.strip_suffix(" ... FAILED").map(str::to_owned);
        let tests: Vec<String> = outcome.output.lines().filter_map(name).collect();
        if tests.is_empty() || !outcome.has_tests {
            return vec![outcome.name.clone()];
        }
        tests.into_iter().map(|test| format!("{}: {test}", outcome.name)).collect()
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, more: Self) {
        self.passed += more.passed;
        self.failed += more.failed;
        self.skipped += more.skipped;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 {
            write!(f, ", {} skipped", self.skipped)?;
        }
        Ok(())
    }
}

/// The end-to-end tests, by the Slurm that they ran on.
#[derive(Debug, Default)]
pub(super) struct Series {
    /// Series, tests, how many programs, and what they took together, one after another.
    rows: BTreeMap<String, (Tally, u32, Duration)>,
}

impl Series {
    /// Counts a job whose name ends in `on Slurm 24.11`; no other.
    pub(super) fn add(&mut self, outcome: &Outcome, tally: Tally) {
        let Some((_, series)) = outcome.name.rsplit_once(" on Slurm ") else { return };
        let row = self.rows.entry(series.to_owned()).or_default();
        row.0 += tally;
        row.1 += 1;
        row.2 += outcome.elapsed;
    }
}

impl fmt::Display for Series {
    /// A line for each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (series, (tally, programs, together)) in &self.rows {
            let seconds = together.as_secs();
            writeln!(f, "Slurm {series}: {tally} in {programs} programs, which took {seconds} s together")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(output: &str, succeeded: bool) -> Outcome {
        let (name, output) = ("e2e jobs".to_owned(), output.to_owned());
        Outcome { name, output, succeeded, has_tests: true, elapsed: Duration::ZERO }
    }

    #[test]
    fn results_are_added_up() {
        let two = "running 2 tests\ntest a ... ok\n\
            test result: ok. 13 passed; 0 failed; 2 ignored; 0 measured; 5 filtered out; finished in 1.00s\n\
            test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.40s\n";
        assert_eq!(Tally::of(&ended(two, true)).to_string(), "14 passed, 0 failed, 2 skipped");
        assert!(Tally::of(&ended("", true)).is_empty());
    }

    #[test]
    fn end_to_end_tests_are_added_up_by_series() {
        let mut series = Series::default();
        for (name, seconds) in [("e2e jobs on Slurm 22.05", 3), ("e2e mps on Slurm 22.05", 4), ("lints", 9)] {
            let output = "test result: ok. 2 passed; 0 failed; 0 ignored;\n".to_owned();
            let elapsed = Duration::from_secs(seconds);
            let outcome =
                Outcome { name: name.to_owned(), output, succeeded: true, has_tests: true, elapsed };
            series.add(&outcome, Tally::of(&outcome));
        }
        assert_eq!(
            series.to_string(),
            "Slurm 22.05: 4 passed, 0 failed in 2 programs, which took 7 s together\n"
        );
    }

    #[test]
    fn failed_tests_are_counted_and_named() {
        let output = "test a ... FAILED\ntest b ... ok\n\
            test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s\n";
        let outcome = ended(output, false);
        let tally = Tally::of(&outcome);
        assert_eq!(tally.to_string(), "1 passed, 1 failed");
        assert_eq!(tally.failed_names(&outcome), ["e2e jobs: a"]);
    }

    #[test]
    fn what_a_test_skips_is_repeated() {
        let output = "running 1 test\n\nskipped: device cgroups: needs version 1\ntest a ... ok\n\
            test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s\n";
        let parts = Tally::skipped_parts(&ended(output, true));
        assert_eq!(parts, ["e2e jobs: device cgroups: needs version 1"]);
    }

    #[test]
    fn a_program_that_dies_counts_as_a_failed_test() {
        let outcome = ended("running 3 tests\ntest a ... ok\n", false);
        let tally = Tally::of(&outcome);
        assert_eq!(tally.to_string(), "0 passed, 1 failed");
        assert_eq!(tally.failed_names(&outcome), ["e2e jobs"]);
    }

    #[test]
    fn a_check_has_no_tests_but_can_fail() {
        let outcome = Outcome { has_tests: false, ..ended("test result: ok. 1 passed;\n", false) };
        assert!(Tally::of(&outcome).is_empty());
        assert_eq!(Tally::default().failed_names(&outcome), ["e2e jobs"]);
    }
}
