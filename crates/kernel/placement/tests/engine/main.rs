//! The decision engine: rules by example, words as users read them, and properties against independent code.
#![allow(clippy::unwrap_used, reason = "tests")]

mod budgets;
mod cluster;
mod common;
mod compute;
mod geometry;
mod lacking;
mod oracle;
mod planned;
mod rank;
mod room;
mod rules;
mod streams;
mod tasks;
mod victims;
mod whole_sets;
mod words;
