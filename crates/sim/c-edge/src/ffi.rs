//! Pointer arguments of C functions.

use std::ffi::{CStr, c_char, c_uint};
use std::marker::PhantomData;

use super::{Status, StatusOfRoom};

/// A pointer argument to one `T` or to an array of them, or null, of a function with the status codes `S`. C makes them, as arguments:
/// a function of a header promises that one that is not null points to a valid `T`, or to memory for as many as it says. All
/// `T` used are plain C data.
#[repr(transparent)]
pub struct Out<T, S>(*mut T, PhantomData<S>);

impl<T, S> Clone for Out<T, S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, S> Copy for Out<T, S> {}

impl<T: Copy, S: Status> Out<T, S> {
    #[cfg(test)]
    pub(crate) fn null() -> Self {
        Self(std::ptr::null_mut(), PhantomData)
    }

    #[cfg(test)]
    pub(crate) fn of(place: &mut T) -> Self {
        Self(std::ptr::from_mut(place), PhantomData)
    }

    /// True for a null pointer.
    #[must_use]
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The address.
    #[must_use]
    pub fn address(self) -> u64 {
        self.0.expose_provenance() as u64
    }

    /// Reads what the caller has there.
    ///
    /// # Errors
    ///
    /// The pointer is null.
    pub fn get(self) -> Result<T, S> {
        if self.0.is_null() {
            return Err(S::INVALID);
        }
        // SAFETY: the header's promise, see [`Out`].
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// Writes the answer.
    ///
    /// # Errors
    ///
    /// The pointer is null.
    pub fn put(self, value: T) -> Result<(), S> {
        if self.0.is_null() {
            return Err(S::INVALID);
        }
        // SAFETY: the header's promise, see [`Out`].
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes the answer if the caller wants it: null is allowed.
    ///
    /// # Errors
    ///
    /// None; for callers that chain answers.
    pub fn put_if(self, value: T) -> Result<(), S> {
        if self.0.is_null() { Ok(()) } else { self.put(value) }
    }

    /// Writes an array whose room the caller has already been found to have.
    ///
    /// # Errors
    ///
    /// The pointer is null, and there are values.
    pub fn put_all(self, values: &[T]) -> Result<(), S> {
        (0..).zip(values).try_for_each(|(i, value)| self.at(i).put(*value))
    }

    /// The pointer `index` T further on; null stays null.
    #[must_use]
    pub fn at(self, index: usize) -> Self {
        if self.0.is_null() { self } else { Self(self.0.wrapping_add(index), PhantomData) }
    }

    /// Makes it a pointer to another type that begins at the same place.
    #[must_use]
    pub fn cast<U>(self) -> Out<U, S> {
        Out(self.0.cast(), PhantomData)
    }
}

impl<T: Copy, S: StatusOfRoom> Out<T, S> {
    /// Writes a list: `count` has the array's room and becomes the number of elements. With too little room, or no array, only the
    /// number is given.
    ///
    /// # Errors
    ///
    /// `count` is null, or the room does not suffice.
    pub fn put_list(self, count: Out<c_uint, S>, values: &[T]) -> Result<(), S> {
        let room = count.get()?;
        let n = c_uint::try_from(values.len()).map_err(|_| S::UNKNOWN)?;
        count.put(n)?;
        if n > room || (self.is_null() && n > 0) {
            return Err(S::TOO_SMALL);
        }
        self.put_all(values)
    }
}

fn with_nul(text: &[u8]) -> Vec<c_char> {
    text.iter().chain([&0]).map(|byte| c_char::from_ne_bytes([*byte])).collect()
}

impl<S: Status> Out<c_char, S> {
    /// Writes text and its NUL into a buffer of `length` bytes, cut off where it does not fit.
    ///
    /// # Errors
    ///
    /// The buffer has no room for the NUL, or the pointer is null.
    pub fn put_text_cut(self, length: i32, text: &str) -> Result<(), S> {
        let room = usize::try_from(length).ok().and_then(|n| n.checked_sub(1)).ok_or(S::INVALID)?;
        let bytes = &text.as_bytes()[..room.min(text.len())];
        self.put_all(&with_nul(bytes))
    }
}

impl<S: StatusOfRoom> Out<c_char, S> {
    /// Writes text and its NUL into a buffer of `length` bytes.
    ///
    /// # Errors
    ///
    /// The pointer is null, or the text does not fit.
    pub fn put_text(self, length: c_uint, text: &str) -> Result<(), S> {
        if self.is_null() {
            return Err(S::INVALID);
        }
        if text.len() >= length as usize {
            return Err(S::TOO_SMALL);
        }
        self.put_all(&with_nul(text.as_bytes()))
    }
}

/// A `const char *` argument of a function with the status codes `S`. The header promises that one that is not null ends in a NUL.
#[repr(transparent)]
pub struct CText<S>(*const c_char, PhantomData<S>);

impl<S> Clone for CText<S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S> Copy for CText<S> {}

impl<S: Status> CText<S> {
    /// Copies the text, without its NUL.
    ///
    /// # Errors
    ///
    /// The pointer is null, or the text is not UTF-8.
    pub fn get(self) -> Result<String, S> {
        if self.0.is_null() {
            return Err(S::INVALID);
        }
        // SAFETY: the header's promise; the borrow ends within this call.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map(str::to_owned).map_err(|_| S::INVALID)
    }

    /// The address.
    #[must_use]
    pub fn address(self) -> u64 {
        self.0.expose_provenance() as u64
    }
}
