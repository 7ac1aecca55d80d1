//! Structs of functions and globals of the hosting process, each looked up by its name.

/// Declares a struct of functions and globals of the hosting process, with a `look_up` that finds all of them. Each
/// names the header that has its prototype. A `part` is another such struct.
#[macro_export]
macro_rules! found_symbols {
    ($(#[$meta:meta])* $vis:vis struct $Name:ident {
        $(part $part:ident: $Part:ty;)*
        $(fn $field:ident = $symbol:literal, $header:literal: fn($($arg:ty),* $(,)?) $(-> $ret:ty)?;)*
        $(static $global:ident = $name:literal, $of:literal: $Global:ty;)*
    }) => {
        $(#[$meta])*
        $vis struct $Name {
            $(pub(super) $part: $Part,)*
            $(#[doc = $header] pub(super) $field: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)*
            $(#[doc = $of] pub(super) $global: std::ptr::NonNull<$Global>,)*
        }

        impl $Name {
            /// Finds the hosting process's.
            ///
            /// # Errors
            ///
            /// It lacks one of them.
            $vis fn look_up() -> Result<Self, $crate::MissingSymbol> {
                Ok(Self {
                    $($part: <$Part>::look_up()?,)*
                    $($field: {
                        let address = $crate::required($symbol)?.as_ptr();
                        // SAFETY: the prototype is the one in the header named beside the field.
                        unsafe {
                            std::mem::transmute::<
                                *mut std::ffi::c_void,
                                unsafe extern "C" fn($($arg),*) $(-> $ret)?,
                            >(address)
                        }
                    },)*
                    $($global: $crate::required($name)?.cast(),)*
                })
            }
        }
    };
}

/// Declares the struct of what a plugin of slurmctld takes from the process, as [`found_symbols!`]; it is looked up once.
#[macro_export]
macro_rules! slurmctlds {
    ($(#[$meta:meta])* $vis:vis struct $Name:ident $fields:tt) => {
        $crate::found_symbols! { $(#[$meta])* $vis struct $Name $fields }

        // SAFETY: addresses of functions and globals of the process, the same for every thread; what they point to is only touched
        // inside hooks, where slurmctld holds the locks that belong to it.
        unsafe impl Send for $Name {}
        // SAFETY: as above.
        unsafe impl Sync for $Name {}

        impl $Name {
            /// Gives slurmctld's symbols; `None` unless the process has every one of them.
            $vis fn get() -> Option<&'static Self> {
                Self::found().as_ref().ok()
            }

            /// Gives slurmctld's symbols, or the first one that is missing.
            $vis fn found() -> &'static Result<Self, $crate::MissingSymbol> {
                static FOUND: std::sync::OnceLock<Result<$Name, $crate::MissingSymbol>> =
                    std::sync::OnceLock::new();
                FOUND.get_or_init(Self::look_up)
            }
        }
    };
}
