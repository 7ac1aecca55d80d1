//! How the bandwidth of a match (EffBW) is predicted, and what a match scores, as data. `mapa` computes both.

/// The coefficients of Equation 2 as MAPA's program has them; the paper's Table 2 cuts them to three places.
///
/// Source: `Allocation::getPredictedBW` in socal-ucr/MAPA@15e58ab, src/Props.hh.
pub const THETA: [f64; 14] = [
    16.39670455,
    4.536821878,
    1.55623404,
    -20.69484581,
    -9.467461958,
    7.615106783,
    -7.973335727,
    12.73323772,
    -4.195655221,
    -8.413419363,
    62.85125807,
    27.41832588,
    -5.114108079,
    -46.97390071,
];

/// The weights that the bottleneck model gives its two bounds; each is at least 0 and at most 10.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coefficients {
    /// Weight of the slowest edge of the pattern.
    pub slowest: f64,
    /// Weight of the least that one GPU of the set can send to the others.
    pub sends: f64,
}

impl Default for Coefficients {
    /// Least squares over MAPA's measured range gives 0.763 and 0.431 (`docs/decisions`); scaled to add up to 1, so
    /// that two GPUs are predicted the rate of their link, and no set more than its GPUs can send.
    fn default() -> Self {
        Self { slowest: 0.64, sends: 0.36 }
    }
}

impl Coefficients {
    /// The coefficients, or `None` if they would make the model decrease with bandwidth or its sums infinite.
    #[must_use]
    pub fn new(slowest: f64, sends: f64) -> Option<Self> {
        let fine = |c: f64| (0.0..=10.0).contains(&c);
        (fine(slowest) && fine(sends) && slowest + sends > 0.0).then_some(Self { slowest, sends })
    }
}

/// The model that predicts EffBW.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BandwidthModel {
    /// Equation 2, exactly.
    Mapa2021,
    /// `slowest * (slowest edge) + sends * (least that one GPU can send within the set)`: monotone in every link.
    Bottleneck(Coefficients),
}

impl Default for BandwidthModel {
    fn default() -> Self {
        Self::Bottleneck(Coefficients::default())
    }
}

impl BandwidthModel {
    /// The name in options and tables: `mapa2021` or `bottleneck`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Mapa2021 => "mapa2021",
            Self::Bottleneck(_) => "bottleneck",
        }
    }
}

/// The two bounds of a match, MB/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The rate of the slowest edge: bandwidth over the edge's share of the heaviest edge's traffic.
    pub slowest_mb_s: f64,
    /// The least that one GPU can send to the rest of the set.
    pub sends_mb_s: u32,
}

impl Coefficients {
    /// EffBW for these bounds, GB/s.
    #[must_use]
    #[inline]
    pub fn predict(self, bounds: Bounds) -> f64 {
        (self.slowest * bounds.slowest_mb_s + self.sends * f64::from(bounds.sends_mb_s)) / 1000.0
    }
}

/// The scores of a match. Bandwidths are GB/s in one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scores {
    /// Edges of the pattern on double NVLinks.
    pub x: u32,
    /// Edges on single NVLinks.
    pub y: u32,
    /// Edges on links without NVLink.
    pub z: u32,
    /// AggBW, Equation 1: the sum over the edges of the link's bandwidth times the edge's weight.
    pub agg_bw: f64,
    /// EffBW as the model predicts it; `None` under the bottleneck model if the pattern has no edges.
    pub eff_bw: Option<f64>,
    /// The bounds of the bottleneck model; `None` if the pattern has no edges.
    pub bounds: Option<Bounds>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coefficients_keep_the_model_monotone() {
        assert!(Coefficients::new(-0.1, 0.5).is_none());
        assert!(Coefficients::new(f64::NAN, 0.5).is_none());
        assert!(Coefficients::new(0.0, 0.0).is_none());
        assert_eq!(Coefficients::new(0.64, 0.36), Some(Coefficients::default()));
    }
}
