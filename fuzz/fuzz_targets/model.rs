//! Any bytes at all: reading ends in an error or in a container that survives another round.

#![no_main]

use libfuzzer_sys::fuzz_target;
use riesz::distributions::kde::KernelDensity;
use riesz::distributions::models::lda::TopicModel;
use riesz::distributions::Posterior;
use riesz::functions::{DensityRatio, KernelMachine, NoveltyDetector};
use riesz::model::{Container, Stored};

/// A model that was read can be written, and what was written can be read.
fn survives<T: Stored>(bytes: &[u8]) {
    if let Ok(model) = T::from_bytes(bytes) {
        let written = model.to_bytes().expect("a model that was read can be written");
        assert!(T::from_bytes(&written).is_ok(), "a model that was written can be read");
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(container) = Container::from_bytes(bytes) else { return };
    let written = container.to_bytes().expect("what was read can be written");
    let again = Container::from_bytes(&written).expect("what was written can be read");
    // Byte for byte rather than by value: NaN differs from itself.
    assert_eq!(written, again.to_bytes().expect("what was read can be written"));

    // A sound container may have unsound contents: missing tensors, wrong shapes, settings out of range.
    survives::<KernelMachine>(bytes);
    survives::<NoveltyDetector>(bytes);
    survives::<DensityRatio>(bytes);
    survives::<KernelDensity>(bytes);
    survives::<Posterior>(bytes);
    survives::<TopicModel>(bytes);
});
