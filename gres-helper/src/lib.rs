//! Job submit plugin.
