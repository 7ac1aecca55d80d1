//! Levels of log lines.

/// Importance of a line, and its readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// An admin must act.
    Error,
    /// A rare change of state.
    Info,
    /// A decision.
    Verbose,
    /// The report behind a decision.
    Debug,
    /// For the user who typed the command (`slurm_spank_log`: SPANK contexts only).
    User,
}
