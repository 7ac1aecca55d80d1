//! Cluster harness.
