//! See `fuzz_targets::TARGETS`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| (fuzz_targets::target("node_word").expect("a target of this name").run)(input));
