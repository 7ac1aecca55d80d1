//! A cluster and its tasks, as the openb traces have them.

use std::collections::HashMap;

use cluster_rank::{Models, Shape};

use crate::csv::{CsvTable, ReadError};

/// Most GPUs of a node, and of a task.
const MOST_GPUS: u64 = 64;
/// Most GPU models in a file; a set of models is one word.
const MOST_MODELS: usize = 64;
/// Most milli-cores and MiB of a node or task.
const MOST: u64 = 1_000_000_000;

/// A node with nothing on it.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    /// Name, unique in the file.
    pub name: String,
    /// Cores, in thousandths.
    pub cpu_milli: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// GPUs.
    pub gpus: usize,
    /// Number of its GPU model, in the order in which the file names models.
    pub model: u8,
}

/// A task, which never ends.
#[derive(Clone, Debug)]
pub struct TaskSpec {
    /// Name.
    pub name: String,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Cores, GPUs and models.
    pub shape: Shape,
    /// Number of its shape: equal shapes have equal numbers.
    pub shape_at: usize,
}

/// A cluster and the tasks that arrive.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The nodes in the file's order.
    pub nodes: Vec<NodeSpec>,
    /// The tasks in the file's order.
    pub tasks: Vec<TaskSpec>,
    /// How many shapes the tasks have.
    pub shapes: usize,
}

impl Trace {
    /// Reads `sn,cpu_milli,memory_mib,gpu,model` and `name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec`. The files' names
    /// are for errors.
    ///
    /// # Errors
    /// A header without one of the columns, or a record that makes no sense.
    pub fn read(nodes: (&str, &str), tasks: (&str, &str)) -> Result<Self, ReadError> {
        let mut models = HashMap::new();
        let nodes = read_nodes(nodes, &mut models)?;
        let mut shapes = HashMap::new();
        let tasks = read_tasks(tasks, &models, &mut shapes)?;
        Ok(Self { nodes, tasks, shapes: shapes.len() })
    }

    /// Adds up the cluster's GPUs.
    #[must_use]
    pub fn gpus(&self) -> usize {
        self.nodes.iter().map(|node| node.gpus).sum()
    }
}

fn narrow<T: TryFrom<u64> + Default>(number: u64) -> T {
    T::try_from(number).unwrap_or_default()
}

fn read_nodes<'a>(
    (file, text): (&'a str, &'a str),
    models: &mut HashMap<&'a str, u8>,
) -> Result<Vec<NodeSpec>, ReadError> {
    let mut table = CsvTable::new(file, text, ["sn", "cpu_milli", "memory_mib", "gpu", "model"])?;
    let mut nodes: Vec<NodeSpec> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    while let Some(record) = table.next() {
        let record = record?;
        let name = record.text(0);
        if name.is_empty() || !seen.insert(name) {
            return Err(record.error(0, "expected a name that no other node has"));
        }
        let known = models.len();
        let model = *models.entry(record.text(4)).or_insert_with(|| narrow(known as u64));
        if models.len() > MOST_MODELS {
            return Err(record.error(4, "more than 64 models"));
        }
        nodes.push(NodeSpec {
            name: name.to_owned(),
            cpu_milli: narrow(record.number(1, MOST)?),
            memory_mib: record.number(2, MOST)?,
            gpus: narrow(record.number(3, MOST_GPUS)?),
            model,
        });
    }
    Ok(nodes)
}

fn read_tasks(
    (file, text): (&str, &str),
    models: &HashMap<&str, u8>,
    shapes: &mut HashMap<Shape, usize>,
) -> Result<Vec<TaskSpec>, ReadError> {
    let columns = ["name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec?"];
    let mut table = CsvTable::new(file, text, columns)?;
    let mut tasks = Vec::new();
    while let Some(record) = table.next() {
        let record = record?;
        let gpus: u8 = narrow(record.number(3, MOST_GPUS)?);
        let milli: u16 = narrow(record.number(4, 1000)?);
        if gpus == 1 && milli == 0 {
            return Err(record.error(4, "expected 1 to 1000 for a task with one GPU"));
        }
        let milli = match gpus {
            0 => 0,
            1 => milli,
            _ => 1000,
        };
        let models = if gpus == 0 { Models::ANY } else { allowed(record.text(5), models) };
        let shape = Shape { cores_milli: narrow(record.number(1, MOST)?), gpus, milli, models };
        let next = shapes.len();
        let shape_at = *shapes.entry(shape).or_insert(next);
        tasks.push(TaskSpec {
            name: record.text(0).to_owned(),
            memory_mib: record.number(2, MOST)?,
            shape,
            shape_at,
        });
    }
    Ok(tasks)
}

/// Reads `T4|P100`; nothing names every model. A model that no node has is left out.
fn allowed(text: &str, models: &HashMap<&str, u8>) -> Models {
    let mut named = text.split('|').map(str::trim).filter(|name| !name.is_empty()).peekable();
    if named.peek().is_none() {
        return Models::ANY;
    }
    named.filter_map(|name| models.get(name)).fold(Models::NONE, |set, &model| set.with(model))
}
