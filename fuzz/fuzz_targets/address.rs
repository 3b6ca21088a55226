//! See `chorus_fuzz::address`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| chorus_fuzz::address(data));
