//! Symbols that Slurm's loader looks up in every accounting plugin.

/// Exports the symbols that both plugins have alike: name, type and version, `init`, and `fini`, which makes the process serve no
/// step.
///
/// To be used once, in the plugin's `ffi`.
#[macro_export]
macro_rules! accounting_plugin {
    ($name:literal, $type:literal, $served:ident) => {
        $crate::plugin_rt::exported_text!(plugin_name, $name);
        $crate::plugin_rt::exported_text!(plugin_type, $type);
        $crate::plugin_rt::exported_text!(tessera_version, env!("CARGO_PKG_VERSION"));

        $crate::plugin_rt::stamped_version!(fn stamped);

        /// Gives the layout of the Slurm that loads this plugin. Without one it answers nothing, and says so once.
        fn own_layout() -> Option<slurm_tables::Layout> {
            let found = slurm_tables::own_layout(slurm_tables::Version(stamped()));
            found.inspect_err(|why| $crate::plugin_rt::log::error(format_args!("{}: {}", $name, $crate::plugin_rt::Chain(why)))).ok()
        }

        #[unsafe(no_mangle)]
        extern "C" fn init() -> std::ffi::c_int {
            $crate::plugin_rt::install_panic_hook();
            0
        }

        #[unsafe(no_mangle)]
        extern "C" fn fini() -> std::ffi::c_int {
            $crate::plugin_rt::guard_ok("fini", (), || $served.forget());
            0
        }
    };
}

/// Lists the symbols that Slurm looks up, `asked`, and that `source`, the text of a plugin's `ffi`, does not define. Slurm ends
/// if a plugin lacks one of them.
#[must_use]
pub fn missing_symbols<'a>(asked: &[&'a str], source: &str) -> Vec<&'a str> {
    let defined = |name: &str| source.contains(&format!("extern \"C\" fn {name}("));
    asked.iter().copied().filter(|name| !defined(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::missing_symbols;

    #[test]
    fn a_symbol_counts_under_its_whole_name() {
        let source = "unsafe extern \"C\" fn energy_p_get_data(x: u8) {}";
        assert_eq!(missing_symbols(&["energy_p_get_data", "energy_p_get"], source), ["energy_p_get"]);
    }
}
