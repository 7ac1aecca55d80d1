//! Shapes run on simulated GPUs: with the pass, a program prints what it prints without it, its tasks begin and end in
//! balance, and at every moment what it has allocated is covered by what it asked for.
//!
//! The library is a test double (`contrib/case-pass/tests/double`) that grants everything and keeps book.

use std::fs;
use std::path::Path;

use lab::case_node::CaseNode;
use serde_json::Value;

use crate::compiled::Compiled;
use crate::node;

/// Returns a program's output, and the double's book.
fn run_with_book(on: &CaseNode, program: &Path, lazy: &str) -> (String, Value) {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("book.json");
    let done =
        node::run(on, program, &[("TASK_DOUBLE_LOG", log.to_str().unwrap()), ("TASK_DOUBLE_LAZY", lazy)]);
    let book = serde_json::from_str(&fs::read_to_string(log).unwrap()).unwrap();
    (String::from_utf8(done.stdout).unwrap(), book)
}

/// Shapes that leave memory allocated until the process ends, or launch without waiting: their last tasks stay open.
const HELD: [&str; 2] = ["no_free", "unwaited"];

pub(crate) fn check(shape: &Compiled) {
    let name = shape.name;
    for level in ["-O0", "-O2"] {
        for lazy in ["0", "1"] {
            let (printed, book) = run_with_book(node::shared(), &shape.with_pass(level), lazy);
            assert_eq!(printed, shape.plain, "{name} {level} lazy={lazy}: {book}");
            assert_eq!(book["complaints"], Value::Array(Vec::new()), "{name} {level} lazy={lazy}: {book}");
            if !HELD.contains(&name) {
                assert_eq!(book["begins"], book["frees"], "{name} {level} lazy={lazy}: {book}");
                assert_eq!(book["live"], 0, "{name} {level} lazy={lazy}: {book}");
            }
            assert_ne!(
                (book["begins"].as_u64(), book["prepares"].as_u64()),
                (Some(0), Some(0)),
                "{name}: {book}"
            );
        }
    }
}
