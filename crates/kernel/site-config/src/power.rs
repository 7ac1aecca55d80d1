//! Reads `[power]`, and the files that tell how applications and GPUs behave under power caps.

use std::sync::Arc;

use geometry::Model;
use gpu_rules::SharedMemory;
use power::{CounterTable, Features, Inputs};
use protocol::AppCounters;

use crate::matrix::ReadFile;
use crate::types::{Objective, Power};
use toml_tables::{At, TableReader};

const SHARED_MEMORY: [(&str, SharedMemory); 3] =
    [("never", SharedMemory::Never), ("same-user", SharedMemory::SameUser), ("any", SharedMemory::Any)];

const OBJECTIVES: [(&str, Objective); 3] =
    [("off", Objective::Off), ("throughput", Objective::Throughput), ("efficiency", Objective::Efficiency)];

/// Reads `objective`, of the site or a partition.
pub(crate) fn objective(table: &TableReader<'_, '_>) -> Option<Objective> {
    table.word("objective", &OBJECTIVES)
}

/// Reads `alpha`, of the site or a partition.
pub(crate) fn alpha(table: &TableReader<'_, '_>) -> Option<f64> {
    table.decimal("alpha", 0.0..=1.0)
}

pub(crate) fn read(root: &mut TableReader<'_, '_>, read_file: ReadFile<'_>) -> Power {
    let unset = Power::default();
    let Some(table) = root.table("power") else { return unset };
    let counters = file(&table, "counters", read_file, "`tessera lab power import` writes lines of it");
    let counters = counters.and_then(|(At { value: name, span }, text)| {
        let read = CounterTable::parse(&name, &text);
        read.map_err(|e| table.errors.push(span, e.to_string(), None)).ok()
    });
    let read = Power {
        shared_memory: table.word("shared_memory", &SHARED_MEMORY).unwrap_or(unset.shared_memory),
        alpha: alpha(&table).unwrap_or(unset.alpha),
        auto_keeps: table.decimal("auto_keeps", 0.0..=1.0).unwrap_or(unset.auto_keeps),
        guard: table.boolean("guard").unwrap_or(unset.guard),
        counters: counters.map(Arc::new),
        energy: table.boolean("energy").unwrap_or(unset.energy),
        objective: objective(&table).unwrap_or(unset.objective),
        stretch_limits: table.boolean("stretch_limits").unwrap_or(unset.stretch_limits),
    };
    table.finish();
    read
}

/// Reads `power_model` of a node set; `gpus` are its GPUs, where they are known. `Err`: it is wrong, and the errors say how.
pub(crate) fn model(
    table: &TableReader<'_, '_>,
    gpus: Option<&[&'static Model]>,
    read_file: ReadFile<'_>,
) -> Result<Option<Arc<power::Model>>, ()> {
    let Some((At { value: name, span }, text)) =
        file(table, "power_model", read_file, "`tessera lab power fit` writes one")
    else {
        return if table.has("power_model") { Err(()) } else { Ok(None) };
    };
    let model = power::Model::from_json(&text)
        .map_err(|e| table.errors.push(span.clone(), format!("{name}: {e}"), None))?;
    let other = gpus.and_then(|gpus| gpus.iter().find(|gpu| gpu.key != model.gpu()));
    if let Some(other) = other {
        let what = format!("{name} is a power model of {}, the nodes have {}", model.gpu(), other.key);
        let hint = "fit one to runs on these GPUs, or leave power_model out".to_owned();
        table.errors.push(span, what, Some(hint));
        return Err(());
    }
    Ok(Some(Arc::new(model)))
}

/// The name and the text of a file beside the configuration; `hint` says who writes such files.
fn file(
    table: &TableReader<'_, '_>,
    key: &'static str,
    read_file: ReadFile<'_>,
    hint: &str,
) -> Option<(At<String>, String)> {
    let name = table.string(key)?;
    match read_file(&name.value) {
        Ok(text) => Some((name, text)),
        Err(e) => {
            table.errors.push(name.span, format!("cannot read {}: {e}", name.value), Some(hint.to_owned()));
            None
        }
    }
}

impl Power {
    /// Finds F1 to F8 of an application for a model: the site's, else the user's own.
    ///
    /// # Errors
    ///
    /// Nobody has profiled it on the model's GPU with its tool: why, for the user.
    pub fn features(&self, inputs: Inputs<'_>, app: &str, own: &[AppCounters]) -> Result<Features, String> {
        let none = CounterTable::default();
        let site = self.counters.as_deref().unwrap_or(&none);
        let why = match site.features(inputs, app) {
            Ok(features) => return Ok(features),
            Err(why) => why.to_string(),
        };
        let Inputs { gpu, source, basis } = inputs;
        let Some(own) = own.iter().find(|one| one.gpu() == gpu && one.source() == source) else {
            return Err(why);
        };
        let mut features = [0.0; 8];
        for (at, (to, from)) in features.iter_mut().zip(own.percent()).enumerate() {
            match from {
                Some(value) => *to = value,
                None if basis.needs(at) => return Err(format!("your counters of {app} have no f{}", at + 1)),
                None => {}
            }
        }
        Ok(features)
    }
}
