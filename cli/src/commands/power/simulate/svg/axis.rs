//! An axis with round numbers.

/// From 0 to `end` in equal steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Axis {
    pub(super) end: f64,
    step: f64,
}

/// Intervals between the numbers of an axis, at most.
const INTERVALS: f64 = 5.0;

impl Axis {
    /// The axis that holds values up to `highest`, with the fewest steps of 1, 2, 2.5 or 5 times a power of ten. Its end is
    /// at least 2 % above `highest`, unless that is itself a step.
    pub(super) fn up_to(highest: f64) -> Self {
        let highest = if highest > 0.0 { highest } else { 1.0 };
        let power = 10.0_f64.powf((highest / INTERVALS).log10().floor());
        let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|factor| factor * power);
        let step = steps.into_iter().find(|step| highest / step <= INTERVALS).unwrap_or(10.0 * power);
        // A value that is a hair above a step, such as 1.0000001, counts as on it.
        let count = (highest / step - 1e-3).ceil();
        Self { end: count * step, step }
    }

    /// The numbers, with as many decimals as the step has.
    pub(super) fn ticks(self) -> Vec<(f64, String)> {
        let decimals = (0..6).find(|d| {
            let scaled = self.step * 10.0_f64.powi(*d);
            (scaled - scaled.round()).abs() < 1e-9 * scaled
        });
        let decimals = usize::try_from(decimals.unwrap_or(6)).unwrap_or(6);
        let at = |n: u8| f64::from(n) * self.step;
        (0..=u8::MAX)
            .map(at)
            .take_while(|value| *value < self.end + 0.5 * self.step)
            .map(|value| (value, format!("{value:.decimals$}")))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(highest: f64) -> String {
        Axis::up_to(highest).ticks().into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn numbers_are_round_and_hold_the_highest_value() {
        assert_eq!(ticks(1.0), "0.0 0.2 0.4 0.6 0.8 1.0");
        assert_eq!(ticks(1.999), "0.0 0.5 1.0 1.5 2.0");
        assert_eq!(ticks(250.0), "0 50 100 150 200 250");
        assert_eq!(ticks(0.00884), "0.000 0.002 0.004 0.006 0.008 0.010");
        assert_eq!(ticks(0.0), "0.0 0.2 0.4 0.6 0.8 1.0");
        for highest in [0.3, 0.91, 1.02, 1.54, 7.3, 99.0] {
            assert!(Axis::up_to(highest).end >= highest);
        }
    }
}
