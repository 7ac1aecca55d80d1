//! Product lines of Rust files, and the functions in them.

use std::fs;
use std::path::{Path, PathBuf};

/// Adds the product lines of the Rust files of a folder.
pub(crate) fn read(folder: &Path, files: &mut Vec<(PathBuf, Vec<String>)>) {
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths.into_iter().filter(|path| !is_for_tests(path)) {
        if path.is_dir() {
            read(&path, files);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let lines = product(&fs::read_to_string(&path).unwrap());
            files.push((path, lines));
        }
    }
}

/// Tells whether the file or folder is a module under `#[cfg(test)]` of the file beside or above it.
fn is_for_tests(path: &Path) -> bool {
    let name = path.file_stem().unwrap().to_str().unwrap();
    let folder = path.parent().unwrap();
    let above =
        [folder.join("mod.rs"), folder.join("lib.rs"), folder.join("main.rs"), folder.with_extension("rs")];
    let declared = format!("#[cfg(test)]\nmod {name};");
    above.iter().any(|file| fs::read_to_string(file).is_ok_and(|text| text.contains(&declared)))
}

/// Lines of a file, without the modules and items that stand under `#[cfg(test)]`.
pub(crate) fn product(text: &str) -> Vec<String> {
    numbered(text).into_iter().map(|(_, line)| line).collect()
}

/// Product lines of a file, each with its number in the file.
pub(crate) fn numbered(text: &str) -> Vec<(usize, String)> {
    let mut lines = (1..).zip(text.lines());
    let mut product = Vec::new();
    while let Some((number, line)) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            product.push((number, line.to_owned()));
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        for (_, line) in lines.by_ref() {
            let is_at_start = line.len() - line.trim_start().len() == indent;
            if is_at_start && (line.trim_start().starts_with('}') || line.trim_end().ends_with([';', '}'])) {
                break;
            }
        }
    }
    product
}

/// Each function's name and its lines of code, comments and empty lines apart. rustfmt has put its end below its beginning.
pub(crate) fn functions(lines: &[String]) -> Vec<(String, usize)> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let is_code = |line: &&String| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    let ends = |line: &String, at: usize| indent(line) == at && line.trim_start().starts_with('}');
    let one = |(i, line): (usize, &String)| {
        let name = name_of(line.trim_start())?;
        let at = indent(line);
        let length = lines[i..].iter().position(|line| ends(line, at)).unwrap_or(0);
        Some((name, lines[i..=i + length].iter().filter(is_code).count()))
    };
    lines.iter().enumerate().filter(|(_, line)| line.ends_with(['{', '('])).filter_map(one).collect()
}

/// The name in a line that begins a function.
fn name_of(line: &str) -> Option<String> {
    let (before, after) = line.split_once("fn ")?;
    let words = ["pub", "pub(crate)", "pub(super)", "const", "unsafe", "extern", "\"C\""];
    let is_head = before.split_whitespace().all(|word| words.contains(&word) || word.starts_with("pub(in"));
    let name: String = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (is_head && !name.is_empty()).then_some(name)
}
