//! The spread of what depends on run times, over twenty fits that all reproduce Table 7.

use paper_rows::{Basis, Measure, PaperRow, PaperTable, RowGroup};

use crate::figures::{MACHINES, MIXES, alg2, case, mean, printed, sa};
use crate::mix::{Machine, Rates, rodinia_with};
use crate::sim::Stuck;

/// Means over the mixes under one fit.
#[derive(Clone, Copy)]
struct Means {
    /// Throughput of CASE over single assignment.
    throughput: f64,
    turnaround: f64,
    /// Throughput of Algorithm 3 over Algorithm 2.
    over_alg2: f64,
    slowdown: f64,
}

/// A mean: its name in the table, its value, and the paper's on P100 and V100.
type ShownMean = (&'static str, fn(&Means) -> f64, fn(usize) -> Option<f64>);

const SHOWN: [ShownMean; 4] = [
    ("Figure 6, CASE, mean", |means| means.throughput, |m| Some(mean(&printed::FIG6_CASE[m]))),
    ("Table 4, mean", |means| means.turnaround, |m| Some(mean(&printed::TABLE4[m]))),
    ("Figure 5, mean", |means| means.over_alg2, |m| (m == 1).then_some(printed::FIG5_MEAN)),
    ("slowdown of CASE, %", |means| means.slowdown, |_| None),
];

fn means(machine: Machine, rates: &Rates) -> Result<Means, Stuck> {
    let mut columns = [const { Vec::new() }; 4];
    for mix in MIXES {
        let jobs = rodinia_with(mix, machine, rates);
        let (base, ours) = (sa(machine, &jobs)?, case(machine, &jobs)?);
        let (versus, over_alg2) = (ours.versus(&base), ours.versus(&alg2(machine, &jobs)?));
        let values = [
            versus.throughput.unwrap_or(f64::NAN),
            versus.turnaround.unwrap_or(f64::NAN),
            over_alg2.throughput.unwrap_or(f64::NAN),
            100.0 * ours.summary.slowdown_mean,
        ];
        columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
    }
    let [throughput, turnaround, over_alg2, slowdown] = columns.map(|column| mean(&column));
    Ok(Means { throughput, turnaround, over_alg2, slowdown })
}

pub(super) fn spread() -> Result<PaperTable, Stuck> {
    let mut groups: Vec<RowGroup> = Vec::new();
    for (m, (machine, name)) in MACHINES.into_iter().enumerate() {
        let first = means(machine, &Rates::first(machine))?;
        let fits = Rates::fits(machine);
        let all = fits.iter().map(|rates| means(machine, rates)).collect::<Result<Vec<_>, _>>()?;
        for (what, of, paper) in SHOWN {
            let values: Vec<f64> = all.iter().map(of).collect();
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let row = PaperRow::new(format!("{what}, {name}"), paper(m), of(&first));
            let rows = vec![PaperRow { spread: Some((least, most)), ..row }];
            let what = format!("{what}, {name}");
            let basis = if what.starts_with("Figure 6") { Basis::Fitted } else { Basis::Predicted };
            groups.push(RowGroup { what, basis, measure: Measure::Ratio, within: 15.0, rows });
        }
    }
    Ok(PaperTable {
        name: "Spread over twenty fits",
        title: "means over W1 to W8 with the rates used here, and the least and most over twenty others that reproduce \
                Table 7's single assignment within 1.75 %"
            .to_owned(),
        groups,
        notes: vec![
            "Sixteen rates stand against sixteen numbers, so Table 7 does not say which rates are right. A row whose spread is wide \
             says little about the model."
                .to_owned(),
        ],
    })
}
