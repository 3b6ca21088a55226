//! See `chorus_fuzz::time`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| chorus_fuzz::time(data));
