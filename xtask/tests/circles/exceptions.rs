//! What may stay. The list only gets shorter: a pair that is mended leaves it.

/// Pairs of siblings that use each other: package, and the two modules.
pub(crate) const PAIRS: &[(&str, &str, &str)] = &[
    ("audit", "alternatives", "compute_rules"),
    ("audit", "alternatives", "task_rules"),
    ("audit", "legal", "task_rules"),
    ("case-study", "figures", "mix"),
    ("cuda-sim", "core", "ffi"),
    ("cuda-sim", "core::driver", "core::streams"),
    ("cuda-sim", "core::driver", "core::vmm"),
    ("lab", "accounting", "daemons"),
    ("lab", "clock", "cluster"),
    ("lab", "cluster", "guardian"),
    ("mapa-study", "exact", "search"),
    ("nvml-sim", "engine::process", "engine::usage"),
    ("nvml-sim", "engine::store", "engine::usage"),
    ("task-client", "account", "client"),
    ("task-client", "ffi::driver", "ffi::interpose"),
    ("task-client", "ffi::interpose::init", "ffi::interpose::table"),
    ("task-client", "ffi::lazy", "ffi::process"),
    ("tessera-cli", "commands::doctor::cluster", "commands::doctor::installed"),
    ("tessera-cli", "commands::exporter::counted", "commands::exporter::metrics"),
    ("tessera-cli", "commands::power::args", "commands::power::simulate"),
    ("tessera-cli", "commands::power::calibrate::campaign", "commands::power::calibrate::script"),
    ("tessera-cli", "commands::simulate::case::figure", "commands::simulate::case::picture"),
    ("tessera-cli", "commands::top::rows", "commands::top::state"),
    ("tessera-cli", "local", "seen"),
    ("tessera-cli", "local", "site"),
    ("tessera-cli", "render", "seen"),
    ("xtask", "chaos::kill", "chaos::strike"),
    ("xtask", "chaos::past", "chaos::run"),
    ("xtask", "chaos::run", "chaos::submit"),
    ("xtask", "chaos::strike", "chaos::users"),
    ("xtask", "cluster", "which"),
];

/// Circles of more than two among the modules right below a crate's root: package, and the modules.
pub(crate) const CIRCLES: &[(&str, &[&str])] = &[
    ("audit", &["alternatives", "compute_rules", "legal", "places", "share_rules", "state", "task_rules"]),
    ("lab", &["clock", "cluster", "guardian", "inside"]),
    ("tessera-cli", &["fold", "local", "names", "render", "seen", "site"]),
];
