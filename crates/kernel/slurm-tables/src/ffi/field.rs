//! Fields of records, by where they lie.

use std::ffi::{c_char, c_void};
use std::marker::PhantomData;

use crate::kind::Kind;
use crate::table::{BadTable, Layout};

/// A list of Slurm's; only ever handled by pointer.
#[derive(Debug)]
#[repr(C)]
pub struct List {
    hidden: [u8; 0],
}

/// A number that has more bytes in some releases than in others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wide(pub u64);

/// The type of a field: numbers and pointers, for which every bit pattern is a value.
pub trait Value: Copy {
    /// Kind of the contents.
    const KIND: Kind;

    /// Tells whether a field of so many bytes can be read as this type.
    fn fits(bytes: usize) -> bool {
        bytes == size_of::<Self>()
    }

    /// Reads a field of so many bytes.
    ///
    /// # Safety
    ///
    /// `place` is a live field of `bytes` bytes that [`Self::fits`], aligned as C aligns it.
    unsafe fn read(place: *const u8, bytes: usize) -> Self;
}

macro_rules! values {
    ($($kind:ident: $($ty:ty),*;)*) => { $($(
        impl Value for $ty {
            const KIND: Kind = Kind::$kind;

            unsafe fn read(place: *const u8, _: usize) -> Self {
                // SAFETY: the caller's promise: any bits are a value of this type.
                unsafe { place.cast::<Self>().read() }
            }
        }
    )*)* };
}

impl Value for Wide {
    const KIND: Kind = Kind::Number;

    fn fits(_: usize) -> bool {
        true
    }

    unsafe fn read(place: *const u8, bytes: usize) -> Self {
        // SAFETY: the caller's promise: bytes of the field.
        let bytes = unsafe { std::slice::from_raw_parts(place, bytes.min(8)) };
        let mut all = [0; 8];
        all[..bytes.len()].copy_from_slice(bytes);
        Self(u64::from_le_bytes(all))
    }
}

values! {
    Number: u8, u16, u32, u64, i32, i64;
    Text: *mut c_char;
    Bits: *mut i64;
    List: *mut List;
    Pointer: *mut c_void, *mut *mut c_char, *mut *mut i64, *mut *mut u64, *mut u64, *mut u32, *mut u16;
}

/// A field that lies at this place of its structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<T> {
    /// Bytes before it.
    pub position: usize,
    bytes: usize,
    of: PhantomData<fn() -> T>,
}

impl<T: Value> Field<T> {
    /// Finds a field; `None`: the release does not have it.
    ///
    /// # Errors
    ///
    /// The table does not know it, or with another number of bytes.
    pub fn optional(layout: &Layout, structure: &str, name: &str) -> Result<Option<Self>, BadTable> {
        let row = format!("{structure}.{name}");
        let Some((position, bytes)) = layout.field(&row)? else { return Ok(None) };
        if !T::fits(bytes) {
            let why = format!("has {bytes} bytes, not {}", size_of::<T>());
            return Err(BadTable::Wrong { version: layout.version, name: row, why });
        }
        Ok(Some(Self { position, bytes, of: PhantomData }))
    }

    /// Finds a field that every release has.
    ///
    /// # Errors
    ///
    /// As [`Self::optional`], and if the release does not have it.
    pub fn required(layout: &Layout, structure: &str, name: &str) -> Result<Self, BadTable> {
        let row = || format!("{structure}.{name}");
        let missing =
            || BadTable::Wrong { version: layout.version, name: row(), why: "is missing".to_owned() };
        Self::optional(layout, structure, name)?.ok_or_else(missing)
    }

    /// Gives the address of the field in a record.
    ///
    /// # Safety
    ///
    /// `record` points to a live structure of the layout that the field is from.
    #[must_use]
    pub unsafe fn place(self, record: *mut u8) -> *mut T {
        // SAFETY: the caller's promise; the layout has the field inside of the structure, aligned as C aligns it.
        unsafe { record.add(self.position) }.cast()
    }

    /// Reads the field of a record.
    ///
    /// # Safety
    ///
    /// As [`Self::place`].
    #[must_use]
    pub unsafe fn read(self, record: *mut u8) -> T {
        // SAFETY: the caller's promise.
        let place = unsafe { self.place(record) };
        // SAFETY: as above; the bytes were found to fit.
        unsafe { T::read(place.cast(), self.bytes) }
    }
}
