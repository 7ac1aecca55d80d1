//! `cargo xtask slurm-table TREE…`: where the fields of Slurm's structures lie in a source tree, written into the tables.
//!
//! The rows of the tables say what is looked for. A C function has each of them as a constant in its assembly, so the compiler of another
//! processor does, too: nothing is run. A row that the compiler refuses is something that the release does not have. A tree need
//! not be configured: of `config.h` and `slurm_version.h` no more is needed than what is written here.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use lab::paths::workspace;
use lab::table_entry::entry;
use slurm_tables::table::{BadRow, Cell};
use slurm_tables::{TABLES, Tables, Version};

use crate::command::{TaskError, at};

/// Options of `slurm-table`.
#[derive(Args)]
pub(crate) struct SlurmTable {
    /// Source trees of Slurm, as its releases are published
    #[arg(required = true)]
    trees: Vec<PathBuf>,
    /// The table to write to, instead of Tessera's own
    #[arg(long)]
    table: Option<PathBuf>,
    /// The processor that the table is for: x86_64 or aarch64. For another than this machine's, gcc for it must be installed
    #[arg(long, default_value = std::env::consts::ARCH, value_parser = ["x86_64", "aarch64"])]
    arch: String,
}

/// Headers that have the structures; those that a release lacks are left out.
const HEADERS: [&str; 16] = [
    "slurm/slurm.h",
    "slurm/slurm_errno.h",
    "slurm/slurmdb.h",
    "slurm/spank.h",
    "src/interfaces/gres.h",
    "src/common/gres.h",
    "src/interfaces/select.h",
    "src/common/select.h",
    "src/interfaces/acct_gather.h",
    "src/common/slurm_acct_gather.h",
    "src/common/assoc_mgr.h",
    "src/common/read_config.h",
    "src/common/run_in_daemon.h",
    "src/slurmctld/slurmctld.h",
    "src/slurmd/slurmd/slurmd.h",
    "src/slurmd/slurmstepd/slurmstepd_job.h",
];

/// Rows of the functions that Slurm looks up in a plugin of the kinds that Tessera has begin so.
const ASKED: &str = "asked.";
/// Files in which Slurm lists these functions, with the first of each list. Before 23.02 the files are elsewhere.
const LISTS: [(&str, &str, &str); 4] = [
    ("src/interfaces/select.c", "src/common/select.c", "plugin_id"),
    ("src/interfaces/job_submit.c", "src/slurmctld/job_submit.c", "job_submit"),
    (
        "src/interfaces/acct_gather_energy.c",
        "src/common/slurm_acct_gather_energy.c",
        "acct_gather_energy_p_update_node_energy",
    ),
    (
        "src/interfaces/acct_gather_interconnect.c",
        "src/common/slurm_acct_gather_interconnect.c",
        "acct_gather_interconnect_p_node_update",
    ),
];

/// Lines of `config.h` that the headers need.
const CONFIG: &str = "#define HAVE_CONFIG_H 1\n#define WITH_PTHREADS 1\n#define PRECISE 1\n#define _GNU_SOURCE 1\n\
    #define SLURM_MAJOR \"0\"\n#define SLURM_MICRO \"0\"\n#define SLURM_API_CURRENT 0\n#define SLURM_API_MAJOR 0\n";

/// Writes the rows of these trees into the table.
pub(crate) fn run(options: &SlurmTable) -> Result<(), TaskError> {
    let is_other = options.arch != "x86_64" && options.table.is_none();
    let name = if is_other { "aarch64.txt" } else { "slurm.txt" };
    let file = workspace().join("crates/kernel/slurm-tables/data").join(name);
    let file = options.table.as_deref().unwrap_or(&file);
    let bad = |why: String| TaskError::Other(format!("{}: {why}", file.display()));
    let known = |text: &str| if is_other { Tables::known(&options.arch) } else { Tables::parse(text) };
    let (mut table, head) = match fs::read_to_string(file) {
        Ok(text) => (known(&text).map_err(|why| bad(why.to_string()))?, head(&text)),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            (rows_alone().map_err(|why| bad(why.to_string()))?, HEAD.to_owned())
        }
        Err(error) => return at(file, Err(error)),
    };
    let fresh: Vec<String> =
        table.rows.iter().filter(|(_, row)| row.is_empty()).map(|(name, _)| name.clone()).collect();
    let mut seen = Vec::new();
    for tree in &options.trees {
        let version = version_of(tree)?;
        let found = add_tree(&mut table, tree, version, &options.arch)?;
        table.layout(version).map_err(|why| bad(why.to_string()))?;
        eprintln!("{version}: {found} rows");
        seen.push(version);
    }
    let others = table.releases.iter().filter(|version| !seen.contains(version));
    let others: Vec<String> = others.map(ToString::to_string).collect();
    if !fresh.is_empty() && !others.is_empty() {
        eprintln!(
            "new rows, {}: not looked up in {}, of which no tree was given",
            fresh.join(", "),
            others.join(" ")
        );
    }
    if is_other {
        let all = Tables::parse(TABLES).map_err(|why| bad(why.to_string()))?;
        table.rows.retain(|name, row| all.rows.get(name) != Some(row));
    }
    at(file, fs::write(file, written(&table, &head)))
}

/// The comment that a new table begins with.
const HEAD: &str = "# Where the fields of Slurm's structures lie, by release: see src/table.rs. `cargo xtask slurm-table TREE` adds a release.\n";

/// The comment that a table begins with.
fn head(text: &str) -> String {
    text.split_inclusive('\n').take_while(|line| line.starts_with('#')).collect()
}

/// Tessera's rows, without what they say of any release: a new table looks for the same.
fn rows_alone() -> Result<Tables, BadRow> {
    let known = Tables::parse(TABLES)?;
    let fields = known.rows.into_keys().filter(|row| !row.starts_with(ASKED));
    Ok(Tables { releases: Vec::new(), rows: fields.map(|row| (row, BTreeMap::new())).collect() })
}

/// Compares a source tree with its release in Tessera's tables; an error names what lies elsewhere.
pub(crate) fn compare(tree: &Path) -> Result<String, TaskError> {
    let version = version_of(tree)?;
    let bad = |why: String| TaskError::Other(format!("{}: {why}", tree.display()));
    let arch = std::env::consts::ARCH;
    let known = Tables::known(arch).map_err(|why| bad(why.to_string()))?;
    known.layout(version).map_err(|why| bad(why.to_string()))?;
    let mut found = known.clone();
    add_tree(&mut found, tree, version, arch)?;
    let other = found.rows.iter().find(|(name, row)| known.rows.get(*name) != Some(*row));
    match other {
        Some((name, _)) => Err(bad(format!("{name} is not as the table of Slurm {version} says"))),
        None => Ok(format!("as in the source of Slurm {version}, {} rows", known.rows.len())),
    }
}

/// Adds what a tree has to the tables; gives the number of rows.
fn add_tree(table: &mut Tables, tree: &Path, version: Version, arch: &str) -> Result<usize, TaskError> {
    let fields = table.rows.keys().filter(|row| !row.starts_with(ASKED)).map(String::as_str);
    let mut found = look(tree, version, arch, fields)?;
    for symbol in asked(tree)? {
        let row = format!("{ASKED}{symbol}");
        table.rows.entry(row.clone()).or_default();
        found.insert(row, Cell::Number(1));
    }
    add(table, version, &found);
    Ok(found.len())
}

/// The version of a tree, as its file META says.
fn version_of(tree: &Path) -> Result<Version, TaskError> {
    let meta = tree.join("META");
    let text = at(&meta, fs::read_to_string(&meta))?;
    let said = text.lines().find_map(|line| line.trim().strip_prefix("Version:"));
    let unexpected = |why: String| TaskError::Other(format!("{}: {why}", meta.display()));
    let said = said.ok_or_else(|| unexpected("no version in it".to_owned()))?;
    said.trim().parse().map_err(|why: slurm_tables::BadVersion| unexpected(why.to_string()))
}

/// Makes rows complete for one release, and leaves the others as they were.
fn add(table: &mut Tables, version: Version, found: &BTreeMap<String, Cell>) {
    let is_new = !table.releases.contains(&version);
    if is_new {
        table.releases.push(version);
        table.releases.sort_unstable();
    }
    for (name, row) in &mut table.rows {
        let cell = |of: Version| row.range(..=of).next_back().map_or(Cell::Absent, |(_, cell)| *cell);
        let all: Vec<(Version, Cell)> = table
            .releases
            .iter()
            .map(|of| {
                (
                    *of,
                    if *of == version { found.get(name).copied().unwrap_or(Cell::Absent) } else { cell(*of) },
                )
            })
            .collect();
        row.clear();
        for (of, cell) in all {
            if row.last_key_value().is_none_or(|(_, before)| *before != cell) {
                row.insert(of, cell);
            }
        }
    }
}

/// The text of a table, with the comment before it.
fn written(table: &Tables, head: &str) -> String {
    let mut text = head.to_owned();
    let releases: Vec<String> = table.releases.iter().map(ToString::to_string).collect();
    let _ = writeln!(text, "releases {}", releases.join(" "));
    for (name, row) in &table.rows {
        text.push_str(name);
        for (from, cell) in row {
            let _ = write!(text, " {from}={}", entry(*cell));
        }
        text.push('\n');
    }
    text
}

/// The functions that Slurm looks up in its plugins, by the lists in its source.
fn asked(tree: &Path) -> Result<Vec<String>, TaskError> {
    let mut all = Vec::new();
    for (now, before, first) in LISTS {
        let text = fs::read_to_string(tree.join(now)).or_else(|_| fs::read_to_string(tree.join(before)));
        let found = text.ok().and_then(|text| listed(&text, first));
        let missing = || TaskError::Other(format!("{}: no list from {first} on in {now}", tree.display()));
        all.extend(found.ok_or_else(missing)?);
    }
    Ok(all)
}

/// The strings of the C array that begins with `first`.
fn listed(source: &str, first: &str) -> Option<Vec<String>> {
    let begin = source.find(&format!("\"{first}\""))?;
    let array = source[begin..].split('}').next()?;
    Some(array.split('"').skip(1).step_by(2).map(str::to_owned).collect())
}

/// Asks the compiler for each row.
fn look<'a>(
    tree: &Path,
    version: Version,
    arch: &str,
    rows: impl Iterator<Item = &'a str>,
) -> Result<BTreeMap<String, Cell>, TaskError> {
    let dir = at(Path::new("a scratch directory"), tempfile::tempdir())?;
    let scratch = dir.path();
    at(scratch, fs::create_dir_all(scratch.join("slurm")))?;
    let number = format!(
        "#define SLURM_VERSION_NUM(a,b,c) (((a)<<16)+((b)<<8)+(c))\n#define SLURM_VERSION_NUMBER {}\n",
        version.0
    );
    for (name, made) in [("config.h", CONFIG.to_owned()), ("slurm/slurm_version.h", number)] {
        if !tree.join(name).is_file() {
            at(scratch, fs::write(scratch.join(name), made))?;
        }
    }
    let mut probes: Vec<Probe> = rows.flat_map(Probe::all).collect();
    // The compiler names the lines that it refuses: once for names, once more for what the first left unseen.
    for _ in 0..4 {
        let source = scratch.join("probe.c");
        at(&source, fs::write(&source, function(tree, &probes)))?;
        let mut compile = Command::new(compiler(arch));
        compile.args(["-S", "-o", "-", "-w", "-fmax-errors=0", "-fno-diagnostics-show-caret"]);
        compile.arg("-I").arg(scratch).arg("-I").arg(tree).arg(&source);
        let done = lab::command::run(&mut compile)?;
        if done.code == Some(0) {
            return Ok(read(&done.stdout));
        }
        let refused = refused_lines(&done.stderr);
        if refused.is_empty() {
            return Err(TaskError::Other(format!("{}: cc: {}", tree.display(), done.stderr)));
        }
        let mut line = 0;
        probes.retain(|_| {
            line += 1;
            !refused.contains(&line)
        });
    }
    Err(TaskError::Other(format!("{}: cc refuses the rows in every form", tree.display())))
}

/// The C compiler for a processor, as Debian calls it.
fn compiler(arch: &str) -> String {
    if arch == std::env::consts::ARCH { "cc".to_owned() } else { format!("{arch}-linux-gnu-gcc") }
}

/// Begins the lines of the assembly that have a row.
const MARK: &str = "->";

/// A statement of C that puts a row into the assembly, in one of the forms that C may have it.
struct Probe(String);

impl Probe {
    /// The forms of a row: a type has a name that ends in `_t`, or is a `struct`; a value may have several names.
    fn all(row: &str) -> Vec<Self> {
        let of = Self;
        if row.chars().next().is_some_and(char::is_uppercase) {
            let value = |name: &str| {
                // An operand has at most 32 bits on x86-64.
                let half = |bits: u8| format!("\"i\" ((int) ((unsigned long long) ({name}) >> {bits}))");
                of(format!("asm volatile(\"\\n{MARK}{row} %c0,%c1\" :: {}, {});", half(32), half(0)))
            };
            return row.split('|').map(value).collect();
        }
        let (structure, field) = row.split_once('.').unwrap_or((row, ""));
        let form = |name: String| {
            of(if field.is_empty() {
                format!("asm volatile(\"\\n{MARK}{row} %c0\" :: \"i\" (sizeof({name})));")
            } else {
                format!(
                    "asm volatile(\"\\n{MARK}{row} %c0:%c1\" :: \"i\" (offsetof({name}, {field})), \"i\" (sizeof((({name} *) 0)->{field})));"
                )
            })
        };
        vec![form(format!("{structure}_t")), form(format!("struct {structure}"))]
    }
}

/// Writes the function: a line for each row, the first of them line 1.
fn function(tree: &Path, probes: &[Probe]) -> String {
    let mut text = String::from("#include \"config.h\"\n#include <stddef.h>\n");
    for header in HEADERS.iter().filter(|header| tree.join(header).is_file()) {
        let _ = writeln!(text, "#include \"{header}\"");
    }
    text.push_str("void rows(void) {\n#line 1 \"rows\"\n");
    probes.iter().for_each(|probe| {
        text.push_str(&probe.0);
        text.push('\n');
    });
    text.push_str("}\n");
    text
}

/// The lines of the rows that the compiler names.
fn refused_lines(said: &str) -> Vec<usize> {
    let line = |said: &str| said.strip_prefix("rows:")?.split(':').next()?.parse().ok();
    said.lines().filter(|said| said.contains("error:")).filter_map(line).collect()
}

/// Reads the rows in the assembly.
fn read(assembly: &str) -> BTreeMap<String, Cell> {
    let row = |line: &str| {
        let (name, cell) = line.strip_prefix(MARK)?.split_once(' ')?;
        let cell = if let Some((position, bytes)) = cell.split_once(':') {
            Cell::Field { position: position.parse().ok()?, bytes: bytes.parse().ok()? }
        } else if let Some((high, low)) = cell.split_once(',') {
            let half = |text: &str| text.parse::<i32>().ok().map(|half| u64::from(half.cast_unsigned()));
            Cell::Number(half(high)? << 32 | half(low)?)
        } else {
            Cell::Number(cell.parse().ok()?)
        };
        Some((name.to_owned(), cell))
    };
    assembly.lines().filter_map(row).collect()
}
