//! Slurm's lists and bit strings, read and written by its own functions.

use std::ffi::{c_int, c_void};
use std::ops::Range;

pub use slurm_tables::List;
use slurm_tables::{Bitmap, ListOf, RecordView};

/// Slurm's `bitstr_t`; only ever handled by pointer.
pub type BitString = i64;

crate::found_symbols! {
    /// Slurm's functions for lists.
    #[derive(Clone, Copy, Debug)]
    pub struct Lists {
        fn iterator_create = c"slurm_list_iterator_create", "src/common/list.h": fn(*mut List) -> *mut c_void;
        fn next = c"slurm_list_next", "src/common/list.h": fn(*mut c_void) -> *mut c_void;
        fn iterator_destroy = c"slurm_list_iterator_destroy", "src/common/list.h": fn(*mut c_void);
        fn create = c"slurm_list_create", "src/common/list.h": fn(*const c_void) -> *mut List;
        fn append = c"slurm_list_append", "src/common/list.h": fn(*mut List, *mut c_void);
        fn flush = c"slurm_list_flush", "src/common/list.h": fn(*mut List) -> c_int;
    }
}

impl Lists {
    /// Gives the records of a list that a record has, in its order.
    #[must_use]
    pub fn of<T: RecordView>(&self, list: ListOf<T>) -> Vec<T> {
        // SAFETY: read from a record: null or a live list.
        let elements = unsafe { self.elements::<c_void>(list.list) };
        // SAFETY: the list's type says what its elements are.
        elements.into_iter().filter_map(|element| unsafe { T::behind(element) }).collect()
    }

    /// Gives the elements of a list, in its order; none for null.
    ///
    /// # Safety
    ///
    /// `list` is null or a live list, which nothing changes during the call.
    #[must_use]
    pub unsafe fn elements<T>(&self, list: *mut List) -> Vec<*mut T> {
        let mut found = Vec::new();
        if list.is_null() {
            return found;
        }
        // SAFETY: list.h; the list is live.
        let iterator = unsafe { (self.iterator_create)(list) };
        loop {
            // SAFETY: the iterator made above.
            let element = unsafe { (self.next)(iterator) };
            if element.is_null() {
                break;
            }
            found.push(element.cast());
        }
        // SAFETY: the iterator made above, destroyed once.
        unsafe { (self.iterator_destroy)(iterator) };
        found
    }

    /// Makes these the elements of a list, and makes the list if there is none.
    ///
    /// # Safety
    ///
    /// `list` is null or a live list that does not own its elements.
    pub unsafe fn fill<T>(&self, list: &mut *mut List, elements: &[*mut T]) {
        if list.is_null() {
            // SAFETY: list.h: a list that does not own its elements.
            *list = unsafe { (self.create)(std::ptr::null()) };
        }
        // SAFETY: the caller's promise, or made above.
        unsafe { (self.flush)(*list) };
        for element in elements {
            // SAFETY: as above.
            unsafe { (self.append)(*list, element.cast()) };
        }
    }
}

crate::found_symbols! {
    /// Slurm's functions for bit strings.
    #[derive(Clone, Copy, Debug)]
    pub struct Bits {
        fn bit_test = c"slurm_bit_test", "src/common/bitstring.h": fn(*mut BitString, i64) -> c_int;
        fn bit_size = c"slurm_bit_size", "src/common/bitstring.h": fn(*mut BitString) -> i64;
        fn bit_ffs = c"slurm_bit_ffs", "src/common/bitstring.h": fn(*mut BitString) -> i64;
        fn bit_fls = c"slurm_bit_fls", "src/common/bitstring.h": fn(*mut BitString) -> i64;
        fn bit_set = c"slurm_bit_set", "src/common/bitstring.h": fn(*mut BitString, i64);
        fn bit_clear = c"slurm_bit_clear", "src/common/bitstring.h": fn(*mut BitString, i64);
    }
}

impl Bits {
    /// Takes a bit string that a record has.
    #[must_use]
    pub fn of(&self, bits: Bitmap) -> BitsAt<'_> {
        // SAFETY: read from a record: null or a live bit string.
        unsafe { self.at(bits.address()) }
    }

    /// Takes a bit string.
    ///
    /// # Safety
    ///
    /// `at` is null or a bit string that lives as long as what is returned, and that the hook may write to if it calls
    /// [`BitsAt::put`].
    #[must_use]
    pub unsafe fn at(&self, at: *mut BitString) -> BitsAt<'_> {
        BitsAt { functions: self, at }
    }
}

/// A bit string. One that is null has no bits.
#[derive(Clone, Copy, Debug)]
pub struct BitsAt<'a> {
    functions: &'a Bits,
    at: *mut BitString,
}

impl BitsAt<'_> {
    /// Gives the bits below `limit` that are set.
    #[must_use]
    pub fn below(self, limit: usize) -> Vec<usize> {
        self.span().take_while(|i| *i < limit).filter(|i| self.test(*i)).collect()
    }

    /// Gives the indices from the first bit that is set to the last. A job has few of many nodes, and rarely far from each other.
    fn span(self) -> Range<usize> {
        if self.at.is_null() {
            return 0..0;
        }
        // SAFETY: the promise of `Bits::at`; not null.
        let first = unsafe { (self.functions.bit_ffs)(self.at) };
        // SAFETY: as above.
        let last = unsafe { (self.functions.bit_fls)(self.at) };
        match (usize::try_from(first), usize::try_from(last)) {
            (Ok(first), Ok(last)) => first..last + 1,
            // None is set.
            _ => 0..0,
        }
    }

    /// Gives its length.
    #[must_use]
    pub fn size(self) -> usize {
        // SAFETY: the promise of `Bits::at`.
        let size = || unsafe { (self.functions.bit_size)(self.at) };
        if self.at.is_null() { 0 } else { usize::try_from(size()).unwrap_or(0) }
    }

    /// The bit of this index, for Slurm's functions; `None` for one beyond the end.
    fn inside(self, index: usize) -> Option<i64> {
        i64::try_from(index).ok().filter(|_| index < self.size())
    }

    /// Tells whether a bit is set; false for one beyond the end.
    #[must_use]
    pub fn test(self, index: usize) -> bool {
        // SAFETY: the promise of `Bits::at`; not null, since the bit is inside.
        self.inside(index).is_some_and(|index| unsafe { (self.functions.bit_test)(self.at, index) != 0 })
    }

    /// Sets or clears a bit; nothing for one beyond the end.
    pub fn put(self, index: usize, value: bool) {
        let Some(index) = self.inside(index) else { return };
        let change = if value { self.functions.bit_set } else { self.functions.bit_clear };
        // SAFETY: the promise of `Bits::at`; not null, since the bit is inside.
        unsafe { change(self.at, index) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bit string of these tests: its length, then its bits, one each.
    fn bits(at: *mut BitString) -> &'static mut [BitString] {
        // SAFETY: a test's own string, which lives as long as the test uses it.
        let length = usize::try_from(unsafe { *at }).unwrap();
        // SAFETY: as above.
        let first = unsafe { at.add(1) };
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(first, length) }
    }

    fn place(found: Option<usize>) -> i64 {
        found.map_or(-1, |at| i64::try_from(at).unwrap())
    }

    unsafe extern "C" fn test(at: *mut BitString, index: i64) -> c_int {
        c_int::try_from(bits(at)[usize::try_from(index).unwrap()]).unwrap()
    }

    unsafe extern "C" fn size(at: *mut BitString) -> i64 {
        place(Some(bits(at).len()))
    }

    unsafe extern "C" fn first(at: *mut BitString) -> i64 {
        place(bits(at).iter().position(|bit| *bit == 1))
    }

    unsafe extern "C" fn last(at: *mut BitString) -> i64 {
        place(bits(at).iter().rposition(|bit| *bit == 1))
    }

    unsafe extern "C" fn set(at: *mut BitString, index: i64) {
        bits(at)[usize::try_from(index).unwrap()] = 1;
    }

    unsafe extern "C" fn clear(at: *mut BitString, index: i64) {
        bits(at)[usize::try_from(index).unwrap()] = 0;
    }

    const FUNCTIONS: Bits = Bits {
        bit_test: test,
        bit_size: size,
        bit_ffs: first,
        bit_fls: last,
        bit_set: set,
        bit_clear: clear,
    };

    #[test]
    fn the_bits_below_a_limit_are_those_that_are_set() {
        for pattern in 0..1_u32 << 8 {
            let mut string: Vec<BitString> =
                std::iter::once(8).chain((0..8).map(|bit| i64::from(pattern >> bit & 1))).collect();
            // SAFETY: alive to the end of this turn.
            let bits = unsafe { FUNCTIONS.at(string.as_mut_ptr()) };
            for limit in [0, 1, 5, 8, 9, usize::MAX] {
                let set: Vec<usize> = (0..8.min(limit)).filter(|bit| pattern >> bit & 1 == 1).collect();
                assert_eq!(bits.below(limit), set, "{pattern:08b} below {limit}");
            }
        }
    }

    #[test]
    fn bits_beyond_the_end_are_neither_read_nor_written() {
        let mut string: Vec<BitString> = vec![2, 0, 1];
        // SAFETY: alive to the end of this test.
        let bits = unsafe { FUNCTIONS.at(string.as_mut_ptr()) };
        assert_eq!([bits.test(0), bits.test(1), bits.test(2)], [false, true, false]);
        bits.put(0, true);
        bits.put(1, false);
        bits.put(2, true);
        assert_eq!(bits.below(9), [0]);
        // SAFETY: null has no bits.
        let none = unsafe { FUNCTIONS.at(std::ptr::null_mut()) };
        none.put(0, true);
        assert_eq!((none.size(), none.below(9), none.test(0)), (0, Vec::new(), false));
    }
}
