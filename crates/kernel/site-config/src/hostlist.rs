//! Reads Slurm's hostlists: `n[1-2,7]`, `a[01-03]b`, `r[1-2]n[1-4],login`.
//!
//! slurmctld reads users' lists with this, under its locks and on a small stack. So time, memory and depth are bounded.

/// Most names of a list; no cluster has as many. `n[1-999999999]` must not exhaust the memory.
pub const MOST_NAMES: usize = 65536;
/// Longest name, in bytes. Many long names must not exhaust the memory either.
const MOST_BYTES: usize = 255;
/// Most brackets in one name; no cluster has as many dimensions.
const MOST_BRACKETS: usize = 8;
/// Most digits of a number in brackets.
const MOST_DIGITS: usize = 9;

/// The names that a hostlist stands for, in order, as written (duplicates stay).
///
/// # Errors
///
/// What is wrong with the text, as the end of a sentence that names it.
pub fn expand(text: &str) -> Result<Vec<String>, String> {
    expand_with(text, "-_.", MOST_NAMES)
}

/// As [`expand`], for a list that is of no use with more than `most` names: it takes no longer than so many need.
///
/// # Errors
///
/// As [`expand`]; more names than `most`.
pub fn expand_at_most(text: &str, most: usize) -> Result<Vec<String>, String> {
    expand_with(text, "-_.", most.min(MOST_NAMES))
}

/// The shortest hostlist of at most one bracket per name that stands for these names, in their order: `n[1-4,7],login`.
#[must_use]
pub fn compress(names: &[String]) -> String {
    let mut parts: Vec<(&str, Vec<(&str, &str)>)> = Vec::new();
    for name in names {
        let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (stem, number) = name.split_at(name.len() - digits.min(MOST_DIGITS));
        match parts.last_mut().filter(|(last, runs)| *last == stem && !number.is_empty() && !runs.is_empty())
        {
            None => parts.push((stem, if number.is_empty() { Vec::new() } else { vec![(number, number)] })),
            Some((_, runs)) => match runs.last_mut().filter(|run| follows(run.1, number)) {
                Some(run) => run.1 = number,
                None => runs.push((number, number)),
            },
        }
    }
    let run = |(a, b): &(&str, &str)| if a == b { (*a).to_owned() } else { format!("{a}-{b}") };
    let part = |(stem, runs): &(&str, Vec<(&str, &str)>)| match &runs[..] {
        [] => (*stem).to_owned(),
        [(a, b)] if a == b => format!("{stem}{a}"),
        several => format!("{stem}[{}]", several.iter().map(run).collect::<Vec<_>>().join(",")),
    };
    parts.iter().map(part).collect::<Vec<_>>().join(",")
}

/// Tells whether a range may go on with the second number: the next one, written with as many digits as a range would write.
fn follows(a: &str, b: &str) -> bool {
    let number = |text: &str| text.parse::<u64>().ok();
    let next = number(a).and_then(|a| a.checked_add(1)).is_some_and(|next| number(b) == Some(next));
    let padded = a.starts_with('0') || b.starts_with('0');
    next && (a.len() == b.len() || !padded)
}

/// As [`expand_at_most`], for names that may have `marks` in addition to letters and digits.
///
/// # Errors
///
/// As [`expand_at_most`].
pub fn expand_with(text: &str, marks: &str, most: usize) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for part in split_outside_brackets(text)? {
        names.extend(expand_one(part, marks, most)?);
        if names.len() > most {
            return Err(too_many(most));
        }
    }
    Ok(names)
}

fn too_many(most: usize) -> String {
    format!("stands for more than {most} names")
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

fn expand_one(part: &str, marks: &str, most: usize) -> Result<Vec<String>, String> {
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
        names = product(&names, literal(text, length, marks)?, ranges, most)?;
        rest = after;
    }
    let tail = literal(rest, length + rest.len(), marks)?;
    names.iter_mut().for_each(|name| name.push_str(tail));
    Ok(names)
}

/// Each of `names` with `text` and each number of `ranges` behind it.
fn product(names: &[String], text: &str, ranges: &str, most: usize) -> Result<Vec<String>, String> {
    let mut tails = Vec::new();
    for range in ranges.split(',') {
        tails.extend(numbers(range)?.take(most + 1));
        if tails.len() * names.len() > most {
            return Err(too_many(most));
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
        let digits = !s.is_empty() && s.len() <= MOST_DIGITS && s.bytes().all(|b| b.is_ascii_digit());
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
    fn a_hostlist_expands_to_its_names() {
        check("n1", "n1");
        check("n[1-3]", "n1 n2 n3");
        check("n[1-2,7],login", "n1 n2 n7 login");
        check("a[01-03]b", "a01b a02b a03b");
        check("a[8-10]", "a8 a9 a10");
        check("r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2");
    }

    #[test]
    fn names_compress_to_one_hostlist() {
        for (names, list) in [
            ("n1", "n1"),
            ("n1 n2 n3 n7 login gpu gpu01 gpu02", "n[1-3,7],login,gpu,gpu[01-02]"),
            ("n8 n9 n10 n12", "n[8-10,12]"),
            ("a09 a10 a011", "a[09-10,011]"),
            ("", ""),
        ] {
            let names: Vec<String> = names.split_whitespace().map(str::to_owned).collect();
            assert_eq!(compress(&names), list);
        }
    }

    proptest::proptest! {
        #[test]
        fn a_compressed_list_stands_for_its_names(
            names in proptest::collection::vec("[ab]-?(0?[0-9]{1,2}|99|100||99999999[89][0-9]{0,9})", 1..40)
        ) {
            proptest::prop_assert_eq!(expand(&compress(&names)).unwrap(), names);
        }
    }

    #[test]
    fn a_malformed_or_huge_hostlist_is_refused() {
        for text in
            ["", "n[1", "n1]", "n[[1]]", "n[2-1]", "n[a]", "n[1-]", "n1,", "n 1", "n[1-99999999]", "n%"]
        {
            assert!(expand(text).is_err(), "{text}");
        }
        assert!(expand("a[1-999]b[1-999]").is_err());
    }

    #[test]
    fn a_list_has_no_more_names_than_are_of_use() {
        assert_eq!(expand_at_most("n[1-2],n4", 3).unwrap(), ["n1", "n2", "n4"]);
        for list in ["n[1-2],n4,n5", "n[1-4]", "a[1-2]b[1-2]", "n[1-65536]"] {
            assert_eq!(expand_at_most(list, 3).unwrap_err(), "stands for more than 3 names", "{list}");
        }
        assert!(expand_at_most("n[1-65536]", usize::MAX).is_ok());
        assert!(expand_at_most("n[1-65537]", usize::MAX).is_err());
    }

    /// Lists that a user may write after `--nodelist`, on a stack of the size that slurmctld gives its threads.
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
