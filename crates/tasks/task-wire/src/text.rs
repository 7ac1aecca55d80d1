//! Short texts in messages: UUIDs, paths, reasons.

/// UTF-8 of at most `N` bytes without NUL.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

/// A text that does not fit its field, or has a NUL in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextTooLong;

impl<const N: usize> Text<N> {
    /// No text.
    pub const EMPTY: Text<N> = Text { bytes: [0; N], len: 0 };

    /// The whole text.
    ///
    /// # Errors
    ///
    /// It is longer than `N` bytes or has a NUL.
    pub fn new(text: &str) -> Result<Text<N>, TextTooLong> {
        if text.len() > N || text.contains('\0') {
            return Err(TextTooLong);
        }
        Ok(Text::cut(text))
    }

    /// As much of the text as fits, up to its first NUL.
    #[must_use]
    pub fn cut(text: &str) -> Text<N> {
        let text = text.split('\0').next().unwrap_or_default();
        let mut len = text.len().min(N);
        while !text.is_char_boundary(len) {
            len -= 1;
        }
        let mut bytes = [0; N];
        bytes[..len].copy_from_slice(&text.as_bytes()[..len]);
        Text { bytes, len }
    }

    /// The text of a field; `None` where it is not UTF-8 or not padded with zeroes.
    pub(crate) fn from_field(field: [u8; N]) -> Option<Text<N>> {
        let len = field.iter().position(|b| *b == 0).unwrap_or(N);
        std::str::from_utf8(&field[..len]).ok()?;
        field[len..].iter().all(|b| *b == 0).then_some(Text { bytes: field, len })
    }

    pub(crate) fn field(&self) -> &[u8; N] {
        &self.bytes
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }

    /// Tells whether there is no text.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<const N: usize> std::fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_at_a_character() {
        assert_eq!(Text::<4>::cut("abcé").as_str(), "abc");
        assert_eq!(Text::<4>::cut("a\0b").as_str(), "a");
        assert_eq!(Text::<4>::new("abcd").unwrap().as_str(), "abcd");
        assert!(Text::<4>::new("abcde").is_err() && Text::<4>::new("a\0").is_err());
        assert_eq!(Text::<4>::from_field(*b"a\0\0b"), None);
        assert_eq!(Text::<4>::from_field([b'a', 0xff, 0, 0]), None);
    }
}
