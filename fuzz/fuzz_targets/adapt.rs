//! See `chorus_fuzz::adapt`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| chorus_fuzz::adapt(data));
