//! A profile of Nsight Compute as counters: the CSV of its raw page or of its details page.
//!
//! The raw page has a line for each kernel and a column for each metric, below two heads: names and units. The details page
//! has a line for each kernel and metric. Both may stand below other lines that the profiler or the application printed.
//! Numbers may have commas between thousands.

use std::collections::BTreeMap;

use power::csv::CsvError;
use power::{COUNTERS, Features};

/// The time of a kernel, its weight.
const DURATION: &str = "gpu__time_duration.sum";

/// F1 to F8.
const METRICS: [&str; 8] = [
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "lts__t_sector_hit_rate.pct",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "sm__pipe_tensor_op_dmma_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "sm__pipe_tensor_op_imma_cycles_active.avg.pct_of_peak_sustained_elapsed",
];

/// What the sections of the details page call some of them. Another "Memory Throughput" is in bytes per second.
const LABELS: [(&str, &str); 6] = [
    ("Duration", DURATION),
    ("Compute (SM) Throughput", METRICS[0]),
    ("Memory Throughput", METRICS[1]),
    ("DRAM Throughput", METRICS[2]),
    ("L2 Hit Rate", METRICS[3]),
    ("Achieved Occupancy", METRICS[4]),
];

/// An application's kernels, weighted by their time.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// F1 to F8, percent.
    pub features: Features,
    /// How many kernels ran.
    pub kernels: usize,
    /// Compute capability of the GPU, such as `8.0`, where the file has it.
    pub compute_capability: Option<String>,
}

/// The profiler's command line that writes such a file.
#[must_use]
pub fn command() -> String {
    let metrics = [DURATION].into_iter().chain(METRICS).collect::<Vec<_>>().join(",");
    format!("ncu --target-processes all --csv --page raw --log-file ncu.csv --metrics {metrics} APPLICATION")
}

/// One kernel: its line and what is known of it.
#[derive(Default)]
struct Kernel {
    line: usize,
    values: BTreeMap<&'static str, f64>,
}

/// Reads `text`; `file` is its name in errors.
///
/// # Errors
///
/// [`CsvError`]: no table of kernels, a metric that a kernel lacks, a value that is no number, negative or not in percent,
/// two values that disagree, no time at all, or a mean of more than 100 %.
pub fn parse(file: &str, text: &str) -> Result<Profile, CsvError> {
    let error = |line, field, what: String| CsvError { file: file.to_owned(), line, field, what };
    let numbered = text.lines().enumerate().map(|(at, line)| (at + 1, fields(line)));
    let mut rows = numbered.skip_while(|(_, fields)| !fields.iter().any(|field| field == "Kernel Name"));
    let Some((head_line, head)) = rows.next() else {
        let what = "no table of kernels: expected the CSV that ncu --csv prints".to_owned();
        return Err(error(1, "Kernel Name", what));
    };
    let rows: Vec<(usize, Vec<String>)> = rows.filter(|(_, fields)| fields.len() == head.len()).collect();
    let column = |name: &str| head.iter().position(|field| field == name);
    let is_details = column("Metric Name").is_some();
    let read = if is_details { details } else { raw };
    let kernels = read(&head, &rows).map_err(|(line, field, what)| error(line, field, what))?;
    if kernels.is_empty() {
        return Err(error(head_line, "Kernel Name", "no kernel ran".to_owned()));
    }
    let cc =
        column("CC").and_then(|at| rows.iter().map(|(_, row)| row[at].clone()).find(|cc| !cc.is_empty()));
    let features = weighted(head_line, &kernels).map_err(|(line, field, what)| error(line, field, what))?;
    Ok(Profile { features, kernels: kernels.len(), compute_capability: cc })
}

type Wrong = (usize, &'static str, String);

/// Means over all kernels, weighted by time.
fn weighted(head_line: usize, kernels: &[Kernel]) -> Result<Features, Wrong> {
    let of = |kernel: &Kernel, metric: &'static str| {
        let missing =
            || (kernel.line, metric, "the metric is missing: profile again with all of --command".to_owned());
        kernel.values.get(metric).copied().ok_or_else(missing)
    };
    let times = kernels.iter().map(|kernel| of(kernel, DURATION)).collect::<Result<Vec<_>, _>>()?;
    let total: f64 = times.iter().sum();
    if total <= 0.0 {
        return Err((head_line, DURATION, "the kernels took no time".to_owned()));
    }
    let mut features = [0.0; 8];
    for (at, metric) in METRICS.into_iter().enumerate() {
        for (kernel, time) in kernels.iter().zip(&times) {
            features[at] += of(kernel, metric)? * time / total;
        }
        if features[at] > 100.0 {
            return Err((head_line, metric, format!("the mean of {} is above 100 %", features[at])));
        }
    }
    if features[0] <= 0.0 {
        let what = format!("{} is 0: profile the whole application", COUNTERS[0]);
        return Err((head_line, METRICS[0], what));
    }
    Ok(features)
}

/// A line for each kernel, a column for each metric.
fn raw(head: &[String], rows: &[(usize, Vec<String>)]) -> Result<Vec<Kernel>, Wrong> {
    // The line of units has no kernel.
    let name = head.iter().position(|field| field == "Kernel Name").unwrap_or(0);
    let (units, rows): (Vec<_>, Vec<_>) = rows.iter().partition(|(_, row)| row[name].is_empty());
    let unit = |at: usize| units.first().map_or("", |(_, row)| row[at].as_str());
    let mut kernels = Vec::new();
    for (line, row) in rows {
        let mut kernel = Kernel { line: *line, ..Kernel::default() };
        for (at, field) in head.iter().enumerate() {
            if let Some(metric) = metric(field, "%") {
                kernel.add(*line, metric, unit(at), &row[at])?;
            }
        }
        kernels.push(kernel);
    }
    Ok(kernels)
}

/// A line for each kernel and metric.
fn details(head: &[String], rows: &[(usize, Vec<String>)]) -> Result<Vec<Kernel>, Wrong> {
    let of = |row: &[String], name: &str| {
        head.iter().position(|field| field == name).map_or_else(String::new, |at| row[at].clone())
    };
    let mut kernels: Vec<Kernel> = Vec::new();
    let mut known: BTreeMap<[String; 2], usize> = BTreeMap::new();
    for (line, row) in rows {
        let id = ["Process ID", "ID"].map(|name| of(row, name));
        let place = *known.entry(id).or_insert(kernels.len());
        if place == kernels.len() {
            kernels.push(Kernel { line: *line, ..Kernel::default() });
        }
        let unit = of(row, "Metric Unit");
        if let Some(metric) = metric(&of(row, "Metric Name"), &unit) {
            kernels[place].add(*line, metric, &unit, &of(row, "Metric Value"))?;
        }
    }
    Ok(kernels)
}

/// The metric that a name or, with this unit, a label stands for.
fn metric(name: &str, unit: &str) -> Option<&'static str> {
    let known = METRICS.into_iter().chain([DURATION]).find(|metric| *metric == name);
    let label = || LABELS.into_iter().find(|(label, of)| *label == name && (*of == DURATION || unit == "%"));
    known.or_else(|| label().map(|(_, metric)| metric))
}

impl Kernel {
    fn add(&mut self, line: usize, metric: &'static str, unit: &str, word: &str) -> Result<(), Wrong> {
        // A metric that could not be collected is empty or n/a.
        if word.is_empty() || word.eq_ignore_ascii_case("n/a") {
            return Ok(());
        }
        let number = word.replace(',', "").parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
        let number =
            number.ok_or_else(|| (line, metric, format!("`{word}` is not a number of at least 0")))?;
        let scale = match (metric, unit) {
            (DURATION, "" | "ns" | "nsecond") => 1.0,
            (DURATION, "us" | "usecond") => 1e3,
            (DURATION, "ms" | "msecond") => 1e6,
            (DURATION, "s" | "second") => 1e9,
            (metric, "" | "%") if metric != DURATION => 1.0,
            _ => return Err((line, metric, format!("the unit `{unit}` is unknown"))),
        };
        match self.values.insert(metric, number * scale) {
            // The page rounds times to its unit, so two sections may differ a little.
            Some(before) if (before - number * scale).abs() > 0.01 * before.abs().max(0.01) => {
                Err((line, metric, format!("{word} disagrees with another value of this kernel")))
            }
            _ => Ok(()),
        }
    }
}

/// The fields of a line; quoted ones may hold commas, and a doubled quote is one.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut is_quoted) = (vec![String::new()], false);
    let mut letters = line.trim().chars().peekable();
    while let Some(letter) = letters.next() {
        let end = fields.len() - 1;
        match letter {
            '"' if is_quoted && letters.peek() == Some(&'"') => fields[end].extend(letters.next()),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(String::new()),
            _ => fields[end].push(letter),
        }
    }
    fields
}
