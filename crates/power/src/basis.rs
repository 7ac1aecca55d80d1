//! What a counter contributes to a prediction: the basis functions.

use std::fmt;
use std::str::FromStr;

use crate::counters::Features;

/// Functions of the counters: H of the application itself, J of each application beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Table 4 of Arima et al. as printed. It calls H4 "DRAM intensity", but F4 is the L2 hit rate: kept as printed.
    Arima2022,
}

/// There is no basis of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a basis: expected arima2022")]
pub struct BasisError(String);

impl Basis {
    /// The name in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Arima2022 => "arima2022",
        }
    }

    /// How many functions H has: coefficients of C.
    #[must_use]
    pub fn own_terms(self) -> usize {
        match self {
            Self::Arima2022 => 6,
        }
    }

    /// How many functions J has: coefficients of D.
    #[must_use]
    pub fn partner_terms(self) -> usize {
        match self {
            Self::Arima2022 => 3,
        }
    }

    /// H of an application, H1 first. F1 must not be 0.
    #[must_use]
    pub fn own(self, [f1, f2, _, f4, f5, f6, f7, f8]: &Features) -> Vec<f64> {
        match self {
            Self::Arima2022 => {
                let tensor = (f6 + f7 + f8) / 100.0;
                vec![f1 / 100.0 - tensor, tensor, f2 / f1, f4 / 100.0, f5 / 100.0, 1.0]
            }
        }
    }

    /// J of one application beside, J1 first.
    #[must_use]
    pub fn partner(self, [_, _, f3, f4, ..]: &Features) -> Vec<f64> {
        match self {
            Self::Arima2022 => vec![f3 / 100.0, f4 / 100.0, 1.0],
        }
    }
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Basis {
    type Err = BasisError;

    fn from_str(name: &str) -> Result<Self, BasisError> {
        match name {
            "arima2022" => Ok(Self::Arima2022),
            _ => Err(BasisError(name.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arima2022_is_table_4() {
        let f = [80.0, 20.0, 12.0, 75.0, 40.0, 10.0, 5.0, 15.0];
        let near = |have: &[f64], want: &[f64]| have.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-12);
        assert!(near(&Basis::Arima2022.own(&f), &[0.5, 0.3, 0.25, 0.75, 0.4, 1.0]));
        assert!(near(&Basis::Arima2022.partner(&f), &[0.12, 0.75, 1.0]));
        assert_eq!(Basis::Arima2022.own(&f).len(), Basis::Arima2022.own_terms());
        assert_eq!(Basis::Arima2022.partner(&f).len(), Basis::Arima2022.partner_terms());
    }

    #[test]
    fn other_names_are_refused() {
        assert_eq!("arima2022".parse(), Ok(Basis::Arima2022));
        assert_eq!(
            "arima".parse::<Basis>().unwrap_err().to_string(),
            "`arima` is not a basis: expected arima2022"
        );
    }
}
