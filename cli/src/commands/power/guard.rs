//! The word of the command line on how cautious a choice is.

use clap::ValueEnum;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Guard {
    /// It holds for cautious predictions; measured combinations are not predicted
    On,
    /// It holds for the predictions themselves
    Off,
}
