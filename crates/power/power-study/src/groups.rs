//! Who runs on which GPU: lines such as `n1:0 hgemm+lud`.

use std::collections::BTreeMap;

use crate::divide::Group;
use crate::model::Model;
use power::CounterTable;
use power::csv::{CsvError, is_name};

/// One line of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// Its number, from 1.
    pub line: usize,
    /// What it says.
    pub group: Group,
}

/// Reads `text`; `file` is its name in errors. Empty lines and lines that begin with `#` are left out.
///
/// # Errors
///
/// [`CsvError`] for the first bad line: not a GPU and applications, a GPU that was listed before, applications without
/// counters from the model's GPU and source, with counters outside its range, or more or fewer than it was calibrated for.
pub fn parse(
    file: &str,
    text: &str,
    model: &Model,
    counters: &CounterTable,
) -> Result<Vec<Listed>, CsvError> {
    let mut all: Vec<Listed> = Vec::new();
    let mut first: BTreeMap<String, usize> = BTreeMap::new();
    let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim).enumerate();
    for (at, words) in lines.filter(|(_, words)| !words.is_empty() && !words.starts_with('#')) {
        let line = at + 1;
        let error = |field, what: String| CsvError { file: file.to_owned(), line, field, what };
        let group = group(words, model, counters).map_err(|(field, what)| error(field, what))?;
        if let Some(before) = first.insert(group.gpu.clone(), line) {
            return Err(error(
                "gpu",
                format!("`{}` is on line {before} too: one line for each GPU", group.gpu),
            ));
        }
        all.push(Listed { line, group });
    }
    if all.is_empty() {
        let what = "no line names a GPU and its applications, such as n1:0 hgemm+lud".to_owned();
        return Err(CsvError { file: file.to_owned(), line: 1, field: "gpu", what });
    }
    Ok(all)
}

/// The group of a line, or the field that is wrong and why.
fn group(words: &str, model: &Model, counters: &CounterTable) -> Result<Group, (&'static str, String)> {
    let fields: Vec<&str> = words.split_whitespace().collect();
    let (gpu, apps) = match fields[..] {
        [gpu, apps] => (gpu, apps),
        [_] => {
            return Err(("apps", "expected a GPU and its applications, such as n1:0 hgemm+lud".to_owned()));
        }
        _ => return Err(("apps", format!("{} words, expected a GPU and its applications", fields.len()))),
    };
    let no_name = |name: &str| format!("`{name}` is not a name: use letters, digits, . _ - : /");
    if !is_name(gpu) {
        return Err(("gpu", no_name(gpu)));
    }
    let apps: Vec<String> = apps.split('+').map(str::to_owned).collect();
    if let Some(wrong) = apps.iter().find(|app| !is_name(app)) {
        return Err(("apps", no_name(wrong)));
    }
    if apps.len() < 2 {
        return Err(("apps", format!("one application, `{}`: a GPU is divided among two or more", apps[0])));
    }
    if model.states(apps.len()).is_empty() {
        return Err(("apps", format!("no calibrated state has {}", geometry::counted(apps.len(), "part"))));
    }
    let features = crate::choose::features(model, counters, &apps).map_err(|e| ("apps", e.to_string()))?;
    for (app, features) in apps.iter().zip(&features) {
        model.range().holds(features, model.basis()).map_err(|e| ("apps", format!("`{app}`: {e}")))?;
    }
    Ok(Group { gpu: gpu.to_owned(), apps, features })
}
