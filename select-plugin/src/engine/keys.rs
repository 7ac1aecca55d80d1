//! Numbers of questions: one with the same answers has the same number, by which every node keeps them.

use super::question::{Key, Number};
use super::{CACHE_LIMIT, Engine, HashMap, Question};

/// Most questions with a number. The nodes forget all answers when there would be more.
const MOST: usize = 4 * CACHE_LIMIT;

/// Questions that have a number.
pub(super) struct Keys {
    numbers: HashMap<Key, Number>,
    next: Number,
    /// Times that all numbers were taken back, and one.
    pub(super) generation: u32,
}

impl Default for Keys {
    fn default() -> Self {
        Self { numbers: HashMap::default(), next: 0, generation: 1 }
    }
}

impl Keys {
    /// How many questions have a number, and how many may have one.
    pub(super) fn count(&self) -> [usize; 2] {
        [self.numbers.len(), MOST]
    }
}

impl Engine {
    /// Returns the number of a question. The question keeps it.
    pub(super) fn number(&mut self, question: &Question) -> Number {
        let (generation, number) = question.number.get();
        if generation == self.keys.generation {
            return number;
        }
        let number = match self.keys.numbers.get(&question.key) {
            Some(known) => *known,
            None => self.new_number(question),
        };
        question.number.set((self.keys.generation, number));
        number
    }

    fn new_number(&mut self, question: &Question) -> Number {
        if self.keys.numbers.len() >= MOST {
            self.keys.numbers.clear();
            self.keys.next = 0;
            self.keys.generation = self.keys.generation.wrapping_add(1).max(1);
            self.nodes.values_mut().for_each(super::NodeEntry::changed);
            self.ever.clear();
            self.best_ever.clear();
        }
        let number = self.keys.next;
        self.keys.next += 1;
        self.keys.numbers.insert(question.key.clone(), number);
        number
    }
}
