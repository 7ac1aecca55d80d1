//! States of a GPU: the parts that it is divided into.

use std::fmt;
use std::str::FromStr;

use geometry::{Model, Profile};
use power::{Memory, Part, PartError};

/// Says why words are no state, or why a GPU cannot have it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// One of its parts is none.
    #[error(transparent)]
    Part(#[from] PartError),
    /// `4g+3c`: a compute instance of the whole GPU leaves no room for a GPU instance.
    #[error("`{0}` mixes private and shared parts: use one kind, such as 4g+3g or 4c+3c")]
    Mixed(String),
    /// The model has no instance of this size.
    #[error("`{state}`: {gpu} has no instance with {slices} compute slices")]
    NoInstance {
        /// The state as asked.
        state: String,
        /// The model's key.
        gpu: String,
        /// The size that does not exist.
        slices: u8,
    },
    /// The parts exist one by one, but not at the same time.
    #[error("`{state}` does not fit on one {gpu}")]
    TooLarge {
        /// The state as asked.
        state: String,
        /// The model's key.
        gpu: String,
    },
}

/// How the GPU is divided, its parts in the order of the applications: `4c+3c`. Without parts: `full`, no MIG.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct State(Vec<Part>);

impl State {
    /// A state of these parts.
    ///
    /// # Errors
    ///
    /// [`StateError::Mixed`] for private and shared parts together.
    pub fn new(parts: Vec<Part>) -> Result<Self, StateError> {
        let state = Self(parts);
        let mixed = state.0.iter().any(|p| p.memory != state.0[0].memory);
        if mixed { Err(StateError::Mixed(state.to_string())) } else { Ok(state) }
    }

    /// The parts in the order of the applications; none where MIG is off.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.0
    }

    /// Whether MIG is off.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.0.is_empty()
    }

    /// How many applications it holds.
    #[must_use]
    pub fn applications(&self) -> usize {
        self.0.len().max(1)
    }

    /// Whether this model can be divided so.
    ///
    /// A private part is the smallest instance with that many compute slices. A shared part is a compute instance of
    /// the whole GPU; compute instances come in the sizes of GPU instances.
    ///
    /// # Errors
    ///
    /// [`StateError::NoInstance`] and [`StateError::TooLarge`].
    pub fn fits(&self, model: &Model) -> Result<(), StateError> {
        let profiles = self.0.iter().map(|part| self.profile(*part, model)).collect::<Result<Vec<_>, _>>()?;
        let slices: u32 = self.0.iter().map(|p| u32::from(p.slices)).sum();
        let is_private = self.0.first().is_some_and(|p| p.memory == Memory::Private);
        if slices > u32::from(model.compute_slices) || (is_private && !places(&profiles, 0)) {
            return Err(StateError::TooLarge { state: self.to_string(), gpu: model.key.clone() });
        }
        Ok(())
    }

    fn profile<'m>(&self, part: Part, model: &'m Model) -> Result<&'m Profile, StateError> {
        let mut plain = model.profiles.iter().filter(|p| !p.is_variant());
        plain.find(|p| p.compute_slices == part.slices).ok_or_else(|| StateError::NoInstance {
            state: self.to_string(),
            gpu: model.key.clone(),
            slices: part.slices,
        })
    }
}

/// Whether instances of all these profiles have a place beside what `taken` holds.
fn places(profiles: &[&Profile], taken: u16) -> bool {
    let Some((first, rest)) = profiles.split_first() else { return true };
    let masks = first.starts.iter().map(|start| first.at(*start).mask());
    masks.into_iter().any(|mask| mask & taken == 0 && places(rest, taken | mask))
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_full() { f.write_str("full") } else { f.write_str(&joined(&self.0)) }
    }
}

impl FromStr for State {
    type Err = StateError;

    fn from_str(words: &str) -> Result<Self, StateError> {
        if words == "full" {
            return Ok(Self(Vec::new()));
        }
        Self::new(words.split('+').map(str::parse).collect::<Result<_, PartError>>()?)
    }
}

/// Parts as words: `2g+3g`.
pub(crate) fn joined(parts: &[Part]) -> String {
    parts.iter().map(Part::to_string).collect::<Vec<_>>().join("+")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(state: &str, model: &str) -> Result<(), StateError> {
        state.parse::<State>()?.fits(Model::find(model).unwrap())
    }

    #[test]
    fn words_come_back_as_written() {
        for words in ["full", "4c+3c", "3g+4g", "1g", "2g+2g+3g"] {
            assert_eq!(words.parse::<State>().unwrap().to_string(), words);
        }
        assert_eq!("full".parse::<State>().unwrap().applications(), 1);
    }

    #[test]
    fn other_words_are_refused() {
        for words in ["", "4", "g", "0g", "04g", "+4g", "4G", "4g+", "4g3g", "256g", "full+4g", "-1g"] {
            assert!(matches!(words.parse::<State>(), Err(StateError::Part(_))), "{words}");
        }
        assert_eq!("4g+3c".parse::<State>(), Err(StateError::Mixed("4g+3c".to_owned())));
    }

    #[test]
    fn a_state_must_fit_on_the_model() {
        for state in
            ["full", "4g+3g", "3g+4g", "4c+3c", "3g+3g", "7g", "7c", "2g+2g+3g", "1g+1g+1g+1g+1g+1g+1g"]
        {
            assert_eq!(on(state, "a100-40gb"), Ok(()), "{state}");
        }
        for state in ["4g+4g", "4c+4c", "3g+3g+1g", "7g+1g"] {
            assert!(matches!(on(state, "a100-40gb"), Err(StateError::TooLarge { .. })), "{state}");
        }
        assert!(matches!(on("5g", "a100-40gb"), Err(StateError::NoInstance { slices: 5, .. })));
        assert!(matches!(on("3g+1g", "a30-24gb"), Err(StateError::NoInstance { slices: 3, .. })));
        assert_eq!(on("2g+2g", "a30-24gb"), Ok(()));
    }
}
