//! See `chorus_fuzz::envelope`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| chorus_fuzz::envelope(data));
