//! Reading batches of tasks. Every error names file, line and field.

use std::path::Path;

use far::{Micros, Task};
use geometry::{Model, counted};
use serde_json::{Map, Value};

use super::batch::{Batch, Context, NamedTask, micros, model, names, sizes};
use super::csv;
use crate::files::read_text;
use crate::outcome::Failure;
use crate::render::has_control;

/// The batches of a file, at least one. All are for `model` if it is given; otherwise each names its own.
pub(super) fn of_file(path: &Path, model: Option<&'static Model>) -> Result<Vec<Batch>, Failure> {
    let (text, file) = (read_text(path)?, path.display().to_string());
    let context = Context { file: &file, model };
    let batches = read(&context, &text)?;
    if batches.is_empty() {
        return Err(context.error(1, "no job"));
    }
    Ok(batches)
}

/// The batches in `text`: JSON if it begins with a brace, else CSV.
pub(super) fn read(context: &Context<'_>, text: &str) -> Result<Vec<Batch>, Failure> {
    if text.trim_start().starts_with('{') {
        json_lines(context, text)
    } else {
        Ok(vec![csv::tasks(context, text)?])
    }
}

fn json_lines(context: &Context<'_>, text: &str) -> Result<Vec<Batch>, Failure> {
    let mut batches = Vec::new();
    let mut single: Option<Batch> = None;
    for (line, content) in (1..).zip(text.lines()).filter(|(_, l)| !l.trim().is_empty()) {
        let object: Map<String, Value> =
            serde_json::from_str(content).map_err(|e| context.error(line, not_json(&e)))?;
        let known = ["id", "gpu", "n", "t", "name", "command"];
        if let Some(key) = object.keys().find(|k| !known.contains(&k.as_str())) {
            return Err(context
                .error(line, format!("field {key}: unknown"))
                .hint("fields are id, gpu, n, t, name and command"));
        }
        let text = |key: &str| match object.get(key) {
            None => Ok(None),
            Some(Value::String(s)) => Ok(Some(s.as_str())),
            Some(_) => Err(context.error(line, format!("field {key}: not a string"))),
        };
        if text("id")?.is_some_and(has_control) {
            return Err(context.error(line, "field id: has control characters"));
        }
        let model = model(context, line, text("gpu")?)?;
        let times = object.get("t").ok_or_else(|| context.error(line, "field t: missing"))?;
        let rows = times.as_array().ok_or_else(|| context.error(line, "field t: not a list"))?;
        let one_task = !rows.is_empty() && rows.iter().all(|r| !r.is_array());
        if one_task {
            let id = context.file.rsplit('/').next().unwrap_or_default().to_owned();
            let batch = single.get_or_insert_with(|| Batch::new(id, model));
            if batch.model.key != model.key {
                return Err(context.error(line, "field gpu: jobs of one batch name different GPUs"));
            }
            let task = task(context, line, model, "t", rows)?;
            let name = text("name")?.or(text("id")?);
            if name.is_some_and(has_control) {
                return Err(context.error(line, "field name: has control characters"));
            }
            let (name, command) = (name.map(str::to_owned), text("command")?.map(str::to_owned));
            batch.tasks.push(NamedTask { name, command, task });
        } else {
            batches.push(batch(context, line, model, text("id")?, &object, rows)?);
        }
    }
    if let Some(single) = single {
        if !batches.is_empty() {
            return Err(context.error(1, "some lines are jobs and some are batches"));
        }
        batches.push(single);
    }
    Ok(batches)
}

/// serde counts lines from the object's own first, which is the file's only by chance.
fn not_json(error: &serde_json::Error) -> String {
    let said = error.to_string();
    let what = said.split(" at line ").next().unwrap_or(&said);
    format!("column {}: not a JSON object: {what}", error.column())
}

fn batch(
    context: &Context<'_>,
    line: usize,
    model: &'static Model,
    id: Option<&str>,
    object: &Map<String, Value>,
    rows: &[Value],
) -> Result<Batch, Failure> {
    if let Some(n) = object.get("n")
        && n.as_u64() != Some(rows.len() as u64)
    {
        return Err(context.error(line, format!("field n: {n}, but t has {}", counted(rows.len(), "job"))));
    }
    let row = |(k, row): (usize, &Value)| {
        let field = format!("t[{k}]");
        let times =
            row.as_array().ok_or_else(|| context.error(line, format!("field {field}: not a list")))?;
        task(context, line, model, &field, times).map(NamedTask::unnamed)
    };
    let tasks: Vec<NamedTask> = rows.iter().enumerate().map(row).collect::<Result<_, _>>()?;
    let id = id.map_or_else(|| format!("line {line}"), str::to_owned);
    Ok(Batch { id, model, tasks })
}

fn task(
    context: &Context<'_>,
    line: usize,
    model: &Model,
    field: &str,
    values: &[Value],
) -> Result<Task, Failure> {
    let sizes = sizes(context, line, model)?;
    if values.len() != sizes.len() {
        let (found, wanted) = (values.len(), sizes.len());
        let hint = format!("{} has the sizes {}", model.key, names(&sizes));
        return Err(context
            .error(line, format!("field {field}: {}, expected {wanted}", counted(found, "time")))
            .hint(hint));
    }
    let time = |(k, value): (usize, &Value)| match value {
        Value::Null => Ok(None),
        _ => value.as_f64().and_then(micros).map(Some).ok_or_else(|| {
            let what = format!("field {field}[{k}]: {value} is not a time");
            context
                .error(line, what)
                .hint("seconds, more than 0 and at most 10000000; null if the job cannot run there")
        }),
    };
    let times: Vec<Option<Micros>> = values.iter().enumerate().map(time).collect::<Result<_, _>>()?;
    if times.iter().all(Option::is_none) {
        return Err(context.error(line, format!("field {field}: the job has no time for any size")));
    }
    Ok(Task { times })
}
