//! Predicted bandwidth (EffBW) of a match.

use geometry::GpuIndex;

use crate::Edge;
use topology::{BandwidthModel, Bounds, HardwareGraph, LinkClass, Scores, THETA};

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
}
