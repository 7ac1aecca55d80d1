//! The words of a Rust file, as far as paths and modules need them.

/// A word of Rust.
#[derive(Debug, PartialEq, Clone)]
pub(crate) enum Token {
    /// A name or a keyword.
    Name(String),
    /// Content of a string, as written.
    Text(String),
    /// `::`
    Path,
    /// Any other sign.
    Sign(char),
}

/// Splits a file into words. Leaves out comments, characters and lifetimes.
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        at = one(&chars, at, &mut found);
    }
    found
}

/// Reads one word, and returns where the next begins.
fn one(chars: &[char], at: usize, found: &mut Vec<Token>) -> usize {
    let next = |ahead: usize| chars.get(at + ahead).copied().unwrap_or(' ');
    match (chars[at], next(1)) {
        ('/', '/') => line_end(chars, at),
        ('/', '*') => comment_end(chars, at),
        ('"', _) => text(chars, at, found),
        ('\'', '\\') => after(chars, at + 3, '\''),
        ('\'', _) if next(2) == '\'' => at + 3,
        ('\'', _) => at + 1 + name_length(&chars[at + 1..]),
        (':', ':') => {
            found.push(Token::Path);
            at + 2
        }
        (c, _) if is_of_name(c) => name(chars, at, found),
        (c, _) => {
            found.extend((!c.is_whitespace()).then_some(Token::Sign(c)));
            at + 1
        }
    }
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn name_length(chars: &[char]) -> usize {
    chars.iter().take_while(|c| is_of_name(**c)).count()
}

fn line_end(chars: &[char], at: usize) -> usize {
    after(chars, at, '\n')
}

/// Returns where the next word begins behind the first `end` from here.
fn after(chars: &[char], at: usize, end: char) -> usize {
    (at..chars.len()).find(|i| chars[*i] == end).map_or(chars.len(), |i| i + 1)
}

/// Returns the place behind a comment, in which others may stand.
fn comment_end(chars: &[char], mut at: usize) -> usize {
    let mut depth = 0;
    while at < chars.len() {
        let pair = (chars[at], chars.get(at + 1).copied().unwrap_or(' '));
        match pair {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            break;
        }
    }
    at
}

/// Reads a name, or a string with a letter before it: `b"…"`, `r#"…"#`; or a name like `r#type`.
fn name(chars: &[char], at: usize, found: &mut Vec<Token>) -> usize {
    let length = name_length(&chars[at..]);
    let name: String = chars[at..at + length].iter().collect();
    let end = at + length;
    let hashes = chars[end..].iter().take_while(|c| **c == '#').count();
    let is_prefix = ["b", "c", "r", "br", "cr"].contains(&name.as_str());
    match chars.get(end + hashes) {
        Some('"') if is_prefix && name.ends_with('r') => raw_text(chars, end + hashes, hashes, found),
        Some('"') if is_prefix && hashes == 0 => text(chars, end, found),
        Some('\'') if name == "b" && hashes == 0 => one(chars, end, found),
        Some(c) if name == "r" && hashes == 1 && is_of_name(*c) => end + 1,
        _ => {
            found.push(Token::Name(name));
            end
        }
    }
}

/// Reads a string from its first quote.
fn text(chars: &[char], at: usize, found: &mut Vec<Token>) -> usize {
    let mut end = at + 1;
    while end < chars.len() && chars[end] != '"' {
        end += if chars[end] == '\\' { 2 } else { 1 };
    }
    let end = end.min(chars.len());
    found.push(Token::Text(chars[at + 1..end].iter().collect()));
    end + 1
}

/// Reads a raw string from its first quote to the quote with as many hashes behind it.
fn raw_text(chars: &[char], at: usize, hashes: usize, found: &mut Vec<Token>) -> usize {
    let is_end = |i: &usize| {
        chars[*i] == '"' && chars[i + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes
    };
    let end = (at + 1..chars.len()).find(is_end).unwrap_or(chars.len());
    found.push(Token::Text(chars[at + 1..end].iter().collect()));
    end + 1 + hashes
}

#[test]
fn comments_strings_characters_and_lifetimes_are_no_paths() {
    let text = "/* a /* b */ c */ use d::e; // f::g\nlet h = (\"i::j\\\"\", r#\"k\"l\"#, 'm', '\\'', b'n', b\"o\");\n\
                fn p<'q>(r: &'q r#type) {}";
    let names: Vec<String> = tokens(text)
        .into_iter()
        .filter_map(|token| match token {
            Token::Name(name) => Some(name),
            _ => None,
        })
        .collect();
    assert_eq!(names, ["use", "d", "e", "let", "h", "fn", "p", "r", "type"]);
}
