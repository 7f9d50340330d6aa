//! The container of MNIST: two zero bytes, the element type, the number of dimensions, their extents, then
//! the elements, the most significant byte first.

use super::npy::{Array, Element, Reader};
use super::source::Source;
use super::table::{Dataset, TargetColumn};
use crate::error::Result;

/// Reads an IDX file.
pub(super) fn read(source: Source, target: &TargetColumn) -> Result<Dataset> {
    open(source, target)?.whole()
}

/// Reads the header of an IDX file.
pub(super) fn open(mut source: Source, target: &TargetColumn) -> Result<Reader> {
    let mut magic = [0; 4];
    source.read_exact(&mut magic, "header")?;
    let element = match magic {
        [0, 0, 0x08, _] => Element::U8,
        [0, 0, 0x09, _] => Element::I8,
        [0, 0, 0x0B, _] => Element::I16,
        [0, 0, 0x0C, _] => Element::I32,
        [0, 0, 0x0D, _] => Element::F32,
        [0, 0, 0x0E, _] => Element::F64,
        _ => return Err(source.invalid(format!("{magic:02x?} does not begin an IDX file"))),
    };
    let mut shape = Vec::new();
    for _ in 0..magic[3] {
        let mut extent = [0; 4];
        source.read_exact(&mut extent, "header")?;
        shape.push(u32::from_be_bytes(extent) as usize);
    }
    let offset = 4 * (1 + shape.len()) as u64;
    Reader::new(source, Array { element, big_endian: true, fortran: false, shape }, offset, target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(bytes: &[u8]) -> Result<Dataset> {
        read(Source::of_bytes("t-idx3-ubyte", bytes, false), &TargetColumn::None)
    }

    #[test]
    fn flattens_images_into_rows() {
        let bytes =
            [&[0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3][..], &[0, 1, 2, 253, 254, 255]].concat();
        let features = parse(&bytes).unwrap().features;
        assert_eq!((features.dense().as_slice(), features.columns), (&[0., 1., 2., 253., 254., 255.][..], 3));
        assert!(parse(&bytes[..21]).unwrap_err().to_string().contains("ends inside its data"));
        assert!(parse(&[bytes, vec![0]].concat()).unwrap_err().to_string().contains("bytes follow"));
    }

    #[test]
    fn reads_labels_and_wider_elements() {
        let bytes = [0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 7];
        let source = Source::of_bytes("t-idx1-ubyte", &bytes, true);
        let target = read(source, &TargetColumn::Last).unwrap().target.unwrap();
        assert_eq!(target.labels().classes, ["2", "7"]);
        let bytes = [0, 0, 0x0B, 1, 0, 0, 0, 2, 0xFF, 0xFE, 1, 0];
        assert_eq!(parse(&bytes).unwrap().features.dense(), [-2.0, 256.0]);
    }

    #[test]
    fn refuses_what_is_no_idx_file() {
        assert!(parse(&[0, 0, 7, 1]).unwrap_err().to_string().contains("does not begin an IDX file"));
        assert!(parse(&[0, 0]).unwrap_err().to_string().contains("ends inside its header"));
        let huge = [&[0, 0, 8, 3][..], &[0xFF; 12], &[1, 2, 3]].concat();
        assert!(parse(&huge).is_err());
    }

    proptest! {
        #[test]
        fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..100), kind in 7_u8..16, extents in 0_u8..4) {
            let _ = parse(&bytes);
            let _ = parse(&[&[0, 0, kind, extents][..], &bytes].concat());
        }
    }
}
