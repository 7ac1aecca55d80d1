//! slurmctld: its symbols, memory, lists and bit strings.

mod found;
pub(crate) mod heap;
pub(crate) mod lists;
pub(crate) mod symbols;
