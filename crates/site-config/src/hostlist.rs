//! Slurm's hostlists: `n[1-2,7]`, `a[01-03]b`, `r[1-2]n[1-4],login`.

/// More names than any cluster has; `n[1-999999999]` must not fill the memory.
const MOST_NAMES: usize = 65536;

/// The names that a hostlist stands for, in order, as written (duplicates stay).
///
/// # Errors
///
/// What is wrong with the text, one phrase.
pub fn expand(text: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for part in split_outside_brackets(text)? {
        names.extend(expand_one(part)?);
        if names.len() > MOST_NAMES {
            return Err(too_many());
        }
    }
    Ok(names)
}

fn too_many() -> String {
    format!("stands for more than {MOST_NAMES} names")
}

fn split_outside_brackets(text: &str) -> Result<Vec<&str>, String> {
    let (mut parts, mut start, mut open) = (Vec::new(), 0, false);
    for (i, c) in text.char_indices() {
        match c {
            '[' if open => return Err("has a [ inside [ ]".to_owned()),
            ']' if !open => return Err("has a ] without a [".to_owned()),
            '[' | ']' => open = c == '[',
            ',' if !open => {
                parts.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    if open {
        return Err("has a [ without a ]".to_owned());
    }
    parts.push(&text[start..]);
    Ok(parts)
}

fn expand_one(part: &str) -> Result<Vec<String>, String> {
    let Some((prefix, rest)) = part.split_once('[') else { return literal(part).map(|name| vec![name]) };
    let (ranges, suffix) = rest.split_once(']').ok_or("has a [ without a ]")?;
    let tails = if suffix.is_empty() { vec![String::new()] } else { expand_one(suffix)? };
    let prefix = if prefix.is_empty() { String::new() } else { literal(prefix)? };
    let mut names = Vec::new();
    for range in ranges.split(',') {
        for number in numbers(range)? {
            names.extend(tails.iter().map(|tail| format!("{prefix}{number}{tail}")));
            if names.len() > MOST_NAMES {
                return Err(too_many());
            }
        }
    }
    Ok(names)
}

fn literal(name: &str) -> Result<String, String> {
    if name.is_empty() {
        return Err("has an empty name".to_owned());
    }
    match name.chars().find(|c| !(c.is_ascii_alphanumeric() || "-_.".contains(*c))) {
        Some(c) => Err(format!("has the character {c:?}, which no node name has")),
        None => Ok(name.to_owned()),
    }
}

/// `01-03` as text, with the width of its first number.
fn numbers(range: &str) -> Result<impl Iterator<Item = String>, String> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let number = |s: &str| {
        let digits = !s.is_empty() && s.len() <= 9 && s.bytes().all(|b| b.is_ascii_digit());
        digits
            .then(|| s.parse::<u32>().ok())
            .flatten()
            .ok_or_else(|| format!("has {range:?} where a number or range goes"))
    };
    let (low, high, width) = (number(first)?, number(last)?, first.len());
    if low > high {
        return Err(format!("has the range {range}, which ends before it begins"));
    }
    Ok((low..=high).map(move |n| format!("{n:0width$}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, names: &str) {
        assert_eq!(expand(text).unwrap().join(" "), names, "{text}");
    }

    #[test]
    fn expands() {
        check("n1", "n1");
        check("n[1-3]", "n1 n2 n3");
        check("n[1-2,7],login", "n1 n2 n7 login");
        check("a[01-03]b", "a01b a02b a03b");
        check("a[8-10]", "a8 a9 a10");
        check("r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2");
    }

    #[test]
    fn refuses() {
        for text in
            ["", "n[1", "n1]", "n[[1]]", "n[2-1]", "n[a]", "n[1-]", "n1,", "n 1", "n[1-99999999]", "n%"]
        {
            assert!(expand(text).is_err(), "{text}");
        }
        assert!(expand("a[1-999]b[1-999]").is_err());
    }
}
