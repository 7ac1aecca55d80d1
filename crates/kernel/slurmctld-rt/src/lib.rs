//! Code that the plugins of slurmctld share. Bindings stay each plugin's own: Slurm's internal structs differ between releases,
//! and a plugin names the ones that it reads.
//!
//! A plugin looks up every symbol that it needs when it is loaded ([`required`]). If one is missing, it says so in one line
//! and leaves all to Slurm: placing jobs by half would be worse.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

#[expect(unsafe_code, reason = "slurmctld's symbols, memory, lists and bit strings")]
mod ffi;
pub mod fit;
mod license_call;
pub mod spank_env;

pub use ffi::clouds::is_in_cloud;
pub use ffi::heap::{Heap, entries, variable};
pub use ffi::lists::{BitString, Bits, BitsAt, List, Lists};
pub use ffi::qos::{learn_qos, qos_name};
pub use ffi::symbols::{MissingSymbol, in_slurmctld, item, required, struct_at};
pub use ffi::users::uid_of;
pub use license_call::LicenseCall;
pub use plugin_rt::{symbol, text};

/// Tells whether a job is `--exclusive`, by the `whole_node` of its details and Slurm's `WHOLE_NODE_REQUIRED`: one value of several
/// before 24.05, then a flag beside others.
#[must_use]
pub fn is_exclusive(whole_node: u8, required: u8, is_flag: bool) -> bool {
    if is_flag { whole_node & required != 0 } else { whole_node == required }
}

#[cfg(test)]
mod tests {
    use super::is_exclusive;

    #[test]
    fn exclusive_is_a_value_and_later_a_flag() {
        let value = [0, 1, 2, 3].map(|whole_node| is_exclusive(whole_node, 1, false));
        let flag = [0, 1, 2, 3].map(|whole_node| is_exclusive(whole_node, 1, true));
        assert_eq!((value, flag), ([false, true, false, false], [false, true, false, true]));
    }
}
