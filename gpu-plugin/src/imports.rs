//! Finds the pointers by which a loaded library calls a function of another.
//!
//! The dynamic linker fills such a pointer for each relocation that names the function [ELF-64 Object File Format 1.5; System V gABI,
//! chapter 5]. Everything is read by [`peek`]: a library that is not as described here is an error, never a crash.

use std::ffi::CStr;

use slurm_tables::peek;

/// Why the pointers cannot be found.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum BadLibrary {
    /// Memory that should be there is not.
    #[error("its dynamic section cannot be read")]
    Unreadable,
    /// Has a table of another form, or a larger one than any library of this kind has.
    #[error("its relocations have a form that is not known")]
    UnknownForm,
}

/// Most entries of a dynamic section that are looked at.
const MOST_ENTRIES: usize = 256;
/// Most bytes of a relocation table: Slurm's plugin has 2 KiB.
const MOST_BYTES: u64 = 1 << 20;
/// Bytes of a relocation with an addend, and of a symbol.
const RELOCATION: usize = 24;
const SYMBOL: usize = 24;

/// A loaded library: what the dynamic linker tells of it in its `link_map`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Library {
    /// Address that the library's own addresses count from.
    pub(crate) base: usize,
    /// Address of its dynamic section.
    pub(crate) dynamic: usize,
}

/// Entries of a dynamic section that are used here; 0 where there is none.
#[derive(Default)]
struct Dynamic {
    strings: u64,
    symbols: u64,
    /// Address and bytes of both relocation tables: of calls, and of all else.
    tables: [(u64, u64); 2],
}

impl Library {
    /// Addresses of the pointers to the function `name`: none if the library does not use it.
    ///
    /// # Errors
    ///
    /// The library cannot be read.
    pub(crate) fn pointers_to(self, name: &CStr) -> Result<Vec<usize>, BadLibrary> {
        let dynamic = self.dynamic()?;
        let mut found = Vec::new();
        for (at, bytes) in dynamic.tables {
            if bytes > MOST_BYTES {
                return Err(BadLibrary::UnknownForm);
            }
            let mut table = vec![0; usize::try_from(bytes).unwrap_or(0)];
            read(self.absolute(at), &mut table)?;
            for relocation in table.chunks_exact(RELOCATION) {
                let (place, info) = (word(relocation, 0), word(relocation, 1));
                let symbol = usize::try_from(info >> 32).unwrap_or(0);
                if symbol != 0 && self.is_named(&dynamic, symbol, name)? {
                    found.push(self.base.wrapping_add(usize::try_from(place).unwrap_or(0)));
                }
            }
        }
        Ok(found)
    }

    fn dynamic(self) -> Result<Dynamic, BadLibrary> {
        let mut found = Dynamic::default();
        for index in 0..MOST_ENTRIES {
            let mut entry = [0; 16];
            read(self.dynamic.wrapping_add(index * entry.len()), &mut entry)?;
            let value = word(&entry, 1);
            match word(&entry, 0) {
                0 => return Ok(found),
                2 => found.tables[0].1 = value,
                5 => found.strings = value,
                6 => found.symbols = value,
                7 => found.tables[1].0 = value,
                8 => found.tables[1].1 = value,
                23 => found.tables[0].0 = value,
                // DT_PLTREL: whether calls have relocations with an addend, as all have on x86-64 and arm64.
                20 if value != 7 => return Err(BadLibrary::UnknownForm),
                _ => {}
            }
        }
        Err(BadLibrary::UnknownForm)
    }

    fn is_named(self, dynamic: &Dynamic, symbol: usize, name: &CStr) -> Result<bool, BadLibrary> {
        let mut entry = [0; SYMBOL];
        read(self.absolute(dynamic.symbols).wrapping_add(symbol * SYMBOL), &mut entry)?;
        let place = u32::from_ne_bytes([entry[0], entry[1], entry[2], entry[3]]);
        let at = self.absolute(dynamic.strings).wrapping_add(usize::try_from(place).unwrap_or(0));
        // The string table may end behind a shorter name: byte after byte.
        for (index, wanted) in name.to_bytes_with_nul().iter().enumerate() {
            let mut byte = [0];
            read(at.wrapping_add(index), &mut byte)?;
            if byte[0] != *wanted {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// glibc has added the base to the addresses in a dynamic section that it can write to, and not in others.
    fn absolute(self, address: u64) -> usize {
        let address = usize::try_from(address).unwrap_or(0);
        if address < self.base { self.base.wrapping_add(address) } else { address }
    }
}

fn read(at: usize, into: &mut [u8]) -> Result<(), BadLibrary> {
    if into.is_empty() || peek(at, into) { Ok(()) } else { Err(BadLibrary::Unreadable) }
}

/// Gives a 64-bit word of some bytes; 0 behind their end.
fn word(bytes: &[u8], index: usize) -> u64 {
    bytes.chunks_exact(8).nth(index).and_then(|word| word.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A library in memory: its dynamic section, two symbols, their names, and calls of both.
    struct Image {
        words: Vec<u64>,
    }

    const NAMES: &[u8; 16] = b"\0first\0second\0\0\0";
    const STRINGS: usize = 40;
    const SYMBOLS: usize = 48;
    const CALLS: usize = 64;

    impl Image {
        fn new() -> Self {
            let mut words = vec![0; 128];
            let entries = [(5, STRINGS), (6, SYMBOLS), (23, CALLS), (2, 6), (20, 0)];
            for (index, (tag, place)) in entries.into_iter().enumerate() {
                words[index * 2] = tag;
                words[index * 2 + 1] = place as u64 * 8;
            }
            words[9] = 7;
            for (index, name) in NAMES.chunks_exact(8).enumerate() {
                words[STRINGS + index] = word(name, 0);
            }
            // Symbol 0 is none.
            (words[SYMBOLS + 3], words[SYMBOLS + 6]) = (1, 7);
            for (index, symbol) in [1, 2].into_iter().enumerate() {
                words[CALLS + index * 3] = 0x100 + index as u64;
                words[CALLS + index * 3 + 1] = symbol << 32 | 7;
            }
            Self { words }
        }

        fn find(&self, name: &CStr) -> Result<Vec<usize>, BadLibrary> {
            let base = self.words.as_ptr().addr();
            let found = Library { base, dynamic: base }.pointers_to(name)?;
            Ok(found.into_iter().map(|at| at - base).collect())
        }
    }

    #[test]
    fn a_function_is_found_by_its_whole_name() {
        let image = Image::new();
        assert_eq!(image.find(c"first"), Ok(vec![0x100]));
        assert_eq!(image.find(c"second"), Ok(vec![0x101]));
        for none in [c"firs", c"first2", c"irst", c""] {
            assert_eq!(image.find(none), Ok(vec![]), "{none:?}");
        }
    }

    #[test]
    fn a_library_that_is_not_as_described_is_an_error() {
        let with = |at: usize, value: u64| {
            let mut image = Image::new();
            image.words[at] = value;
            image.find(c"first")
        };
        assert_eq!(with(9, 17), Err(BadLibrary::UnknownForm), "relocations without addend");
        assert_eq!(with(7, MOST_BYTES + 1), Err(BadLibrary::UnknownForm), "a huge table");
        for at in [1, 3, 5] {
            assert_eq!(with(at, u64::MAX - 4096), Err(BadLibrary::Unreadable), "entry {at}");
        }
        assert_eq!(with(CALLS + 1, u64::MAX), Err(BadLibrary::Unreadable), "a symbol far behind the end");
        let nowhere = Library { base: 0, dynamic: 8 };
        assert_eq!(nowhere.pointers_to(c"first"), Err(BadLibrary::Unreadable));
        let endless = vec![9_u64; MOST_ENTRIES * 2 + 2];
        let endless = Library { base: 0, dynamic: endless.as_ptr().addr() };
        assert_eq!(endless.pointers_to(c"first"), Err(BadLibrary::UnknownForm));
    }
}
