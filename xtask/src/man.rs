//! Converts the manual pages in `docs/man` from Markdown to roff, which `man` reads.

use std::fs;
use std::path::Path;

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use crate::command::{TaskError, at};

/// A page, named as `man` looks for it below `share/man`: `man1/tessera.1`.
pub(crate) struct Page {
    /// Path of the page.
    pub(crate) file: String,
    /// Text of the page in roff.
    pub(crate) text: String,
}

/// The pages in `dir`, whose files are named `NAME.SECTION.md`.
///
/// # Errors
///
/// A file that cannot be read or is named otherwise.
pub(crate) fn pages(dir: &Path) -> Result<Vec<Page>, TaskError> {
    let mut pages = Vec::new();
    for entry in at(dir, fs::read_dir(dir))? {
        let path = at(dir, entry)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let parts = name.strip_suffix(".md").and_then(|page| Some((page, page.rsplit_once('.')?.1)));
        let Some((page, section)) = parts else {
            return Err(TaskError::Other(format!("{}: not named NAME.SECTION.md", path.display())));
        };
        let text = roff(&at(&path, fs::read_to_string(&path))?);
        pages.push(Page { file: format!("man{section}/{page}"), text });
    }
    Ok(pages)
}

/// Writes a page as `man` reads it: see man(7) and groff_man(7). It knows what our pages use: headings, paragraphs,
/// definitions, bullets, literal blocks, bold, italic and code.
fn roff(markdown: &str) -> String {
    let mut roff = Roff::default();
    for event in Parser::new_ext(markdown, Options::ENABLE_DEFINITION_LIST) {
        roff.take(event);
    }
    roff.line();
    roff.out
}

#[derive(Default)]
struct Roff {
    out: String,
    /// The first heading, while it is being read: `tessera(1)`.
    title: Option<String>,
    /// A paragraph needs no macro of its own: a heading or tag has just begun it.
    begun: bool,
    /// Inside definitions or bullets: paragraphs stay indented.
    indented: usize,
    literal: bool,
}

impl Roff {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(&tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.text(&text),
            Event::Code(code) => {
                self.out.push_str("\\fB");
                self.text(&code);
                self.out.push_str("\\fR");
            }
            Event::SoftBreak => self.out.push('\n'),
            Event::HardBreak => self.macro_line(".br"),
            _ => {}
        }
    }

    fn start(&mut self, tag: &Tag<'_>) {
        match tag {
            Tag::Heading { level: HeadingLevel::H1, .. } => self.title = Some(String::new()),
            Tag::Heading { level: HeadingLevel::H2, .. } => self.macro_line(".SH"),
            Tag::Heading { .. } => self.macro_line(".SS"),
            Tag::DefinitionListTitle => self.macro_line(".TP"),
            Tag::DefinitionListDefinition => {
                self.line();
                self.indented += 1;
                self.begun = true;
            }
            Tag::Item => {
                self.macro_line(".IP \\(bu 2");
                self.indented += 1;
                self.begun = true;
            }
            Tag::Paragraph => self.paragraph(),
            Tag::CodeBlock(_) => {
                self.paragraph();
                self.macro_line(".RS 4");
                self.macro_line(".nf");
                self.literal = true;
            }
            Tag::Strong => self.out.push_str("\\fB"),
            Tag::Emphasis => self.out.push_str("\\fI"),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(HeadingLevel::H1) => self.head(),
            TagEnd::Heading(_) => {
                self.line();
                self.begun = true;
            }
            TagEnd::DefinitionListDefinition | TagEnd::Item => {
                self.line();
                self.indented = self.indented.saturating_sub(1);
            }
            TagEnd::CodeBlock => {
                self.macro_line(".fi");
                self.macro_line(".RE");
                self.literal = false;
            }
            TagEnd::Strong | TagEnd::Emphasis => self.out.push_str("\\fR"),
            TagEnd::Paragraph | TagEnd::DefinitionListTitle => self.line(),
            _ => {}
        }
    }

    /// The page's name and section.
    fn head(&mut self) {
        let title = self.title.take().unwrap_or_default();
        let (name, section) = title.trim_end_matches(')').split_once('(').unwrap_or((&title, "7"));
        let version = env!("CARGO_PKG_VERSION");
        let line = format!(".TH \"{}\" \"{section}\" \"\" \"Tessera {version}\"", name.to_uppercase());
        self.macro_line(&line);
        // Neither hyphens nor blanks that are not in an option's name.
        self.macro_line(".nh");
        self.macro_line(".ad l");
    }

    fn paragraph(&mut self) {
        if !std::mem::take(&mut self.begun) {
            self.macro_line(if self.indented > 0 { ".IP" } else { ".PP" });
        }
    }

    fn text(&mut self, text: &str) {
        if let Some(title) = &mut self.title {
            title.push_str(text);
            return;
        }
        for c in text.chars() {
            let at_start = self.out.ends_with('\n') || self.out.is_empty();
            match c {
                '.' | '\'' if at_start => self.out.push_str(if c == '.' { "\\&." } else { "\\&\\(aq" }),
                '\\' => self.out.push_str("\\e"),
                '-' => self.out.push_str("\\-"),
                // Else typeset as quotes and accents, which nobody could paste into a shell.
                '\'' => self.out.push_str("\\(aq"),
                '`' => self.out.push_str("\\(ga"),
                '^' => self.out.push_str("\\(ha"),
                '~' => self.out.push_str("\\(ti"),
                '\n' if !self.literal => self.out.push(' '),
                c => self.out.push(c),
            }
        }
    }

    /// Ends the line that has been begun.
    fn line(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with('\n') {
            self.out.push('\n');
        }
    }

    fn macro_line(&mut self, text: &str) {
        self.line();
        self.out.push_str(text);
        self.out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use lab::paths::workspace;

    use super::*;

    #[test]
    fn markdown_becomes_roff() {
        let markdown = "# a.b(5)\n\n## NAME\n\na.b - it\n.does\n\n**--x** *N*, `y`\n: First\n  line.\n\n  Second.\n\n\
                        ## EXAMPLE\n\nOne:\n\n    'x' \\ ~\n    .y\n\n- bullet\n";
        let lines = [
            ".TH \"A.B\" \"5\" \"\" \"Tessera VERSION\"",
            ".nh",
            ".ad l",
            ".SH",
            "NAME",
            "a.b \\- it",
            "\\&.does",
            ".TP",
            "\\fB\\-\\-x\\fR \\fIN\\fR, \\fBy\\fR",
            "First",
            "line.",
            ".IP",
            "Second.",
            ".SH",
            "EXAMPLE",
            "One:",
            ".PP",
            ".RS 4",
            ".nf",
            "\\&\\(aqx\\(aq \\e \\(ti",
            "\\&.y",
            ".fi",
            ".RE",
            ".IP \\(bu 2",
            "bullet",
        ];
        let want = lines.join("\n").replace("VERSION", env!("CARGO_PKG_VERSION")) + "\n";
        assert_eq!(roff(markdown), want);
    }

    /// Checks every page: groff reports no problem, and each option or key that starts a line in bold also starts a line
    /// that the reader sees.
    #[test]
    fn man_shows_every_page_without_a_warning() {
        let dir = workspace().join("docs/man");
        let stage = tempfile::tempdir().unwrap();
        let pages = pages(&dir).unwrap();
        let names: Vec<&str> = pages.iter().map(|p| p.file.as_str()).collect();
        for page in [
            "man1/tessera.1",
            "man1/tessera-clang++.1",
            "man5/tessera.toml.5",
            "man7/tessera-options.7",
            "man8/tessera-broker.8",
        ] {
            assert!(names.contains(&page), "{names:?}");
        }
        for page in pages {
            let path = stage.path().join(page.file.replace('/', "-"));
            fs::write(&path, &page.text).unwrap();
            let mut man = Command::new("man");
            man.args(["--warnings", "-l"]).arg(&path).env("MANWIDTH", "100").env("LC_ALL", "C.UTF-8");
            let out = man.env_remove("MAN_KEEP_FORMATTING").output().unwrap();
            let said = String::from_utf8_lossy(&out.stderr);
            assert!(out.status.success() && said.is_empty(), "{}: {said}", page.file);
            let shown = String::from_utf8(out.stdout).unwrap();
            let source = fs::read_to_string(dir.join(format!("{}.md", &page.file[5..]))).unwrap();
            let headings = source.lines().filter_map(|l| l.strip_prefix("## "));
            let terms = source.lines().filter_map(|l| l.strip_prefix("**")?.split("**").next());
            assert!(!shown.contains("**"), "{}: bold that is none\n{shown}", page.file);
            for term in headings.chain(terms) {
                assert!(
                    shown.lines().any(|l| l.trim_start().starts_with(term)),
                    "{}: {term}\n{shown}",
                    page.file
                );
            }
        }
    }
}
