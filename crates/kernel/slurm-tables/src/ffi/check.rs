//! The check of a record, in a way that cannot crash: the kernel copies what is looked at.

use super::peek::{peek, peek_text};
use crate::kind::Kind;

/// Slurm's mark before a block of its own memory: `XMALLOC_MAGIC`, then the block's bytes (src/common/xmalloc.c, the same in all
/// releases of the tables).
const BLOCK_MAGIC: u64 = 0x42;
/// The first word of a bit string (`BITSTR_MAGIC`, src/common/bitstring.h).
const BITS_MAGIC: u64 = 0x4243_4445;
/// The first word of a list (`LIST_MAGIC`, src/common/list.c).
const LIST_MAGIC: u32 = 0xdead_beef;

/// A record does not have what it should at the places where a table says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// The block of memory is of another size.
    #[error("a {structure} has {has} bytes here, and {expected} by the table")]
    Size {
        /// Slurm's name of the structure.
        structure: &'static str,
        /// Bytes of the block; 0 if it is none of Slurm's.
        has: u64,
        /// Bytes by the table.
        expected: u64,
    },
    /// A field has something else.
    #[error("{structure}.{field} has no {wanted} here, at byte {position}")]
    Field {
        /// Slurm's name of the structure.
        structure: &'static str,
        /// The field.
        field: &'static str,
        /// Bytes before it, by the table.
        position: usize,
        /// Contents that it should have.
        wanted: &'static str,
    },
}

/// A structure, as far as a check of its records goes.
#[derive(Clone, Debug)]
pub struct Record {
    /// Slurm's name of the structure.
    pub structure: &'static str,
    /// Bytes of the structure.
    pub size: usize,
    /// Place and number of the mark, if the structure has one.
    pub magic: Option<(usize, u32)>,
    /// Name, position and contents of each field.
    pub fields: Vec<(&'static str, usize, Kind)>,
}

impl Record {
    /// Checks a record of its own block of memory, and follows no pointer in it that may not be one.
    ///
    /// # Errors
    ///
    /// The first thing that is not as it should be.
    pub fn check(&self, address: usize) -> Result<(), Misfit> {
        let expected = self.size as u64;
        let mut block = [0; 16];
        let begin = address.wrapping_sub(block.len());
        let words = |block: [u8; 16]| {
            let (magic, size) = block.split_at(8);
            let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
            (word(magic), word(size))
        };
        let is_block = peek(begin, &mut block) && words(block).0 == BLOCK_MAGIC;
        let has = if is_block { words(block).1 } else { 0 };
        if has != expected {
            return Err(Misfit::Size { structure: self.structure, has, expected });
        }
        self.check_fields(address)
    }

    /// As [`Self::check`], for a structure that is no block of its own.
    ///
    /// # Errors
    ///
    /// The first field that has something else than it should have.
    pub fn check_fields(&self, address: usize) -> Result<(), Misfit> {
        let wrong = |field, position, wanted| {
            Err(Misfit::Field { structure: self.structure, field, position, wanted })
        };
        if let Some((position, magic)) = self.magic {
            let mut found = [0; 4];
            if !peek(address.wrapping_add(position), &mut found) || u32::from_ne_bytes(found) != magic {
                return wrong("magic", position, "mark");
            }
        }
        for (field, position, kind) in &self.fields {
            let wanted = match kind {
                Kind::Number => continue,
                Kind::Pointer => "pointer",
                Kind::Text => "text",
                Kind::Bits => "bit string",
                Kind::List => "list",
            };
            let mut pointer = [0; 8];
            let is_there = peek(address.wrapping_add(*position), &mut pointer);
            if !is_there || !points_to(*kind, usize::from_ne_bytes(pointer)) {
                return wrong(*field, *position, wanted);
            }
        }
        Ok(())
    }
}

/// Tells whether an address can be a pointer of that kind.
fn points_to(kind: Kind, address: usize) -> bool {
    if address == 0 {
        return true;
    }
    let mut word = [0; 8];
    let is_aligned = address.is_multiple_of(word.len());
    match kind {
        Kind::Number => true,
        // A user may have written it, and made it long.
        Kind::Text => peek_text(address).is_some(),
        Kind::Pointer => is_aligned && peek(address, &mut word),
        Kind::Bits => is_aligned && peek(address, &mut word) && u64::from_ne_bytes(word) == BITS_MAGIC,
        Kind::List => is_aligned && peek(address, &mut word) && word[..4] == LIST_MAGIC.to_ne_bytes(),
    }
}

#[cfg(test)]
mod tests;
