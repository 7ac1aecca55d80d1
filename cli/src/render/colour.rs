//! Colour for terminals.

use std::io::IsTerminal as _;

use clap::ValueEnum;

use crate::gpu_pieces::Owner;

/// When to use colour.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ColorWhen {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl Owner {
    /// A background of the 256-colour cube that both light and dark terminals show well under black text: the hues of the pictures.
    pub(crate) fn background(self) -> Option<u8> {
        match self {
            Self::Isolated => Some(75),
            Self::Shared => Some(221),
            Self::Tasks => Some(140),
            Self::Idle => Some(250),
            Self::Whole => Some(215),
            Self::Sick => Some(203),
            Self::Free | Self::Slurm => None,
        }
    }
}

/// Puts colour on text, or not.
#[derive(Clone, Copy)]
pub(crate) struct Paint {
    pub(crate) on: bool,
}

impl Paint {
    /// `auto`: on a terminal, unless `NO_COLOR` is set (no-color.org) or the terminal is dumb.
    pub(crate) fn new(when: ColorWhen) -> Self {
        let env = |name| std::env::var(name).unwrap_or_default();
        let on = match when {
            ColorWhen::Always => true,
            ColorWhen::Never => false,
            ColorWhen::Auto => {
                env("NO_COLOR").is_empty() && env("TERM") != "dumb" && std::io::stdout().is_terminal()
            }
        };
        Self { on }
    }

    pub(crate) fn owner(self, owner: Owner, text: &str) -> String {
        match owner.background().filter(|_| self.on) {
            Some(index) => format!("\x1b[38;5;16;48;5;{index}m{text}\x1b[0m"),
            None => text.to_owned(),
        }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        if self.on { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
    }
}
