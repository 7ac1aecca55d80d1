//! Shared by the C functions of the simulated libraries: nothing unwinds into C, and pointers from C are types.
//!
//! A library names its status codes by [`Status`], wraps [`guard`] if it has more to do at each call, and defines its functions with
//! [`entries!`]. A function's arguments are numbers, [`Out`] and [`CText`]; no library reads or writes through a pointer by itself.

#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

#[expect(unsafe_code, reason = "the one place that follows pointers from C")]
mod ffi;

use std::ffi::c_uint;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use ffi::{CText, Out};

/// Status codes of a library's calls; success is `Ok`.
pub trait Status: Copy {
    /// An argument is null, or text that is not UTF-8.
    const INVALID: Self;
    /// A bug of the library.
    const UNKNOWN: Self;

    /// The number that C gets; never 0.
    fn number(self) -> c_uint;
}

/// Status codes of a library that says when the caller's room does not suffice.
pub trait StatusOfRoom: Status {
    /// The caller's buffer or array is too small.
    const TOO_SMALL: Self;
}

/// Runs the whole of one C function and returns its status: 0, or the number of the error. A panic is [`Status::UNKNOWN`].
pub fn guard<S: Status>(body: impl FnOnce() -> Result<(), S>) -> c_uint {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(status)) => status.number(),
        Err(_) => S::UNKNOWN.number(),
    }
}

/// Defines C functions that run in a guard, a function that takes the body as a closure. Several names may share a body, and a body
/// may take what the guard gives it: `fn cuInit | fn cuInit_v2 (flags: u32) { … }`, `fn nvmlUnit(n: Out<u32>) |session, state| { … }`.
#[macro_export]
macro_rules! entries {
    ($guard:path; $($(fn $name:ident)|+ ($($arg:ident : $ty:ty),*) ($($given:ident),*) $body:block)*) => {
        $($crate::entries!(@each $guard; [$($name)+] ($($arg : $ty),*) ($($given),*) $body);)*
    };
    (@each $guard:path; [$($name:ident)+] $args:tt $given:tt $body:block) => {
        $($crate::entries!(@one $guard; $name $args $given $body);)+
    };
    (@one $guard:path; $name:ident ($($arg:ident : $ty:ty),*) ($($given:ident),*) $body:block) => {
        #[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $ty),*) -> std::ffi::c_uint {
            $guard(|$($given),*| {
                let _ = ($(&$given,)*);
                $body
            })
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Code {
        Invalid = 1,
        TooSmall = 7,
        Unknown = 999,
    }

    impl Status for Code {
        const INVALID: Self = Self::Invalid;
        const UNKNOWN: Self = Self::Unknown;

        fn number(self) -> c_uint {
            self as c_uint
        }
    }

    impl StatusOfRoom for Code {
        const TOO_SMALL: Self = Self::TooSmall;
    }

    #[test]
    fn a_panic_is_a_status() {
        assert_eq!(guard::<Code>(|| Ok(())), 0);
        assert_eq!(guard(|| Err(Code::TooSmall)), 7);
        assert_eq!(guard::<Code>(|| panic!("a bug")), 999);
    }

    #[test]
    fn null_is_an_invalid_argument_and_stays_null() {
        let null: Out<u32, Code> = Out::null();
        assert_eq!(
            (null.get(), null.put(1), null.at(3).put(1)),
            (Err(Code::Invalid), Err(Code::Invalid), Err(Code::Invalid))
        );
        assert_eq!((null.put_if(1), null.put_all(&[])), (Ok(()), Ok(())));
        assert_eq!(null.put_all(&[1]), Err(Code::Invalid));
    }

    #[test]
    fn lists_say_how_much_room_they_need() {
        let (mut count, mut room) = (1_u32, [0_u32; 2]);
        let list = |count: &mut u32, room: &mut [u32; 2]| {
            Out::<u32, Code>::of(&mut room[0]).put_list(Out::of(count), &[5, 6])
        };
        assert_eq!((list(&mut count, &mut room), room), (Err(Code::TooSmall), [0, 0]));
        assert_eq!((count, list(&mut count, &mut room)), (2, Ok(())));
        assert_eq!((count, room), (2, [5, 6]));
    }

    #[test]
    fn text_is_refused_or_cut_where_it_does_not_fit() {
        let mut room = [1_i8; 4];
        let text = Out::<i8, Code>::of(&mut room[0]);
        assert_eq!(text.put_text(4, "abcd"), Err(Code::TooSmall));
        assert_eq!(text.put_text(4, "abc"), Ok(()));
        assert_eq!(text.put_text_cut(3, "xyz"), Ok(()));
        assert_eq!(text.put_text_cut(0, "x"), Err(Code::Invalid));
        assert_eq!(room, [120, 121, 0, 0]);
    }
}
