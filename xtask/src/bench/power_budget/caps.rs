//! The best caps that are known: those that a search with the truth at hand finds.

use super::truth::Truth;

/// The highest sum of throughputs whose caps add up to no more than the budget; `None`: none do.
pub(super) fn best(truth: &Truth, budget_w: u32, cap_w: u32) -> Option<f64> {
    highest(&truth.best_under(), budget_w, cap_w)
}

/// Chooses a cap and value for each GPU, by the watts that are used so far.
fn highest(gpus: &[Vec<(u32, f64)>], budget_w: u32, cap_w: u32) -> Option<f64> {
    let size = budget_w as usize + 1;
    let mut reached = vec![f64::NEG_INFINITY; size];
    reached[0] = 0.0;
    for choices in gpus {
        let mut next = vec![f64::NEG_INFINITY; size];
        for (cap, value) in choices.iter().filter(|(cap, _)| *cap <= cap_w) {
            let cap = *cap as usize;
            for used in cap..size {
                next[used] = next[used].max(reached[used - cap] + value);
            }
        }
        reached = next;
    }
    reached.into_iter().reduce(f64::max).filter(|sum| sum.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watts_go_where_they_are_worth_most() {
        let flat = vec![(100, 1.0), (200, 1.1)];
        let steep = vec![(100, 1.0), (200, 1.6)];
        let of = |budget| highest(&[flat.clone(), steep.clone()], budget, 250);
        assert_eq!(of(199), None);
        assert_eq!(of(200), Some(2.0));
        assert_eq!(of(350), Some(2.6));
        assert!(of(400).is_some_and(|sum| (sum - 2.7).abs() < 1e-9));
        assert_eq!(highest(&[steep], 400, 150), Some(1.0));
    }
}
