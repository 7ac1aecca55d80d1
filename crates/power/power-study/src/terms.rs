//! What coefficients are multiplied with.

use power::{Basis, Features};

/// H and J of one application.
pub(crate) struct Terms {
    pub(crate) own: Vec<f64>,
    pub(crate) partner: Vec<f64>,
}

impl Terms {
    pub(crate) fn of(basis: Basis, features: &Features) -> Self {
        Self { own: basis.own(features), partner: basis.partner(features) }
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
