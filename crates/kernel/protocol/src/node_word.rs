//! The word of a node on itself at the end of its `extra`, and slurmctld's judgement of it.
//!
//! ```text
//! tessera gpu0-7=free node=says:1764097557:9f86d081884c7d65
//! ```
//!
//! The node writes `says` with the start of its slurmd, as slurmctld shows it, and the fingerprint of its `tessera.toml`. Only
//! operators can write a node's `extra`. A slurmd that takes MIG instances for GPUs says the complement of the fingerprint
//! ([`Said::of`]). slurmctld rewrites the word for people: `same`, `other`, `detects`, each with the two numbers, or
//! `silent`. The numbers stay, so that a slurmctld that starts anew judges as the one before. The word also follows a text of the
//! site's own.

use std::fmt;

use crate::time::{U64_DIGITS, digits};

/// Begins what stands in the place of a layout while the node's GPUs are not those that the site describes; the reason
/// follows. The node writes it, and slurmctld starts no job with GPUs there.
pub const UNFIT: &str = "tessera unfit: ";
/// Begins the word.
const KEY: &str = "node=";
/// Marks the word as the node's own.
const SAYS: &str = "says";
/// Stands in the place of a layout if there is none before the word.
const NO_LAYOUT: &str = "tessera";
/// Digits of a fingerprint.
const DIGITS: usize = 16;

/// Standing of a node: whether it takes jobs with requests of Tessera's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Loads Tessera, and has slurmctld's `tessera.toml`.
    Same,
    /// Loads Tessera, and has another `tessera.toml`.
    Other,
    /// The node's slurmd found its GPUs with Slurm's own gpu_nvml.so (`AutoDetect`): with instances there, the next one would count other GPUs.
    Detects,
    /// Has not said since slurmd's start that it loads Tessera.
    Silent,
}

impl Standing {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Same, Self::Other, Self::Detects, Self::Silent];

    /// The word for it, also in a metric's label.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Other => "other",
            Self::Detects => "detects",
            Self::Silent => "silent",
        }
    }

    /// Why the node `name` takes no jobs with requests of Tessera's, and what to do; `None`: it takes them.
    #[must_use]
    pub fn why_not(self, name: &str) -> Option<String> {
        match self {
            Self::Same => None,
            Self::Other => Some(format!(
                "node {name} has another tessera.toml than slurmctld: give both the same file, then restart its slurmd"
            )),
            Self::Detects => Some(format!(
                "the slurmd of node {name} takes MIG instances for GPUs, because it did not find its GPUs (AutoDetect) with Tessera's \
                 gpu_nvml.so: see its log; put Tessera's plugins first in PluginDir, or list the GPUs with File= and AutoDetect=off, then \
                 restart its slurmd"
            )),
            Self::Silent => Some(format!(
                "node {name} does not load Tessera, or has no tessera.toml: restart its slurmd with spank_tessera.so in \
                 plugstack.conf"
            )),
        }
    }
}

/// The word of a slurmd that loads Tessera.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    /// Time of its start, as slurmctld knows it, seconds since 1970.
    pub started: u64,
    /// The fingerprint of what its `tessera.toml` says of the node.
    pub file: u64,
}

impl Said {
    /// The word of the slurmd that started then, whose `tessera.toml` has this fingerprint. `detects`: see [`Standing::Detects`].
    #[must_use]
    pub fn of(started: u64, file: u64, detects: bool) -> Self {
        Self { started, file: if detects { !file } else { file } }
    }

    /// Judges what a node has said last. `started` is the start of the slurmd that has registered, seconds since 1970, and 0
    /// before any has; `file` is the fingerprint of slurmctld's own file.
    #[must_use]
    pub fn judge(said: Option<Self>, started: u64, file: u64) -> Standing {
        match said {
            Some(said) if started == 0 || said.started == started => match said.file {
                same if same == file => Standing::Same,
                detects if detects == !file => Standing::Detects,
                _ => Standing::Other,
            },
            _ => Standing::Silent,
        }
    }
}

/// The word at the end of a node's `extra`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeWord {
    /// The node wrote it, and slurmctld has not judged it yet.
    Says(Said),
    /// slurmctld has, and the node does not stand as [`Standing::Silent`].
    Judged(Standing, Said),
    /// See [`Standing::Silent`].
    Silent,
}

impl NodeWord {
    /// slurmctld's word for a node that stands so after it has said this.
    #[must_use]
    pub fn judged(standing: Standing, said: Option<Said>) -> Self {
        let said = said.filter(|_| standing != Standing::Silent);
        said.map_or(Self::Silent, |said| Self::Judged(standing, said))
    }

    /// Gives the word of the node.
    #[must_use]
    pub fn said(self) -> Option<Said> {
        match self {
            Self::Says(said) | Self::Judged(_, said) => Some(said),
            Self::Silent => None,
        }
    }

    /// slurmctld's judgement; `None`: it has not judged yet.
    #[must_use]
    pub fn standing(self) -> Option<Standing> {
        match self {
            Self::Says(_) => None,
            Self::Judged(standing, _) => Some(standing),
            Self::Silent => Some(Standing::Silent),
        }
    }

    fn parse(word: &str) -> Option<Self> {
        let value = word.strip_prefix(KEY)?;
        if value == Standing::Silent.word() {
            return Some(Self::Silent);
        }
        let (kind, numbers) = value.split_once(':')?;
        let (started, file) = numbers.split_once(':')?;
        if file.len() != DIGITS || !file.bytes().all(|b| is_hex(&b)) {
            return None;
        }
        let said = Said { started: digits(started, U64_DIGITS)?, file: u64::from_str_radix(file, 16).ok()? };
        if kind == SAYS {
            return Some(Self::Says(said));
        }
        let is_it = |standing: &Standing| *standing != Standing::Silent && standing.word() == kind;
        Standing::ALL.into_iter().find(is_it).map(|standing| Self::Judged(standing, said))
    }
}

fn is_hex(byte: &u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(byte)
}

impl fmt::Display for NodeWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, Said { started, file }) = match self {
            Self::Says(said) => (SAYS, said),
            Self::Judged(standing, said) => (standing.word(), said),
            Self::Silent => return write!(f, "{KEY}{}", Standing::Silent.word()),
        };
        write!(f, "{KEY}{kind}:{started}:{file:016x}")
    }
}

/// Parts of a node's `extra`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extra<'a> {
    /// The layout, or another text; empty if there is none.
    pub before: &'a str,
    /// The word about jobs that use no GPU: see [`crate::idle`]; empty if there is none.
    pub idle: &'a str,
    /// The word about unhealthy GPUs: see [`crate::sick`]; empty if there is none.
    pub sick: &'a str,
    /// The node's word about itself.
    pub word: Option<NodeWord>,
}

impl<'a> Extra<'a> {
    /// Takes a node's `extra` apart.
    #[must_use]
    pub fn read(extra: &'a str) -> Self {
        let last_of = |text: &'a str| text.rsplit_once(' ').unwrap_or(("", text));
        let mut rest = extra.trim_end();
        let (before, last) = last_of(rest);
        let word = NodeWord::parse(last);
        if word.is_some() {
            rest = before;
        }
        let (before, last) = last_of(rest);
        let sick = crate::sick::parse(last).map_or("", |_| last);
        if !sick.is_empty() {
            rest = before;
        }
        let (before, last) = last_of(rest);
        let idle = crate::IdleWord::parse(last).map_or("", |_| last);
        if !idle.is_empty() {
            rest = before;
        }
        if word.is_none() && sick.is_empty() && idle.is_empty() {
            return Self { before: extra, ..Self::default() };
        }
        Self { before: if rest == NO_LAYOUT { "" } else { rest }, idle, sick, word }
    }
}

impl fmt::Display for Extra<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let alone = self.idle.is_empty() && self.sick.is_empty() && self.word.is_none();
        f.write_str(if self.before.is_empty() && !alone { NO_LAYOUT } else { self.before })?;
        for word in [self.idle, self.sick].into_iter().filter(|word| !word.is_empty()) {
            write!(f, " {word}")?;
        }
        self.word.map_or(Ok(()), |word| write!(f, " {word}"))
    }
}

/// Splits a node's `extra` into what comes before the node's words, and the word about itself.
#[must_use]
pub fn split(extra: &str) -> (&str, Option<NodeWord>) {
    let Extra { before, word, .. } = Extra::read(extra);
    (before, word)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SAID: Said = Said { started: 100, file: 7 };

    fn join(before: &str, word: Option<NodeWord>) -> String {
        Extra { before, word, ..Extra::default() }.to_string()
    }

    #[test]
    fn a_word_is_judged_by_the_slurmd_that_has_registered_and_by_slurmctlds_file() {
        assert_eq!(Said::judge(None, 100, 7), Standing::Silent);
        assert_eq!(Said::judge(None, 0, 7), Standing::Silent);
        assert_eq!(Said::judge(Some(SAID), 100, 7), Standing::Same);
        assert_eq!(Said::judge(Some(SAID), 100, 8), Standing::Other);
        let detects = Said::of(100, 7, true);
        assert_eq!(Said::judge(Some(detects), 100, 7), Standing::Detects);
        assert_eq!(Said::judge(Some(detects), 100, 8), Standing::Other, "and another file");
        assert_eq!(Said::judge(Some(detects), 101, 7), Standing::Silent);
        assert_eq!(Said::of(100, 7, false), SAID);
        assert_eq!(Said::judge(Some(SAID), 101, 7), Standing::Silent, "another slurmd has registered");
        assert_eq!(Said::judge(Some(SAID), 99, 7), Standing::Silent, "its clock was set back");
        assert_eq!(Said::judge(Some(SAID), 0, 7), Standing::Same, "slurmctld has only just started");
    }

    #[test]
    fn the_word_stands_at_the_end_of_any_text() {
        let word = Some(NodeWord::Judged(Standing::Same, SAID));
        for before in ["tessera gpu0=free", "rack 7", "tessera unfit: GPU 1 is missing", "{\"a\": 1}"] {
            let text = format!("{before} node=same:100:0000000000000007");
            assert_eq!(split(&text), (before, word));
            assert_eq!(join(before, word), text);
            assert_eq!(split(before), (before, None));
        }
        assert_eq!(join("", Some(NodeWord::Silent)), "tessera node=silent");
        assert_eq!(split("tessera node=silent"), ("", Some(NodeWord::Silent)));
        assert_eq!(split("node=silent\n"), ("", Some(NodeWord::Silent)));
        for other in [
            "",
            "tessera",
            "node=says",
            "node=same:1:2",
            "node=says:1:00000000000000AB",
            "node=says:+1:00000000000000ab",
            "node=says::00000000000000ab",
            "node=perhaps:1:00000000000000ab",
            "node=silent:1:00000000000000ab",
            "node=silent gpu0=free",
        ] {
            assert_eq!(split(other), (other, None), "{other}");
        }
    }

    #[test]
    fn unhealthy_gpus_stand_before_the_word() {
        for (before, sick, word, text) in [
            (
                "tessera gpu0=free",
                "sick=0:5:xid_79",
                Some(NodeWord::Silent),
                "tessera gpu0=free sick=0:5:xid_79 node=silent",
            ),
            ("", "sick=0:5:xid_79", Some(NodeWord::Silent), "tessera sick=0:5:xid_79 node=silent"),
            ("", "sick=0:5:xid_79", None, "tessera sick=0:5:xid_79"),
            ("rack 7", "sick=0:5:xid_79", None, "rack 7 sick=0:5:xid_79"),
            ("rack 7 sick=maybe", "", Some(NodeWord::Silent), "rack 7 sick=maybe node=silent"),
        ] {
            for idle in ["", "idle=100,7:90:1:1:3"] {
                let parts = Extra { before, idle, sick, word };
                let text = parts.to_string();
                assert_eq!(Extra::read(&text), parts, "{text}");
                assert_eq!(split(&text), (before, word));
            }
            assert_eq!(Extra { before, idle: "", sick, word }.to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn every_word_comes_back(before in "[ -~]{0,40}", started: u64, file: u64, kind in 0..5) {
            let said = Said { started, file };
            let all = [
                NodeWord::Says(said),
                NodeWord::Judged(Standing::Same, said),
                NodeWord::Judged(Standing::Other, said),
                NodeWord::Judged(Standing::Detects, said),
                NodeWord::Silent,
            ];
            let word = all[usize::try_from(kind).unwrap()];
            prop_assume!(before != NO_LAYOUT);
            let text = join(&before, Some(word));
            prop_assert_eq!(split(&text), (before.as_str(), Some(word)));
        }

        #[test]
        fn any_text_can_be_split(text: String) {
            let (before, word) = split(&text);
            prop_assert!(text.starts_with(before) || before.is_empty());
            prop_assert_eq!(split(&join(before, word)).1, word);
        }
    }
}
