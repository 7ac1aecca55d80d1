//! Compiling CUDA programs with the pass, against the same clang without it.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use lab::paths::{target_dir, workspace};

use super::stats::Spread;
use super::table::{Reference, Row};
use crate::command::{TaskError, at, output};

/// How often each program is compiled, with and without the pass in turn.
const ROUNDS: usize = 20;

/// The programs: a short one, one whose helpers are inlined, and one with exceptions and the C++ library.
const PROGRAMS: [&str; 3] = ["straight", "helpers", "exceptions"];

pub(super) fn measure() -> Result<Vec<Row>, TaskError> {
    eprintln!("bench: pass");
    let plugin = lab::case_pass::build()?.join("tessera-case-pass.so");
    let mut rows = Vec::new();
    for program in PROGRAMS {
        for level in ["-O0", "-O2"] {
            let (mut with, mut without) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                without.push(milliseconds(program, level, None)?);
                with.push(milliseconds(program, level, Some(&plugin))?);
            }
            if let (Some(ours), Some(plain)) = (Spread::of(&with), Spread::of(&without)) {
                let reference = Reference::Measured("clang++-19".to_owned(), plain);
                rows.push(Row {
                    bench: "pass",
                    case: format!("{program} {level}"),
                    unit: "ms",
                    ours,
                    reference,
                });
            }
        }
    }
    Ok(rows)
}

/// Milliseconds that the host side of a program takes to compile.
fn milliseconds(program: &str, level: &str, plugin: Option<&Path>) -> Result<f64, TaskError> {
    let source = workspace().join("contrib/case-pass/tests/shapes").join(format!("{program}.cu"));
    at(&source, fs::metadata(&source))?;
    let mut clang = Command::new("clang++-19");
    clang.args([
        "-x",
        "cuda",
        "--cuda-host-only",
        "-nocudainc",
        "-nocudalib",
        "-Xclang",
        "-target-sdk-version=12.5",
    ]);
    clang.arg("-I").arg(workspace().join("crates/sim/cuda-sim/include")).args([level, "-c", "-o"]);
    clang.arg(target_dir().join("case-pass/bench.o")).arg(&source);
    if let Some(plugin) = plugin {
        clang.arg(format!("-fpass-plugin={}", plugin.display()));
    }
    let begin = Instant::now();
    output(&mut clang)?;
    Ok(begin.elapsed().as_secs_f64() * 1000.0)
}
