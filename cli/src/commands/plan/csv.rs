//! The two CSV files of `tessera plan`: named tasks, and reconfiguration times. There is no quoting: names have no commas,
//! and a task's command extends to the end of its line.

use std::path::Path;

use far::{Costs, Micros, Task};
use geometry::Model;
use protocol::time::parse_span;

use super::batch::{Batch, Context, NamedTask, micros, model, names, sizes};
use crate::files::read_text;
use crate::outcome::Failure;
use crate::render::{has_control, printable};

/// Forms of the times that people write, as the end of a sentence.
const TIMES: &str = "90s, 20m, 2h, 1d, MM:SS, H:MM:SS or D-HH; a number alone is minutes, as for sbatch";

/// The lines that say something, numbered from 1, as trimmed fields.
fn rows(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    lines(text).map(|(n, line)| (n, line.split(',').map(str::trim).collect()))
}

fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines()).filter(|(_, l)| !l.trim().is_empty() && !l.starts_with('#'))
}

/// The batch of a CSV file, which may have names and commands.
pub(super) fn tasks(context: &Context<'_>, text: &str) -> Result<Batch, Failure> {
    let (line, header) = rows(text).next().ok_or_else(|| context.error(1, "no job"))?;
    if let [only] = header[..]
        && let Some(other) = [';', '\t'].into_iter().find(|c| only.contains(*c))
    {
        let name = if other == ';' { "semicolons" } else { "tabs" };
        let hint = "save the file as CSV with commas, and with points in decimal numbers";
        return Err(context
            .error(line, format!("its fields are separated by {name}, not by commas"))
            .hint(hint));
    }
    let model = model(context, line, None)?;
    let sizes = sizes(context, line, model)?;
    let columns = columns(context, line, model, &sizes, &header)?;
    let id = printable(context.file.rsplit('/').next().unwrap_or_default());
    let mut batch = Batch::new(id, model);
    for (line, content) in lines(text).skip(1) {
        let fields: Vec<&str> = if columns.contains(&Column::Command) {
            content.splitn(header.len(), ',').map(str::trim).collect()
        } else {
            content.split(',').map(str::trim).collect()
        };
        if fields.len() != header.len() {
            let what =
                format!("{}, the header has {}", geometry::counted(fields.len(), "field"), header.len());
            return Err(context.error(line, what));
        }
        let mut times = vec![None; sizes.len()];
        let (mut own_name, mut command) = (None, None);
        for ((column, name), field) in columns.iter().zip(&header).zip(&fields) {
            match column {
                Column::Size(_) if field.is_empty() => {}
                Column::Size(size) => times[*size] = Some(time(context, line, name, field)?),
                Column::Name => own_name = name_of(context, line, field)?,
                Column::Command => command = Some((*field).to_owned()).filter(|c| !c.is_empty()),
            }
        }
        if times.iter().all(Option::is_none) {
            return Err(context.error(line, "the job has no time for any size"));
        }
        batch.tasks.push(NamedTask { name: own_name, command, task: Task { times } });
    }
    if batch.tasks.is_empty() {
        return Err(context.error(line, "no job after the header"));
    }
    Ok(batch)
}

/// A task's name; `None` where it has none. Names go to the terminal and to Slurm.
fn name_of(context: &Context<'_>, line: usize, field: &str) -> Result<Option<String>, Failure> {
    if has_control(field) {
        return Err(context.error(line, format!("field name: {field:?} has control characters")));
    }
    Ok(Some(field.to_owned()).filter(|name| !name.is_empty()))
}

/// Content of a column.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Name,
    /// Index of the size.
    Size(usize),
    /// Only the last one.
    Command,
}

fn columns(
    context: &Context<'_>,
    line: usize,
    model: &Model,
    sizes: &[u8],
    header: &[&str],
) -> Result<Vec<Column>, Failure> {
    let column = |name: &&str| {
        match *name {
            "name" => return Ok(Column::Name),
            "command" => return Ok(Column::Command),
            _ => {}
        }
        let size = size(name, sizes);
        let hint = format!("columns are name, the sizes of {}: {}, and command", model.key, names(sizes));
        size.map(Column::Size)
            .ok_or_else(|| context.error(line, format!("field {name}: no such column")).hint(hint))
    };
    let columns: Vec<Column> = header.iter().map(column).collect::<Result<_, _>>()?;
    if columns.iter().rev().skip(1).any(|c| *c == Column::Command) {
        let hint = "a command may contain commas, so it goes to the end of its line";
        return Err(context.error(line, "field command: not the last column").hint(hint));
    }
    if let Some(k) = (1..columns.len()).find(|&k| columns[..k].contains(&columns[k])) {
        return Err(context.error(line, format!("field {}: twice", header[k])));
    }
    Ok(columns)
}

/// `2g` or `2` as an index.
fn size(name: &str, sizes: &[u8]) -> Option<usize> {
    let size: u8 = name.strip_suffix('g').unwrap_or(name).parse().ok()?;
    sizes.iter().position(|&s| s == size)
}

fn time(context: &Context<'_>, line: usize, field: &str, text: &str) -> Result<Micros, Failure> {
    span(text).filter(|micros| *micros > 0).ok_or_else(|| {
        let hint = format!("{TIMES}; above 0, at most 10000000s; empty if the job cannot run there");
        context.error(line, format!("field {field}: {text:?} is not a time")).hint(hint)
    })
}

/// Reads a time as people write it everywhere; `None`: it is none, or longer than a plan may be.
#[expect(clippy::cast_precision_loss, reason = "limited to a few digits by the grammar")]
fn span(text: &str) -> Option<Micros> {
    let millis = parse_span(text)?;
    if millis == 0 { Some(0) } else { micros(millis as f64 / 1000.0) }
}

/// Reads reconfiguration times from a file into `costs`.
pub(super) fn read_costs(
    path: &Path,
    model: &'static Model,
    sizes: &[u8],
    into: &mut Costs,
) -> Result<(), Failure> {
    let file = path.display().to_string();
    costs(&Context { file: &file, model: Some(model) }, &read_text(path)?, sizes, into)
}

/// Reconfiguration times: `size,create,destroy`. Sizes that are not in the file keep their default.
fn costs(context: &Context<'_>, text: &str, sizes: &[u8], costs: &mut Costs) -> Result<(), Failure> {
    let mut rows = rows(text);
    let (line, header) = rows.next().ok_or_else(|| context.error(1, "no line size,create,destroy"))?;
    if header != ["size", "create", "destroy"] {
        return Err(context.error(line, format!("{:?}: expected size,create,destroy", header.join(","))));
    }
    for (line, fields) in rows {
        let [name, create, destroy] = fields[..] else {
            return Err(
                context.error(line, format!("{}, expected 3", geometry::counted(fields.len(), "field")))
            );
        };
        let no_size = || context.error(line, format!("field size: {name:?} is none of {}", names(sizes)));
        let k = size(name, sizes).ok_or_else(no_size)?;
        costs.create[k] = cost(context, line, "create", create)?;
        costs.destroy[k] = cost(context, line, "destroy", destroy)?;
    }
    Ok(())
}

/// Like a task's time, but 0 is one.
fn cost(context: &Context<'_>, line: usize, field: &str, text: &str) -> Result<Micros, Failure> {
    span(text).ok_or_else(|| {
        context
            .error(line, format!("field {field}: {text:?} is not a time"))
            .hint(format!("{TIMES}; 0 or more"))
    })
}
