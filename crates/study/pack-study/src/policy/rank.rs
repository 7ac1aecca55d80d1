//! The rule of decision 0037: where a request goes on a cluster that fills up.

use cluster_rank::{NodeView, Shape, Tables, Taken, rounded};

/// Costs of cores alone are multiples of this: 0.1 GPU.
const CORES_STEP: i64 = 100_000;
/// Tenths of an idle GPU's residual by which taking a part of it costs less.
const OPENING: i64 = 7;

/// Place and cost of a request on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Expected loss of the cluster, in millionths of a GPU; the least is the best.
    pub(crate) cost: i64,
    /// True if one whole GPU is asked for, and the node has other idle ones. Of equal costs, nodes without come first: a set has no room there
    /// anyway.
    pub(crate) splits_idle: bool,
    /// The GPU of which a part is taken, counted in the node. `None`: idle GPUs, or none.
    pub(crate) gpu: Option<usize>,
}

/// Finds the cheapest place of a request on a node; of equal GPUs the first. `None`: it has no room.
///
/// Of nodes with the same cost, the caller takes one that is not split ([`Place::splits_idle`]), and the first in the site's order.
pub(crate) fn rank(tables: &Tables, node: &NodeView<'_>, shape: &Shape) -> Option<Place> {
    let cost = tables.costs(node, shape)?;
    if !shape.is_part() {
        let cost = cost(Taken::Idle)?;
        return Some(Place {
            cost: if shape.gpus == 0 { rounded(cost, CORES_STEP) } else { cost },
            splits_idle: shape.gpus == 1 && node.idle_gpus() > 1,
            gpu: None,
        });
    }
    let discount = tables.residual(node, 1000) * OPENING / 10;
    let on = |(gpu, free): (usize, &u16)| {
        let cost = cost(Taken::PartOf(gpu))?;
        Some((if *free >= 1000 { cost - discount } else { cost }, gpu))
    };
    let (cost, gpu) = node.free_milli.iter().enumerate().filter_map(on).min()?;
    Some(Place { cost, splits_idle: false, gpu: Some(gpu) })
}

#[cfg(test)]
mod tests {
    use cluster_rank::{Extent, Mix, Models};
    use proptest::prelude::*;

    use super::super::kept::Kept;
    use super::*;

    fn shapes() -> impl Strategy<Value = Shape> {
        (0..20_u32, 0..4_u8, 1..11_u16).prop_map(|(cores, gpus, tenths)| {
            let milli = match gpus {
                0 => 0,
                1 => tenths * 100,
                _ => 1000,
            };
            Shape { cores_milli: cores * 1000, gpus, milli, models: Models::ANY }
        })
    }

    fn tables(seen: Vec<Shape>) -> Tables {
        let mix = Mix::rebuilt(seen.into_iter().map(|shape| (1, shape)));
        Tables::new(&mix, Extent { gpus: 4, cores_milli: 32_000 })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_gpu_is_cheaper_and_an_idle_one_has_a_discount(
            seen in prop::collection::vec(shapes(), 16..50), free in prop::collection::vec(0..11_u16, 1..5), asked in shapes(),
        ) {
            let tables = tables(seen);
            let free: Vec<u16> = free.into_iter().map(|tenths| tenths * 100).collect();
            let node = NodeView { free_milli: &free, cores_milli: 30_000, model: 0 };
            let place = rank(&tables, &node, &asked);
            prop_assert_eq!(place.is_some(), node.fits(&asked));
            let (Some(place), Some(cost)) = (place, tables.costs(&node, &asked)) else { return Ok(()) };
            let idle = free.iter().filter(|&&free| free == 1000).count();
            prop_assert_eq!(place.splits_idle, asked.total_milli() == 1000 && idle > 1);
            let Some(chosen) = place.gpu else {
                prop_assert!((place.cost - cost(Taken::Idle).unwrap()).abs() <= CORES_STEP / 2);
                return Ok(());
            };
            let idle = tables.residual(&node, 1000) * 7 / 10;
            let all = (0..free.len()).filter_map(|gpu| {
                Some((cost(Taken::PartOf(gpu))? - if free[gpu] == 1000 { idle } else { 0 }, gpu))
            });
            prop_assert_eq!(all.min(), Some((place.cost, chosen)));
        }

        #[test]
        fn kept_costs_are_those_of_the_nodes_as_they_are(
            seen in prop::collection::vec(shapes(), 0..40), mut free in prop::collection::vec(prop::array::uniform2(0..=1000_u16), 2..5),
            shapes in prop::array::uniform3(shapes()), steps in prop::collection::vec((0..3_usize, 0..4_usize, 0..=1000_u16, 0..5), 1..30),
        ) {
            let tables = tables(seen);
            let mut kept = Kept::new(2, free.len());
            for (which, at, left, forget) in steps {
                let asked = shapes[which];
                let of = |at: usize| {
                    let node = NodeView { free_milli: &free[at], cores_milli: 16_000, model: 0 };
                    rank(&tables, &node, &asked)
                };
                let fresh: Vec<_> = (0..free.len()).map(of).collect();
                let again: Vec<_> = kept.places(&asked, of).collect();
                prop_assert_eq!(fresh, again);
                let at = at % free.len();
                free[at][0] = left;
                if forget == 0 { kept.forget() } else { kept.changed(at) }
            }
        }
    }
}
