//! Fields one after another.

use crate::text::Text;
use crate::{MAGIC, VERSION, WireError};

/// Writes fields into a message of `N` bytes. The layouts of this crate are fixed, so none is longer than its message.
pub(crate) struct Writer<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl<const N: usize> Writer<N> {
    /// A message of this kind.
    pub(crate) fn new(kind: u16) -> Writer<N> {
        let mut writer = Writer { bytes: [0; N], at: 0 };
        writer.put(&MAGIC);
        writer.put(&VERSION.to_le_bytes());
        writer.put(&kind.to_le_bytes());
        writer
    }

    fn put(&mut self, field: &[u8]) {
        self.bytes[self.at..self.at + field.len()].copy_from_slice(field);
        self.at += field.len();
    }

    pub(crate) fn u64(mut self, value: u64) -> Self {
        self.put(&value.to_le_bytes());
        self
    }

    pub(crate) fn text<const M: usize>(mut self, text: &Text<M>) -> Self {
        self.put(text.field());
        self
    }

    pub(crate) fn done(self) -> [u8; N] {
        self.bytes
    }
}

pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// The kind of a message of `len` bytes, and its fields.
    pub(crate) fn new(bytes: &'a [u8], len: usize) -> Result<(u16, Reader<'a>), WireError> {
        let mut reader = Reader { rest: bytes };
        if reader.take::<4>() != Ok(MAGIC) {
            return Err(WireError::NotOurs);
        }
        // Another version may have another length.
        let version = u16::from_le_bytes(reader.take()?);
        if version != VERSION {
            return Err(WireError::Version(version));
        }
        if bytes.len() != len {
            return Err(WireError::NotOurs);
        }
        Ok((u16::from_le_bytes(reader.take()?), reader))
    }

    fn take<const M: usize>(&mut self) -> Result<[u8; M], WireError> {
        let (field, rest) = self.rest.split_first_chunk::<M>().ok_or(WireError::NotOurs)?;
        self.rest = rest;
        Ok(*field)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, WireError> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    pub(crate) fn text<const M: usize>(&mut self) -> Result<Text<M>, WireError> {
        Text::from_field(self.take()?).ok_or(WireError::Malformed)
    }

    /// The message, if nothing else is in it.
    pub(crate) fn end<T>(self, message: T) -> Result<T, WireError> {
        if self.rest.iter().all(|b| *b == 0) { Ok(message) } else { Err(WireError::Malformed) }
    }
}
