//! `job_submit_tessera.so`: turns a job's request into GRES, and refuses what no node could ever satisfy.
//!
//! Everything here runs in slurmctld on what a user sent: the client-side checks of the SPANK plugin are a courtesy,
//! these are the rule. Whatever claims to be a placement is stripped, because only the select plugin writes those.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod answer;
mod components;
#[expect(unsafe_code, reason = "Slurm's structs, its functions, and the symbols that it looks up")]
mod ffi;
mod file_state;
#[cfg(test)]
mod fixtures;
mod harm;
mod het;
mod kept;
mod learnt;
mod long_texts;
mod modify;
mod node_lists;
mod request_change;
mod site;
mod slices;
mod submission;
mod submit;
mod too_much;
