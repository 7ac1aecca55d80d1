//! What may stay, and what is still to be mended.

/// Pairs of siblings that may use each other, each with the reason. At most [`MOST`], and none where slurmctld or root runs.
pub(crate) const STAY: &[(&str, &str, &str, &str)] = &[(
    "cuda-sim",
    "core",
    "ffi",
    "all unsafe code stands in one module: the C interface, and the memory that the core maps",
)];

/// Most pairs in [`STAY`].
pub(crate) const MOST: usize = 5;

/// Pairs of siblings that are still to be mended: package, and the two modules. The list only gets shorter.
pub(crate) const PAIRS: &[(&str, &str, &str)] = &[];

/// Circles that are still to be mended, of more than two among the modules right below a crate's root: package, and the modules.
pub(crate) const CIRCLES: &[(&str, &[&str])] = &[];
