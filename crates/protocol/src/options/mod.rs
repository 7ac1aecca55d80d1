//! What a user may ask for, from the option's text to one checked request.
//!
//! `table` names the options, `value` reads one option's text, `check` refuses those that contradict each other.
//! Nothing here knows SPANK: texts go in, a [`Request`] or a list of [`Refusal`]s comes out.

mod check;
mod moldable;
mod table;
mod value;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use crate::Request;

pub use table::{Opt, Spec};

/// Names under which the site shows the options, where they differ from ours.
pub type Renames = BTreeMap<Opt, String>;

/// The options of one submission as typed: command line, environment, `#SBATCH` lines.
#[derive(Clone, Debug, Default)]
pub struct Typed {
    texts: BTreeMap<Opt, Vec<Text>>,
}

/// Where a value was typed. As with sbatch's own options each overrides those before it, and of several in one place
/// the last counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// An `#SBATCH` line, or a variable of Slurm's own that stands for the option.
    Script,
    /// The environment twin.
    Env,
    /// The command line.
    CommandLine,
}

/// One value as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Text {
    text: String,
    source: Source,
}

/// Why a submission is refused: one line for the user, naming option, value and what would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Typed {
    /// No option used so far.
    pub const fn new() -> Self {
        Self { texts: BTreeMap::new() }
    }

    /// Takes one value.
    pub fn push(&mut self, opt: Opt, text: &str, source: Source) {
        self.texts.entry(opt).or_default().push(Text { text: text.to_owned(), source });
    }

    /// Forgets one value with this text.
    pub fn drop_one(&mut self, opt: Opt, text: &str) {
        let Some(texts) = self.texts.get_mut(&opt) else { return };
        if let Some(at) = texts.iter().position(|t| t.text == text) {
            texts.remove(at);
        }
        if texts.is_empty() {
            self.texts.remove(&opt);
        }
    }

    /// Takes the environment twin of each option. An empty variable counts as unset.
    pub fn fill_from_env(&mut self, env: &dyn Fn(&str) -> Option<String>) {
        for spec in Spec::ALL {
            if let Some(text) = env(spec.env).filter(|t| !t.is_empty()) {
                self.push(spec.opt, &text, Source::Env);
            }
        }
    }

    /// The options that were typed, by the names the site shows.
    pub fn names(&self, renames: &Renames) -> Vec<String> {
        self.texts.keys().map(|opt| shown(*opt, renames)).collect()
    }

    /// Reads and checks everything. `None`: no option was used, the job is not ours.
    ///
    /// `read_file` reads a small text file as the submitting user.
    ///
    /// # Errors
    ///
    /// Every value that counts and cannot be read; or, if all can, every contradiction between them.
    pub fn request(
        &self,
        renames: &Renames,
        read_file: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<Option<Request>, Vec<Refusal>> {
        let mut values = Vec::new();
        let mut refusals = Vec::new();
        for (opt, text) in self.that_count() {
            match value::read(opt, &text.text, read_file) {
                Ok(value) => values.push(value),
                Err(why) => {
                    let given = given(opt, text, renames);
                    refusals.push(Refusal(format!("{given}={}: {why}", clip(&text.text))));
                }
            }
        }
        if !refusals.is_empty() {
            return Err(refusals);
        }
        if values.is_empty() {
            return Ok(None);
        }
        check::request(values, renames).map(Some)
    }

    /// Of each option the value that overrides its others. `--gpu-isolation=none` also overrides the other options of
    /// places that come before its own: it is how a command line says that nothing of the script's is wanted.
    fn that_count(&self) -> Vec<(Opt, &Text)> {
        let winners: Vec<(Opt, &Text)> = self
            .texts
            .iter()
            .filter_map(|(opt, texts)| Some((*opt, texts.iter().max_by_key(|t| t.source)?)))
            .collect();
        let none = winners.iter().find(|(opt, text)| *opt == Opt::Isolation && text.text == "none");
        let least = none.map_or(Source::Script, |(_, text)| text.source);
        winners.into_iter().filter(|(_, text)| text.source >= least).collect()
    }
}

/// What the user typed to give this value: the option's name, or its variable's.
fn given(opt: Opt, text: &Text, renames: &Renames) -> String {
    if text.source == Source::Env { opt.spec().env.to_owned() } else { shown(opt, renames) }
}

/// The option as the user of this site knows it: `--gpu-mem`.
fn shown(opt: Opt, renames: &Renames) -> String {
    format!("--{}", renames.get(&opt).map_or(opt.spec().name, String::as_str))
}

/// A value short enough for one line of a terminal.
fn clip(text: &str) -> String {
    const MOST: usize = 60;
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    text.chars().take(MOST).chain("...".chars()).collect()
}
