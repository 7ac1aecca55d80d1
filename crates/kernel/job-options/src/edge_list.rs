//! Reads the edge list of a pattern, as `--gpu-pattern=file:PATH` and `tessera score --pattern file:PATH` take it.

use topology::{MAX_EDGES, MAX_RANK, Pattern, PatternEdge, parse_weight};

/// Why a text is not an edge list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EdgeListError {
    /// A line is not an edge: the line's number, from 1, and its first 20 characters.
    #[error(
        "line {0}: {1:?} is not an edge: expected two different ranks from 0 to {MAX_RANK} and an optional weight from \
         0.001 to 1000, such as 0 1 or 0 1 0.5"
    )]
    NoEdge(usize, String),
    /// A line repeats an edge with a different weight: the line's number, from 1, and the two ranks.
    #[error("line {0}: edge {1}-{2} has another weight above: expected one line for both directions")]
    OtherWeight(usize, u16, u16),
    /// The list has more than [`MAX_EDGES`] edges.
    #[error("has more than {MAX_EDGES} edges")]
    TooMany,
    /// The list has no edge.
    #[error("has no edges: expected one edge per line, as two ranks such as 0 1")]
    Empty,
}

/// Reads one edge per line: two ranks from 0, separated by blanks, a comma or `-`, and an optional weight. `#` begins
/// a comment. Edges keep their order; a repeated edge counts once.
///
/// # Errors
///
/// [`EdgeListError`] for the first line that is wrong, or for a list without any edge.
pub fn parse_edges(text: &str) -> Result<Pattern, EdgeListError> {
    let mut edges: Vec<PatternEdge> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let start = || line.chars().take(20).collect();
        let edge = edge(line).ok_or_else(|| EdgeListError::NoEdge(at + 1, start()))?;
        match edges.iter().find(|known| known.ends() == edge.ends()) {
            None if edges.len() == MAX_EDGES => return Err(EdgeListError::TooMany),
            None => edges.push(edge),
            Some(known) if known.milli == edge.milli => {}
            Some(_) => return Err(EdgeListError::OtherWeight(at + 1, edge.a, edge.b)),
        }
    }
    if edges.is_empty() { Err(EdgeListError::Empty) } else { Ok(Pattern::Edges(edges)) }
}

fn edge(line: &str) -> Option<PatternEdge> {
    let mut words = line.split(|c: char| c.is_whitespace() || c == ',').filter(|w| !w.is_empty());
    let first = words.next()?;
    let (a, b) = match first.split_once('-') {
        Some((a, b)) => (rank(a)?, rank(b)?),
        None => (rank(first)?, rank(words.next()?)?),
    };
    let milli = words.next().map_or(Some(PatternEdge::PLAIN), parse_weight)?;
    (words.next().is_none() && a != b).then_some(PatternEdge { a, b, milli })
}

fn rank(text: &str) -> Option<u16> {
    let plain = text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten().filter(|r| *r <= MAX_RANK)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(u16, u16, u32)>, EdgeListError> {
        let pattern = parse_edges(text)?;
        let Pattern::Edges(edges) = pattern else { panic!("{pattern:?} is no list") };
        Ok(edges.iter().map(|e| (e.a, e.b, e.milli)).collect())
    }

    #[test]
    fn an_edge_is_two_ranks_and_an_optional_weight() {
        let text = "# halo exchange\n0 1\n\n1-2 0.5  # slow\n3, 0 , 2\n1 0\n2\t3\n";
        assert_eq!(read(text), Ok(vec![(0, 1, 1000), (1, 2, 500), (3, 0, 2000), (2, 3, 1000)]));
    }

    #[test]
    fn the_error_names_the_line() {
        for bad in
            ["0", "0 0", "0 1 2 3", "a b", "0 -1 x", "0 1 0", "0 1 1001", "0 1024", "0 1 -2", "0;1", "+0 1"]
        {
            let text = format!("0 1\n{bad}\n");
            assert_eq!(read(&text), Err(EdgeListError::NoEdge(2, bad.to_owned())), "{bad}");
        }
        assert_eq!(read("0 1\n1 0 2"), Err(EdgeListError::OtherWeight(2, 1, 0)));
        assert_eq!(read("# nothing\n"), Err(EdgeListError::Empty));
        let many: String = (1..=1023).map(|b| format!("0 {b}\n1 {}\n", (b % 1021) + 2)).collect();
        assert_eq!(read(&many), Err(EdgeListError::TooMany));
    }
}
