//! Predicted bandwidth (EffBW) of a match.

use geometry::GpuIndex;

use topology::{Edge, HardwareGraph, LinkClass};

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

/// Equation 2: GB/s predicted for `x` double NVLinks, `y` single ones and `z` links without NVLink among the edges
/// of the pattern.
///
/// It was fitted on 31 samples of 2 to 5 GPUs of a DGX-1V. It is not monotone, and outside that range it prefers slow
/// rings. Without any edge (one GPU) it is 12.335.
#[must_use]
pub fn equation_2(x: u32, y: u32, z: u32) -> f64 {
    let (x, y, z) = (f64::from(x), f64::from(y), f64::from(z));
    let inverse = |v: f64| 1.0 / (v + 1.0);
    let (xy, yz, zx, xyz) = (x * y, y * z, z * x, x * y * z);
    let terms = [
        x,
        y,
        z,
        inverse(x),
        inverse(y),
        inverse(z),
        xy,
        yz,
        zx,
        inverse(xy),
        inverse(yz),
        inverse(zx),
        xyz,
        inverse(xyz),
    ];
    THETA.iter().zip(terms).map(|(theta, term)| theta * term).sum()
}

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

    /// The model with this name, `bottleneck` with the default coefficients.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Mapa2021, Self::default()].into_iter().find(|m| m.name() == name)
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

/// Scores a match: rank `i` of the pattern on `order[i]`.
///
/// Sums over the pattern's edges as mapped, not over every pair of the set.
#[must_use]
pub fn score(graph: &HardwareGraph, edges: &[Edge], order: &[GpuIndex], model: BandwidthModel) -> Scores {
    let heaviest = edges.iter().map(|e| e.weight).fold(0.0, f64::max);
    let mut scores = Scores { x: 0, y: 0, z: 0, agg_bw: 0.0, eff_bw: None, bounds: None };
    let (mut slowest, mut agg) = (f64::INFINITY, 0.0);
    for edge in edges {
        let ends = order.get(edge.a).zip(order.get(edge.b));
        let Some(link) = ends.and_then(|(a, b)| graph.link(*a, *b)) else { continue };
        match link.class() {
            LinkClass::Double => scores.x += 1,
            LinkClass::Single => scores.y += 1,
            LinkClass::Pcie => scores.z += 1,
        }
        agg += f64::from(link.mb_s) * edge.weight;
        slowest = slowest.min(f64::from(link.mb_s) * heaviest / edge.weight);
    }
    scores.agg_bw = agg / 1000.0;
    let set = order.iter().copied().collect();
    let sends = order.iter().map(|g| graph.sends_within(*g, set)).min();
    scores.bounds =
        sends.filter(|_| slowest.is_finite()).map(|sends_mb_s| Bounds { slowest_mb_s: slowest, sends_mb_s });
    scores.eff_bw = match model {
        BandwidthModel::Mapa2021 => Some(equation_2(scores.x, scores.y, scores.z)),
        BandwidthModel::Bottleneck(c) => scores.bounds.map(|b| c.predict(b)),
    };
    scores
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equation_2_as_the_program_computes_it() {
        let check =
            |(x, y, z), expect: f64| assert!((equation_2(x, y, z) - expect).abs() < 1e-6, "{x} {y} {z}");
        check((0, 0, 0), 12.335062892);
        check((2, 0, 0), 58.925035865);
        check((0, 2, 0), 27.720347953);
        check((3, 1, 0), 68.706921098);
        check((0, 4, 4), 182.766848982);
        check((8, 0, 0), 161.904117790);
    }

    #[test]
    fn coefficients_keep_the_model_monotone() {
        assert!(Coefficients::new(-0.1, 0.5).is_none());
        assert!(Coefficients::new(f64::NAN, 0.5).is_none());
        assert!(Coefficients::new(0.0, 0.0).is_none());
        assert_eq!(Coefficients::new(0.64, 0.36), Some(Coefficients::default()));
    }
}
