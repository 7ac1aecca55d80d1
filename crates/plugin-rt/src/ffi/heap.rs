//! Slurm's memory: strings and arrays that slurmctld frees.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;

use super::symbols::{MissingSymbol, item, required, text};

type Duplicate = unsafe extern "C" fn(*const c_char) -> *mut c_char;
type Free = unsafe extern "C" fn(*mut *mut c_void);
type Grow = unsafe extern "C" fn(
    *mut *mut c_void,
    usize,
    usize,
    bool,
    bool,
    *const c_char,
    c_int,
    *const c_char,
) -> *mut c_void;

/// Slurm's allocator.
#[derive(Clone, Copy, Debug)]
pub struct Heap {
    duplicate: Duplicate,
    free: Free,
    grow: Grow,
}

impl Heap {
    /// The hosting process's.
    ///
    /// # Errors
    ///
    /// It lacks one of the functions.
    pub fn look_up() -> Result<Self, MissingSymbol> {
        let (duplicate, free, grow) =
            (required(c"slurm_xstrdup")?, required(c"slurm_xfree")?, required(c"slurm_xrecalloc")?);
        Ok(Self {
            // SAFETY: src/common/xstring.h: `char *xstrdup(const char *)`.
            duplicate: unsafe { std::mem::transmute::<*mut c_void, Duplicate>(duplicate.as_ptr()) },
            // SAFETY: src/common/xmalloc.h: `void slurm_xfree(void **)`.
            free: unsafe { std::mem::transmute::<*mut c_void, Free>(free.as_ptr()) },
            // SAFETY: src/common/xmalloc.h: `slurm_xrecalloc`.
            grow: unsafe { std::mem::transmute::<*mut c_void, Grow>(grow.as_ptr()) },
        })
    }

    /// Replaces a string; text with a NUL in it leaves it as it is.
    ///
    /// # Safety
    ///
    /// `field` is null or a string that Slurm allocated, and nothing else points to it.
    pub unsafe fn replace(&self, field: &mut *mut c_char, text: &str) {
        let Ok(line) = CString::new(text) else { return };
        // SAFETY: xmalloc.h: the caller's promise; xfree sets the field to null.
        unsafe { (self.free)(ptr::from_mut(field).cast()) };
        // SAFETY: xstring.h: copies a NUL-terminated string.
        *field = unsafe { (self.duplicate)(line.as_ptr()) };
    }

    /// Takes the entries out of an environment for which `goes` is true, and adds `add`.
    ///
    /// # Safety
    ///
    /// As [`entries`], and Slurm allocated the array and the strings.
    pub unsafe fn rewrite(
        &self,
        env: &mut *mut *mut c_char,
        size: &mut u32,
        goes: &dyn Fn(&str) -> bool,
        add: Option<&str>,
    ) {
        // SAFETY: the caller's promise.
        let before = unsafe { pointers(*env, *size) };
        let (gone, kept): (Vec<_>, Vec<_>) = before.into_iter().partition(|(_, entry)| goes(entry));
        let mut kept: Vec<*mut c_char> = kept.into_iter().map(|(entry, _)| entry).collect();
        if let Some(add) = add {
            let Ok(line) = CString::new(add) else { return };
            // SAFETY: xstring.h: copies a NUL-terminated string.
            kept.push(unsafe { (self.duplicate)(line.as_ptr()) });
        }
        if gone.is_empty() && add.is_none() {
            return;
        }
        for (mut entry, _) in gone {
            // SAFETY: xmalloc.h: an element that Slurm allocated, freed once.
            unsafe { (self.free)((&raw mut entry).cast()) };
        }
        if kept.len() > *size as usize || env.is_null() {
            let (file, function) = (c"tessera".as_ptr(), c"rewrite".as_ptr());
            let (array, room) = (ptr::from_mut(env).cast(), kept.len() + 1);
            // SAFETY: xmalloc.h: grows an array that Slurm allocated, or null; it ends the process rather than fail.
            unsafe { (self.grow)(array, room, size_of::<*mut c_char>(), true, false, file, 0, function) };
        }
        for (i, entry) in kept.iter().enumerate() {
            // SAFETY: the array has at least `kept.len()` elements.
            let slot = unsafe { env.add(i) };
            // SAFETY: as above.
            unsafe { slot.write(*entry) };
        }
        *size = u32::try_from(kept.len()).unwrap_or(u32::MAX);
    }
}

/// The entries of a SPANK job environment, `NAME=VALUE`.
///
/// # Safety
///
/// `env` is null or an array of `size` pointers, each null or to a NUL-terminated string (`spank_job_env` and
/// `spank_job_env_size` in slurm.h and src/slurmctld/slurmctld.h).
#[must_use]
pub unsafe fn entries(env: *mut *mut c_char, size: u32) -> Vec<String> {
    // SAFETY: the caller's promise.
    unsafe { pointers(env, size) }.into_iter().map(|(_, entry)| entry).collect()
}

/// The same, each behind the pointer to it.
///
/// # Safety
///
/// As [`entries`].
unsafe fn pointers(env: *mut *mut c_char, size: u32) -> Vec<(*mut c_char, String)> {
    let one = |i| {
        // SAFETY: the caller's promise: inside the array.
        let entry = unsafe { item(env, i) }?;
        // SAFETY: the caller's promise.
        Some((entry, unsafe { text(entry) }.unwrap_or_default()))
    };
    (0..size as usize).map_while(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn duplicate(text: *const c_char) -> *mut c_char {
        // SAFETY: the caller's string.
        unsafe { libc::strdup(text) }
    }

    unsafe extern "C" fn free(field: *mut *mut c_void) {
        // SAFETY: a field of the test's.
        let field = unsafe { &mut *field };
        // SAFETY: null, or made by `duplicate`.
        unsafe { libc::free(*field) };
        *field = ptr::null_mut();
    }

    unsafe extern "C" fn grow(
        field: *mut *mut c_void,
        n: usize,
        each: usize,
        _: bool,
        _: bool,
        _: *const c_char,
        _: c_int,
        _: *const c_char,
    ) -> *mut c_void {
        // SAFETY: a field of the test's.
        let field = unsafe { &mut *field };
        // SAFETY: null, or grown before.
        *field = unsafe { libc::realloc(*field, n * each) };
        *field
    }

    #[test]
    fn an_environment_is_rewritten_in_place() {
        let heap = Heap { duplicate, free, grow };
        let (mut env, mut size) = (ptr::null_mut(), 0);
        let mut rewrite = |gone: &str, add: Option<&str>| {
            // SAFETY: null at first, and made by `heap` then.
            unsafe { heap.rewrite(&mut env, &mut size, &|entry| entry == gone, add) };
            // SAFETY: as above.
            unsafe { entries(env, size) }
        };
        assert_eq!(rewrite("", None), [""; 0]);
        assert_eq!(rewrite("", Some("A=1")), ["A=1"]);
        assert_eq!(rewrite("", Some("B=2")), ["A=1", "B=2"]);
        assert_eq!(rewrite("A=1", Some("A=3")), ["B=2", "A=3"]);
        assert_eq!(rewrite("", Some("N\0L")), ["B=2", "A=3"]);
        assert_eq!(rewrite("B=2", None), ["A=3"]);
        assert_eq!(rewrite("A=3", None), [""; 0]);
        // SAFETY: made by `grow`.
        unsafe { libc::free(env.cast()) };
    }

    #[test]
    fn a_string_is_replaced() {
        let heap = Heap { duplicate, free, grow };
        let mut field = ptr::null_mut();
        for (new, then) in [("one", "one"), ("t\0wo", "one"), ("two", "two")] {
            // SAFETY: null, or made by `duplicate`.
            unsafe { heap.replace(&mut field, new) };
            // SAFETY: as above.
            assert_eq!(unsafe { text(field) }.as_deref(), Some(then));
        }
        // SAFETY: made by `duplicate`.
        unsafe { libc::free(field.cast()) };
    }
}
