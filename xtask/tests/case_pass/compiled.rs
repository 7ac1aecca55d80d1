//! A shape's programs, and what it prints without the pass.

use std::path::PathBuf;
use std::sync::OnceLock;

use lab::case_pass::Shapes;

use crate::node;

/// All shapes, compiled for the first test that asks.
pub(crate) fn shapes() -> &'static Shapes {
    static SHAPES: OnceLock<Shapes> = OnceLock::new();
    SHAPES.get_or_init(|| {
        node::shared();
        Shapes::build().unwrap()
    })
}

/// The programs of a shape.
pub(crate) struct Compiled {
    /// The shape's name.
    pub(crate) name: &'static str,
    /// Output of the program without the pass.
    pub(crate) plain: String,
}

impl Compiled {
    /// Runs the shape without the pass.
    pub(crate) fn of(name: &'static str) -> Self {
        let done = node::run(node::shared(), &shapes().plain(name), &[]);
        let plain = String::from_utf8(done.stdout).unwrap();
        assert!(!plain.is_empty(), "{name}");
        Self { name, plain }
    }

    /// The program with the pass, compiled at `-O0` or `-O2`.
    pub(crate) fn with_pass(&self, level: &str) -> PathBuf {
        shapes().with_pass(self.name, level)
    }

    /// Returns the pass's report at `-O2`: a line of JSON per function.
    pub(crate) fn report(&self) -> String {
        shapes().report(self.name, "-O2").unwrap()
    }
}
