//! See `chorus_fuzz::answer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| chorus_fuzz::answer(data));
