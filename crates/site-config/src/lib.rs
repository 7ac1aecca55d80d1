//! Site configuration.
