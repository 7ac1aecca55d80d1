//! The symbols that Slurm looks up in this plugin.

#[expect(unsafe_code, reason = "what Slurm calls, and the pointers that it hands over")]
mod ffi;
