//! Slurm's files as text whose lines can be changed: which line has a key, and that line with another value.

use std::path::{Path, PathBuf};

use slurm_files::{Line, lines};

use super::marks::{At, Edit};

/// Keys of slurm.conf whose lists can name plugins of Tessera, and what separates the words of each.
const LISTS: [(&str, char); 4] = [
    ("PluginDir", ':'),
    ("JobSubmitPlugins", ','),
    ("AcctGatherEnergyType", ','),
    ("AcctGatherInterconnectType", ','),
];

/// A file of this machine as it is; `text` is `None` if there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ConfFile {
    pub(super) path: PathBuf,
    pub(super) text: Option<String>,
}

impl ConfFile {
    /// Reads the lines as Slurm does: a line that ends in a backslash goes on in the next.
    pub(super) fn logical(&self) -> Vec<Logical> {
        let text = self.text.as_deref().unwrap_or_default();
        let (mut all, mut raw, mut first) = (Vec::new(), Vec::new(), 0);
        for (number, line) in text.split('\n').enumerate() {
            if raw.is_empty() {
                first = number;
            }
            raw.push(line.to_owned());
            // The reader gives one line more than it has read in full.
            let goes_on = lines(line).len() == 1 && !line.trim().is_empty();
            if !goes_on {
                all.push(Logical::of(first, std::mem::take(&mut raw)));
            }
        }
        if !raw.is_empty() {
            all.push(Logical::of(first, raw));
        }
        all
    }
}

/// Line as Slurm reads it.
pub(super) struct Logical {
    /// Number of its first line in the file, from 0.
    pub(super) first: usize,
    /// The lines in the file that make it up.
    raw: Vec<String>,
    pub(super) text: String,
    pub(super) fields: Line,
}

impl Logical {
    fn of(first: usize, raw: Vec<String>) -> Self {
        let text = lines(&raw.join("\n")).into_iter().next().unwrap_or_default();
        Self { first, raw, fields: Line::read(&text), text }
    }

    /// Reads `include FILE`, the word in any case.
    pub(super) fn include(&self) -> Option<&str> {
        let (word, file) = self.text.trim().split_once(char::is_whitespace)?;
        word.eq_ignore_ascii_case("include").then_some(file.trim())
    }

    /// Gives the file of the SPANK plugin that this line of plugstack.conf loads.
    pub(super) fn plugin(&self) -> Option<&str> {
        let mut words = self.text.split_whitespace();
        words.next().filter(|word| ["required", "optional"].contains(word))?;
        words.next()
    }

    /// Gives a list of this line of slurm.conf that may name plugins of Tessera, whose directory is `dir`: the key, and what is left of
    /// the list without them.
    pub(super) fn without_tessera(&self, dir: &Path) -> Option<(&'static str, String)> {
        LISTS.into_iter().find_map(|(key, separator)| {
            let list = self.fields.begins(key).then(|| self.fields.field(key)).flatten()?;
            let is_ours = |one: &str| match separator {
                ':' => Path::new(one.trim()) == dir,
                _ => one.trim().rsplit('/').next() == Some("tessera"),
            };
            let kept: Vec<&str> = list.split(separator).filter(|one| !is_ours(one)).collect();
            let kept = kept.join(separator.encode_utf8(&mut [0; 4]));
            (kept != list).then_some((key, kept))
        })
    }

    /// Gives a key of this line another value. `None`: it is written in a way that cannot be changed safely.
    pub(super) fn with_value(&self, key: &str, value: &str) -> Option<Edit> {
        let old = self.fields.field(key)?;
        self.replaced(key, old, value)
    }

    /// Puts a key with a value behind another key of this line.
    pub(super) fn with_key_behind(&self, other: &str, key: &str, value: &str) -> Option<Edit> {
        let old = self.fields.field(other)?;
        self.replaced(other, old, &format!("{old} {key}={value}"))
    }

    /// Changes the text of a line that stands alone.
    pub(super) fn with_text(&self, change: impl Fn(&str) -> String) -> Edit {
        let now = self.raw.iter().map(|line| change(line)).collect();
        Edit { at: At::Line(self.first), was: self.raw.clone(), now }
    }

    /// Takes the line away.
    pub(super) fn gone(&self) -> Edit {
        Edit { at: At::Line(self.first), was: self.raw.clone(), now: Vec::new() }
    }

    fn replaced(&self, key: &str, old: &str, new: &str) -> Option<Edit> {
        let mut now = self.raw.clone();
        let changed = now.iter_mut().rev().find_map(|line| {
            *line = replace_value(line, key, old, new)?;
            Some(())
        });
        changed?;
        // Read again, the line must say what it is to say.
        let reads = Self::of(self.first, now.clone());
        let want = new.split(' ').next().unwrap_or_default();
        (reads.fields.field(key) == Some(want)).then(|| Edit {
            at: At::Line(self.first),
            was: self.raw.clone(),
            now,
        })
    }
}

/// Replaces the value of the last `key=old` in a line, before its comment.
fn replace_value(line: &str, key: &str, old: &str, new: &str) -> Option<String> {
    let end = line.find('#').unwrap_or(line.len());
    let head = &line[..end];
    let lower = head.to_ascii_lowercase();
    let key = key.to_ascii_lowercase();
    let mut places = lower.rmatch_indices(&key);
    places.find_map(|(at, _)| {
        let begins = at == 0 || head[..at].ends_with(|c: char| c.is_whitespace());
        let rest = &head[at + key.len()..];
        let rest = begins.then(|| rest.trim_start().strip_prefix('=')).flatten()?.trim_start();
        let from = end - rest.len();
        let value = rest.strip_prefix(old)?;
        let ends = value.is_empty() || value.starts_with(|c: char| c.is_whitespace());
        ends.then(|| format!("{}{new}{}", &line[..from], &line[from + old.len()..]))
    })
}

/// Tells whether a comma-separated list has a word, in any case.
pub(super) fn has_word(list: &str, word: &str) -> bool {
    list.split(',').any(|one| one.trim().eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> ConfFile {
        ConfFile { path: "/etc/slurm/slurm.conf".into(), text: Some(text.to_owned()) }
    }

    fn changed(text: &str, key: &str, value: &str) -> Option<(At, String)> {
        let line = found(text).logical().into_iter().rev().find(|line| line.fields.field(key).is_some())?;
        line.with_value(key, value).map(|edit| (edit.at, edit.now.join("\n")))
    }

    #[test]
    fn a_value_is_replaced_where_it_stands() {
        let same = |at, text: &str| Some((At::Line(at), text.to_owned()));
        assert_eq!(changed("A=1\ngrestypes = gpu # GresTypes=gpu", "GresTypes", "gpu,shard"), {
            same(1, "grestypes = gpu,shard # GresTypes=gpu")
        });
        let two = "NodeName=n1 CPUs=4 \\\n  Gres=gpu:8 State=UNKNOWN\nX=1\n";
        assert_eq!(changed(two, "Gres", "gpu:8,shard:9"), {
            same(0, "NodeName=n1 CPUs=4 \\\n  Gres=gpu:8,shard:9 State=UNKNOWN")
        });
        assert_eq!(changed("Gres=gpu:8 XGres=gpu:8\n", "Gres", "x"), same(0, "Gres=x XGres=gpu:8"));
        // Quotes stay quotes only where Slurm's reader agrees.
        assert_eq!(changed("Gres=\"gpu:8\"\n", "Gres", "x"), None);
        assert_eq!(changed("JobSubmitPlugins+=lua\n", "JobSubmitPlugins", "lua,tessera"), None);
    }

    #[test]
    fn a_key_is_put_behind_another() {
        let line = &found("NodeName=n[1-2] CPUs=4\n").logical()[0];
        let edit = line.with_key_behind("NodeName", "Gres", "gpu:a100:8").unwrap();
        assert_eq!(edit.now, ["NodeName=n[1-2] Gres=gpu:a100:8 CPUs=4"]);
    }

    #[test]
    fn files_that_are_included_are_found() {
        let lines = found("Include a.conf # x\nInclusive=1\n  INCLUDE  /b/*.conf\n").logical();
        let files: Vec<&str> = lines.iter().filter_map(Logical::include).collect();
        assert_eq!(files, ["a.conf", "/b/*.conf"]);
    }
}
