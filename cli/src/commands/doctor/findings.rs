//! Results of doctor's checks.

/// The result of one check.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckResult {
    Ok,
    /// Two sources disagree, or one has an error.
    Bad,
    /// Not checked: this machine or this user cannot.
    Skipped,
}

impl CheckResult {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Bad => "bad",
            Self::Skipped => "skip",
        }
    }
}

/// The checks made so far, in their order.
#[derive(Default)]
pub(crate) struct Findings {
    pub(super) list: Vec<(CheckResult, String)>,
}

impl Findings {
    pub(crate) fn bad(&mut self, what: impl Into<String>) {
        self.list.push((CheckResult::Bad, what.into()));
    }

    pub(crate) fn skipped(&mut self, what: impl Into<String>) {
        self.list.push((CheckResult::Skipped, what.into()));
    }

    /// True where something disagrees.
    pub(crate) fn any_bad(&self) -> bool {
        self.list.iter().any(|(v, _)| *v == CheckResult::Bad)
    }

    pub(crate) fn append(&mut self, mut others: Self) {
        self.list.append(&mut others.list);
    }

    /// Runs a group of checks: one line if all is well, else a line for each thing that is not.
    pub(crate) fn group(&mut self, ok: impl Into<String>, check: impl FnOnce(&mut Self)) {
        let before = self.list.len();
        check(self);
        if self.list.len() == before {
            self.list.push((CheckResult::Ok, ok.into()));
        }
    }
}
