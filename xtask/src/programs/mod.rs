//! `cargo xtask programs`: programs that others wrote, compiled with the pass of `contrib/case-pass`: which tasks it finds,
//! whether they do the same with it, and what they ask for compared with CASE's artefact.

mod asks;
mod compile;
mod headers;
mod inputs;
mod list;
mod report;
mod runs;
mod table;

use std::fs;
use std::path::PathBuf;

use clap::Args;
use lab::case_node::{CaseNode, TaskLibrary, build_simulator};

use crate::command::{TaskError, absolute, at};
use asks::AskedCommand;
use compile::{Built, Tools};
use list::Program;
use report::ReportedTask;
use runs::Comparison;

/// Options of `programs`.
#[derive(Args)]
pub(crate) struct Programs {
    /// Directory with the programs' sources, such as Rodinia's or Darknet's; may be given several times
    #[arg(long, required = true)]
    sources: Vec<PathBuf>,
    /// Directory into which pip has installed NVIDIA's headers; without it, the simulator's own are used
    #[arg(long)]
    cuda: Option<PathBuf>,
    /// List of programs; without it, those of CASE's artefact
    #[arg(long)]
    list: Option<PathBuf>,
    /// Also ask for the tasks of CASE's Table 1, at its sizes: takes minutes and gigabytes of memory
    #[arg(long)]
    table1: bool,
    /// Leave what is compiled in this directory
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// Results for one program.
struct Findings {
    program: Program,
    tasks: Vec<ReportedTask>,
    runs: Vec<Comparison>,
    asks: Vec<AskedCommand>,
}

/// Compiles, runs and asks, and prints the tables.
#[expect(clippy::print_stdout, reason = "the result of the task")]
pub(crate) fn run(options: &Programs) -> Result<(), TaskError> {
    let list = list::read(options.list.as_deref())?;
    let scratch = at(&std::env::temp_dir(), tempfile::tempdir())?;
    let dir = options.dir.as_deref().map_or_else(|| Ok(scratch.path().to_owned()), absolute)?;
    at(&dir, fs::create_dir_all(&dir))?;
    let sources = options.sources.iter().map(|d| absolute(d)).collect::<Result<Vec<_>, _>>()?;
    build_simulator()?;
    let (double, asking) = (CaseNode::create(TaskLibrary::Double)?, CaseNode::create(TaskLibrary::Asks)?);
    double.add("still.cpp", "still.so")?;
    double.add("libraries.cpp", "libraries.so")?;
    let tools = Tools::new(options.cuda.as_deref(), &dir, &double)?;
    let mut all = Vec::new();
    for program in list {
        let Some(root) = list::root(&program, &sources)? else {
            eprintln!("programs: {}: no directory {} below the sources", program.name, program.directory);
            continue;
        };
        eprintln!("programs: {} in {}", program.name, root.display());
        let built = tools.build(&program, &root, &dir.join(&program.name))?;
        all.push(found(program, &built, &double, options.table1.then_some(&asking))?);
    }
    if all.is_empty() {
        return Err(TaskError::Other(
            "no program of the list is below the directories of --sources".to_owned(),
        ));
    }
    print!("{}", table::markdown(&all));
    Ok(())
}

/// Runs and asks one program that is compiled.
fn found(
    program: Program,
    built: &Built,
    double: &CaseNode,
    asking: Option<&CaseNode>,
) -> Result<Findings, TaskError> {
    let tasks = report::tasks(&built.report)?;
    let mut runs = Vec::new();
    for arguments in program.runs.iter().filter(|_| built.kernels_missing.is_none()) {
        runs.push(runs::compare(built, arguments, double)?);
    }
    if let Some(why) = &built.kernels_missing {
        runs.push(Comparison::not_run(why));
    }
    let asks = match asking {
        Some(node) => asks::of(&program, built, node)?,
        None => Vec::new(),
    };
    Ok(Findings { program, tasks, runs, asks })
}
