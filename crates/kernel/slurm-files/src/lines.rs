//! The lines of Slurm's own files, read as Slurm reads them.

/// The file's lines, without comments and escapes; a line that ends in a backslash is joined with the next.
pub fn lines(text: &str) -> Vec<String> {
    let (mut out, mut begun) = (Vec::new(), String::new());
    for line in text.lines() {
        let (mut escaped, mut goes_on) = (false, false);
        for c in line.chars() {
            match c {
                '#' if !escaped => break,
                '\\' if !escaped => (escaped, goes_on) = (true, true),
                c => {
                    begun.push(c);
                    (escaped, goes_on) = (false, goes_on && c.is_whitespace());
                }
            }
        }
        if !goes_on {
            out.push(std::mem::take(&mut begun));
        }
    }
    out.push(begun);
    out
}

/// The keys and values of a line, up to the first text that is neither [`parse_config.c`, `keyvalue_pattern`].
fn fields(mut line: &str) -> Vec<(String, String)> {
    let mut out = Vec::new();
    while let Some((key, rest)) = line.split_once('=') {
        let key = key.trim().trim_end_matches(['-', '+', '*', '/']).trim_end();
        if key.is_empty() || !key.chars().all(|c| c.is_ascii_alphanumeric() || "_.".contains(c)) {
            break;
        }
        let rest = rest.trim_start();
        let quoted = rest.strip_prefix('"').and_then(|r| r.split_once('"'));
        let (value, rest) = match quoted.filter(|(_, r)| r.is_empty() || r.starts_with(char::is_whitespace)) {
            Some(quoted) => quoted,
            None => rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len())),
        };
        out.push((key.to_owned(), value.to_owned()));
        line = rest;
    }
    out
}

/// The keys and values of a line.
pub struct Line {
    fields: Vec<(String, String)>,
}

impl Line {
    /// Reads one of [`lines`].
    pub fn read(line: &str) -> Self {
        Self { fields: fields(line) }
    }

    /// Tells whether the line begins with this key.
    pub fn begins(&self, key: &str) -> bool {
        self.fields.first().is_some_and(|(k, _)| k.eq_ignore_ascii_case(key))
    }

    /// The value of a key; the last one if the key is there twice.
    pub fn field(&self, key: &str) -> Option<&str> {
        let mut found = self.fields.iter().rev().filter(|(k, _)| k.eq_ignore_ascii_case(key));
        found.next().map(|(_, value)| value.as_str())
    }
}
