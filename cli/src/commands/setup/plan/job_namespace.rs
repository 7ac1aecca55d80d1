//! Job namespaces of Slurm's in which MPS does not work.

use super::super::discovered::Discovered;
use super::super::read_order::Lines;
use super::{Files, Plan};
use crate::job_namespace::JobNamespace;

/// Notes that jobs do not have the node's `/dev/shm`. A site may want it so, and use no MPS.
pub(super) fn plan(files: &Files, kinds: &[Discovered], plan: &mut Plan) {
    let lines = Lines::of(&files.slurm);
    let (Some((key, value, namespace)), Some(file)) = (named(&lines), &files.job_namespace) else { return };
    let names: Vec<String> = kinds.iter().flat_map(|kind| kind.nodes.iter().cloned()).collect();
    let told = namespace.told(&format!("{key}={value}"), file.text.as_deref(), &names);
    plan.notes.extend(told.map(|(_, what)| what));
}

/// Finds the plugin that slurm.conf names, with its key and value there.
pub(in super::super) fn named(lines: &Lines) -> Option<(&'static str, &str, JobNamespace)> {
    JobNamespace::KEYS.into_iter().find_map(|key| {
        let value = lines.value(key)?;
        Some((key, value, JobNamespace::of(value)?))
    })
}
