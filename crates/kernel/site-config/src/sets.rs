//! Reads `[bandwidth]` and `[[partitions]]`: how GPUs are chosen for jobs.

use gpu_rules::Fill;
use protocol::{Bandwidth, SetWait};
use topology::{BandwidthModel, Coefficients, Pattern, Selection};

use crate::power;
use crate::types::Partition;
use toml_tables::TableReader;

/// The words that `bandwidth` takes.
pub(crate) const BANDWIDTHS: [(&str, Bandwidth); 2] =
    [("sensitive", Bandwidth::Sensitive), ("insensitive", Bandwidth::Insensitive)];

/// Reads `gpu_set_policy`.
pub(crate) fn policy(table: &TableReader<'_, '_>) -> Option<Selection> {
    table.word("gpu_set_policy", &Selection::ALL.map(|policy| (policy.name(), policy)))
}

pub(crate) fn node_order(table: &TableReader<'_, '_>) -> Option<Option<Fill>> {
    table.word("node_order", &[("pack", Some(Fill::Pack)), ("spread", Some(Fill::Spread)), ("slurm", None)])
}

/// Reads `gpu_wait`: how long jobs wait for a better set.
pub(crate) fn wait(table: &TableReader<'_, '_>) -> Option<SetWait> {
    let read = |text: &str| {
        let wrong = || match SetWait::renamed(text) {
            Some(renamed) => (format!("gpu_wait = {text:?} {renamed}"), None),
            None => {
                let what = format!("gpu_wait = {text:?} is not a bandwidth with a time");
                (what, Some(SetWait::EXPECTED.to_owned()))
            }
        };
        SetWait::parse(text).ok_or_else(wrong)
    };
    table.parsed("gpu_wait", read).map(|at| at.value)
}

/// Reads `[bandwidth]`: the site's model of bandwidth, and whether jobs' need for it may be learnt.
pub(crate) fn bandwidth(root: &mut TableReader<'_, '_>) -> (BandwidthModel, bool) {
    let Some(table) = root.table("bandwidth") else { return (BandwidthModel::default(), false) };
    let learn = table.boolean("learn").unwrap_or(false);
    let model = table.word("model", &models()).unwrap_or_default();
    let given = ["slowest", "sends"].map(|key| table.decimal(key, 0.0..=10.0));
    let both = table.has("slowest") && table.has("sends");
    if let Some(key) = ["slowest", "sends"].into_iter().find(|key| table.has(key)) {
        let fixed = "leave slowest and sends out, or use model = \"bottleneck\"".to_owned();
        let fit = "give both, as `tessera fit bandwidth` prints them".to_owned();
        match model {
            BandwidthModel::Mapa2021 => {
                let what = format!("{key} is not for model mapa2021, whose coefficients are fixed");
                table.errors.push(table.key_span(key), what, Some(fixed));
            }
            BandwidthModel::Bottleneck(_) if !both => {
                let other = if key == "slowest" { "sends" } else { "slowest" };
                table.errors.push(table.key_span(key), format!("{key} needs {other}"), Some(fit));
            }
            BandwidthModel::Bottleneck(_) => {}
        }
    }
    let read = match (model, given) {
        (BandwidthModel::Bottleneck(_), [Some(slowest), Some(sends)]) => {
            let coefficients = Coefficients::new(slowest, sends);
            if coefficients.is_none() {
                let hint = "one of them must be above 0".to_owned();
                table.errors.push(table.key_span("slowest"), "slowest and sends are both 0", Some(hint));
            }
            coefficients.map_or(model, BandwidthModel::Bottleneck)
        }
        _ => model,
    };
    table.finish();
    (read, learn)
}

fn models() -> [(&'static str, BandwidthModel); 2] {
    [BandwidthModel::default(), BandwidthModel::Mapa2021].map(|model| (model.name(), model))
}

/// Reads `[[partitions]]`; `site` is the model that `[bandwidth]` describes.
pub(crate) fn partitions(root: &mut TableReader<'_, '_>, site: BandwidthModel) -> Vec<Partition> {
    let mut read: Vec<Partition> = Vec::new();
    for table in root.tables("partitions") {
        let name = table.string("name");
        if !table.has("name") {
            let hint = "add name = \"…\", a partition of slurm.conf".to_owned();
            table.errors.push(table.span.clone(), "[[partitions]] has no name", Some(hint));
        }
        // `bottleneck` means the site's model with its coefficients, if that is the site's model.
        let own =
            models().map(|(word, model)| (word, if model.name() == site.name() { site } else { model }));
        let partition = Partition {
            name: name.as_ref().map(|at| at.value.clone()).unwrap_or_default(),
            selection: policy(&table),
            model: table.word("bandwidth_model", &own),
            pattern: table.word("pattern", &Pattern::NAMED),
            bandwidth: table.word("bandwidth", &BANDWIDTHS),
            wait: wait(&table),
            node_order: node_order(&table),
            objective: power::objective(&table),
            alpha: power::alpha(&table),
        };
        if let Some(at) = name.filter(|at| read.iter().any(|known| known.name == at.value)) {
            let what = format!("partition {} is described twice", at.value);
            table.errors.push(at.span, what, Some("put its keys into one [[partitions]]".to_owned()));
        }
        table.finish();
        read.push(partition);
    }
    read
}
