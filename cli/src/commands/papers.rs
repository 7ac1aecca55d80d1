//! `tessera lab papers`: every table of the papers behind Tessera, ours beside theirs, each row with its kind.

use clap::{Args, ValueEnum};
use paper_rows::{PaperTable, markdown};

use super::power;
use crate::outcome::{Failure, Outcome};
use crate::progress::Progress;

/// Batches of each cell of FAR's tables, as many as the paper's.
const BATCHES: u64 = 1000;
/// Streams of each cell of the table on Preserve.
const STREAMS: u64 = 10;

/// Print the tables of the papers, ours beside theirs
///
/// Prints Markdown: the tables and figures of MAPA, CASE, CASE-MIG, FAR and the paper on power caps that need no hardware. Each row
/// has its kind: fitted (parameters were chosen so that it agrees), predicted, by construction, missed (predicted, and too far off
/// or no nearer than a constant), measured (from public measurements) or ours alone. The last column is what the best constant
/// for all rows of that quantity would score. The pages below docs/figures contain what this prints.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  tessera lab papers
  tessera lab papers case case-mig")]
pub(crate) struct PapersArgs {
    /// These papers only
    #[arg(value_name = "PAPER")]
    papers: Vec<Paper>,
}

/// A paper.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Paper {
    /// Ranganath et al., SC '21
    Mapa,
    /// Chen, Porter and Pande, `PPoPP` '22
    Case,
    /// Porter, Chen and Pande, GPGPU '22
    CaseMig,
    /// Villarrubia et al., JPDC 2025
    Far,
    /// Arima et al., ICPP-W '22
    Power,
}

pub(crate) fn run(args: &PapersArgs) -> Result<Outcome, Failure> {
    let wanted = Paper::value_variants().iter().filter(|p| args.papers.is_empty() || args.papers.contains(p));
    let wanted: Vec<Paper> = wanted.copied().collect();
    let bar = Progress::new(wanted.len());
    let mut pages = Vec::new();
    for (done, paper) in wanted.into_iter().enumerate() {
        bar.at(done);
        let tables: Vec<String> = paper.tables()?.iter().map(markdown).collect();
        pages.push(format!("## {}\n\n{}", paper.title(), tables.join("\n")));
    }
    drop(bar);
    Ok(Outcome::ok(pages.join("\n")))
}

impl Paper {
    fn title(self) -> &'static str {
        match self {
            Self::Mapa => "MAPA",
            Self::Case => "CASE",
            Self::CaseMig => "CASE-MIG",
            Self::Far => "FAR",
            Self::Power => "Partition and power cap",
        }
    }

    fn tables(self) -> Result<Vec<PaperTable>, Failure> {
        match self {
            Self::Mapa => Ok(mapa_study::tables(STREAMS)),
            Self::Case => case_study::papers::case().map_err(|e| Failure::of(&e)),
            Self::CaseMig => case_study::papers::case_mig().map_err(|e| Failure::of(&e)),
            Self::Far => Ok(far_study::tables(BATCHES)),
            Self::Power => Ok(vec![power::paper_table()?]),
        }
    }
}
