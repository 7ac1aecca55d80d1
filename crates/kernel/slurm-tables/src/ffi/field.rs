//! Fields of records, by where they lie.

use std::ffi::{c_char, c_void};
use std::marker::PhantomData;

use plugin_rt::text;

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

/// A view of a kind of records.
pub trait RecordView: Copy {
    /// Takes the record behind a pointer; `None` for null, and before the layout is learnt.
    ///
    /// # Safety
    ///
    /// A pointer that is not null points to a live record of this kind. It lives, with what its fields point to, as long as what is
    /// returned is used.
    unsafe fn behind(pointer: *mut c_void) -> Option<Self>;
}

/// The type of a field: numbers and pointers, for which every bit pattern is a value, and what is read behind a pointer.
pub trait Value: Copy {
    /// Kind of the contents.
    const KIND: Kind;
    /// The field itself, for one that writes it.
    type Raw;
    /// Result of a look at the field.
    type Given;

    /// Tells whether a field of so many bytes can be read as this type.
    fn fits(bytes: usize) -> bool {
        bytes == size_of::<Self::Raw>()
    }

    /// Reads a field of so many bytes.
    ///
    /// # Safety
    ///
    /// `place` is a live field of `bytes` bytes that [`Self::fits`], aligned as C aligns it. What it points to is of [`Self::KIND`], and
    /// lives as long as what is returned is used.
    unsafe fn read(place: *const u8, bytes: usize) -> Self::Given;
}

/// A text. It is copied when it is read; `None` for null.
#[derive(Clone, Copy, Debug)]
pub enum Text {}

/// Another record; `None` for null.
#[derive(Clone, Copy, Debug)]
pub struct Behind<T>(PhantomData<fn() -> T>);

/// A list of records, or null.
#[derive(Clone, Copy, Debug)]
pub struct ListOf<T> {
    /// The list.
    pub list: *mut List,
    of: PhantomData<fn() -> T>,
}

/// A bit string, or null.
#[derive(Clone, Copy, Debug)]
pub struct Bitmap(*mut i64);

impl Bitmap {
    /// Null: it has no bits.
    pub const NONE: Self = Self(std::ptr::null_mut());

    /// Gives its address.
    #[must_use]
    pub fn address(self) -> *mut i64 {
        self.0
    }
}

macro_rules! values {
    ($($ty:ty $([$of:ident])?, $kind:ident, $raw:ty, $given:ty, |$read:ident| $value:expr;)*) => { $(
        impl$(<$of: RecordView>)? Value for $ty {
            const KIND: Kind = Kind::$kind;
            type Raw = $raw;
            type Given = $given;

            unsafe fn read(place: *const u8, _: usize) -> $given {
                // SAFETY: the caller's promise: any bits are a value of this type.
                let $read = unsafe { place.cast::<$raw>().read() };
                $value
            }
        }
    )* };
}

macro_rules! plain_values {
    ($($kind:ident: $($ty:ty),*;)*) => { values! { $($($ty, $kind, $ty, $ty, |read| read;)*)* } };
}

impl Value for Wide {
    const KIND: Kind = Kind::Number;
    type Raw = u8;
    type Given = Self;

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

plain_values! {
    Number: u8, u16, u32, u64, i32, i64;
    Text: *mut c_char;
    List: *mut List;
    Pointer: *mut c_void, *mut *mut c_char, *mut *mut i64, *mut *mut u64, *mut u64, *mut u32, *mut u16;
}

values! {
    // SAFETY: the caller's promise: null or a text that ends.
    Text, Text, *mut c_char, Option<String>, |read| unsafe { text(read) };
    // SAFETY: the caller's promise: null or a record of this kind.
    Behind<T> [T], Pointer, *mut c_void, Option<T>, |read| unsafe { T::behind(read) };
    ListOf<T> [T], List, *mut List, Self, |list| Self { list, of: PhantomData };
    Bitmap, Bits, *mut i64, Self, |read| Self(read);
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
            let why = format!("has {bytes} bytes, not {}", size_of::<T::Raw>());
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
    pub unsafe fn place(self, record: *mut u8) -> *mut T::Raw {
        // SAFETY: the caller's promise; the layout has the field inside of the structure, aligned as C aligns it.
        unsafe { record.add(self.position) }.cast()
    }

    /// Reads the field of a record.
    ///
    /// # Safety
    ///
    /// As [`Self::place`] and [`Value::read`].
    #[must_use]
    pub unsafe fn read(self, record: *mut u8) -> T::Given {
        // SAFETY: the caller's promise.
        let place = unsafe { self.place(record) };
        // SAFETY: as above; the bytes were found to fit.
        unsafe { T::read(place.cast(), self.bytes) }
    }
}
