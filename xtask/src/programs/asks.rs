//! Requests of the commands of CASE's Table 1, compared with the needs that CASE's artefact lists.

use std::fs;

use lab::case_node::CaseNode;
use lab::paths::workspace;

use super::compile::Built;
use super::inputs;
use super::list::Program;
use crate::command::{TaskError, at, output};

/// Bytes that a task asks for in addition to its objects: the heap of kernels.
const HEAP: u64 = 8 << 20;
/// Bytes of a node, of an edge and of the flag in bfs.
const NODE: u64 = 8 + 1 + 1 + 1 + 4;
const EDGE: u64 = 4;

/// A command of Table 1.
pub(crate) struct AskedCommand {
    pub(crate) id: String,
    /// Bytes and blocks in `rodinia.csv`.
    pub(crate) listed: Amount,
    /// How it was asked and for what, or why it was not.
    pub(crate) asked: Result<(String, Amount), String>,
}

/// Memory without the kernels' heap, and the blocks and threads per block of the largest launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) bytes: u64,
    pub(crate) blocks: u64,
    pub(crate) threads: u64,
}

/// Asks each command of the program's family.
pub(crate) fn of(program: &Program, built: &Built, node: &CaseNode) -> Result<Vec<AskedCommand>, TaskError> {
    let path = workspace().join("crates/study/case-study/data/rodinia.csv");
    let text = at(&path, fs::read_to_string(&path))?;
    let mut asks = Vec::new();
    for line in text.lines().skip(1) {
        let Some((id, family, arguments, listed)) = row(line) else {
            return Err(TaskError::Other(format!("{}: {line}", path.display())));
        };
        if family == program.name {
            eprintln!("programs: {id}");
            let asked = ask(built, arguments, listed, node)?;
            asks.push(AskedCommand { id: id.to_owned(), listed, asked });
        }
    }
    Ok(asks)
}

/// Reads `id,family,size,args,mem_bytes,blocks,threads,large`.
fn row(line: &str) -> Option<(&str, &str, &str, Amount)> {
    let cells: Vec<&str> = line.split(',').collect();
    let [id, family, _, arguments, bytes, blocks, threads, _] = cells[..] else { return None };
    let amount =
        Amount { bytes: bytes.parse().ok()?, blocks: blocks.parse().ok()?, threads: threads.parse().ok()? };
    Some((id, family, arguments, amount))
}

type Asked = Result<(String, Amount), String>;

fn ask(built: &Built, arguments: &str, listed: Amount, node: &CaseNode) -> Result<Asked, TaskError> {
    // backprop's rows are small, and so are real: they take a little more on the host than on the device.
    let needed = listed.bytes + listed.bytes / 4;
    let free = available()?;
    if arguments.parse::<u64>().is_ok() && needed > free {
        return Ok(Err(format!("not asked: needs {} GiB of memory, {} are free", needed >> 30, free >> 30)));
    }
    let dir = built.dir.join("ask");
    let here = inputs::make(&dir)?;
    if arguments.ends_with("graph32M.txt") {
        let nodes = listed.blocks * listed.threads;
        inputs::graph(&here.join(arguments), nodes, (listed.bytes - 1 - NODE * nodes) / EDGE)?;
    }
    let file = dir.join("asked");
    let mut command = node.command(&built.with_pass);
    command.args(arguments.split_whitespace()).current_dir(&here).env("TASK_ASKED", &file);
    output(&mut command)?;
    let text = at(&file, fs::read_to_string(&file))?;
    read(&text).map(Ok).ok_or_else(|| TaskError::Other(format!("{}: {text}", file.display())))
}

/// Reads `static|lazy BYTES THREADS BLOCKS`. What a static task asks for has the heap in it.
fn read(text: &str) -> Option<(String, Amount)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [how, bytes, threads, blocks] = words[..] else { return None };
    let heap = if how == "static" { HEAP } else { 0 };
    let bytes = bytes.parse::<u64>().ok()?.checked_sub(heap)?;
    Some((how.to_owned(), Amount { bytes, blocks: blocks.parse().ok()?, threads: threads.parse().ok()? }))
}

/// Bytes of memory that programs can still have.
fn available() -> Result<u64, TaskError> {
    let path = std::path::Path::new("/proc/meminfo");
    let text = at(path, fs::read_to_string(path))?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kib.unwrap_or(0) << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_answers_are_read() {
        let amount = Amount { bytes: 7, blocks: 3, threads: 2 };
        assert_eq!(row("a-1,a,1,x y,7,3,2,0"), Some(("a-1", "a", "x y", amount)));
        assert_eq!(row("a-1,a,1,x y,7,3,2"), None);
        assert_eq!(read("lazy 7 2 3\n"), Some(("lazy".to_owned(), amount)));
        assert_eq!(read("static 8388615 2 3"), Some(("static".to_owned(), amount)));
        assert_eq!(read("static 7 2 3"), None);
    }
}
