//! What coefficients are multiplied with.

use power::{Basis, Features, PARTIAL_SOURCES};

/// H and J of one application.
pub(crate) struct Terms {
    pub(crate) own: Vec<f64>,
    pub(crate) partner: Vec<f64>,
}

impl Terms {
    pub(crate) fn of(basis: Basis, features: &Features) -> Self {
        Self { own: basis.own(features), partner: partner(basis, features) }
    }
}

/// ΣJ of the applications other than the one at place `at`.
pub(crate) fn partners(terms: &[&Terms], at: usize) -> Vec<f64> {
    let mut sum = vec![0.0; terms[at].partner.len()];
    for other in terms.iter().enumerate().filter(|(place, _)| *place != at).map(|(_, other)| other) {
        sum.iter_mut().zip(&other.partner).for_each(|(sum, j)| *sum += j);
    }
    sum
}

/// Counts the functions J: coefficients of D.
pub(crate) fn partner_terms(basis: Basis) -> usize {
    match basis {
        Basis::Arima2022 => 3,
        Basis::Tessera | Basis::Dcgm => 4,
    }
}

/// Calculates J of one application beside, J1 first.
pub(crate) fn partner(basis: Basis, [f1, _, f3, f4, _, f6, f7, f8]: &Features) -> Vec<f64> {
    let tensor = (f6 + f7 + f8) / 100.0;
    let compute = f1 / 100.0 - tensor;
    match basis {
        Basis::Arima2022 => vec![f3 / 100.0, f4 / 100.0, 1.0],
        Basis::Tessera | Basis::Dcgm => vec![f3 / 100.0, compute, tensor, 1.0],
    }
}

/// Tells whether counters from this source go with a basis.
pub(crate) fn takes(basis: Basis, source: &str) -> bool {
    (basis == Basis::Dcgm) == PARTIAL_SOURCES.contains(&source)
}

#[cfg(test)]
mod tests {
    use super::*;

    const F: Features = [80.0, 20.0, 12.0, 75.0, 40.0, 10.0, 5.0, 15.0];

    fn check(basis: Basis, want: &[f64]) {
        let have = partner(basis, &F);
        assert!(
            have.len() == want.len() && have.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-12),
            "{basis}"
        );
        assert_eq!(partner_terms(basis), want.len(), "{basis}");
    }

    #[test]
    fn arima2022_is_table_4() {
        check(Basis::Arima2022, &[0.12, 0.75, 1.0]);
    }

    #[test]
    fn ours_know_what_a_neighbour_draws() {
        check(Basis::Tessera, &[0.12, 0.5, 0.3, 1.0]);
        check(Basis::Dcgm, &[0.12, 0.5, 0.3, 1.0]);
    }

    #[test]
    fn dcgm_needs_neither_f2_nor_f4() {
        for (f2, f4) in [(0.0, 0.0), (90.0, 10.0)] {
            let other = [80.0, f2, 12.0, f4, 40.0, 10.0, 5.0, 15.0];
            assert_eq!(partner(Basis::Dcgm, &other), partner(Basis::Dcgm, &F));
        }
    }
}
