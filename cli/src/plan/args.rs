//! The command line of `tessera plan`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use placement::far::Policy;

use crate::args::ColorWhen;

/// Plan a batch of tasks on GPUs that repartition
///
/// Given how long each task takes on an instance of each size, decides which instance each runs on and when instances
/// are made and unmade, so that the last task ends early. The answer says how far from the best possible it can be at
/// most. The same input and budget give the same plan on every machine. Times are seconds.
///
/// FILE has one JSON object a line, or is CSV. A line with "t" as a list of lists is a batch of its own:
/// {"id":"a","t":[[60,35,30,28,20],[40,22,20,19,15]]}, one list per task with a time per size, null where the task cannot
/// run. A line with "t" as one list is one task of a single batch; "name" is optional. CSV has a header of "name" and
/// sizes (name,1g,2g,3g,4g,7g), one task a line, an empty field where the task cannot run.
///
/// Policies: tessera (the default), far (the published algorithm), miso, fixpart-best, fixpart:SIZES such as
/// fixpart:4,2,1. A fixed partition is there from the beginning and costs nothing.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  tessera plan --gpu a100-40gb --tasks batch.csv
  tessera plan --gpu a30-24gb,2 --tasks batch.csv --compare
  tessera plan --gpu a100-40gb --tasks batch.csv --svg plan.svg
  tessera plan --tasks batches.jsonl --policy far --json")]
pub(crate) struct PlanArgs {
    /// The GPU model, and how many of them
    ///
    /// A model's key or NVML name. The GPUs are on one node: all their reconfigurations follow one another. Not needed
    /// where each batch names its own in "gpu": a key, or A30, A100, H100.
    #[arg(long, value_name = "MODEL[,N]", value_parser = gpu)]
    pub(crate) gpu: Option<(String, usize)>,
    /// Read tasks from FILE, - for standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) tasks: PathBuf,
    /// How to plan
    #[arg(long, value_name = "POLICY", default_value = "tessera", conflicts_with = "compare")]
    pub(crate) policy: Policy,
    /// Read how long creating and destroying instances takes from FILE
    ///
    /// CSV with the header size,create,destroy and a line per size: 1g,0.16,0.20. Without it: what the authors of FAR
    /// measured on A30, A100 and H100.
    #[arg(long, value_name = "FILE")]
    pub(crate) times: Option<PathBuf>,
    /// How long the default policy may search, such as 50ms or 2s
    ///
    /// Counted in steps of about that length, so that the plan does not depend on the machine.
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = budget)]
    pub(crate) budget: Duration,
    /// Print all policies side by side
    #[arg(long, conflicts_with_all = ["json", "svg"])]
    pub(crate) compare: bool,
    /// Print one JSON object per batch
    #[arg(long, conflicts_with = "svg")]
    pub(crate) json: bool,
    /// Write a picture to FILE, - for standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Use colour
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorWhen,
}

fn gpu(text: &str) -> Result<(String, usize), String> {
    let (model, count) = text.rsplit_once(',').unwrap_or((text, "1"));
    match count.trim().parse() {
        Ok(count @ 1..=64) => Ok((model.trim().to_owned(), count)),
        _ => Err(format!("{count:?} is not a number of GPUs (1 to 64)")),
    }
}

fn budget(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a time such as 50ms or 2s, at most 1h");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let milliseconds = match &text[digits.len()..] {
        "ms" | "" => number,
        "s" => number.saturating_mul(1000),
        _ => return Err(wrong()),
    };
    if milliseconds <= 3_600_000 { Ok(Duration::from_millis(milliseconds)) } else { Err(wrong()) }
}
