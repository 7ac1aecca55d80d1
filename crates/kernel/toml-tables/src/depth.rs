//! Refuses text that nests too deep before it is parsed, because slurmctld and slurmd parse on threads with small stacks.
//!
//! The parser allows 80 brackets within each other and 80 parts of a key, and so 80 tables for each bracket:
//! `{a.a. … a = {a.a. … a = …}}`. Making, walking and dropping those recurses once per table.

use std::ops::Range;

use toml::Spanned;
use toml::de::DeTable;
use toml_parser::Source;
use toml_parser::lexer::TokenKind;

use crate::error::Errors;

/// Greatest depth to which tables and arrays may nest; below a header, twice as deep. A tessera.toml needs four levels.
const LIMIT: usize = 32;

/// The tables of a file and the number of its syntax errors, which are added to `errors`. After a syntax error the tables
/// are a guess.
pub fn tables<'t>(text: &'t str, errors: &Errors<'_>) -> (Spanned<DeTable<'t>>, usize) {
    if let Some(place) = too_deep(text) {
        let what = format!("tables or arrays nest more than {LIMIT} deep here");
        errors.push(place, what, Some("is this a tessera.toml?".to_owned()));
        return (DeTable::parse_recoverable("").0, 1);
    }
    let (root, syntax) = DeTable::parse_recoverable(text);
    for e in &syntax {
        errors.push(e.span().unwrap_or(0..0), e.message().replace('\n', ", "), None);
    }
    (root, syntax.len())
}

/// The first bracket or dot that goes too deep.
fn too_deep(text: &str) -> Option<Range<usize>> {
    // `open` has the level outside each open bracket. A dot in a number counts too, until the next value.
    let (mut open, mut level, mut dots) = (Vec::new(), 0, 0);
    for token in Source::new(text).lex() {
        match token.kind() {
            TokenKind::Dot => dots += 1,
            TokenKind::LeftSquareBracket | TokenKind::LeftCurlyBracket => {
                open.push(level);
                level += dots + 1;
                dots = 0;
            }
            TokenKind::RightSquareBracket | TokenKind::RightCurlyBracket => {
                level = open.pop().unwrap_or(0);
                dots = 0;
            }
            TokenKind::Comma | TokenKind::Newline => dots = 0,
            _ => {}
        }
        if level + dots > LIMIT {
            return Some(token.span().start()..token.span().end());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deep_at(text: &str) -> Option<usize> {
        too_deep(text).map(|place| place.start)
    }

    #[test]
    fn what_nests_is_counted_and_nothing_else() {
        assert_eq!(deep_at(&"a = [[1.5, 2.5], {b.c = \"[[.\"}] # [[[.\n[x.y]\n".repeat(100)), None);
        assert_eq!(deep_at(&format!("a = [{}]", "0.5, ".repeat(100))), None);
        assert_eq!(deep_at(&format!("a = \"\"\"\n{}\"\"\"", ".[".repeat(100))), None);
        let key = |n| format!("{}a = 1", "a.".repeat(n));
        assert_eq!((deep_at(&key(32)), deep_at(&key(33))), (None, Some(65)));
        assert_eq!(deep_at(&format!("a = {}", "[".repeat(33))), Some(36));
        // Eleven brackets, each with two more tables in its key.
        let mixed = |n| "{a.a.a = ".repeat(n);
        assert_eq!((deep_at(&mixed(10)), deep_at(&mixed(11))), (None, Some(94)));
    }
}
