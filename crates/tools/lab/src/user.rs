//! Users of a cluster.

use std::fs;
use std::path::Path;

use crate::error::{HarnessError, at};
use crate::paths;

/// Who runs a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// The administrator.
    Root,
    /// The first test user.
    Alice,
    /// The second test user.
    Bob,
}

impl std::str::FromStr for User {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = [Self::Root, Self::Alice, Self::Bob];
        let found = known.into_iter().find(|user| user.name() == text);
        found.ok_or_else(|| format!("expected {}", known.map(Self::name).join(", ")))
    }
}

impl std::fmt::Display for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl User {
    /// Login name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Alice => paths::TEST_USERS[0],
            Self::Bob => paths::TEST_USERS[1],
        }
    }

    /// User and group id, as the machine's passwd file has them.
    ///
    /// # Errors
    ///
    /// If the user is not there: `cargo xtask setup` creates it.
    pub fn ids(self) -> Result<(u32, u32), HarnessError> {
        let path = Path::new("/etc/passwd");
        let text = at(path, fs::read_to_string(path))?;
        let entry =
            text.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|f| f[0] == self.name());
        entry.and_then(|f| Some((f.get(2)?.parse().ok()?, f.get(3)?.parse().ok()?))).ok_or_else(|| {
            HarnessError::Unexpected(format!("no user {}: run `cargo xtask setup`", self.name()))
        })
    }
}
