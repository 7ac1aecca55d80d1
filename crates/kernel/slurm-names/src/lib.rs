//! Compares the names in a good `tessera.toml` with those that Slurm has.
//!
//! An unknown name does not make the file bad: it can be right tomorrow.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

use std::collections::HashMap;

use geometry::Model;

use site_config::hostlist;
use toml_tables::{At, ConfigError, Errors, TableReader, nearest, tables};

/// The names that Slurm has. `None`: not known, so nothing is compared.
#[derive(Clone, Debug, Default)]
pub struct SlurmNames {
    /// All partitions of slurm.conf.
    pub partitions: Option<Vec<String>>,
    /// All accounts of the accounting database.
    pub accounts: Option<Vec<String>>,
    /// All QOS of the accounting database.
    pub qos: Option<Vec<String>>,
    /// Users of the file whom slurmctld's machine knows.
    pub users: Option<Vec<String>>,
    /// The types of the GPUs of each node, as in `Gres=gpu:TYPE:8`. A node without a type has none.
    pub gpu_types: HashMap<String, Vec<String>>,
}

/// Finds names of a file without errors that Slurm does not have: a limit of such a partition or account holds nobody.
///
/// Slurm writes accounts in small letters, so capitals do not count there. In partitions they do.
#[must_use]
pub fn unknown_to_slurm(file_name: &str, text: &str, slurm: &SlurmNames) -> Vec<ConfigError> {
    walk(file_name, text, |root| {
        for limit in root.tables("limits") {
            partition(&limit, "partition", slurm, "this limit applies to no job");
            account(&limit, slurm, "this limit applies to no job");
            other(&limit, "qos", &slurm.qos, "Slurm has no QOS");
            other(&limit, "user", &slurm.users, "this machine knows no user");
        }
        for rule in root.table("idle").iter().flat_map(|idle| idle.tables("rules")) {
            partition(&rule, "partition", slurm, "this rule is for no job");
            account(&rule, slurm, "this rule is for no job");
        }
        for own in root.tables("partitions") {
            partition(&own, "name", slurm, "these settings apply to no job");
        }
        root.tables("nodes").iter().for_each(|set| types(set, slurm));
    })
}

/// Reads the types of GPUs in a node's GRES: `a100` of `gpu:a100:8(S:0-1),shard:320`.
#[must_use]
pub fn gpu_types_in(gres: &str) -> Vec<String> {
    let mut types = Vec::new();
    // Sockets in parentheses have commas too, but none of them begins with `gpu:`.
    for entry in gres.split(',') {
        let entry = entry.split('(').next().unwrap_or_default();
        let mut words = entry.split(':').filter(|word| *word != "no_consume");
        let (kind, name, count) = (words.next(), words.next(), words.next());
        if let (Some("gpu"), Some(name), Some(_)) = (kind, name, count) {
            types.push(name.to_owned());
        }
    }
    types
}

fn partition(table: &TableReader<'_, '_>, key: &'static str, slurm: &SlurmNames, outcome: &str) {
    let Some(known) = &slurm.partitions else { return };
    let Some(At { value, span }) = table.string(key).filter(|at| !known.contains(&at.value)) else { return };
    let meant = nearest(&value, known.iter().map(String::as_str));
    let hint =
        meant.map_or_else(|| "use a partition of slurm.conf".to_owned(), |m| format!("did you mean {m}?"));
    table.errors.push(span, format!("Slurm has no partition {value}: {outcome}"), Some(hint));
}

/// Compares a name of a limit for which capitals do not count.
fn other(table: &TableReader<'_, '_>, key: &'static str, known: &Option<Vec<String>>, lacks: &str) {
    let Some(known) = known else { return };
    let is_known = |name: &str| known.iter().any(|k| k.eq_ignore_ascii_case(name));
    let Some(At { value, span }) = table.string(key).filter(|at| !is_known(&at.value)) else { return };
    let meant =
        nearest(&value, known.iter().map(String::as_str)).map(|meant| format!("did you mean {meant}?"));
    table.errors.push(span, format!("{lacks} {value}: this limit applies to no job"), meant);
}

fn account(table: &TableReader<'_, '_>, slurm: &SlurmNames, outcome: &str) {
    let Some(known) = &slurm.accounts else { return };
    let is_known = |name: &str| known.iter().any(|k| k.eq_ignore_ascii_case(name));
    let Some(At { value, span }) = table.string("account").filter(|at| !is_known(&at.value)) else { return };
    let meant = nearest(&value, known.iter().map(String::as_str));
    let hint = meant.map_or_else(
        || "`sacctmgr show account` lists the accounts".to_owned(),
        |meant| format!("did you mean {meant}?"),
    );
    table.errors.push(span, format!("Slurm has no account {value}: {outcome}"), Some(hint));
}

/// Compares the types of a node set's GPUs in slurm.conf with the models of the file; reports the first that differs.
fn types(set: &TableReader<'_, '_>, slurm: &SlurmNames) {
    let key = if set.has("gpu") { "gpu" } else { "gpus" };
    let named = match key {
        "gpu" => set.string("gpu").into_iter().collect(),
        _ => set.strings("gpus").unwrap_or_default(),
    };
    let models: Option<Vec<&Model>> = named.iter().map(|at| Model::find(&at.value)).collect();
    // A model that the site describes itself may be called anything in slurm.conf.
    let Some(models) = models.filter(|models| !models.is_empty()) else { return };
    let nodes = set.string("names").and_then(|at| hostlist::expand(&at.value).ok()).unwrap_or_default();
    let other = |node: &String| slurm.gpu_types.get(node)?.iter().find(|kind| names_another(kind, &models));
    let Some((node, kind)) = nodes.iter().find_map(|node| Some((node, other(node)?))) else { return };
    let mut described: Vec<&str> = named.iter().map(|at| at.value.as_str()).collect();
    described.dedup();
    let what = format!("slurm.conf calls the GPUs of {node} {kind}, this file {}", described.join(" and "));
    let hint = "correct this model, or the type in slurm.conf and gres.conf".to_owned();
    let place = named.into_iter().next().map_or_else(|| set.key_span(key), |at| at.span);
    set.errors.push(place, what, Some(hint));
}

/// Tells whether a type of slurm.conf is the name of a GPU that is none of these models.
///
/// A site may call a type anything (`big`), so only the name of a chip that Tessera knows counts, and only a size that
/// another model of that chip has.
fn names_another(kind: &str, models: &[&Model]) -> bool {
    let chip = |model: &Model| model.key.split('-').next().unwrap_or_default().to_owned();
    let kind = kind.to_ascii_lowercase();
    let words: Vec<&str> = kind.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let named: Vec<&Model> =
        Model::all().iter().filter(|m| chip(m) != "rtx" && words.contains(&chip(m).as_str())).collect();
    let same: Vec<&&Model> = named.iter().filter(|m| models.iter().any(|own| chip(own) == chip(m))).collect();
    if named.is_empty() || same.is_empty() {
        return !named.is_empty();
    }
    let has_size =
        |model: &Model| model.key.split('-').any(|part| part.ends_with("gb") && words.contains(&part));
    same.iter().any(|m| has_size(m)) && !models.iter().any(|own| has_size(own))
}

/// Lets `look` report problems of a file without errors; none for a file with errors of syntax.
pub fn walk(file_name: &str, text: &str, look: impl FnOnce(&TableReader<'_, '_>)) -> Vec<ConfigError> {
    let errors = Errors::new(file_name, text);
    let (root, syntax) = tables(text, &errors);
    if syntax > 0 {
        return Vec::new();
    }
    look(&TableReader::new(root.get_ref(), root.span(), "", &errors));
    errors.into_sorted()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_from_a_nodes_gres() {
        assert_eq!(gpu_types_in("gpu:a100:4(S:0,1),gpu:h100:no_consume:2,shard:9"), ["a100", "h100"]);
        assert_eq!(gpu_types_in("gpu:8,(null)"), [""; 0]);
    }

    #[test]
    fn a_type_that_names_another_gpu_is_told_and_free_words_are_not() {
        let another = |kind, key| names_another(kind, &[Model::find(key).unwrap()]);
        for (kind, key) in [
            ("a100", "a100-40gb"),
            ("A100", "a100-80gb"),
            ("nvidia_a100-sxm4-40gb", "a100-40gb"),
            ("nvidia_gh200_480gb", "gh200-96gb"),
            ("nvidia_h800", "h100-80gb-sxm"),
            ("quadro_rtx_6000", "rtx6000-24gb"),
            ("big", "a100-40gb"),
            ("nvidia_rtx_pro_6000_blackwell", "rtx-pro-6000-96gb"),
        ] {
            assert!(!another(kind, key), "{kind} is {key}");
        }
        for (kind, key) in [
            ("h100", "a100-40gb"),
            ("nvidia_a100-sxm4-80gb", "a100-40gb"),
            ("tesla_v100-sxm2-32gb", "v100-16gb"),
        ] {
            assert!(another(kind, key), "{kind} is not {key}");
        }
    }
}
