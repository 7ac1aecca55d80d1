//! The colours of pictures and of the exporter's page: one fill and one edge for each use of a GPU.
//!
//! The fills differ for people with any of the three kinds of colour blindness; a test computes what they see. Text on each of
//! them is dark, and every piece also says in words what it is.

use std::fmt::Write as _;

use crate::gpu_pieces::Owner;

/// Fill and edge of what jobs have and of idle instances; free GPUs and Slurm's follow the background.
const COLOURS: [(Owner, &str, &str); 5] = [
    (Owner::Isolated, "#9bcbff", "#3b7fc4"),
    (Owner::Shared, "#f8e47e", "#a98600"),
    (Owner::Tasks, "#b07acc", "#7a3f9a"),
    (Owner::Idle, "#bcc4cd", "#7c8793"),
    (Owner::Whole, "#ee9548", "#a8590b"),
];

/// Rules of a style sheet for the shapes of SVG.
pub(crate) fn svg_rules() -> String {
    rules("fill", "stroke")
}

/// Rules of a style sheet for the elements of HTML.
pub(crate) fn html_rules() -> String {
    // The page's own rules give every piece an edge.
    rules("background-color", "border-color").replace("; }", " !important; }")
}

fn rules(fill: &str, edge: &str) -> String {
    COLOURS.iter().fold(String::new(), |mut all, (owner, inside, around)| {
        let _ = writeln!(all, ".{} {{ {fill}: {inside}; {edge}: {around}; }}", owner.name());
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linear RGB as people without one kind of cones see it; first people with all three.
    ///
    /// Source: Machado, Oliveira, Fernandes 2009, severity 1.0.
    const SIGHTS: [[[f64; 3]; 3]; 4] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [
            [0.152_286, 1.052_583, -0.204_868],
            [0.114_503, 0.786_281, 0.099_216],
            [-0.003_882, -0.048_116, 1.051_998],
        ],
        [
            [0.367_322, 0.860_646, -0.227_968],
            [0.280_085, 0.672_501, 0.047_413],
            [-0.011_820, 0.042_940, 0.968_881],
        ],
        [
            [1.255_528, -0.076_749, -0.178_779],
            [-0.078_411, 0.930_809, 0.147_602],
            [0.004_733, 0.691_367, 0.303_900],
        ],
    ];

    fn linear(colour: &str) -> [f64; 3] {
        [1, 3, 5].map(|at| {
            let part = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        })
    }

    /// CIE Lab, in which a distance of about 2 can just be told.
    fn lab(linear: [f64; 3]) -> [f64; 3] {
        let [r, g, b] = linear.map(|part| part.clamp(0.0, 1.0));
        let f = |t: f64| if t > 0.008_856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 };
        let x = f((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047);
        let y = f(0.2126 * r + 0.7152 * g + 0.0722 * b);
        let z = f((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883);
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    #[test]
    fn colour_blind_people_tell_the_kinds_apart() {
        let free = ("free", "#f3f4f6");
        let fills: Vec<(&str, &str)> =
            COLOURS.iter().map(|(owner, fill, _)| (owner.name(), *fill)).chain([free]).collect();
        for (kind, sight) in SIGHTS.iter().enumerate() {
            let seen = |colour: &str| {
                let linear = linear(colour);
                lab(sight.map(|row| row.iter().zip(linear).map(|(a, b)| a * b).sum()))
            };
            for (i, (a, first)) in fills.iter().enumerate() {
                for (b, second) in &fills[i + 1..] {
                    let apart =
                        seen(first).iter().zip(seen(second)).map(|(p, q)| (p - q).powi(2)).sum::<f64>();
                    assert!(
                        apart.sqrt() > 15.0,
                        "{a} and {b} look alike to sight {kind}: {:.0}",
                        apart.sqrt()
                    );
                }
            }
        }
    }
}
