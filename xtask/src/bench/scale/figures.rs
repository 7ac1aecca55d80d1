//! Measurements of the rounds, and the rows that they make.

use std::collections::BTreeMap;

use lab::fleet::Controller;

use super::super::stats::Spread;
use super::super::table::{Reference, Row};

/// Values of a round in the order in which they were measured.
#[derive(Debug, Default)]
pub(super) struct Figures {
    /// Cases that were measured and their units, in the order in which it first was.
    cases: Vec<(String, &'static str)>,
    values: BTreeMap<(usize, Controller), BTreeMap<usize, Vec<f64>>>,
}

impl Figures {
    /// Adds a value of a round.
    pub(super) fn add(
        &mut self,
        (controller, round): (Controller, usize),
        case: &str,
        unit: &'static str,
        value: f64,
    ) {
        let known = self.cases.iter().position(|(name, of)| name == case && *of == unit);
        let index = known.unwrap_or_else(|| {
            self.cases.push((case.to_owned(), unit));
            self.cases.len() - 1
        });
        self.values.entry((index, controller)).or_default().entry(round).or_default().push(value);
    }

    /// The spread of the rounds' medians.
    fn spread(&self, index: usize, controller: Controller) -> Option<Spread> {
        let rounds = self.values.get(&(index, controller))?.values();
        let medians: Vec<f64> = rounds.filter_map(|values| Some(Spread::of(values)?.median)).collect();
        Spread::of(&medians)
    }

    /// A row for everything that both controllers have a value of.
    pub(super) fn rows(&self) -> Vec<Row> {
        let row = |(index, (case, unit)): (usize, &(String, &'static str))| {
            let stock = self.spread(index, Controller::Stock)?;
            let ours = self.spread(index, Controller::Tessera)?;
            let reference = Reference::Measured("stock".to_owned(), stock);
            Some(Row { bench: "scale", case: case.clone(), unit, ours, reference })
        };
        self.cases.iter().enumerate().filter_map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::table;
    use super::*;

    #[test]
    fn a_round_counts_once_however_often_it_measured() {
        let mut figures = Figures::default();
        for (round, value) in [(0, 1.0), (0, 1.0), (0, 1.0), (1, 3.0), (2, 5.0)] {
            figures.add((Controller::Stock, round), "backfill, no GPU", "ms/test", value);
            figures.add((Controller::Tessera, round), "backfill, no GPU", "ms/test", 2.0 * value);
        }
        figures.add((Controller::Stock, 0), "only stock", "s", 1.0);
        let expected = "\
| what | unit | stock | Tessera | ratio |
|---|---|---|---|---|
| backfill, no GPU | ms/test | 3.00 (3.00 to 5.00), 3 | 6.00 (6.00 to 10.0), 3 | 2.00 |
";
        assert_eq!(table::markdown(&figures.rows()), expected);
    }
}
