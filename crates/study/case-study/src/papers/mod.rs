//! The tables of both papers with the kind of each row, as `tessera lab papers` prints them.

mod fits;
mod held_out;

use paper_rows::{Basis, Measure, PaperRow, PaperTable, RowGroup};

use crate::figures::{Figure, figure};
use crate::sim::Stuck;

use Basis::{ByConstruction, Fitted, Predicted};
use Measure::{Points, Ratio};

/// Rows of a figure, by words of their labels.
enum Labels {
    /// Labels with one of these words.
    With(&'static [&'static str]),
    /// The label begins with one of the words, and is not that of a mean.
    Each(&'static [&'static str]),
}

use Labels::{Each, With};

impl Labels {
    fn have(&self, label: &str) -> bool {
        match self {
            With(words) => words.iter().any(|word| label.contains(word)),
            Each(words) => words.iter().any(|word| label.starts_with(word)) && !label.contains("mean"),
        }
    }
}

/// Some rows of a figure: what they are together, which they are, how they came about and are compared.
struct FigurePart(&'static str, Labels, Basis, Measure, f64);

/// A figure: its name in [`crate::figures`], its name in the paper, its parts, and what is to be said of it.
struct ShownFigure(&'static str, &'static str, &'static [FigurePart], &'static str);

/// A mean over mixes may be 15 % off, a percentage ten points.
const NEAR: f64 = 15.0;
const POINTS: f64 = 10.0;

const CASE: [ShownFigure; 9] = [
    ShownFigure(
        "fig5",
        "Figure 5",
        &[
            FigurePart("the mean", With(&["mean"]), Predicted, Ratio, NEAR),
            FigurePart("the mixes", Each(&["W"]), Predicted, Ratio, NEAR),
        ],
        FIG_5,
    ),
    ShownFigure(
        "fig6",
        "Figure 6",
        &[
            FigurePart("CASE on P100", With(&["case p100"]), Predicted, Ratio, NEAR),
            FigurePart("CASE on V100", With(&["case v100"]), Predicted, Ratio, NEAR),
            FigurePart("CG on P100", With(&["cg p100"]), Predicted, Ratio, NEAR),
            FigurePart("CG on V100", With(&["cg v100"]), Predicted, Ratio, NEAR),
        ],
        FIG_6,
    ),
    ShownFigure(
        "fig7",
        "Figure 7",
        &[
            FigurePart("single assignment", With(&["sa"]), Predicted, Points, 3.0),
            FigurePart("CASE", With(&["case"]), Predicted, Points, 3.0),
            FigurePart("CG", With(&["cg"]), Predicted, Points, 3.0),
        ],
        FIG_7,
    ),
    ShownFigure(
        "fig8",
        "Figure 8 and section 5.3",
        &[
            FigurePart("eight alike", With(&["predict", "detect", "generate", "train"]), Fitted, Ratio, NEAR),
            FigurePart("128 jobs", With(&["128"]), Predicted, Ratio, NEAR),
        ],
        FIG_8,
    ),
    ShownFigure(
        "fig9",
        "Figure 9",
        &[
            FigurePart("CASE, mean of the four", With(&["case, mean"]), Predicted, Points, POINTS),
            FigurePart("SchedGPU, mean of the four", With(&["schedgpu, mean"]), Predicted, Points, POINTS),
            FigurePart("each workload", Each(&["case ", "schedgpu "]), Predicted, Points, POINTS),
        ],
        FIG_9,
    ),
    ShownFigure(
        "table3",
        "Table 3",
        &[
            FigurePart("crashes on P100", With(&["p100"]), Predicted, Points, POINTS),
            FigurePart("crashes on V100", With(&["v100"]), Predicted, Points, POINTS),
        ],
        "",
    ),
    ShownFigure(
        "table4",
        "Table 4",
        &[
            FigurePart("turnaround on P100", With(&["p100"]), Predicted, Ratio, NEAR),
            FigurePart("turnaround on V100", With(&["v100"]), Predicted, Ratio, NEAR),
        ],
        "",
    ),
    ShownFigure(
        "table6",
        "Table 6",
        &[
            FigurePart("Algorithm 2", With(&["alg2"]), Predicted, Points, 2.5),
            FigurePart("Algorithm 3", With(&["alg3"]), Predicted, Points, 2.5),
        ],
        TABLE_6,
    ),
    ShownFigure(
        "table7",
        "Table 7",
        &[
            FigurePart("single assignment on P100", With(&["sa p100"]), Fitted, Ratio, NEAR),
            FigurePart("single assignment on V100", With(&["sa v100"]), Fitted, Ratio, NEAR),
            FigurePart("Algorithm 2 on V100", With(&["alg2"]), Predicted, Ratio, NEAR),
        ],
        "",
    ),
];

const CASE_MIG: [ShownFigure; 5] = [
    ShownFigure(
        "mig:fig1",
        "Figure 1",
        &[
            FigurePart("mean throughput", With(&["mean throughput"]), Fitted, Ratio, NEAR),
            FigurePart("mean turnaround", With(&["mean turnaround"]), Predicted, Ratio, NEAR),
            FigurePart("isolated jobs alone", With(&[" 1:0 "]), ByConstruction, Ratio, NEAR),
        ],
        "",
    ),
    ShownFigure(
        "mig:fig2",
        "Figure 2",
        &[
            FigurePart("mean throughput", With(&["mean throughput"]), Predicted, Ratio, NEAR),
            FigurePart("mean turnaround", With(&["mean turnaround"]), Predicted, Ratio, NEAR),
        ],
        MIG_FIG_2,
    ),
    ShownFigure(
        "mig:fig3",
        "Figure 3",
        &[
            FigurePart("mean throughput", With(&["mean throughput"]), Predicted, Ratio, NEAR),
            FigurePart("mean turnaround", With(&["mean turnaround"]), Predicted, Ratio, NEAR),
        ],
        "",
    ),
    ShownFigure(
        "mig:fig4",
        "Figure 4",
        &[FigurePart("mean utilisation", With(&["mean"]), Predicted, Ratio, NEAR)],
        "",
    ),
    ShownFigure(
        "mig:table2",
        "Table 2",
        &[FigurePart("slowdowns", With(&["-"]), Predicted, Points, 2.5)],
        MIG_TABLE_2,
    ),
];

const FIG_5: &str = "The paper prints the mean only.";
const FIG_6: &str = "The means of CASE are fitted, by one share of the host for each machine; the pattern over the mixes is not.";
const FIG_7: &str = "The paper also names peaks (78 and 48 %) and a curve over time; neither is made again.";
const FIG_8: &str = "Time and demand of each network are solved from these numbers and Table 8.";
const FIG_9: &str =
    "The paper does not name the workload. Ours is the mean of all four, which differ by a hundred points.";
const TABLE_6: &str = "The paper measures kernels. The artefact has copies, too: 9.5 % on V100 and 32.8 % on P100. A task of ours is \
                       both, and its demand is fitted to the mean of the two.";
const MIG_FIG_2: &str = "The paper's small jobs gain 5 % more than those of Figure 1. Which way ours go hangs on two things that are not printed: with \
                         times in proportion to their memory they gain 12 % less, and with the demand of whole V100s (0.14) nothing more, because what \
                         memory no longer forbids is lost to more neighbours. With the slowdown that Table 2 has, they gain more, as there.";
const MIG_TABLE_2: &str = "The mean of 2.2 % is fitted, by one demand for all jobs; the pattern is not. It has the sign of noise in the paper: one \
                           mix is faster than alone.";

/// Computes the tables of CASE.
///
/// # Errors
///
/// Never for the papers' mixes: their runs end.
pub fn case() -> Result<Vec<PaperTable>, Stuck> {
    let mut all = CASE.iter().map(table).collect::<Result<Vec<_>, _>>()?;
    all.push(held_out::slowdowns()?);
    all.push(held_out::completion()?);
    all.push(held_out::k80()?);
    all.push(fits::spread()?);
    Ok(all)
}

/// Computes the tables of CASE-MIG.
///
/// # Errors
///
/// Never for the papers' mixes: their runs end.
pub fn case_mig() -> Result<Vec<PaperTable>, Stuck> {
    CASE_MIG.iter().map(table).collect()
}

fn table(shown: &ShownFigure) -> Result<PaperTable, Stuck> {
    let ShownFigure(name, in_paper, parts, note) = shown;
    let found = match figure(name, 1) {
        Ok(found) => found,
        Err(crate::figures::FigureError::Stuck(stuck)) => return Err(stuck),
        Err(crate::figures::FigureError::Unknown(_)) => {
            Figure { name, title: "", rows: Vec::new(), goals: Vec::new() }
        }
    };
    let notes = [*note].into_iter().filter(|note| !note.is_empty()).map(str::to_owned).collect();
    let groups = parts.iter().map(|part| group(&found, part)).collect();
    Ok(PaperTable { name: in_paper, title: found.title.to_owned(), groups, notes })
}

fn group(figure: &Figure, part: &FigurePart) -> RowGroup {
    let FigurePart(what, labels, basis, measure, within) = part;
    let rows = figure.rows.iter().filter(|row| labels.have(&row.label));
    let rows = rows.map(|row| PaperRow::new(row.label.clone(), row.paper, row.ours)).collect();
    RowGroup { what: (*what).to_owned(), basis: *basis, measure: *measure, within: *within, rows }
}
