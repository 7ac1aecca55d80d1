//! What a user may ask for, from the option's text to one checked request.
//!
//! [`table`] names the options, [`value`] reads one option's text, [`check`] refuses those that contradict each other.
//! Nothing here knows SPANK: texts go in, a [`Request`] or a list of [`Refusal`]s comes out.

mod check;
mod moldable;
mod pattern;
mod table;
mod value;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use placement::Request;

pub(crate) use pattern::read_regular_file;
pub(crate) use table::{Opt, Spec};
use value::Value;

/// Names under which the site shows the options, where they differ from ours.
pub(crate) type Renames = BTreeMap<Opt, String>;

/// The options of one submission as typed: command line, `#SBATCH` lines, environment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Typed {
    texts: BTreeMap<Opt, Vec<Text>>,
}

/// One value as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Text {
    text: String,
    /// It came from the environment twin.
    from_env: bool,
}

/// Why a submission is refused: one line for the user, naming option, value and what would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal(String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Typed {
    /// No option used so far.
    pub(crate) const fn new() -> Self {
        Self { texts: BTreeMap::new() }
    }

    /// Takes one value from the command line or an `#SBATCH` line.
    pub(crate) fn push(&mut self, opt: Opt, text: &str) {
        self.texts.entry(opt).or_default().push(Text { text: text.to_owned(), from_env: false });
    }

    /// Forgets one value with this text.
    pub(crate) fn drop_one(&mut self, opt: Opt, text: &str) {
        let Some(texts) = self.texts.get_mut(&opt) else { return };
        if let Some(at) = texts.iter().position(|t| t.text == text) {
            texts.remove(at);
        }
        if texts.is_empty() {
            self.texts.remove(&opt);
        }
    }

    /// Takes the environment twin of each option that was not typed. An empty variable counts as unset.
    pub(crate) fn fill_from_env(&mut self, env: &dyn Fn(&str) -> Option<String>) {
        for spec in Spec::ALL {
            if let Some(text) = env(spec.env).filter(|t| !t.is_empty()) {
                self.texts.entry(spec.opt).or_insert_with(|| vec![Text { text, from_env: true }]);
            }
        }
    }

    /// The options that were typed, by the names the site shows.
    pub(crate) fn names(&self, renames: &Renames) -> Vec<String> {
        self.texts.keys().map(|opt| shown(*opt, renames)).collect()
    }

    /// Reads and checks everything. `None`: no option was used, the job is not ours.
    ///
    /// `read_file` reads a small text file as the submitting user.
    ///
    /// # Errors
    ///
    /// Every value that cannot be read; or, if all can, every contradiction between them.
    pub(crate) fn request(
        &self,
        renames: &Renames,
        read_file: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<Option<Request>, Vec<Refusal>> {
        let mut values = Vec::new();
        let mut refusals = Vec::new();
        for (opt, texts) in &self.texts {
            match one_value(*opt, texts, renames, read_file) {
                Ok(value) => values.push(value),
                Err(refusal) => refusals.push(refusal),
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
}

/// The one value that all of an option's texts agree on.
fn one_value(
    opt: Opt,
    texts: &[Text],
    renames: &Renames,
    read_file: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Value, Refusal> {
    let mut first: Option<(&Text, Value)> = None;
    for text in texts {
        let value = value::read(opt, &text.text, read_file)
            .map_err(|why| Refusal(format!("{}={}: {why}", given(opt, text, renames), clip(&text.text))))?;
        match &first {
            None => first = Some((text, value)),
            Some((_, known)) if *known == value => {}
            Some((known, _)) => {
                return Err(Refusal(format!(
                    "{}: given twice with different values, {} and {} (#SBATCH lines count): keep one",
                    shown(opt, renames),
                    clip(&known.text),
                    clip(&text.text)
                )));
            }
        }
    }
    // An entry is only ever made together with its first text.
    first.map(|(_, value)| value).ok_or_else(|| Refusal(format!("{}: no value", shown(opt, renames))))
}

/// What the user typed to give this value: the option's name, or its variable's.
fn given(opt: Opt, text: &Text, renames: &Renames) -> String {
    if text.from_env { opt.spec().env.to_owned() } else { shown(opt, renames) }
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
