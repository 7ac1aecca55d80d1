//! A SPANK of our own for unit tests: the symbols that Slurm's processes provide, with what was asked of them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};

use slurm_numbers as numbers;

use super::sys;

thread_local! {
    pub(super) static CONTEXT: Cell<c_uint> = const { Cell::new(numbers::S_CTX_ALLOCATOR) };
    pub(super) static OPTIONS: RefCell<Vec<(String, c_int)>> = const { RefCell::new(Vec::new()) };
    pub(super) static CONTROL: RefCell<BTreeMap<String, String>> = const { RefCell::new(BTreeMap::new()) };
    pub(super) static STEP: RefCell<BTreeMap<String, String>> = const { RefCell::new(BTreeMap::new()) };
}

fn text(at: *const c_char) -> String {
    // SAFETY: the code under test passes NUL-terminated strings.
    unsafe { CStr::from_ptr(at) }.to_str().unwrap().to_owned()
}

#[unsafe(no_mangle)]
extern "C" fn spank_context() -> c_uint {
    CONTEXT.get()
}

#[unsafe(no_mangle)]
extern "C" fn spank_option_register(_: *mut c_void, option: *mut sys::spank_option) -> c_uint {
    // SAFETY: the code under test passes a valid option.
    let option = unsafe { &*option };
    assert!(!text(option.usage).is_empty() && option.has_arg == 1 && option.cb.is_some());
    OPTIONS.with_borrow_mut(|o| o.push((text(option.name), option.val)));
    numbers::ESPANK_SUCCESS
}

/// Not variadic, which Rust cannot define; the C ABI passes one pointer after the item in the same place.
#[unsafe(no_mangle)]
extern "C" fn spank_get_item(_: *mut c_void, item: c_uint, out: *mut u32) -> c_uint {
    let value = match item {
        numbers::S_JOB_ID => 12,
        numbers::S_JOB_LOCAL_TASK_COUNT => 1,
        numbers::S_TASK_ID | numbers::S_JOB_STEPID => 0,
        numbers::S_JOB_UID | numbers::S_JOB_GID => 1000,
        _ => return 1,
    };
    // SAFETY: each item above takes a pointer to 32 bits.
    unsafe { out.write(value) };
    numbers::ESPANK_SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn spank_getenv(_: *mut c_void, name: *const c_char, value: *mut c_char, len: c_int) -> c_uint {
    let Some(found) = STEP.with_borrow(|s| s.get(&text(name)).cloned()) else {
        return numbers::ESPANK_ENV_NOEXIST;
    };
    if found.len() >= usize::try_from(len).unwrap() {
        return numbers::ESPANK_NOSPACE;
    }
    let found = CString::new(found).unwrap();
    // SAFETY: the code under test passes a buffer of `len` bytes, and the value with its NUL is no longer.
    unsafe { value.copy_from_nonoverlapping(found.as_ptr(), found.count_bytes() + 1) };
    numbers::ESPANK_SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn spank_setenv(_: *mut c_void, name: *const c_char, value: *const c_char, _: c_int) -> c_uint {
    STEP.with_borrow_mut(|s| s.insert(text(name), text(value)));
    numbers::ESPANK_SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn spank_unsetenv(_: *mut c_void, name: *const c_char) -> c_uint {
    let known = STEP.with_borrow_mut(|s| s.remove(&text(name)));
    if known.is_some() { numbers::ESPANK_SUCCESS } else { numbers::ESPANK_ENV_NOEXIST }
}

#[unsafe(no_mangle)]
extern "C" fn spank_job_control_setenv(
    _: *mut c_void,
    name: *const c_char,
    value: *const c_char,
    overwrite: c_int,
) -> c_uint {
    assert_eq!(overwrite, 1);
    CONTROL.with_borrow_mut(|c| c.insert(text(name), text(value)));
    numbers::ESPANK_SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn spank_job_control_getenv(
    _: *mut c_void,
    name: *const c_char,
    _: *mut c_char,
    len: c_int,
) -> c_uint {
    assert_eq!(len, 1);
    let known = CONTROL.with_borrow(|c| c.contains_key(&text(name)));
    if known { numbers::ESPANK_NOSPACE } else { numbers::ESPANK_ENV_NOEXIST }
}

#[unsafe(no_mangle)]
extern "C" fn spank_job_control_unsetenv(_: *mut c_void, name: *const c_char) -> c_uint {
    let known = CONTROL.with_borrow_mut(|c| c.remove(&text(name)));
    assert!(known.is_some(), "22.05 logs an error for an unknown name");
    numbers::ESPANK_SUCCESS
}
