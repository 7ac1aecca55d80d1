//! The stretches that a search needs, with the prices of their vertices.

use super::hung::{Hung, best_first, least};
use super::prices::Prices;
use super::stretch::Stretch;
use crate::search::number::{Number, Weights};

/// Prices for matches of `n` vertices within a limit, and by size the stretches that sides of these sizes are or are
/// composed of.
pub(super) fn needed<T: Number>(
    weights: &Weights<T>,
    n: usize,
    limit: Option<T>,
    (left, right): (Stretch, Stretch),
) -> (Prices<T>, [Option<Hung<T>>; 4]) {
    let m = weights.rows.len();
    let parts = |side: Stretch| if side.is_composed() { side.halves() } else { (side, side) };
    let needs = |side: Stretch, size: usize| {
        let (near, far) = parts(side);
        side.size > 0 && (near.size == size || far.size == size)
    };
    let mut hung =
        [0, 1, 2, 3].map(|size| (needs(left, size) || needs(right, size)).then(|| Hung::new(weights, size)));
    let of_three = hung[Stretch::MOST_HUNG].as_ref().filter(|_| left.is_composed());
    let prices = of_three.map_or_else(Prices::none, |of_three| Prices::new((m, n), limit, of_three));
    hung.iter_mut().flatten().for_each(|h| add_prices(h, &prices));
    if left.is_composed() {
        // Every near half has three ranks.
        let near = hung[Stretch::MOST_HUNG].as_ref();
        let apart = hung.each_ref().map(|h| h.as_ref().zip(near).map(|(h, near)| h.apart_from(&near.below)));
        let with = hung.iter_mut().flatten().zip(apart.into_iter().flatten());
        with.for_each(|(hung, apart)| hung.apart = apart);
    }
    (prices, hung)
}

/// Adds the prices of their vertices to what stretches lack.
fn add_prices<T: Number>(hung: &mut Hung<T>, prices: &Prices<T>) {
    for parts in &mut hung.below {
        for p in &mut *parts {
            let price = prices.of_set(p.set);
            p.row = T::rows_plus(p.row, price.each());
            p.best = p.best.plus(price);
        }
        best_first(parts);
    }
    hung.least = hung.below.iter().map(|parts| least(parts)).collect();
}
