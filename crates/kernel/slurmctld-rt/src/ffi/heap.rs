//! Slurm's memory: strings and arrays that slurmctld frees.

use std::collections::VecDeque;
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use plugin_rt::text;

use super::symbols::item;
use crate::spank_env::{BadEnv, MAX_BYTES, MAX_ENTRY_BYTES, MAX_RECORDED_ENTRIES, check_number};

crate::found_symbols! {
    /// Slurm's allocator.
    #[derive(Clone, Copy, Debug)]
    pub struct Heap {
        fn duplicate = c"slurm_xstrdup", "src/common/xstring.h": fn(*const c_char) -> *mut c_char;
        fn free = c"slurm_xfree", "src/common/xmalloc.h": fn(*mut *mut c_void);
        fn grow = c"slurm_xrecalloc", "src/common/xmalloc.h": fn(
            *mut *mut c_void, usize, usize, bool, bool, *const c_char, c_int, *const c_char,
        ) -> *mut c_void;
    }
}

/// Nobody reads a string for so long after it was replaced.
const READ_BY: Duration = Duration::from_secs(60);
/// Most strings that wait for that: of more, the first are freed earlier. Each start and end of a job may replace one.
const MOST_REPLACED: usize = 4096;

/// A string that nothing points to any more.
struct Old(*mut c_char);

// SAFETY: memory of the process, which only its owner frees.
unsafe impl Send for Old {}

/// Strings that a reader may still have, in the order in which they were replaced.
static REPLACED: Mutex<VecDeque<(Instant, Old)>> = Mutex::new(VecDeque::new());

impl Heap {
    /// Replaces a string; text with a NUL in it leaves it as it is.
    ///
    /// # Safety
    ///
    /// `field` is the place of a pointer that is null or a string that Slurm allocated, and nothing else points to that.
    pub unsafe fn replace(&self, field: *mut *mut c_char, text: &str) {
        let Ok(line) = CString::new(text) else { return };
        // SAFETY: xmalloc.h: the caller's promise; xfree sets the field to null.
        unsafe { (self.free)(field.cast()) };
        // SAFETY: xstring.h: copies a NUL-terminated string.
        let new = unsafe { (self.duplicate)(line.as_ptr()) };
        // SAFETY: the caller's promise.
        unsafe { field.write(new) };
    }

    /// Replaces a string that another thread may be reading, as [`Heap::replace`]: it is never null in between, the old one is freed
    /// a minute later, and the new one has at least its room, so that a reader who has measured the old one may copy the new one.
    ///
    /// # Safety
    ///
    /// As [`Heap::replace`].
    pub unsafe fn replace_beside_readers(&self, field: *mut *mut c_char, text: &str) {
        let Ok(line) = CString::new(text) else { return };
        // SAFETY: the caller's promise.
        let old = unsafe { field.read() };
        // SAFETY: as above: null or NUL-terminated.
        let had = if old.is_null() { 0 } else { unsafe { libc::strlen(old) } };
        let (line, mut new) = (line.as_bytes_with_nul(), ptr::null_mut::<c_void>());
        let (room, file, function) = (line.len().max(had + 1), c"tessera".as_ptr(), c"replace".as_ptr());
        // SAFETY: xmalloc.h: allocates zeroed memory for a null pointer; it ends the process rather than fail.
        unsafe { (self.grow)(&raw mut new, room, 1, true, false, file, 0, function) };
        // SAFETY: the new string has at least this room.
        unsafe { ptr::copy_nonoverlapping(line.as_ptr(), new.cast(), line.len()) };
        // SAFETY: the caller's promise: an aligned pointer, which no other thread writes.
        unsafe { AtomicPtr::from_ptr(field) }.store(new.cast(), Ordering::Release);
        let mut replaced = REPLACED.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |at: Instant, waiting: usize| waiting >= MOST_REPLACED || at.elapsed() > READ_BY;
        while replaced.front().is_some_and(|(at, _)| is_over(*at, replaced.len())) {
            let Some((_, Old(mut string))) = replaced.pop_front() else { break };
            // SAFETY: xmalloc.h: a string that Slurm allocated, and to which nothing points any more.
            unsafe { (self.free)((&raw mut string).cast()) };
        }
        replaced.extend((!old.is_null()).then(|| (Instant::now(), Old(old))));
    }

    /// Frees a string and makes it null.
    ///
    /// # Safety
    ///
    /// As [`Heap::replace`].
    pub unsafe fn clear(&self, field: *mut *mut c_char) {
        // SAFETY: xmalloc.h: the caller's promise; xfree sets the field to null.
        unsafe { (self.free)(field.cast()) };
    }

    /// Takes the entries out of an environment for which `goes` is true, and adds `add`. An environment that is larger than a job
    /// may have stays as it is.
    ///
    /// # Safety
    ///
    /// `env` and `size` are the places of an environment as for [`entries`]; Slurm allocated the array and the strings.
    pub unsafe fn rewrite(
        &self,
        env: *mut *mut *mut c_char,
        size: *mut u32,
        goes: &dyn Fn(&str) -> bool,
        add: Option<&str>,
    ) {
        // SAFETY: the caller's promise.
        let env = unsafe { &mut *env };
        // SAFETY: as above.
        let size = unsafe { &mut *size };
        // SAFETY: the caller's promise.
        let Ok(before) = (unsafe { pointers(*env, *size, MAX_RECORDED_ENTRIES) }) else { return };
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
        // Slurm ends an environment with a null as well, and some of its functions read up to that.
        for i in kept.len()..*size as usize {
            // SAFETY: the array had `size` elements.
            let slot = unsafe { env.add(i) };
            // SAFETY: as above; what the element pointed to is freed, or stands before it now.
            unsafe { slot.write(ptr::null_mut()) };
        }
        *size = u32::try_from(kept.len()).unwrap_or(u32::MAX);
    }
}

/// The entries of a SPANK job environment, `NAME=VALUE`.
///
/// # Errors
///
/// There are more than `most`, or they are longer than [`MAX_ENTRY_BYTES`] and [`MAX_BYTES`]. No more is read then.
///
/// # Safety
///
/// `env` is null or an array of `size` pointers, each null or to a NUL-terminated string (`spank_job_env` and
/// `spank_job_env_size` in slurm.h and src/slurmctld/slurmctld.h).
pub unsafe fn entries(env: *mut *mut c_char, size: u32, most: u32) -> Result<Vec<String>, BadEnv> {
    // SAFETY: the caller's promise.
    Ok(unsafe { pointers(env, size, most) }?.into_iter().map(|(_, entry)| entry).collect())
}

/// The value of a variable of a SPANK job environment, the last one if it stands there twice. `None`: it is not there, it is
/// longer than [`MAX_ENTRY_BYTES`], or there are more entries than a job may have. Only this variable is copied.
///
/// # Safety
///
/// As [`entries`].
#[must_use]
pub unsafe fn variable(env: *mut *mut c_char, size: u32, name: &str) -> Option<String> {
    check_number(size, MAX_RECORDED_ENTRIES).ok()?;
    let begin = CString::new(format!("{name}=")).ok()?;
    let length = begin.as_bytes().len();
    let is_it = |entry: *mut c_char| {
        // SAFETY: strncmp(3): both are NUL-terminated.
        !entry.is_null() && unsafe { libc::strncmp(entry, begin.as_ptr(), length) } == 0
    };
    let found = (0..size as usize).rev().map_while(|i| {
        // SAFETY: the caller's promise: inside the array.
        unsafe { item(env, i) }
    });
    let entry = found.into_iter().find(|entry| is_it(*entry))?;
    // SAFETY: as above.
    if unsafe { libc::strnlen(entry, MAX_ENTRY_BYTES + 1) } > MAX_ENTRY_BYTES {
        return None;
    }
    // SAFETY: the entry begins with `length` other bytes.
    let value = unsafe { entry.add(length) };
    // SAFETY: as above: its NUL is still to come.
    unsafe { text(value) }
}

/// Gives the entries, each behind the pointer to it.
///
/// # Safety
///
/// As [`entries`].
unsafe fn pointers(
    env: *mut *mut c_char,
    size: u32,
    most: u32,
) -> Result<Vec<(*mut c_char, String)>, BadEnv> {
    check_number(size, most)?;
    let mut bytes = 0;
    let mut found = Vec::new();
    for i in 0..size as usize {
        // SAFETY: the caller's promise: inside the array.
        let Some(entry) = (unsafe { item(env, i) }) else { break };
        // SAFETY: the caller's promise.
        bytes += unsafe { bounded_length(entry) }?;
        if bytes > MAX_BYTES {
            return Err(BadEnv::All);
        }
        // SAFETY: the caller's promise.
        found.push((entry, unsafe { text(entry) }.unwrap_or_default()));
    }
    Ok(found)
}

/// The length of an entry in bytes; 0 for null.
///
/// # Errors
///
/// It is longer than [`MAX_ENTRY_BYTES`].
///
/// # Safety
///
/// Null or NUL-terminated.
unsafe fn bounded_length(entry: *const c_char) -> Result<usize, BadEnv> {
    /// Bytes of an entry that are shown of its name.
    const SHOWN: usize = 40;
    if entry.is_null() {
        return Ok(0);
    }
    // SAFETY: the caller's promise.
    let length = unsafe { libc::strnlen(entry, MAX_ENTRY_BYTES + 1) };
    if length <= MAX_ENTRY_BYTES {
        return Ok(length);
    }
    // SAFETY: it has more bytes than that, as was just seen.
    let begin = unsafe { std::slice::from_raw_parts(entry.cast::<u8>(), SHOWN) };
    let name: String = String::from_utf8_lossy(begin).chars().take_while(|c| *c != '=').collect();
    Err(BadEnv::Entry(name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()))
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
        // SAFETY: it has this room; tests do not grow what they have filled.
        unsafe { ptr::write_bytes(field.cast::<u8>(), 0, n * each) };
        *field
    }

    #[test]
    fn who_has_measured_the_old_string_may_copy_the_new_one_and_read_the_old_one_on() {
        let heap = Heap { duplicate, free, grow };
        let mut field = ptr::null_mut();
        // SAFETY: null at first, and made by `heap` then.
        unsafe { heap.replace_beside_readers(&mut field, "a long word of a node") };
        let old = field;
        // SAFETY: as above.
        unsafe { heap.replace_beside_readers(&mut field, "short") };
        // SAFETY: freed a minute later.
        assert_eq!(unsafe { text(old) }.as_deref(), Some("a long word of a node"));
        // SAFETY: as above.
        let measured = unsafe { libc::strlen(old) } + 1;
        // SAFETY: the new string has the room of the old one.
        let copied = unsafe { std::slice::from_raw_parts(field.cast::<u8>(), measured) };
        assert_eq!(copied.strip_prefix(b"short\0"), Some(&[0; 16][..]), "zeroed to its end");
        for _ in 0..2 * MOST_REPLACED {
            // SAFETY: made by `grow`.
            unsafe { heap.replace_beside_readers(&mut field, "word") };
        }
        assert_eq!(REPLACED.lock().unwrap().len(), MOST_REPLACED, "as many jobs as may start in a minute");
        // SAFETY: made by `grow`.
        unsafe { heap.clear(&mut field) };
    }

    #[test]
    fn a_string_is_replaced_and_cleared() {
        let heap = Heap { duplicate, free, grow };
        let mut field = ptr::null_mut();
        // SAFETY: null at first, and made by `heap` then.
        unsafe { heap.replace(&mut field, "gres/gpu:1") };
        // SAFETY: made by `duplicate`.
        assert_eq!(unsafe { text(field) }.as_deref(), Some("gres/gpu:1"));
        for _ in 0..2 {
            // SAFETY: as above, or null.
            unsafe { heap.clear(&mut field) };
            assert!(field.is_null());
        }
    }

    #[test]
    fn an_environment_is_rewritten_in_place() {
        let heap = Heap { duplicate, free, grow };
        let (mut env, mut size) = (ptr::null_mut(), 0);
        let mut rewrite = |gone: &str, add: Option<&str>| {
            // SAFETY: null at first, and made by `heap` then.
            unsafe { heap.rewrite(&mut env, &mut size, &|entry| entry == gone, add) };
            // SAFETY: as above.
            unsafe { entries(env, size, 9) }.unwrap()
        };
        assert_eq!(rewrite("", None), [""; 0]);
        assert_eq!(rewrite("", Some("A=1")), ["A=1"]);
        assert_eq!(rewrite("", Some("B=2")), ["A=1", "B=2"]);
        assert_eq!(rewrite("A=1", Some("A=3")), ["B=2", "A=3"]);
        assert_eq!(rewrite("", Some("N\0L")), ["B=2", "A=3"]);
        assert_eq!(rewrite("B=2", None), ["A=3"]);
        assert_eq!(rewrite("A=3", None), [""; 0]);
        // SAFETY: the array has had two elements.
        let left = [0, 1].map(|i| unsafe { item(env, i) });
        assert_eq!(left, [Some(ptr::null_mut()); 2], "nothing that is freed is left behind the end");
        // SAFETY: made by `grow`.
        unsafe { libc::free(env.cast()) };
    }

    /// Looks at an environment of these entries: all of them, and one variable.
    fn looked(all: &[String], name: &str) -> (Result<usize, BadEnv>, Option<String>) {
        let strings: Vec<CString> = all.iter().map(|s| CString::new(s.as_str()).unwrap()).collect();
        let mut env: Vec<*mut c_char> = strings.iter().map(|s| s.as_ptr().cast_mut()).collect();
        let size = u32::try_from(env.len()).unwrap();
        // SAFETY: NUL-terminated strings that outlive the call.
        let read = unsafe { entries(env.as_mut_ptr(), size, 256) };
        // SAFETY: as above.
        (read.map(|all| all.len()), unsafe { variable(env.as_mut_ptr(), size, name) })
    }

    #[test]
    fn a_variable_is_found_without_copying_the_others() {
        let all = ["A=1", "AB=2", "A=3=4", "SPANK_A=5", "C="].map(str::to_owned);
        assert_eq!(looked(&all, "A"), (Ok(5), Some("3=4".to_owned())));
        assert_eq!(looked(&all, "C").1.as_deref(), Some(""));
        assert_eq!(looked(&all, "B").1, None);
        assert_eq!(looked(&[], "B"), (Ok(0), None));
    }

    #[test]
    fn an_environment_that_a_user_has_filled_is_not_read_to_its_end() {
        let many = |n: usize| vec!["A=1".to_owned(); n];
        assert_eq!(looked(&many(256), "A"), (Ok(256), Some("1".to_owned())));
        assert_eq!(looked(&many(65_536), "A"), (Err(BadEnv::Entries(65_536)), None));
        // As many as slurmctld has of a job to which Tessera has added its own.
        assert_eq!(looked(&many(260), "A"), (Err(BadEnv::Entries(260)), Some("1".to_owned())));
        let long = |bytes: usize| format!("LONG={}", "x".repeat(bytes - 5));
        assert_eq!(looked(&[long(32 * 1024)], "LONG").0, Ok(1));
        let (why, value) = looked(&[long(32 * 1024 + 1)], "LONG");
        assert_eq!((why.clone(), value), (Err(BadEnv::Entry("LONG".to_owned())), None));
        let said = why.unwrap_err().to_string();
        assert_eq!(said, "the job's variable LONG for SPANK plugins has more than 32768 bytes; shorten it");
        assert_eq!(looked(&vec![long(32 * 1024); 4], "A").0, Ok(4));
        assert_eq!(looked(&vec![long(32 * 1024); 5], "A").0, Err(BadEnv::All));
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
