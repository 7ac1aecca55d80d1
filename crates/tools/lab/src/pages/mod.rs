//! Commands that the documentation shows, for the tests that run or check each of them.
//!
//! A block without a language, or with `sh`, has one command in each line. A `console` block is a transcript: its commands begin
//! with `$ ` or, as root, `# `. Other languages are no commands. A code span in a text mentions a command. A cell of a column
//! whose heading names `sbatch` has options.

mod shell;

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use crate::error::{HarnessError, at};
use crate::paths;

pub use shell::{commands, filled, lines};

/// Command, sample or mention on a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The page, from the workspace's root.
    pub page: String,
    /// The line of its first character; of a transcript's command, that of its block.
    pub line: usize,
    /// The text as it is on the page; a command's continued lines are one.
    pub text: String,
    /// Kind of place.
    pub place: Place,
}

/// Kinds of places at which a page shows something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A command in a block, with the lines that a transcript shows after it.
    Command {
        /// Typed after `# `.
        root: bool,
        /// The lines of output.
        output: Vec<String>,
    },
    /// A whole block in a language that is not the shell's, with the language.
    Sample(String),
    /// Code in a text.
    Mention,
    /// Options in a table, for sbatch.
    ForSbatch,
}

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.page, self.line, self.text)
    }
}

impl Shown {
    /// Returns the output, if this is a command of a transcript.
    #[must_use]
    pub fn output(&self) -> &[String] {
        if let Place::Command { output, .. } = &self.place { output } else { &[] }
    }
}

/// Returns every Markdown page of the project but the list of changes, from the workspace's root.
///
/// # Errors
///
/// A directory that cannot be read.
pub fn files() -> Result<Vec<PathBuf>, HarnessError> {
    let root = paths::workspace();
    let mut all = Vec::new();
    for dir in ["docs", "contrib"] {
        below(&root.join(dir), &mut all)?;
    }
    let entries = at(&root, fs::read_dir(&root))?.flatten().map(|entry| entry.path());
    all.extend(entries.filter(|path| is_page(path) && !path.ends_with("CHANGELOG.md")));
    all.sort();
    Ok(all)
}

fn is_page(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md")
}

fn below(dir: &Path, found: &mut Vec<PathBuf>) -> Result<(), HarnessError> {
    for entry in at(dir, fs::read_dir(dir))? {
        let path = at(dir, entry)?.path();
        if path.is_dir() {
            below(&path, found)?;
        } else if is_page(&path) {
            found.push(path);
        }
    }
    Ok(())
}

/// Returns all that the pages show.
///
/// # Errors
///
/// A page that cannot be read.
pub fn shown() -> Result<Vec<Shown>, HarnessError> {
    let root = paths::workspace();
    let mut all = Vec::new();
    for file in files()? {
        let name = file.strip_prefix(&root).unwrap_or(&file).display().to_string();
        all.extend(on_page(&name, &at(&file, fs::read_to_string(&file))?));
    }
    Ok(all)
}

/// Returns what one page shows.
#[must_use]
pub fn on_page(page: &str, text: &str) -> Vec<Shown> {
    let mut reader = Reader { page, text, all: Vec::new(), heads: Vec::new(), cell: 0, in_head: false };
    let mut block: Option<(String, Range<usize>, String)> = None;
    let options = Options::ENABLE_TABLES | Options::ENABLE_DEFINITION_LIST;
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(kind)) => {
                let language =
                    if let CodeBlockKind::Fenced(name) = kind { name.into_string() } else { String::new() };
                block = Some((language, range, String::new()));
            }
            Event::Text(more) if block.is_some() => {
                if let Some((_, _, text)) = &mut block {
                    text.push_str(&more);
                }
            }
            Event::End(TagEnd::CodeBlock) => {
                if let Some((language, range, text)) = block.take() {
                    reader.block(&language, &range, &text);
                }
            }
            Event::Code(code) => reader.mention(&code, &range),
            Event::Start(Tag::TableHead) => (reader.heads, reader.in_head) = (Vec::new(), true),
            Event::End(TagEnd::TableHead) => reader.in_head = false,
            Event::Start(Tag::TableRow) => reader.cell = 0,
            Event::Start(Tag::TableCell) if reader.in_head => reader.heads.push(false),
            Event::End(TagEnd::TableCell) if !reader.in_head => reader.cell += 1,
            Event::End(TagEnd::Table) => reader.heads.clear(),
            _ => {}
        }
    }
    reader.all
}

struct Reader<'a> {
    page: &'a str,
    text: &'a str,
    all: Vec<Shown>,
    /// For each column of the table, if its heading names sbatch.
    heads: Vec<bool>,
    cell: usize,
    in_head: bool,
}

impl Reader<'_> {
    fn push(&mut self, range: &Range<usize>, text: String, place: Place) {
        let line = self.text[..range.start].matches('\n').count() + 1;
        self.all.push(Shown { page: self.page.to_owned(), line, text, place });
    }

    fn mention(&mut self, code: &str, range: &Range<usize>) {
        let text = code.split_whitespace().collect::<Vec<_>>().join(" ");
        if self.in_head {
            if let Some(head) = self.heads.last_mut() {
                *head |= text == "sbatch";
            }
            return;
        }
        let for_sbatch = text.starts_with("--") && self.heads.get(self.cell).copied().unwrap_or(false);
        self.push(range, text, if for_sbatch { Place::ForSbatch } else { Place::Mention });
    }

    fn block(&mut self, language: &str, range: &Range<usize>, text: &str) {
        match language {
            "" | "sh" => {
                for command in lines(text) {
                    self.push(range, command, Place::Command { root: false, output: Vec::new() });
                }
            }
            "console" => self.transcript(range, text),
            _ => self.push(range, text.to_owned(), Place::Sample(language.to_owned())),
        }
    }

    fn transcript(&mut self, range: &Range<usize>, text: &str) {
        for line in text.lines() {
            let line = line.trim_start_matches("  ");
            let typed = line.strip_prefix("$ ").map(|typed| (typed, false));
            if let Some((typed, root)) = typed.or_else(|| Some((line.strip_prefix("# ")?, true))) {
                self.push(range, typed.to_owned(), Place::Command { root, output: Vec::new() });
            } else if let Some(Place::Command { output, .. }) =
                self.all.last_mut().map(|last| &mut last.place)
            {
                output.push(line.to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# t\n\nSee `tessera\nfree`.\n\n```\nsinfo -N   # all\nsacct \\\n    -X\n\n```\n\n```console\n\
                        $ sbatch job.sh\nSubmitted batch job 1\n# sinfo\n```\n\n```toml\na = 1\n```\n\n\
                        | need | add to `sbatch` |\n|---|---|\n| `--x` | `--gpu-mem=10G` |\n\n1. so:\n\n   ```\n   tessera check\n   ```\n";

    #[test]
    fn a_page_shows_commands_samples_and_mentions() {
        let command = |root, output: &[&str]| Place::Command {
            root,
            output: output.iter().map(|&line| line.to_owned()).collect(),
        };
        let shown = [
            (3, "tessera free", Place::Mention),
            (6, "sinfo -N", command(false, &[])),
            (6, "sacct -X", command(false, &[])),
            (13, "sbatch job.sh", command(false, &["Submitted batch job 1"])),
            (13, "sinfo", command(true, &[])),
            (19, "a = 1\n", Place::Sample("toml".to_owned())),
            (25, "--x", Place::Mention),
            (25, "--gpu-mem=10G", Place::ForSbatch),
            (29, "tessera check", command(false, &[])),
        ];
        let shown = shown.map(|(line, text, place)| Shown {
            page: "p.md".to_owned(),
            line,
            text: text.to_owned(),
            place,
        });
        assert_eq!(on_page("p.md", PAGE), shown);
    }

    #[test]
    fn every_page_is_read() {
        let files = files().unwrap();
        for page in ["README.md", "docs/tutorial.md", "docs/man/tessera.1.md", "contrib/case-pass/README.md"]
        {
            assert!(files.contains(&paths::workspace().join(page)), "{page}");
        }
        assert!(shown().unwrap().len() > 1000);
    }
}
