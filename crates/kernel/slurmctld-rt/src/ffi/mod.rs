//! slurmctld: its symbols, memory, lists and bit strings.

pub(crate) mod clouds;
mod found;
pub(crate) mod heap;
pub(crate) mod lists;
pub(crate) mod qos;
pub(crate) mod symbols;
pub(crate) mod users;
