//! Description of a job's set of whole GPUs: pattern, policy, model and predicted bandwidth.
//!
//! slurmctld writes it into the job's SPANK environment next to the placement. The node reads it for the environment of
//! tasks: `v1 n1=ring/sensitive/preserve/bottleneck/52.0;n2=ring/sensitive/preserve/bottleneck/-`.
//! It is for people and scripts; it grants nothing.

use std::fmt;

use topology::Selection;

/// Name of the environment variable that holds it.
pub const MATCH_ENV: &str = "TESSERA_MATCH";

/// Summary of the choice of one node's set, and the bandwidth predicted for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetSummary {
    /// The values of [`KEYS`].
    words: [String; 4],
    /// GB/s with one decimal, or `-` if nothing is predicted.
    gbps: String,
}

/// Names of the words, in their order.
const KEYS: [&str; 4] = ["pattern", "bandwidth", "policy", "model"];

impl SetSummary {
    /// The summary of a set with this pattern, sensitivity, policy and model; `gbps` is the predicted bandwidth, GB/s.
    #[must_use]
    pub fn new(pattern: &str, sensitive: bool, policy: Selection, model: &str, gbps: Option<f64>) -> Self {
        let need = if sensitive { "sensitive" } else { "insensitive" };
        let words = [pattern, need, policy.name(), model].map(str::to_owned);
        Self { words, gbps: gbps.map_or_else(|| "-".to_owned(), |gbps| format!("{gbps:.1}")) }
    }

    /// Predicted bandwidth, GB/s with one decimal; `None` if nothing is predicted.
    #[must_use]
    pub fn gbps(&self) -> Option<&str> {
        Some(self.gbps.as_str()).filter(|gbps| *gbps != "-")
    }

    /// `pattern=ring bandwidth=sensitive policy=preserve model=bottleneck`.
    #[must_use]
    pub fn words(&self) -> String {
        let pairs = KEYS.iter().zip(&self.words).map(|(key, word)| format!("{key}={word}"));
        pairs.collect::<Vec<_>>().join(" ")
    }

    /// Reads the part of one node; `None` if `Display` does not write such a text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '+' | '-' | '.');
        let parts: Vec<&str> = text.split('/').collect();
        let [pattern, need, policy, model, gbps] = parts[..] else { return None };
        let fine = |part: &&str| (1..=32).contains(&part.len()) && part.chars().all(plain);
        let number = gbps == "-" || gbps.chars().all(|c| c.is_ascii_digit() || c == '.');
        let words = [pattern, need, policy, model];
        (parts.iter().all(fine) && number)
            .then(|| Self { words: words.map(str::to_owned), gbps: gbps.to_owned() })
    }
}

impl fmt::Display for SetSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.words.join("/"), self.gbps)
    }
}

/// Writes the summaries of a job's nodes, by node name.
#[must_use]
pub fn encode(nodes: &[(String, SetSummary)]) -> String {
    let parts: Vec<String> = nodes.iter().map(|(node, summary)| format!("{node}={summary}")).collect();
    format!("v1 {}", parts.join(";"))
}

/// Reads the summary of one node; `None` if there is none, or the text is not one that [`encode`] writes.
#[must_use]
pub fn on_node(text: &str, node: &str) -> Option<SetSummary> {
    let parts = text.strip_prefix("v1 ")?.split(';');
    let mine = parts.filter_map(|part| part.split_once('=')).find(|(name, _)| *name == node);
    SetSummary::parse(mine?.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_finds_its_own() {
        let text =
            "v1 n1=ring/sensitive/preserve/bottleneck/52.0;n10=ring+tree/insensitive/topo-aware/mapa2021/-";
        let (first, last) = (on_node(text, "n1").unwrap(), on_node(text, "n10").unwrap());
        assert_eq!(first.words(), "pattern=ring bandwidth=sensitive policy=preserve model=bottleneck");
        assert_eq!((first.gbps(), last.gbps()), (Some("52.0"), None));
        assert_eq!(encode(&[("n1".to_owned(), first), ("n10".to_owned(), last)]), text);
        assert_eq!(on_node(text, "n2"), None);
    }

    #[test]
    fn what_a_user_wrote_is_nothing() {
        for text in [
            "",
            "v1 ",
            "v1 n1=",
            "v1 n1=a/b/c/d",
            "v1 n1=a/b/c/d/e",
            "v1 n1=a/b/$(c)/d/1",
            "v1 n1=a/b/c/d/1/2",
        ] {
            assert_eq!(on_node(text, "n1"), None, "{text}");
        }
        assert_eq!(on_node(&format!("v1 n1=a/b/c/{}/1", "d".repeat(33)), "n1"), None);
    }
}
