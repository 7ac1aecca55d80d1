//! Changes of a configuration file that can be taken back: each stands between two comments, with the lines that it replaced.
//!
//! ```text
//! # >>> tessera setup 1a2b3c4d (tessera setup --remove restores this)
//! #- JobSubmitPlugins=lua
//! JobSubmitPlugins=lua,tessera
//! # <<< tessera setup
//! ```
//!
//! The number is a checksum of the new lines: lines that a person has changed since are never taken back. A file is cut at its
//! line ends and nowhere else, so that what is taken back leaves every byte as it was, a missing last line end too.

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::ops::Range;

const BEGIN: &str = "# >>> tessera setup ";
const END: &str = "# <<< tessera setup";
const WAS: &str = "#- ";
/// Word of a block whose file did not exist before.
const NEW_FILE: &str = "new-file ";
const HINT: &str = "(tessera setup --remove restores this)";
/// First line of a script, which has to come before the comments.
const SHEBANG: &str = "#!/bin/sh";

/// Change of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) at: At,
    /// The lines as they were; empty for an addition.
    pub(super) was: Vec<String>,
    pub(super) now: Vec<String>,
}

/// Place of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum At {
    /// The line with this number, from 0. Added lines come before it.
    Line(usize),
    End,
}

impl Edit {
    /// Adds lines at the end.
    pub(super) fn add(lines: &[String]) -> Self {
        Self { at: At::End, was: Vec::new(), now: lines.to_vec() }
    }
}

/// Lines between a begin and its end.
struct Block {
    /// Number of the line with the first comment, and of the one behind the last.
    from: usize,
    to: usize,
    new_file: bool,
    sum: String,
    was: Vec<String>,
    now: Vec<String>,
    /// Number of the first line of `now`.
    now_at: usize,
}

impl Block {
    fn is_untouched(&self) -> bool {
        self.sum == checksum(&self.now)
    }
}

/// FNV-1a of the lines. It tells a changed line from an unchanged one, nothing more.
fn checksum(lines: &[String]) -> String {
    let bytes = lines.iter().flat_map(|line| line.bytes().chain([b'\n']));
    let sum = bytes.fold(0x811c_9dc5_u32, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{sum:08x}")
}

fn split(text: &str) -> Vec<String> {
    text.split('\n').map(str::to_owned).collect()
}

/// Comments that cannot be understood: the number of the line, from 1, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BadMarks(pub(super) usize, pub(super) &'static str);

/// Finds the blocks of a file, in order.
fn blocks(lines: &[String]) -> Result<Vec<Block>, BadMarks> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        if lines[at].trim_end() == END {
            return Err(BadMarks(at + 1, "an end of a change of `tessera setup` without its beginning"));
        }
        let Some(head) = lines[at].strip_prefix(BEGIN) else {
            at += 1;
            continue;
        };
        let rest = &lines[at + 1..];
        let end = rest.iter().position(|line| line.trim_end() == END || line.starts_with(BEGIN));
        let Some(end) = end.filter(|end| rest[*end].trim_end() == END) else {
            return Err(BadMarks(at + 1, "a beginning of a change of `tessera setup` without its end"));
        };
        let was: Vec<String> =
            rest[..end].iter().map_while(|line| line.strip_prefix(WAS)).map(str::to_owned).collect();
        let (new_file, head) = match head.strip_prefix(NEW_FILE) {
            Some(head) => (true, head),
            None => (false, head),
        };
        found.push(Block {
            from: at,
            to: at + end + 2,
            new_file,
            sum: head.split(' ').next().unwrap_or_default().to_owned(),
            now: rest[was.len()..end].to_vec(),
            now_at: at + 1 + was.len(),
            was,
        });
        at += end + 2;
    }
    Ok(found)
}

/// Writes a block's lines.
fn marked(new_file: bool, was: &[String], now: &[String]) -> Vec<String> {
    let word = if new_file { NEW_FILE } else { "" };
    let begin = format!("{BEGIN}{word}{} {HINT}", checksum(now));
    let was = was.iter().map(|line| format!("{WAS}{line}"));
    [begin].into_iter().chain(was).chain(now.iter().cloned()).chain([END.to_owned()]).collect()
}

/// Makes the changes, each between its comments. `None` is a file that does not exist. A change of lines that `tessera setup`
/// wrote before becomes part of that change.
///
/// # Errors
///
/// The comments of earlier changes are damaged, or a change would be of lines that a person has changed since.
pub(super) fn apply(text: Option<&str>, edits: &[Edit]) -> Result<String, BadMarks> {
    let Some(text) = text else {
        let lines: Vec<String> = edits.iter().flat_map(|edit| edit.now.iter().cloned()).collect();
        let (head, lines) = match lines.split_first() {
            Some((first, rest)) if first == SHEBANG => (vec![first.clone()], rest),
            _ => (Vec::new(), &lines[..]),
        };
        return Ok([head, marked(true, &[], lines), vec![String::new()]].concat().join("\n"));
    };
    let mut lines = split(text);
    let mut edits: Vec<&Edit> = edits.iter().collect();
    // From the end, so that the numbers of the lines before stay.
    edits.sort_by_key(|edit| Reverse(edit.at));
    for edit in edits {
        let blocks = blocks(&lines)?;
        let at = match edit.at {
            At::Line(at) => at,
            // Before the empty rest behind the last line end.
            At::End => lines.len() - usize::from(lines.last().is_some_and(String::is_empty)),
        };
        match blocks.iter().find(|block| block.from < at && at < block.to) {
            Some(block) if !block.is_untouched() => {
                return Err(BadMarks(at + 1, "this change of `tessera setup` was edited by hand"));
            }
            Some(block) if at < block.now_at => {
                return Err(BadMarks(at + 1, "it is a comment of `tessera setup`"));
            }
            Some(block) => {
                let mut now = block.now.clone();
                now.splice(at - block.now_at..at - block.now_at + edit.was.len(), edit.now.iter().cloned());
                lines.splice(block.from..block.to, marked(block.new_file, &block.was, &now));
            }
            None => {
                lines.splice(at..at + edit.was.len(), marked(false, &edit.was, &edit.now));
            }
        }
    }
    Ok(lines.join("\n"))
}

/// Finds the lines that `tessera setup` wrote, by their numbers from 0.
///
/// # Errors
///
/// The comments are damaged.
pub(super) fn written(text: &str) -> Result<Vec<Range<usize>>, BadMarks> {
    let blocks = blocks(&split(text))?;
    Ok(blocks.iter().map(|block| block.now_at..block.now_at + block.now.len()).collect())
}

/// Finds the lines that `tessera setup` wrote and nobody has changed since, by their numbers from 0; none if the comments are damaged.
pub(super) fn untouched(text: &str) -> Vec<Range<usize>> {
    let blocks = blocks(&split(text)).unwrap_or_default();
    let own = blocks.iter().filter(|block| block.is_untouched());
    own.map(|block| block.now_at..block.now_at + block.now.len()).collect()
}

/// A file without the changes.
pub(super) struct Undone {
    /// `None`: the file goes, because `tessera setup` made it and nothing else is in it.
    pub(super) text: Option<String>,
    /// Changes that are taken back: `was` and `now` are those of today.
    pub(super) edits: Vec<Edit>,
    /// Numbers of lines, from 1, that a person has changed since. They stay, with their comments.
    pub(super) kept: Vec<usize>,
}

/// Takes back all changes, except those that a person has changed since.
///
/// # Errors
///
/// The comments are damaged.
pub(super) fn undo(text: &str) -> Result<Undone, BadMarks> {
    let mut lines = split(text);
    let (mut edits, mut kept, mut was_new) = (Vec::new(), Vec::new(), false);
    for block in blocks(&lines)?.iter().rev() {
        if block.is_untouched() {
            lines.splice(block.from..block.to, block.was.iter().cloned());
            edits.push(Edit { at: At::Line(block.now_at), was: block.now.clone(), now: block.was.clone() });
            was_new |= block.new_file;
        } else {
            kept.push(block.now_at + 1);
        }
    }
    edits.reverse();
    kept.reverse();
    let text = lines.join("\n");
    let is_gone = was_new && ["", SHEBANG].contains(&text.trim_end());
    Ok(Undone { text: (!is_gone).then_some(text), edits, kept })
}

/// Shows changes as lines with their numbers; those at the end have a line of their own before them, unless the file is new.
pub(super) fn diff(edits: &[Edit], is_new: bool) -> String {
    let mut out = String::new();
    for edit in edits {
        let mut place = match edit.at {
            At::Line(at) => (at + 1).to_string(),
            At::End => String::new(),
        };
        if place.is_empty() && !is_new {
            out.push_str("  at the end:\n");
        }
        let signed = edit.was.iter().map(|line| ('-', line)).chain(edit.now.iter().map(|line| ('+', line)));
        for (sign, line) in signed {
            let _ = writeln!(out, "{:>6} {sign} {line}", std::mem::take(&mut place));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn change(at: usize, was: &str, now: &str) -> Edit {
        Edit { at: At::Line(at), was: vec![was.to_owned()], now: vec![now.to_owned()] }
    }

    #[test]
    fn changes_stand_between_comments_and_are_taken_back() {
        let before = "A=1\nJobSubmitPlugins=lua\nB=2";
        let edits = [
            change(1, "JobSubmitPlugins=lua", "JobSubmitPlugins=lua,tessera"),
            Edit::add(&["PrologFlags=Alloc".to_owned()]),
        ];
        let after = apply(Some(before), &edits).unwrap();
        insta::assert_snapshot!(after, @r"
        A=1
        # >>> tessera setup c3f90550 (tessera setup --remove restores this)
        #- JobSubmitPlugins=lua
        JobSubmitPlugins=lua,tessera
        # <<< tessera setup
        B=2
        # >>> tessera setup ec06a6f5 (tessera setup --remove restores this)
        PrologFlags=Alloc
        # <<< tessera setup
        ");
        let undone = undo(&after).unwrap();
        assert_eq!((undone.text.as_deref(), undone.kept), (Some(before), vec![]));
        insta::assert_snapshot!(diff(&undone.edits, false), @r"
             4 - JobSubmitPlugins=lua,tessera
               + JobSubmitPlugins=lua
             8 - PrologFlags=Alloc
        ");
    }

    #[test]
    fn a_second_change_of_a_line_becomes_part_of_the_first() {
        let before = "Gres=a\n";
        let once = apply(Some(before), &[change(0, "Gres=a", "Gres=a,b")]).unwrap();
        let twice = apply(Some(&once), &[change(2, "Gres=a,b", "Gres=a,b,c")]).unwrap();
        assert!(twice.contains("#- Gres=a\nGres=a,b,c\n") && twice.matches(BEGIN).count() == 1, "{twice}");
        assert_eq!(undo(&twice).unwrap().text.unwrap(), before);
    }

    #[test]
    fn what_a_person_changed_since_stays() {
        let after = apply(Some("A=1\nB=2\n"), &[change(0, "A=1", "A=2"), change(1, "B=2", "B=3")]).unwrap();
        let edited = after.replace("\nB=3\n", "\nB=4\n");
        let undone = undo(&edited).unwrap();
        assert_eq!(undone.kept, [7]);
        assert!(undone.text.unwrap().starts_with("A=1\n# >>> tessera"));
        let at = edited.lines().position(|line| line == "B=4").unwrap();
        assert_eq!(apply(Some(&edited), &[change(at, "B=4", "B=5")]).unwrap_err().0, at + 1);
    }

    #[test]
    fn a_new_file_goes_again_unless_it_has_more() {
        let lines = ["#!/bin/sh", "true"].map(str::to_owned);
        let script = apply(None, &[Edit::add(&lines)]).unwrap();
        assert!(script.starts_with("#!/bin/sh\n# >>> tessera setup new-file "), "{script}");
        assert!(undo(&script).unwrap().text.is_none());
        assert_eq!(undo(&format!("{script}echo\n")).unwrap().text.unwrap(), "#!/bin/sh\necho\n");
        let empty = apply(Some(""), &[Edit::add(&lines)]).unwrap();
        assert_eq!(undo(&empty).unwrap().text.unwrap(), "");
    }

    #[test]
    fn damaged_comments_are_named() {
        let line = |text: &str| undo(text).err().unwrap().0;
        assert_eq!(line("A=1\n# <<< tessera setup\n"), 2);
        assert_eq!(line("# >>> tessera setup 0 x\nA=1\n"), 1);
        assert_eq!(line("# >>> tessera setup 0 x\n# >>> tessera setup 0 x\n# <<< tessera setup\n"), 1);
    }

    proptest! {
        /// Whatever a file is, each set of changes is taken back to the byte.
        #[test]
        fn every_byte_comes_back(text in "([a-z#= \\\\\r\t]{0,6}\n?){0,8}", picks in any::<u16>(), more in any::<bool>()) {
            let lines = split(&text);
            let last = lines.len() - usize::from(lines.last().is_some_and(String::is_empty));
            let edit = |at: usize| change(at, &lines[at], "new=1");
            let chosen = (0..last).filter(|at| picks >> (at % 16) & 1 == 1).map(edit);
            let edits: Vec<Edit> = chosen.chain(more.then(|| Edit::add(&["end=1".to_owned()]))).collect();
            let after = apply(Some(&text), &edits).unwrap();
            prop_assert_eq!(after.matches(BEGIN).count(), edits.len());
            prop_assert_eq!(undo(&after).unwrap().text.unwrap(), text);
        }
    }
}
