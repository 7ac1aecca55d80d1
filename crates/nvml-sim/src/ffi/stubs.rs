//! gen
macro_rules! not_supported {
    ($($name:ident)*) => {
        /// Functions of the header that the simulator does not implement: they answer `NVML_ERROR_NOT_SUPPORTED`.
        pub const NOT_SUPPORTED: &[&str] = &[$(stringify!($name)),*];
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name() -> std::ffi::c_uint {
                crate::engine::code::Code::NotSupported as std::ffi::c_uint
            }
        )*
    };
}
not_supported! {}
