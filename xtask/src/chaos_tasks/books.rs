//! Records of the driver, the broker and the programs themselves, written while the jobs ran.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};

use serde_json::Value;

use super::node::TaskNode;
use crate::command::{TaskError, at};

/// `CUDA_ERROR_OUT_OF_MEMORY`.
const OUT_OF_MEMORY: i64 = 2;

/// Counts, and what is wrong in words.
#[derive(Default)]
pub(super) struct Books {
    /// Allocations and contexts on shared devices that the driver refused for want of memory.
    pub(super) oom_driver: u64,
    pub(super) refused_growth: u64,
    pub(super) over_capacity: u64,
    /// Isolated jobs' allocations that failed, and other processes on their devices.
    pub(super) isolated_disturbed: u64,
    /// Errors that none of the above explains.
    pub(super) other: u64,
    pub(super) wrong: Vec<String>,
}

pub(super) fn read(node: &TaskNode) -> Result<Books, TaskError> {
    let mut books = Books::default();
    let isolated = lines(node, "isolated")?;
    let pids: BTreeSet<u64> = isolated.iter().filter_map(|fields| fields.first().copied()).collect();
    books.isolated_disturbed +=
        isolated.iter().filter(|fields| fields[1..].iter().any(|n| *n > 0)).count() as u64;
    for fields in lines(node, "programs")? {
        if let [_, _, growth, other] = fields[..] {
            books.refused_growth += growth;
            // Without a broker, what ran out of memory has other errors too.
            books.other += if node.has_broker() { other } else { 0 };
        }
    }
    if books.other > 0 {
        books.wrong.push(format!("programs saw {} errors that are neither", books.other));
    }
    books.driver(node, &pids)?;
    if node.has_broker() {
        let account = node.check_events()?;
        let violations = account["violations"].as_array().cloned().unwrap_or_default();
        books.over_capacity += violations.len() as u64;
        books.wrong.extend(violations.iter().take(20).map(|v| format!("event log: {v}")));
        eprintln!(
            "chaos-tasks: {} tasks began, {} were granted, {} refused; the longest waited {:.1} s",
            account["begun"],
            account["granted"],
            account["refused"],
            account["longest_wait_s"].as_f64().unwrap_or(0.0)
        );
    }
    Ok(books)
}

impl Books {
    fn driver(&mut self, node: &TaskNode, isolated: &BTreeSet<u64>) -> Result<(), TaskError> {
        let path = node.at("driver");
        let file = at(&path, std::fs::File::open(&path))?;
        for line in BufReader::new(file).lines() {
            let Ok(value) = serde_json::from_str::<Value>(&at(&path, line)?) else { continue };
            let device = value["device"].as_str().unwrap_or_default();
            let is_isolated = node.isolated().iter().any(|uuid| uuid == device);
            let failed = value["result"].as_i64() == Some(OUT_OF_MEMORY);
            let stranger = is_isolated && !value["pid"].as_u64().is_some_and(|pid| isolated.contains(&pid));
            if failed && !is_isolated {
                self.oom_driver += 1;
            }
            if (failed && is_isolated) || stranger {
                self.isolated_disturbed += 1;
            }
            if (stranger || (failed && node.has_broker())) && self.wrong.len() < 40 {
                self.wrong.push(format!("driver: {value}"));
            }
        }
        Ok(())
    }
}

/// The numbers of a file's lines; no file, no line.
fn lines(node: &TaskNode, name: &str) -> Result<Vec<Vec<u64>>, TaskError> {
    let path = node.at(name);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = at(&path, std::fs::read_to_string(&path))?;
    let numbers = |line: &str| line.split(' ').map(str::parse).collect::<Result<Vec<u64>, _>>().ok();
    Ok(text.lines().filter_map(numbers).filter(|fields| fields.len() == 4).collect())
}
