//! Remembers answers: a controller asks the same question again in every scheduling cycle.

use std::collections::HashMap;

use crate::policy::choose;
use crate::query::{Match, NoMatch, Query};
use topology::{BandwidthModel, Pattern, Quota, Selection};

/// Most answers kept; the next one makes the memo forget all others.
const MOST_KEPT: usize = 512;

#[derive(PartialEq, Eq, Hash)]
struct Key {
    graph: u64,
    free: u64,
    /// The GPUs that come back next, without free ones.
    next: u64,
    n: usize,
    pattern: (&'static str, Vec<(u16, u16, u32)>),
    sensitive: bool,
    policy: Selection,
    model: [u64; 2],
    /// Free GPUs of each group, and how many of them the job must get.
    quotas: Vec<(u64, usize)>,
}

impl Key {
    fn new(query: &Query<'_>, quotas: &[Quota]) -> Self {
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
            next: query.next.bits() & !query.free.bits(),
            n: query.n,
            pattern: (query.pattern.name(), edges),
            sensitive: query.sensitive,
            policy: query.policy,
            model,
            quotas: quotas.iter().map(|q| (query.free.and(q.of).bits(), q.n)).collect(),
        }
    }
}

/// Answers by topology, free set, GPUs that come back next, number, pattern, policy, model and quotas.
#[derive(Default)]
pub struct Memo {
    answers: HashMap<Key, Result<Match, NoMatch>>,
}

impl Memo {
    /// Tells how many answers are kept, and how many may be.
    #[must_use]
    pub fn count(&self) -> [usize; 2] {
        [self.answers.len(), MOST_KEPT]
    }

    /// The answer of [`choose`], from memory if the question was asked before.
    ///
    /// # Errors
    ///
    /// As [`choose`].
    pub fn choose(&mut self, query: &Query<'_>) -> Result<Match, NoMatch> {
        self.recall(query, &[], || choose(query))
    }

    /// Gives the answer of `find` to a query with these quotas, from memory if the question was asked before.
    ///
    /// # Errors
    ///
    /// As `find`.
    pub fn recall(
        &mut self,
        query: &Query<'_>,
        quotas: &[Quota],
        find: impl FnOnce() -> Result<Match, NoMatch>,
    ) -> Result<Match, NoMatch> {
        let key = Key::new(query, quotas);
        if let Some(answer) = self.answers.get(&key) {
            return answer.clone();
        }
        let answer = find();
        if self.answers.len() >= MOST_KEPT {
            self.answers.clear();
        }
        self.answers.insert(key, answer.clone());
        answer
    }
}
