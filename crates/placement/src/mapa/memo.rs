//! Answers that were found before.

use std::collections::HashMap;

use super::model::BandwidthModel;
use super::policy::{Choice, NoChoice, Query, Selection, choose};
use crate::request::Pattern;

/// Most answers kept; when there are more, all are forgotten.
const MOST_KEPT: usize = 512;

#[derive(PartialEq, Eq, Hash)]
struct Key {
    graph: u64,
    free: u64,
    n: usize,
    pattern: (&'static str, Vec<(u16, u16, u32)>),
    sensitive: bool,
    policy: Selection,
    model: [u64; 2],
}

impl Key {
    fn new(query: &Query<'_>) -> Self {
        let edges = match query.pattern {
            Pattern::Edges(edges) => edges.iter().map(|e| (e.a, e.b, e.milli)).collect(),
            _ => Vec::new(),
        };
        let model = match query.model {
            BandwidthModel::Mapa2021 => [u64::MAX; 2],
            BandwidthModel::Bottleneck(c) => [c.slowest.to_bits(), c.sends.to_bits()],
        };
        Self {
            graph: query.graph.fingerprint(),
            free: query.free.bits(),
            n: query.n,
            pattern: (query.pattern.name(), edges),
            sensitive: query.sensitive,
            policy: query.policy,
            model,
        }
    }
}

/// Answers by topology, free set, number, pattern, policy and model.
#[derive(Default)]
pub struct Memo {
    answers: HashMap<Key, Result<Choice, NoChoice>>,
}

impl Memo {
    /// The answer of [`choose`], from memory where it was asked before.
    ///
    /// # Errors
    ///
    /// As [`choose`].
    pub fn choose(&mut self, query: &Query<'_>) -> Result<Choice, NoChoice> {
        let key = Key::new(query);
        if let Some(answer) = self.answers.get(&key) {
            return answer.clone();
        }
        let answer = choose(query);
        if self.answers.len() >= MOST_KEPT {
            self.answers.clear();
        }
        self.answers.insert(key, answer.clone());
        answer
    }
}
