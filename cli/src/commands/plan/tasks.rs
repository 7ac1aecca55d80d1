//! Reading batches of tasks. Every error names file, line and field.

use placement::Model;
use placement::far::{MAX_TIME, Micros, Task, Tree};
use serde_json::{Map, Value};

use super::csv;
use crate::outcome::Failure;

/// One batch as a file has it.
pub(super) struct Batch {
    pub(super) id: String,
    pub(super) model: &'static Model,
    pub(super) tasks: Vec<Task>,
    /// One per task, where the file has names.
    pub(super) names: Vec<Option<String>>,
    /// One per task, where the file has commands.
    pub(super) commands: Vec<Option<String>>,
}

impl Batch {
    /// A batch without tasks yet.
    pub(super) fn new(id: String, model: &'static Model) -> Self {
        Self { id, model, tasks: Vec::new(), names: Vec::new(), commands: Vec::new() }
    }

    /// A task's name, or its number from 0.
    pub(super) fn name(&self, task: usize) -> String {
        self.names[task].clone().unwrap_or_else(|| task.to_string())
    }
}

/// Where something stands, and for which GPU it is meant.
pub(super) struct Context<'a> {
    pub(super) file: &'a str,
    /// From `--gpu`.
    pub(super) model: Option<&'static Model>,
}

impl Context<'_> {
    pub(super) fn error(&self, line: usize, what: impl std::fmt::Display) -> Failure {
        Failure::new(format!("{}:{line}: {what}", self.file))
    }
}

/// The batches in `text`: JSON if it begins with a brace, else CSV.
pub(super) fn read(context: &Context<'_>, text: &str) -> Result<Vec<Batch>, Failure> {
    if text.trim_start().starts_with('{') {
        json_lines(context, text)
    } else {
        Ok(vec![csv::tasks(context, text)?])
    }
}

/// `time` in seconds as whole microseconds.
pub(super) fn micros(time: f64) -> Option<Micros> {
    #[expect(clippy::cast_precision_loss, reason = "the limit is far below 2^53")]
    let most = MAX_TIME as f64;
    let micros = (time * 1e6).round();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "within the limits just checked"
    )]
    (micros >= 1.0 && micros <= most).then_some(micros as Micros)
}

/// The model for a batch whose line names `gpu`.
pub(super) fn model(
    context: &Context<'_>,
    line: usize,
    gpu: Option<&str>,
) -> Result<&'static Model, Failure> {
    if let Some(model) = context.model {
        return Ok(model);
    }
    let gpu = gpu.ok_or_else(|| {
        context.error(line, "which GPU is not said").hint("give --gpu, or \"gpu\" in each batch")
    })?;
    let key = match gpu {
        "A30" => "a30-24gb",
        "A100" => "a100-40gb",
        "H100" => "h100-80gb-sxm",
        other => other,
    };
    let unknown = || context.error(line, format!("field gpu: no GPU model {gpu:?}"));
    Model::find(key).ok_or_else(|| unknown().hint("`tessera profiles` lists the models"))
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
        let model = model(context, line, text("gpu")?)?;
        let times = object.get("t").ok_or_else(|| context.error(line, "field t: missing"))?;
        let rows = times.as_array().ok_or_else(|| context.error(line, "field t: not a list"))?;
        let one_task = !rows.is_empty() && rows.iter().all(|r| !r.is_array());
        if one_task {
            let id = context.file.rsplit('/').next().unwrap_or_default().to_owned();
            let batch = single.get_or_insert_with(|| Batch::new(id, model));
            if batch.model.key != model.key {
                return Err(context.error(line, "field gpu: tasks of one batch name different GPUs"));
            }
            batch.tasks.push(task(context, line, model, "t", rows)?);
            let name = text("name")?.or(text("id")?);
            if name.is_some_and(|name| name.chars().any(char::is_control)) {
                return Err(context.error(line, "field name: has control characters"));
            }
            batch.names.push(name.map(str::to_owned));
            batch.commands.push(text("command")?.map(str::to_owned));
        } else {
            batches.push(batch(context, line, model, text("id")?, &object, rows)?);
        }
    }
    if let Some(single) = single {
        if !batches.is_empty() {
            return Err(context.error(1, "some lines are tasks and some are batches"));
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
        return Err(context.error(line, format!("field n: {n}, but t has {} tasks", rows.len())));
    }
    let row = |(k, row): (usize, &Value)| {
        let field = format!("t[{k}]");
        let times =
            row.as_array().ok_or_else(|| context.error(line, format!("field {field}: not a list")))?;
        task(context, line, model, &field, times)
    };
    let tasks: Vec<Task> = rows.iter().enumerate().map(row).collect::<Result<_, _>>()?;
    let id = id.map_or_else(|| format!("line {line}"), str::to_owned);
    let nothing = vec![None; tasks.len()];
    Ok(Batch { id, model, names: nothing.clone(), commands: nothing, tasks })
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
            .error(line, format!("field {field}: {found} times, expected {wanted}"))
            .hint(hint));
    }
    let time = |(k, value): (usize, &Value)| match value {
        Value::Null => Ok(None),
        _ => value.as_f64().and_then(micros).map(Some).ok_or_else(|| {
            let what = format!("field {field}[{k}]: {value} is not a time");
            context
                .error(line, what)
                .hint("seconds, more than 0 and at most 10000000; null where the task cannot run")
        }),
    };
    let times: Vec<Option<Micros>> = values.iter().enumerate().map(time).collect::<Result<_, _>>()?;
    if times.iter().all(Option::is_none) {
        return Err(context.error(line, format!("field {field}: the task can run at no size")));
    }
    Ok(Task { times })
}

/// The instance sizes of a model.
pub(super) fn sizes(context: &Context<'_>, line: usize, model: &Model) -> Result<Vec<u8>, Failure> {
    Tree::of(model).map(|t| t.sizes).map_err(|e| context.error(line, e))
}

pub(super) fn names(sizes: &[u8]) -> String {
    sizes.iter().map(|s| format!("{s}g")).collect::<Vec<_>>().join(", ")
}
