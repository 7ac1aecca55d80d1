//! Requests of users, from the options' texts to one checked request.
//!
//! `table` lists the options, `value` reads one option's text, and `check` refuses options that contradict each other.
//! Nothing here knows SPANK: texts go in, and a [`Request`] or a list of [`Refusal`]s comes out.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod check;
mod edge_list;
mod names;
mod one_instance;
mod option_values;
mod table;
mod value;
mod words;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use protocol::Request;

use names::shown;

pub use edge_list::{EdgeListError, parse_edges};
pub use names::Renames;
pub use table::{Opt, Spec};
pub use value::MOST_DRAW_W;

/// The options of one submission as typed: command line, environment, `#SBATCH` lines.
#[derive(Clone, Debug, Default)]
pub struct Typed {
    texts: BTreeMap<Opt, Vec<Text>>,
}

/// Place where a value was typed. As with sbatch's own options, a later place overrides an earlier one, and of several
/// values in one place the last counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// An `#SBATCH` line, or a variable of Slurm's own that stands for the option.
    Script,
    /// The option's environment variable ([`Spec::env`]).
    Env,
    /// The command line of sbatch, salloc or srun.
    CommandLine,
}

/// A value as typed.
#[derive(Clone, Debug)]
struct Text {
    text: String,
    source: Source,
    /// Name and variable that the user has used: those of the option, or of [`Spec::OLD`].
    spec: &'static Spec,
}

/// Why a submission is refused: one line for the user that names the option, its value and what would work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(String);

impl Refusal {
    /// A refusal in these words.
    #[must_use]
    pub fn new(line: String) -> Self {
        Self(line)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Typed {
    /// No options so far.
    pub const fn new() -> Self {
        Self { texts: BTreeMap::new() }
    }

    /// Adds a value, after those that were typed before it in the same place.
    pub fn push(&mut self, opt: Opt, text: &str, source: Source) {
        self.push_as(opt.spec(), text, source);
    }

    /// Adds a value as [`Self::push`], of an option by its present or its old name.
    pub fn push_as(&mut self, spec: &'static Spec, text: &str, source: Source) {
        self.texts.entry(spec.opt).or_default().push(Text { text: text.to_owned(), source, spec });
    }

    /// Removes the first value with this text, if there is one.
    pub fn drop_one(&mut self, opt: Opt, text: &str) {
        let Some(texts) = self.texts.get_mut(&opt) else { return };
        if let Some(at) = texts.iter().position(|t| t.text == text) {
            texts.remove(at);
        }
        if texts.is_empty() {
            self.texts.remove(&opt);
        }
    }

    /// Adds the value of each option's environment variable. An empty variable counts as unset.
    pub fn fill_from_env(&mut self, env: &dyn Fn(&str) -> Option<String>) {
        // The last one counts: the present name.
        let (present, old): (Vec<_>, Vec<_>) = Spec::all_and_old().partition(|spec| !spec.is_old());
        for spec in old.into_iter().chain(present) {
            if let Some(text) = env(spec.env).filter(|t| !t.is_empty()) {
                self.push_as(spec, &text, Source::Env);
            }
        }
    }

    /// The options that were typed, by the names that the site shows.
    pub fn names(&self, renames: &Renames) -> Vec<String> {
        self.texts.keys().map(|opt| shown(*opt, renames)).collect()
    }

    /// Reads and checks everything. `None`: no option was used, so the job is not for Tessera.
    ///
    /// `read_file` reads a small text file as the submitting user.
    ///
    /// # Errors
    ///
    /// One refusal for every value that counts and cannot be read. If all can be read, one for every contradiction between
    /// them.
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
        let refused = |lines: Vec<String>| lines.into_iter().map(Refusal).collect();
        check::request(values, renames).map(Some).map_err(refused)
    }

    /// The value of each option that overrides its others. `--gpu-isolation=slurm` also overrides other options typed in
    /// earlier places: with it a command line refuses all that the script asks for.
    fn that_count(&self) -> Vec<(Opt, &Text)> {
        let winners: Vec<(Opt, &Text)> = self
            .texts
            .iter()
            .filter_map(|(opt, texts)| Some((*opt, texts.iter().max_by_key(|t| t.source)?)))
            .collect();
        let slurm = winners.iter().find(|(opt, text)| *opt == Opt::Isolation && text.text == "slurm");
        let least = slurm.map_or(Source::Script, |(_, text)| text.source);
        winners.into_iter().filter(|(_, text)| text.source >= least).collect()
    }
}

/// The name of the option or of the environment variable, whichever the user set.
fn given(opt: Opt, text: &Text, renames: &Renames) -> String {
    match text.source {
        Source::Env => text.spec.env.to_owned(),
        _ if text.spec.is_old() => format!("--{}", text.spec.name),
        _ => shown(opt, renames),
    }
}

/// A value short enough for one line of a terminal.
fn clip(text: &str) -> String {
    const MOST: usize = 60;
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    text.chars().take(MOST).chain("...".chars()).collect()
}
