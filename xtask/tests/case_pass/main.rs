//! The compiler pass in `contrib/case-pass`: what it finds in CUDA programs, and that they do the same with it.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests")]

mod compiled;
mod driver;
mod ir;
mod leases;
mod node;
mod programs;
mod report;
mod runs;
mod shapes;
mod tools;
