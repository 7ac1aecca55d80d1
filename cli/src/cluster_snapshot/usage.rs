//! How much of GPUs jobs have.

/// How much of a node's GPUs jobs have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Use {
    Free,
    Partly,
    Full,
    /// The node takes no jobs, whatever it has.
    Away,
    /// No layout could be read.
    Unknown,
}

impl Use {
    pub(crate) const ALL: [Self; 5] = [Self::Free, Self::Partly, Self::Full, Self::Away, Self::Unknown];

    /// In a link, and as a class of the page.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Partly => "partly",
            Self::Full => "full",
            Self::Away => "away",
            Self::Unknown => "unknown",
        }
    }

    /// True if nothing is free there for jobs, or nothing known.
    pub(crate) fn is_away(self) -> bool {
        matches!(self, Self::Away | Self::Unknown)
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Partly => "partly used",
            Self::Full => "fully used",
            Self::Away => "taking no jobs",
            Self::Unknown => "not known",
        }
    }
}

/// Compute slices: those that no job has, and all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slices {
    pub(crate) free: u32,
    pub(crate) all: u32,
}

impl std::iter::Sum for Slices {
    fn sum<I: Iterator<Item = Self>>(slices: I) -> Self {
        slices.fold(Self::default(), |sum, s| Self { free: sum.free + s.free, all: sum.all + s.all })
    }
}

impl Slices {
    pub(crate) fn in_use(self) -> Use {
        match self.free {
            0 => Use::Full,
            free if free == self.all => Use::Free,
            _ => Use::Partly,
        }
    }
}
