//! What every end-to-end test begins with.

use e2e::{Builder, Cluster};

/// A builder whose cluster ends with the test's process, however that ends.
pub(crate) fn builder() -> Builder {
    Cluster::builder().guardian(vec![env!("CARGO_BIN_EXE_cluster-guard").to_owned()])
}
