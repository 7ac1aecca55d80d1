//! Kinds of contents.

/// Kind of a field's contents, as far as a look can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    Number,
    /// Null, or an aligned address that can be read.
    Pointer,
    /// Null, or a text that ends.
    Text,
    /// Null, or one of Slurm's bit strings.
    Bits,
    /// Null, or one of Slurm's lists.
    List,
}
