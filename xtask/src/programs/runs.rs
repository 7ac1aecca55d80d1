//! Runs a program without the pass and with it, on the simulated device, and compares what it prints, writes and copies.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use lab::case_node::CaseNode;
use serde_json::Value;

use super::compile::Built;
use super::inputs;
use crate::command::{TaskError, at, output};

/// A comparison of two runs.
pub(crate) struct Comparison {
    pub(crate) arguments: String,
    /// The differences, or why it was not run; nothing if all is equal.
    pub(crate) wrong: Option<String>,
    /// Copies from the device that were compared, with their bytes.
    pub(crate) copies: usize,
    pub(crate) copied: u64,
    /// Tasks that began, and objects that were lazy.
    pub(crate) begins: u64,
    pub(crate) binds: u64,
}

impl Comparison {
    pub(crate) fn not_run(why: &str) -> Self {
        let wrong = Some(format!("not run: {why}"));
        Self { arguments: String::new(), wrong, copies: 0, copied: 0, begins: 0, binds: 0 }
    }
}

/// Output of a run.
#[derive(PartialEq, Eq)]
struct Left {
    printed: String,
    copies: String,
    files: BTreeMap<PathBuf, Vec<u8>>,
}

/// Runs both programs with the arguments.
pub(crate) fn compare(built: &Built, arguments: &str, node: &CaseNode) -> Result<Comparison, TaskError> {
    let failed = |why: &TaskError, which: &str| Comparison {
        arguments: arguments.to_owned(),
        ..Comparison::not_run(&format!("the program {which} fails: {}", why.to_string().replace('\n', " ")))
    };
    let plain = match execute(&built.plain, &built.dir.join("run-plain"), arguments, node) {
        Ok(plain) => plain,
        Err(why) => return Ok(failed(&why, "without the pass")),
    };
    let dir = built.dir.join("run-with-pass");
    let with_pass = match execute(&built.with_pass, &dir, arguments, node) {
        Ok(with_pass) => with_pass,
        Err(why) => return Ok(failed(&why, "with the pass")),
    };
    let book = dir.join("book.json");
    let book: Value = serde_json::from_str(&at(&book, fs::read_to_string(&book))?)
        .map_err(|why| TaskError::Other(format!("{}: {why}", book.display())))?;
    let mut wrong = Vec::new();
    for (differs, what) in [
        (plain.printed != with_pass.printed, "prints differ"),
        (plain.copies != with_pass.copies, "copies from the device differ"),
        (plain.files != with_pass.files, "files differ"),
    ] {
        wrong.extend(differs.then(|| what.to_owned()));
    }
    let complaints = book["complaints"].as_array().map_or(&[][..], Vec::as_slice);
    wrong.extend(complaints.iter().map(Value::to_string));
    let count = |key: &str| book[key].as_u64().unwrap_or(0);
    let bytes = |line: &str| line.split_once(' ').and_then(|(bytes, _)| bytes.parse::<u64>().ok());
    Ok(Comparison {
        arguments: arguments.to_owned(),
        wrong: (!wrong.is_empty()).then(|| wrong.join("; ")),
        copies: plain.copies.lines().count(),
        copied: plain.copies.lines().filter_map(bytes).sum(),
        begins: count("begins"),
        binds: count("binds"),
    })
}

fn execute(program: &Path, dir: &Path, arguments: &str, node: &CaseNode) -> Result<Left, TaskError> {
    let here = inputs::make(dir)?;
    let copies = dir.join("copies");
    let mut command = node.command(program);
    command.args(arguments.split_whitespace()).current_dir(&here);
    command.env("LD_PRELOAD", node.libraries().join("still.so")).env("COPIES_LOG", &copies);
    command.env("TASK_DOUBLE_LOG", dir.join("book.json")).env("TASK_DOUBLE_LAZY", "1");
    let printed = output(&mut command)?;
    let copies = if copies.exists() { at(&copies, fs::read_to_string(&copies))? } else { String::new() };
    let mut files = BTreeMap::new();
    collect(&here, &here, &mut files)?;
    Ok(Left { printed, copies, files })
}

/// Reads every file below `dir`.
fn collect(dir: &Path, root: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) -> Result<(), TaskError> {
    for entry in at(dir, fs::read_dir(dir))? {
        let path = at(dir, entry)?.path();
        if path.is_dir() {
            collect(&path, root, files)?;
        } else {
            let name = path.strip_prefix(root).unwrap_or(&path).to_owned();
            files.insert(name, at(&path, fs::read(&path))?);
        }
    }
    Ok(())
}
