//! Texts of the page about jobs. Slurm is asked once for all of them between two samples, and not at all without a click.

use std::collections::HashMap;

use crate::commands::why::Facts;
use crate::job_use::JobUse;

/// Most jobs whose name and use Slurm is asked for between two samples: each costs it two questions.
const MOST_USES: usize = 16;

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
    /// By job; only of jobs with an answer.
    uses: HashMap<u32, JobUse>,
}

impl Told {
    /// Returns the text on a job, its GPUs or why it waits, after this many samples. `ask` asks Slurm about all jobs, `ask_use`
    /// about the name and use of one; `None`: nobody may be named.
    pub(super) fn of(
        &mut self,
        id: u32,
        look: u64,
        ask: impl FnOnce() -> Result<Facts, String>,
        ask_use: Option<&dyn Fn(u32) -> JobUse>,
    ) -> (String, JobUse) {
        // A look may come while an earlier request still waits for its turn.
        let fresh = self.asked.take().filter(|asked| asked.look >= look);
        let new = || LookAnswer { look, facts: ask(), answers: HashMap::new(), uses: HashMap::new() };
        let asked = self.asked.insert(fresh.unwrap_or_else(new));
        let text = asked.of(id);
        (text, ask_use.map_or_else(JobUse::default, |ask| asked.use_of(id, ask)))
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

    /// Returns the job's name and use; empty if Slurm does not know the job, or was asked about enough others.
    fn use_of(&mut self, id: u32, ask: &dyn Fn(u32) -> JobUse) -> JobUse {
        if !self.uses.contains_key(&id) && self.answers.contains_key(&id) && self.uses.len() < MOST_USES {
            self.uses.insert(id, ask(id));
        }
        self.uses.get(&id).cloned().unwrap_or_default()
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
                let away = || {
                    questions += 1;
                    Err("Slurm is away".to_owned())
                };
                let text = told.of(id, look, away, Some(&|_| panic!("Slurm is away")));
                assert_eq!(text, ("Slurm is away".to_owned(), JobUse::default()));
            }
        }
        assert_eq!(questions, 2);
    }

    #[test]
    fn few_jobs_names_are_asked_for_between_two_looks() {
        let named = |id: u32| JobUse { name: Some(format!("job-{id}")), used: None };
        let answers = (0..100).map(|id| (id, String::new())).collect();
        let mut asked = LookAnswer { look: 1, facts: Err(String::new()), answers, uses: HashMap::new() };
        let known = (0..200).filter(|id| asked.use_of(*id, &named) != JobUse::default());
        assert_eq!(known.count(), MOST_USES);
        assert_eq!(asked.use_of(3, &|_| panic!("it is known")), named(3));
    }
}
