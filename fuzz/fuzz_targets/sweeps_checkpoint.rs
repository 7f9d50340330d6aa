#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some(work) = riesz_fuzz::sweeps_checkpoint(bytes) {
        work();
    }
});
