//! Why a submission or a change is refused: for its user, and as a word for those who count.

use std::fmt;

use decision_counts::decisions::Reason;

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The kind of reason, for metrics.
    pub reason: Reason,
    /// For the user: what was asked, why it cannot be, and what could.
    pub text: String,
}

impl Refusal {
    /// A refusal for this reason.
    #[must_use]
    pub fn new(reason: Reason, text: impl Into<String>) -> Self {
        Self { reason, text: text.into() }
    }

    /// A limit of the site forbids it.
    pub(crate) fn limit(text: String) -> Self {
        Self::new(Reason::Limit, text)
    }

    /// No node could ever serve it.
    pub(crate) fn impossible(text: String) -> Self {
        Self::new(Reason::Impossible, text)
    }
}

impl From<String> for Refusal {
    /// The request itself is wrong, as those errors say that come without a reason.
    fn from(text: String) -> Self {
        Self::new(Reason::Options, text)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
