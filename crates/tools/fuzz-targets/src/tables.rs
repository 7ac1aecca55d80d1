//! Tables and JSON lines that users hand to commands.

use std::sync::LazyLock;

use power::CounterTable;
use power_study::{Model, groups, ncu, runs};
use tessera_cli::parsers;

use crate::text;

/// Jobs of `tessera simulate mapa`.
pub(crate) fn mapa_jobs(input: &[u8]) {
    let _ = mapa_study::parse_jobs(&text(input));
}

/// Batches of `tessera plan`, CSV and JSON lines.
pub(crate) fn plan_tasks(input: &[u8]) {
    parsers::tasks(&text(input));
}

/// Jobs and the replay of `tessera simulate case`.
pub(crate) fn case_jobs(input: &[u8]) {
    parsers::case_jobs(&text(input));
}

/// The corpora's own model and counters, against which groups are read.
static FITTED: LazyLock<Option<(Model, CounterTable)>> = LazyLock::new(|| {
    let model = Model::from_json(include_str!("../../../../fuzz/corpus/power_model/0")).ok()?;
    let counters =
        CounterTable::parse("counters", include_str!("../../../../fuzz/corpus/power_csv/0")).ok()?;
    Some((model, counters))
});

/// Counters, runs, profiles of Nsight Compute, and who runs where.
pub(crate) fn power_csv(input: &[u8]) {
    let text = text(input);
    let _ = CounterTable::parse("counters.csv", &text);
    let _ = runs::parse("runs.csv", &text);
    let _ = ncu::parse("ncu.csv", &text);
    let (model, counters) = FITTED.as_ref().expect("the corpus's first files are a model and its counters");
    let _ = groups::parse("groups", &text, model, counters);
}

/// A fitted model: what is read is written the same. slurmctld reads a part of it.
pub(crate) fn power_model(input: &[u8]) {
    let _ = power::Model::from_json(&text(input));
    if let Ok(model) = Model::from_json(&text(input)) {
        let written = model.to_json();
        let again = Model::from_json(&written.to_string()).map(|model| model.to_json());
        assert_eq!(again.as_ref(), Ok(&written));
    }
}
