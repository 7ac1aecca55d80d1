//! Texts of the page about jobs. Slurm is asked once for all of them between two samples, and not at all without a click.

use std::collections::HashMap;

use crate::commands::why::Facts;

/// Texts since the last sample.
#[derive(Default)]
pub(super) struct Told {
    asked: Option<LookAnswer>,
}

/// Slurm's answer after a sample.
struct LookAnswer {
    /// The number of the look.
    look: u64,
    /// The error: why Slurm said nothing. It is not asked again before the next look.
    facts: Result<Facts, String>,
    /// By job; only jobs that Slurm knows.
    answers: HashMap<u32, String>,
}

impl Told {
    /// Returns the text on a job, its GPUs or why it waits, after this many samples. `ask` asks Slurm about all jobs.
    pub(super) fn of(&mut self, id: u32, look: u64, ask: impl FnOnce() -> Result<Facts, String>) -> String {
        // A look may come while an earlier request still waits for its turn.
        let fresh = self.asked.take().filter(|asked| asked.look >= look);
        let new = || LookAnswer { look, facts: ask(), answers: HashMap::new() };
        self.asked.insert(fresh.unwrap_or_else(new)).of(id)
    }
}

impl LookAnswer {
    fn of(&mut self, id: u32) -> String {
        if let Some(text) = self.answers.get(&id) {
            return text.clone();
        }
        match self.facts.as_ref().map(|facts| facts.told(id)) {
            Ok(Ok(text)) => self.answers.entry(id).or_insert(text).clone(),
            Ok(Err(failure)) => failure.what().to_owned(),
            Err(why) => why.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slurm_is_asked_once_between_two_looks() {
        let (mut told, mut questions) = (Told::default(), 0);
        for look in [7, 7, 7, 8, 7, 8] {
            for id in 0..60 {
                let text = told.of(id, look, || {
                    questions += 1;
                    Err("Slurm is away".to_owned())
                });
                assert_eq!(text, "Slurm is away");
            }
        }
        assert_eq!(questions, 2);
    }
}
