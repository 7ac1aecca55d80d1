//! The site's own names of the options.

use std::collections::BTreeMap;

use crate::table::Opt;

/// Names under which the site shows the options, where they differ from ours.
pub type Renames = BTreeMap<Opt, String>;

/// The option as the user of this site knows it: `--gpu-mem`.
pub(super) fn shown(opt: Opt, renames: &Renames) -> String {
    format!("--{}", renames.get(&opt).map_or(opt.spec().name, String::as_str))
}
