//! Any bytes at all: reading ends in an error or in a container that survives another round.

#![no_main]

use libfuzzer_sys::fuzz_target;
use riesz::model::Container;

fuzz_target!(|bytes: &[u8]| {
    let Ok(container) = Container::from_bytes(bytes) else { return };
    let written = container.to_bytes().expect("what was read can be written");
    let again = Container::from_bytes(&written).expect("what was written can be read");
    // Byte for byte rather than by value: NaN differs from itself.
    assert_eq!(written, again.to_bytes().expect("what was read can be written"));

    // To fuzz the model on top of the container, which must refuse a sound container with unsound
    // contents (missing tensors, wrong shapes, settings out of range), add:
    //
    // if let Ok(model) = riesz::model::Model::from_bytes(bytes) {
    //     let written = model.to_bytes().expect("a model that was read can be written");
    //     riesz::model::Model::from_bytes(&written).expect("a model that was written can be read");
    // }
});
