//! See `chorus_fuzz::json`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| chorus_fuzz::json(data));
