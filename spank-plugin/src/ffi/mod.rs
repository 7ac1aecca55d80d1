//! Everything C: the symbols that Slurm looks up ([`entry`]), and Slurm's process behind [`crate::spank::Spank`] ([`handle`]).

mod entry;
#[cfg(test)]
mod fake;
mod handle;
mod host_symbols;
mod process;
mod sys;
#[cfg(test)]
mod tests;
