//! The contribution of a counter to a prediction: the basis functions.

use std::fmt;
use std::str::FromStr;

use crate::features::Features;

/// Chooses the functions of the counters: H of the application itself, J of each application beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Table 4 of Arima et al. as printed. It calls H4 "DRAM intensity", but F4 is the L2 hit rate: kept as printed.
    Arima2022,
    /// Ours. H3 is bounded, H4 is the DRAM throughput, and J has what a neighbour draws instead of its hit rate: compute and
    /// tensor intensity, because a hungry neighbour lowers everybody's clock. Never falls where the cap rises.
    Tessera,
    /// Ours for sources without F2 and F4. Never falls where the cap rises.
    Dcgm,
}

/// Says that there is no basis of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a basis: expected tessera, arima2022 or dcgm")]
pub struct BasisError(String);

/// Says which counters a model takes: those of one GPU model, by one tool, for one basis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inputs<'m> {
    /// Key of the GPU model.
    pub gpu: &'m str,
    /// The tool that counted.
    pub source: &'m str,
    /// The functions that the counters go into.
    pub basis: Basis,
}

impl Basis {
    /// Gives the name in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Arima2022 => "arima2022",
            Self::Tessera => "tessera",
            Self::Dcgm => "dcgm",
        }
    }

    /// Counts the functions H: coefficients of C.
    #[must_use]
    pub fn own_terms(self) -> usize {
        match self {
            Self::Arima2022 | Self::Tessera => 6,
            Self::Dcgm => 5,
        }
    }

    /// Calculates H of an application, H1 first. F1 must not be 0.
    #[must_use]
    pub fn own(self, [f1, f2, f3, f4, f5, f6, f7, f8]: &Features) -> Vec<f64> {
        let tensor = (f6 + f7 + f8) / 100.0;
        let compute = f1 / 100.0 - tensor;
        match self {
            Self::Arima2022 => vec![compute, tensor, f2 / f1, f4 / 100.0, f5 / 100.0, 1.0],
            Self::Tessera => vec![compute, tensor, f2 / (f1 + f2), f3 / 100.0, f5 / 100.0, 1.0],
            Self::Dcgm => vec![compute, tensor, f3 / (f1 + f3), f5 / 100.0, 1.0],
        }
    }

    /// Tells whether a counter is needed: 0 is F1.
    #[must_use]
    pub fn needs(self, counter: usize) -> bool {
        self != Self::Dcgm || !matches!(counter, 1 | 3)
    }

    /// Tells whether predictions are made to never fall where the cap rises.
    #[must_use]
    pub fn never_falls(self) -> bool {
        self != Self::Arima2022
    }
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Basis {
    type Err = BasisError;

    fn from_str(name: &str) -> Result<Self, BasisError> {
        let all = [Self::Arima2022, Self::Tessera, Self::Dcgm];
        all.into_iter().find(|basis| basis.name() == name).ok_or_else(|| BasisError(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const F: Features = [80.0, 20.0, 12.0, 75.0, 40.0, 10.0, 5.0, 15.0];

    fn check(basis: Basis, own: &[f64]) {
        let near = |have: &[f64], want: &[f64]| {
            have.len() == want.len() && have.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-12)
        };
        assert!(near(&basis.own(&F), own), "{basis}");
        assert_eq!(basis.own_terms(), own.len(), "{basis}");
        assert_eq!(basis.name().parse(), Ok(basis));
    }

    #[test]
    fn arima2022_is_table_4() {
        check(Basis::Arima2022, &[0.5, 0.3, 0.25, 0.75, 0.4, 1.0]);
    }

    #[test]
    fn ours_are_bounded() {
        check(Basis::Tessera, &[0.5, 0.3, 0.2, 0.12, 0.4, 1.0]);
        check(Basis::Dcgm, &[0.5, 0.3, 12.0 / 92.0, 0.4, 1.0]);
    }

    #[test]
    fn dcgm_needs_neither_f2_nor_f4() {
        for (f2, f4) in [(0.0, 0.0), (90.0, 10.0)] {
            let other = [80.0, f2, 12.0, f4, 40.0, 10.0, 5.0, 15.0];
            assert_eq!(Basis::Dcgm.own(&other), Basis::Dcgm.own(&F));
        }
        assert_eq!((0..8).filter(|at| !Basis::Dcgm.needs(*at)).collect::<Vec<_>>(), [1, 3]);
    }

    #[test]
    fn other_names_are_refused() {
        assert_eq!(
            "arima".parse::<Basis>().unwrap_err().to_string(),
            "`arima` is not a basis: expected tessera, arima2022 or dcgm"
        );
    }
}
