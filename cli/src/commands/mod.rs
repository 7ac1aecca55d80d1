//! One room per command: its arguments and what it does.

pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod discover;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod exporter;
pub(crate) mod fit;
pub(crate) mod free;
pub(crate) mod history;
pub(crate) mod layout;
pub(crate) mod lint;
pub(crate) mod node;
pub(crate) mod papers;
pub(crate) mod plan;
pub(crate) mod planner;
pub(crate) mod power;
pub(crate) mod profiles;
pub(crate) mod report;
pub(crate) mod score;
pub(crate) mod setup;
pub(crate) mod simulate;
pub(crate) mod tasks;
pub(crate) mod times;
pub(crate) mod top;
pub(crate) mod topology;
pub(crate) mod why;
