//! Counting tests by what the test programs print.

use std::fmt;
use std::ops::AddAssign;

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

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
    fn failed_tests_are_counted_and_named() {
        let output = "test a ... FAILED\ntest b ... ok\n\
            test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s\n";
        let outcome = ended(output, false);
        let tally = Tally::of(&outcome);
        assert_eq!(tally.to_string(), "1 passed, 1 failed");
        assert_eq!(tally.failed_names(&outcome), ["e2e jobs: a"]);
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
