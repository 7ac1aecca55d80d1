//! SPANK as every release of Slurm has it [slurm/spank.h].

#![expect(non_camel_case_types, reason = "Slurm's names")]

use std::ffi::{c_char, c_int, c_uint, c_void};

/// The handle of a hook.
pub(super) type spank_t = *mut c_void;
/// An error number.
pub(super) type spank_err_t = c_uint;
/// Takes the text of an option: its number, the text, whether it was given on another node.
pub(super) type spank_opt_cb_f = Option<unsafe extern "C" fn(c_int, *const c_char, c_int) -> c_int>;

/// An option that Slurm's commands get.
#[repr(C)]
pub(super) struct spank_option {
    pub(super) name: *mut c_char,
    pub(super) arginfo: *mut c_char,
    pub(super) usage: *mut c_char,
    pub(super) has_arg: c_int,
    pub(super) val: c_int,
    pub(super) cb: spank_opt_cb_f,
}

unsafe extern "C" {
    pub(super) fn spank_context() -> c_uint;
    pub(super) fn spank_option_register(spank: spank_t, option: *mut spank_option) -> spank_err_t;
    pub(super) fn spank_get_item(spank: spank_t, item: c_uint, ...) -> spank_err_t;
    pub(super) fn spank_getenv(
        spank: spank_t,
        name: *const c_char,
        value: *mut c_char,
        bytes: c_int,
    ) -> spank_err_t;
    pub(super) fn spank_setenv(
        spank: spank_t,
        name: *const c_char,
        value: *const c_char,
        overwrite: c_int,
    ) -> spank_err_t;
    pub(super) fn spank_unsetenv(spank: spank_t, name: *const c_char) -> spank_err_t;
    pub(super) fn spank_job_control_setenv(
        spank: spank_t,
        name: *const c_char,
        value: *const c_char,
        overwrite: c_int,
    ) -> spank_err_t;
    pub(super) fn spank_job_control_getenv(
        spank: spank_t,
        name: *const c_char,
        value: *mut c_char,
        bytes: c_int,
    ) -> spank_err_t;
    pub(super) fn spank_job_control_unsetenv(spank: spank_t, name: *const c_char) -> spank_err_t;
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use slurm_tables::{TABLES, Tables};

    use super::spank_option;

    #[test]
    fn an_option_is_what_every_release_takes() {
        let table = Tables::parse(TABLES).unwrap();
        for release in &table.releases {
            let layout = table.layout(*release).unwrap();
            assert_eq!(layout.size("spank_option"), Ok(size_of::<spank_option>()), "{release}");
            for (field, position) in [
                ("name", offset_of!(spank_option, name)),
                ("arginfo", offset_of!(spank_option, arginfo)),
                ("usage", offset_of!(spank_option, usage)),
                ("has_arg", offset_of!(spank_option, has_arg)),
                ("val", offset_of!(spank_option, val)),
                ("cb", offset_of!(spank_option, cb)),
            ] {
                let found = layout.field(&format!("spank_option.{field}")).unwrap();
                assert_eq!(found.map(|(position, _)| position), Some(position), "{field} in {release}");
            }
        }
    }
}
