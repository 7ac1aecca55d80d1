//! Reads Slurm's hostlists: `n[1-2,7]`, `a[01-03]b`, `r[1-2]n[1-4],login`.
//!
//! slurmctld reads users' lists with this, under its locks and on a small stack. So time, memory and depth are bounded.

/// Most names of a list; no cluster has as many. `n[1-999999999]` must not exhaust the memory.
const MOST_NAMES: usize = 65536;
/// Longest name, in bytes. Many long names must not exhaust the memory either.
const MOST_BYTES: usize = 255;
/// Most brackets in one name; no cluster has as many dimensions.
const MOST_BRACKETS: usize = 8;

/// The names that a hostlist stands for, in order, as written (duplicates stay).
///
/// # Errors
///
/// What is wrong with the text, as the end of a sentence that names it.
pub fn expand(text: &str) -> Result<Vec<String>, String> {
    expand_with(text, "-_.")
}

/// As [`expand`], for a list of files as in gres.conf: `/dev/nvidia[0-3]`.
///
/// # Errors
///
/// As [`expand`].
pub fn expand_files(text: &str) -> Result<Vec<String>, String> {
    expand_with(text, "-_./:")
}

/// `marks` are the characters that a name may have in addition to letters and digits.
fn expand_with(text: &str, marks: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for part in split_outside_brackets(text)? {
        names.extend(expand_one(part, marks)?);
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

fn expand_one(part: &str, marks: &str) -> Result<Vec<String>, String> {
    let (mut names, mut rest, mut length, mut brackets) = (vec![String::new()], part, 0, 0);
    if part.is_empty() {
        return Err("has an empty name".to_owned());
    }
    while let Some((text, after)) = rest.split_once('[') {
        let (ranges, after) = after.split_once(']').ok_or("has a [ without a ]")?;
        (length, brackets) = (length + text.len(), brackets + 1);
        if brackets > MOST_BRACKETS {
            return Err(format!("has more than {MOST_BRACKETS} [ ] in one name"));
        }
        names = product(&names, literal(text, length, marks)?, ranges)?;
        rest = after;
    }
    let tail = literal(rest, length + rest.len(), marks)?;
    names.iter_mut().for_each(|name| name.push_str(tail));
    Ok(names)
}

/// Each of `names` with `text` and each number of `ranges` behind it.
fn product(names: &[String], text: &str, ranges: &str) -> Result<Vec<String>, String> {
    let mut tails = Vec::new();
    for range in ranges.split(',') {
        tails.extend(numbers(range)?.take(MOST_NAMES + 1));
        if tails.len() * names.len() > MOST_NAMES {
            return Err(too_many());
        }
    }
    let with_tails =
        |name: &String| tails.iter().map(|tail| format!("{name}{text}{tail}")).collect::<Vec<_>>();
    Ok(names.iter().flat_map(with_tails).collect())
}

/// Checks that a name may contain `text`; `length` is the length of the name up to the end of `text`.
fn literal<'t>(text: &'t str, length: usize, marks: &str) -> Result<&'t str, String> {
    if length > MOST_BYTES {
        return Err(format!("has a name of more than {MOST_BYTES} characters"));
    }
    match text.chars().find(|c| !(c.is_ascii_alphanumeric() || marks.contains(*c))) {
        Some(c) => Err(format!("has the character {c:?}, which a name cannot have")),
        None => Ok(text),
    }
}

/// The numbers of a range, `01-03`, with the width of the first.
fn numbers(range: &str) -> Result<impl Iterator<Item = String>, String> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let number = |s: &str| {
        let digits = !s.is_empty() && s.len() <= 9 && s.bytes().all(|b| b.is_ascii_digit());
        digits
            .then(|| s.parse::<u32>().ok())
            .flatten()
            .ok_or_else(|| format!("has {range:?} where a number or a range should be"))
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
        assert_eq!(
            expand_files("/dev/nvidia[2-3],/dev/x").unwrap(),
            ["/dev/nvidia2", "/dev/nvidia3", "/dev/x"]
        );
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

    /// What a user may write after `--nodelist`, on a stack of the size that slurmctld gives its threads.
    #[test]
    fn hostile_lists_cost_neither_stack_nor_memory() {
        let lists = [
            format!("n{}", "[1]".repeat(100_000)),
            format!("n{}", "[1-2]".repeat(1000)),
            format!("{}[1-65536]", "n".repeat(100_000)),
            format!("n[1-9]{}", "n".repeat(100_000)),
            format!("n[{}]", "1-999999999,".repeat(1000)),
        ];
        let refuse = move || lists.iter().all(|list| expand(list).is_err_and(|why| why.len() < 100));
        let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(refuse).unwrap();
        assert!(thread.join().unwrap());
        let longest = format!("n[1]-[2]{}", "x".repeat(MOST_BYTES - 2));
        assert_eq!(expand(&longest).unwrap().len(), 1);
    }
}
