//! Changes inputs at random, the same way for the same seed.

/// Words that parsers trip over.
const WORDS: [&str; 24] = [
    "0",
    "-1",
    "+1",
    "1",
    "65535",
    "65536",
    "4294967296",
    "18446744073709551615",
    "18446744073709551616",
    "1e999",
    "NaN",
    "0x10",
    "\n",
    "\r\n",
    "\0",
    ",",
    ";",
    "=",
    ":",
    "@",
    "-",
    "[",
    "]",
    "\u{fe}\u{10ffff}",
];
/// Most bytes of an input.
const MOST: usize = 8192;

/// Makes new inputs of a corpus.
#[derive(Clone, Debug)]
pub struct Mutator {
    state: u64,
}

impl Mutator {
    /// Makes a source of inputs; the same seed makes the same inputs.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed | 1 }
    }

    /// A number below `n`, which is not 0 (xorshift64*).
    fn below(&mut self, n: usize) -> usize {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        let high = self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(high).unwrap_or(0) % n.max(1)
    }

    /// A range within `len` bytes, mostly short.
    fn range(&mut self, len: usize) -> std::ops::Range<usize> {
        let begin = self.below(len + 1);
        let most = if self.below(4) == 0 { len } else { 16 };
        begin..(begin + self.below(most + 1)).min(len)
    }

    /// A new input from those of a corpus, by one to eight changes.
    pub fn next(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let pick = self.below(corpus.len());
        let mut input = corpus.get(pick).cloned().unwrap_or_default();
        for _ in 0..=self.below(8) {
            self.change(&mut input, corpus);
        }
        input.truncate(MOST);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let range = self.range(input.len());
        match self.below(7) {
            0 => drop(input.drain(range)),
            1 => {
                let part = input[range].to_vec();
                let at = self.below(input.len() + 1);
                input.splice(at..at, part);
            }
            2 => {
                let other = self.below(corpus.len());
                let part = corpus.get(other).map(|other| other[self.range(other.len())].to_vec());
                input.splice(range, part.unwrap_or_default());
            }
            3 => {
                let word = WORDS[self.below(WORDS.len())];
                input.splice(range.start..range.start, word.bytes());
            }
            4 => {
                let word = WORDS[self.below(WORDS.len())];
                input.splice(range, word.bytes());
            }
            5 => {
                // A number becomes another one.
                let Some(at) = input[range.start..].iter().position(u8::is_ascii_digit) else { return };
                let begin = range.start + at;
                let digits = input[begin..].iter().take_while(|b| b.is_ascii_digit()).count();
                let word = WORDS[self.below(10)];
                input.splice(begin..begin + digits, word.bytes());
            }
            _ => {
                let byte = u8::try_from(self.below(256)).unwrap_or(0);
                if let Some(at) = input.get_mut(range.start) {
                    *at = byte;
                }
            }
        }
    }
}
