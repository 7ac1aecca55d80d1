//! Tells a change that is under way from something wrong: what is wrong stays.

use std::collections::BTreeMap;

use super::Finding;

/// Findings of the first of several looks, as long as every later look has them too.
#[derive(Debug, Default)]
pub(in crate::chaos) struct Patience {
    open: Option<BTreeMap<(&'static str, String), Finding>>,
}

impl Patience {
    /// Takes the findings of one more look, and returns those that every look so far has found. What began after the first
    /// look is for the next round of looks.
    pub(in crate::chaos) fn look(&mut self, findings: Vec<Finding>) -> Vec<&Finding> {
        let key = |finding: &Finding| (finding.rule, finding.subject.clone());
        let now: BTreeMap<_, _> = findings.into_iter().map(|finding| (key(&finding), finding)).collect();
        let open = match self.open.take() {
            None => now,
            Some(before) => now.into_iter().filter(|(key, _)| before.contains_key(key)).collect(),
        };
        self.open.insert(open).values().collect()
    }
}
