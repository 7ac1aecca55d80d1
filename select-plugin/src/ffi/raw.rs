//! The few pointer operations that reading C structs takes.

pub(super) use plugin_rt::text;

/// The struct behind a pointer; `None` for null.
///
/// # Safety
///
/// A pointer that is not null points to a live, initialised `T` that nothing writes to while the reference is used.
/// Slurm's promise for the records it hands to a select plugin: the caller holds the job and node write locks.
pub(super) unsafe fn struct_at<'a, T>(pointer: *const T) -> Option<&'a T> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }
}

/// Element `index` of an array; `None` for a null array.
///
/// # Safety
///
/// An array that is not null has more than `index` initialised elements.
pub(super) unsafe fn item<T: Copy>(array: *const T, index: usize) -> Option<T> {
    if array.is_null() {
        return None;
    }
    // SAFETY: the caller's promise: inside the array.
    let element = unsafe { array.add(index) };
    // SAFETY: as above, initialised.
    Some(unsafe { element.read() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null;

    #[test]
    fn null_is_nothing() {
        // SAFETY: null is allowed.
        assert!(unsafe { struct_at::<u32>(null()) }.is_none());
        // SAFETY: null is allowed.
        assert_eq!(unsafe { item::<u32>(null(), 7) }, None);
        // SAFETY: null is allowed.
        assert_eq!(unsafe { text(null()) }, None);
    }

    #[test]
    fn arrays_and_strings_are_read() {
        let array = [1_u16, 2, 3];
        // SAFETY: three elements.
        assert_eq!(unsafe { item(array.as_ptr(), 2) }, Some(3));
        // SAFETY: a literal.
        assert_eq!(unsafe { text(c"n1".as_ptr()) }.as_deref(), Some("n1"));
    }
}
