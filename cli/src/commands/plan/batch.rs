//! A batch as its file has it, and what every file of tasks has in common.

use far::{MAX_TIME, Micros, Task, Tree};
use geometry::Model;

use crate::options;
use crate::outcome::Failure;

/// Tasks that are planned together.
pub(super) struct Batch {
    pub(super) id: String,
    pub(super) model: &'static Model,
    pub(super) tasks: Vec<NamedTask>,
}

/// A task as it was read: the planner sees only its times.
pub(super) struct NamedTask {
    pub(super) name: Option<String>,
    /// A shell command; without it the task runs `--script`.
    pub(super) command: Option<String>,
    pub(super) task: Task,
}

impl NamedTask {
    pub(super) fn unnamed(task: Task) -> Self {
        Self { name: None, command: None, task }
    }
}

impl Batch {
    /// A batch without tasks yet.
    pub(super) fn new(id: String, model: &'static Model) -> Self {
        Self { id, model, tasks: Vec::new() }
    }

    /// A task's name, or its number from 0.
    pub(super) fn name(&self, task: usize) -> String {
        self.tasks[task].name.clone().unwrap_or_else(|| task.to_string())
    }

    /// The tasks without their names, as the planner takes them, each lengthened by `overhead` µs.
    pub(super) fn far_tasks(&self, overhead: Micros) -> Vec<Task> {
        let longer = |t: &Option<Micros>| t.map(|t| t.saturating_add(overhead));
        self.tasks.iter().map(|t| Task { times: t.task.times.iter().map(longer).collect() }).collect()
    }
}

/// Microseconds as seconds.
#[expect(clippy::cast_precision_loss, reason = "plans are far shorter than 2^53 microseconds")]
pub(super) fn seconds(micros: Micros) -> f64 {
    micros as f64 / 1e6
}

/// The file that is read, for its errors, and the GPU model that it is read for.
pub(super) struct Context<'a> {
    pub(super) file: &'a str,
    /// `None` if each batch names its own.
    pub(super) model: Option<&'static Model>,
}

impl Context<'_> {
    pub(super) fn error(&self, line: usize, what: impl std::fmt::Display) -> Failure {
        Failure::new(format!("{}:{line}: {what}", self.file))
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
        context.error(line, "no GPU model given").hint("add --gpu MODEL[,N], or \"gpu\" to each batch")
    })?;
    let key = match gpu {
        "A30" => "a30-24gb",
        "A100" => "a100-40gb",
        "H100" => "h100-80gb-sxm",
        other => other,
    };
    options::mig_model(key).map_err(|e| e.within(format_args!("{}:{line}: field gpu", context.file)))
}

/// The instance sizes of a model.
pub(super) fn sizes(context: &Context<'_>, line: usize, model: &Model) -> Result<Vec<u8>, Failure> {
    Tree::of(model).map(|t| t.sizes).map_err(|e| context.error(line, e))
}

pub(super) fn names(sizes: &[u8]) -> String {
    sizes.iter().map(|s| format!("{s}g")).collect::<Vec<_>>().join(", ")
}
