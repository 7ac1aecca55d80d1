//! Two lines about the cost of fragmentation.

use geometry::counted;

use super::{Places, Wholeness};

/// Shapes that a line names.
const MOST_SHAPES: usize = 3;

impl Wholeness {
    /// Two lines for people; `None` if no node takes jobs.
    pub(crate) fn words(&self) -> Option<[String; 2]> {
        if self.of_nodes == 0 {
            return None;
        }
        let Self { gpus, of_gpus, nodes, of_nodes, .. } = self;
        Some([
            format!("without jobs: {gpus} of {of_gpus} GPUs, {nodes} of {of_nodes} nodes"),
            format!("lost to fragmentation: {}", self.lost_words()),
        ])
    }

    /// `1 of 2 places for 4g.20gb, 1 of 2 for 1 GPU`: the shapes that lose most, 1 % at least.
    fn lost_words(&self) -> String {
        let mut lost: Vec<&Places> = self.places.iter().filter(|places| places.lost_percent() > 0).collect();
        lost.sort_by_key(|places| std::cmp::Reverse(places.lost_percent()));
        let several = self.places.iter().any(|places| places.model != self.places[0].model);
        let one = |(i, places): (usize, &&Places)| {
            let what = if i == 0 { " places" } else { "" };
            let on = if several { format!(" ({})", places.model) } else { String::new() };
            format!("{} of {}{what} for {}{on}", places.lost(), places.packed, places.shape)
        };
        let mut words: Vec<String> = lost.iter().take(MOST_SHAPES).enumerate().map(one).collect();
        if lost.len() > MOST_SHAPES {
            words.push(format!("and {}", counted(lost.len() - MOST_SHAPES, "more shape")));
        }
        match words.is_empty() {
            true if self.places.iter().any(|places| places.lost() > 0) => "less than 1 %".to_owned(),
            true => "nothing".to_owned(),
            false => words.join(", "),
        }
    }
}
