//! Laws and references of the container.

use super::checksum::CHECKSUM;
use super::container::KEY;
use super::header::{MAX_DEPTH, MAX_ENTRIES};
use super::layout::{MAX_LAYOUT, RESERVED};
use super::replace::replace;
use super::tensor::PIECE;
use super::*;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;
use serde_json::{json, Value};
use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder of its own for one test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("riesz-container-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn small() -> Container {
    let mut container = Container::new("model");
    container.set_field("kernel", &json!({ "name": "gaussian", "bandwidth": 0.1 })).unwrap();
    container.insert("coefficient", vec![2, 2], vec![1.0_f32, -0.0, f32::NAN, 1e-40]).unwrap();
    container.insert("scale", vec![], vec![f64::INFINITY]).unwrap();
    container.insert("classes", vec![3], b"a\0b".to_vec()).unwrap();
    container.insert("empty", vec![0, 7], Vec::<u64>::new()).unwrap();
    container
}

/// A file with this layout and these values.
fn file(layout: impl AsRef<[u8]>, values: &[u8]) -> Vec<u8> {
    let layout = layout.as_ref();
    [&(layout.len() as u64).to_le_bytes(), layout, values].concat()
}

/// A file with these entries and its checksum.
fn summed(entries: &str, values: &[u8]) -> Vec<u8> {
    let (start, end) = (values.len(), values.len() + 4);
    let checksum = format!(r#""checksum":{{"dtype":"U8","shape":[4],"data_offsets":[{start},{end}]}}"#);
    let mut bytes = file(format!("{{{entries},{checksum}}}"), values);
    bytes.extend(sum_of(&bytes).to_le_bytes());
    bytes
}

fn sum_of(bytes: &[u8]) -> u32 {
    let mut sum = flate2::Crc::new();
    sum.update(bytes);
    sum.sum()
}

/// A file with a sound header and these entries beside it.
fn with_entries(entries: &str, values: &[u8]) -> Vec<u8> {
    let header = r#""__metadata__":{"riesz":"{\"format_version\":2,\"kind\":\"model\"}"}"#;
    summed(&format!("{header},{entries}"), values)
}

/// A file without tensors and with this text for a header.
fn with_header(header: &str) -> Vec<u8> {
    summed(&format!(r#""{RESERVED}":{}"#, json!({ KEY: header })), &[])
}

#[track_caller]
fn refused(bytes: &[u8], reason: &str) {
    match Container::from_bytes(bytes) {
        Err(Error::Format(found)) => assert!(found.contains(reason), "{found:?} lacks {reason:?}"),
        other => panic!("expected a format error about {reason:?}, found {other:?}"),
    }
}

/// What is read here is what the reference implementation reads, and survives another round.
fn agrees_with_reference(bytes: &[u8], container: &Container) {
    let reference = SafeTensors::deserialize(bytes).unwrap();
    assert_eq!(reference.len(), container.tensors.len() + 1);
    for (name, view) in reference.iter().filter(|(name, _)| *name != CHECKSUM) {
        let tensor = &container.tensors[name];
        let mut raw = Vec::new();
        tensor.values.write(&mut raw).unwrap();
        assert_eq!((view.dtype(), view.shape()), (tensor.values.dtype(), tensor.shape.as_slice()));
        assert_eq!(view.data(), raw);
    }
    let again = container.to_bytes().unwrap();
    assert_eq!(Container::from_bytes(&again).unwrap().to_bytes().unwrap(), again);
}

fn values(count: usize) -> impl Strategy<Value = Values> {
    prop_oneof![
        vec(any::<u32>().prop_map(f32::from_bits), count).prop_map(Values::F32),
        vec(any::<u64>().prop_map(f64::from_bits), count).prop_map(Values::F64),
        vec(any::<u8>(), count).prop_map(Values::U8),
        vec(any::<u32>(), count).prop_map(Values::U32),
        vec(any::<u64>(), count).prop_map(Values::U64),
        vec(any::<i64>(), count).prop_map(Values::I64),
    ]
}

fn tensor() -> impl Strategy<Value = Tensor> {
    vec(0_usize..5, 0..4).prop_flat_map(|shape| {
        let count = shape.iter().product();
        values(count).prop_map(move |values| Tensor { shape: shape.clone(), values })
    })
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(any::<String>(), inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn container() -> impl Strategy<Value = Container> {
    let fields = btree_map("[a-z\"\\\\é]{0,6}", json_value(), 0..4);
    let tensors = btree_map(any::<String>(), tensor(), 0..6);
    let kind = prop_oneof![
        Just("model"),
        Just("gaussian_process"),
        Just("novelty"),
        Just("density_ratio"),
        Just("checkpoint")
    ];
    (kind, fields, tensors).prop_map(|(kind, fields, tensors)| {
        let mut container = Container::new(kind);
        fields.iter().filter(|(name, _)| *name != "kind").for_each(|(name, value)| {
            container.set_field(name, value).unwrap();
        });
        container.tensors = tensors;
        container
    })
}

proptest! {
    #[test]
    fn round_trip(original in container()) {
        let bytes = original.to_bytes().unwrap();
        let copy = Container::from_bytes(&bytes).unwrap();
        prop_assert_eq!(&copy.header, &original.header);
        prop_assert!(copy.tensors.keys().eq(original.tensors.keys()));
        // Byte for byte rather than by value: NaN differs from itself.
        prop_assert_eq!(copy.to_bytes().unwrap(), bytes.clone());
        agrees_with_reference(&bytes, &original);
    }

    #[test]
    fn noise_never_panics(bytes in vec(any::<u8>(), 0..200), layout in any::<String>()) {
        prop_assert!(Container::from_bytes(&bytes).is_err());
        prop_assert!(Container::from_bytes(&file(layout, &bytes)).is_err());
    }

    #[test]
    fn corrupted_runs_never_panic(start in any::<prop::sample::Index>(), noise in vec(any::<u8>(), 1..9)) {
        let mut bytes = small().to_bytes().unwrap();
        let start = start.index(bytes.len() - noise.len());
        bytes[start..start + noise.len()].copy_from_slice(&noise);
        if let Ok(container) = Container::from_bytes(&bytes) {
            agrees_with_reference(&bytes, &container);
        }
    }
}

#[test]
fn the_bytes_are_those_of_the_reference() {
    let mut container = small();
    // By name the reference puts this one behind the checksum.
    container.tensors.remove("classes");
    let bytes = container.to_bytes().unwrap();
    let raw: Vec<(String, Dtype, Vec<usize>, Vec<u8>)> = container
        .tensors
        .iter()
        .map(|(name, tensor)| {
            let mut raw = Vec::new();
            tensor.values.write(&mut raw).unwrap();
            (name.clone(), tensor.values.dtype(), tensor.shape.clone(), raw)
        })
        .chain([(CHECKSUM.to_owned(), Dtype::U8, vec![4], bytes[bytes.len() - 4..].to_vec())])
        .collect();
    let views = raw
        .iter()
        .map(|(name, dtype, shape, raw)| (name, TensorView::new(*dtype, shape.clone(), raw).unwrap()));
    let metadata = HashMap::from([(KEY.to_owned(), container.header.to_string())]);
    assert_eq!(bytes, safetensors::serialize(views, Some(metadata)).unwrap());
}

#[test]
fn more_values_than_a_piece() {
    let long: Vec<u32> = (0..3 * PIECE as u32 + 5).collect();
    let mut container = Container::new("checkpoint");
    container.insert("long", vec![long.len()], long.clone()).unwrap();
    let mut copy = Container::from_bytes(&container.to_bytes().unwrap()).unwrap();
    assert_eq!(copy.take_u32s("long", &[long.len()]).unwrap(), long);
}

#[test]
fn equal_contents_give_equal_bytes() {
    let fields = [("a", json!(1)), ("z", json!({ "y": 1, "x": [2, { "w": 3, "b": 4 }] })), ("m", json!("m"))];
    let build = |order: [usize; 3]| {
        let mut container = Container::new("model");
        for index in order {
            let (name, value) = &fields[index];
            container.set_field(name, value).unwrap();
            container.insert(name, vec![1], vec![index as f32]).unwrap();
        }
        container.to_bytes().unwrap()
    };
    assert_eq!(build([0, 1, 2]), build([2, 1, 0]));
    assert_ne!(build([0, 1, 2]), Container::new("model").to_bytes().unwrap());
    let text = String::from_utf8_lossy(&build([1, 0, 2])).into_owned();
    let sorted = r#"{\"a\":1,\"format_version\":2,\"kind\":\"model\",\"m\":\"m\",\"z\":{\"x\":[2,{\"b\":4,\"w\":3}],\"y\":1}}"#;
    assert!(text.contains(sorted), "{text}");
}

/// Holds with the feature `float_roundtrip` of serde_json only: without it the last bit may change.
#[test]
fn numbers_in_the_header_keep_every_bit() {
    let mut word = 1_u64;
    for _ in 0..2_000 {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = f64::from_bits(word >> 2);
        let mut container = Container::new("model");
        container.set_field("number", &number).unwrap();
        container.set_field("seed", &word).unwrap();
        let copy = Container::from_bytes(&container.to_bytes().unwrap()).unwrap();
        assert_eq!(copy.field::<f64>("number").unwrap().to_bits(), number.to_bits(), "{number:e}");
        assert_eq!(copy.field::<u64>("seed").unwrap(), word);
    }
}

#[test]
fn every_truncation_is_refused() {
    let bytes = small().to_bytes().unwrap();
    for length in 0..bytes.len() {
        let cut = Container::from_bytes(&bytes[..length]);
        assert!(matches!(cut, Err(Error::Format(_))), "{length} of {} bytes: {cut:?}", bytes.len());
    }
    refused(&[bytes.as_slice(), &[0]].concat(), "the tensors end at");
}

#[test]
fn every_changed_byte_is_refused() {
    let original = small().to_bytes().unwrap();
    let mut bytes = original.clone();
    let mut damaged = 0;
    for position in 0..bytes.len() {
        for change in 1..=u8::MAX {
            bytes[position] = original[position] ^ change;
            let error = Container::from_bytes(&bytes).unwrap_err().to_string();
            damaged += usize::from(error.contains("the file is damaged"));
        }
        bytes[position] = original[position];
    }
    assert!(damaged > 255 * (4 + 4 * 4), "changed values are found by the checksum alone: {damaged}");
}

/// Behind a checksum that fits, whatever is read is what the reference implementation reads.
#[test]
fn every_changed_byte_is_refused_or_read_behind_a_new_checksum() {
    let original = small().to_bytes().unwrap();
    let mut read = 0;
    for position in 0..original.len() - 4 {
        for change in 1..=u8::MAX {
            let mut bytes = original[..original.len() - 4].to_vec();
            bytes[position] ^= change;
            bytes.extend(sum_of(&bytes).to_le_bytes());
            if let Ok(container) = Container::from_bytes(&bytes) {
                agrees_with_reference(&bytes, &container);
                read += 1;
            }
        }
    }
    assert!(read > 0, "changed values are still values");
}

#[test]
fn a_file_ends_with_its_checksum() {
    let header = r#""__metadata__":{"riesz":"{\"format_version\":2,\"kind\":\"model\"}"}"#;
    refused(&file(format!("{{{header}}}"), &[]), "does not end with a checksum");
    let short = r#""checksum":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}"#;
    refused(&file(format!("{{{header},{short}}}"), &[0; 2]), "does not end with a checksum");
    let wrong = r#""checksum":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}"#;
    refused(&file(format!("{{{header},{wrong}}}"), &[0; 4]), "the checksum does not fit the contents");
}

#[test]
fn values_that_are_no_numbers_are_not_taken_out() {
    let mut container = Container::new("model");
    container.insert("a", vec![3], vec![1.0_f32, 2.0, f32::NAN]).unwrap();
    container.insert("b", vec![2], vec![0.0_f64, f64::NEG_INFINITY]).unwrap();
    let message = |error: Error| error.to_string();
    let error = container.take_f32s("a", &[3]).map_err(message).unwrap_err();
    assert!(error.contains("tensor \"a\": value 2 is NaN"), "{error}");
    let error = container.take_f64s("b", &[2]).map_err(message).unwrap_err();
    assert!(error.contains("tensor \"b\": value 1 is -inf"), "{error}");
    assert_eq!(container.take_f64s_where("b", &[2], |v| v < 1.0).unwrap()[1], f64::NEG_INFINITY);
}

#[test]
fn columns_stand_beside_a_model() {
    let mut container = small();
    assert_eq!(container.columns().unwrap(), Columns::default());
    let mut columns = Columns::of_numbers(["a".into(), "\u{1b}\n\"".into()], Some("y".into()));
    columns.features[1].kind = ColumnType::Boolean;
    container.set_columns(&columns).unwrap();
    let copy = Container::from_bytes(&container.to_bytes().unwrap()).unwrap();
    assert_eq!(copy.columns().unwrap(), columns);
    columns.check(2).unwrap();
    let error = columns.check(3).unwrap_err().to_string();
    assert!(error.contains("2 columns have names, the model has 3"), "{error}");
    // More than a header could hold.
    let wide = Columns::of_numbers((0..70_000).map(|i| i.to_string()), None);
    container.set_columns(&wide).unwrap();
    assert_eq!(
        Container::from_bytes(&container.to_bytes().unwrap()).unwrap().columns().unwrap().names().len(),
        70_000
    );
    for text in
        ["", "[{}]", r#"[{"name":"a","type":"colour"}]"#, r#"[{"name":"a","type":"number","more":1}]"#, "[1]"]
    {
        container.insert("columns", vec![text.len()], text.as_bytes().to_vec()).unwrap();
        let error = container.columns().unwrap_err().to_string();
        assert!(error.contains("tensor \"columns\": "), "{error}");
    }
    container.insert("columns", vec![1], vec![0.0_f32]).unwrap();
    assert!(container.columns().is_err());
}

#[cfg(unix)]
#[test]
fn a_file_keeps_its_permissions_and_a_link_its_place() {
    use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};
    let folder = Folder::new();
    let [path, link, chain, dangling] =
        ["model", "link", "chain", "dangling"].map(|name| folder.0.join(name));
    small().save(&path).unwrap();
    for mode in [0o600, 0o644, 0o440] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        small().save(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, mode);
    }
    symlink("model", &link).unwrap();
    symlink(&link, &chain).unwrap();
    symlink("new", &dangling).unwrap();
    fs::write(&path, b"").unwrap();
    small().save(&chain).unwrap();
    small().save(&dangling).unwrap();
    let whole = small().to_bytes().unwrap();
    assert!(fs::read(&path).unwrap() == whole && fs::read(folder.0.join("new")).unwrap() == whole);
    for link in [&link, &chain, &dangling] {
        assert!(fs::symlink_metadata(link).unwrap().is_symlink());
    }
    assert_eq!(folder.names(), ["chain", "dangling", "link", "model", "new"]);
    let endless = folder.0.join("endless");
    symlink("endless", &endless).unwrap();
    assert!(small().save(&endless).is_err());
    // A device is written to, not replaced.
    small().save(std::path::Path::new("/dev/null")).unwrap();
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
}

#[test]
fn hostile_lengths() {
    refused(&[], "0 bytes");
    refused(&u64::MAX.to_le_bytes(), "at most 16777216");
    refused(&[&u64::MAX.to_le_bytes()[..], b"{}"].concat(), "at most 16777216");
    refused(&[&(MAX_LAYOUT as u64 + 1).to_le_bytes()[..], b"{}"].concat(), "at most 16777216");
    refused(&[&(MAX_LAYOUT as u64).to_le_bytes()[..], b"{}"].concat(), "2 are left");
    refused(&[&3_u64.to_le_bytes()[..], b"{}"].concat(), "2 are left");
    refused(&0_u64.to_le_bytes(), "the layout is not valid");
}

#[test]
fn hostile_shapes_and_offsets() {
    let one = |dtype: &str, shape: &str, offsets: &str| {
        with_entries(
            &format!(r#""t":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}"#),
            &[0; 16],
        )
    };
    assert!(Container::from_bytes(&one("F32", "[2,2]", "[0,16]")).is_ok());
    refused(&one("F32", "[4294967296,4294967296]", "[0,16]"), "overflows");
    refused(&one("F64", "[2305843009213693954]", "[0,16]"), "does not fill");
    refused(&one("F32", "[18446744073709551616]", "[0,16]"), "the layout is not valid");
    refused(&one("F32", "[-4]", "[0,16]"), "the layout is not valid");
    refused(&one("F32", "[1,1,1,1,1,1,1,1,4]", "[0,16]"), "at most 8");
    refused(&one("F32", "[3]", "[0,16]"), "does not fill 16 bytes");
    refused(&one("F32", "[6]", "[0,24]"), "spans 0..24 of 20");
    refused(&one("F32", "[4]", "[0,18446744073709551615]"), "of 20 bytes");
    refused(&one("F32", "[4]", "[16,0]"), "starts at 16");
    refused(&one("F32", "[3]", "[4,16]"), "starts at 4");
    refused(&one("F32", "[3]", "[0,12]"), "\"checksum\": starts at 16, but the tensor before it ends at 12");
    refused(&one("BF16", "[8]", "[0,16]"), "\"BF16\" is none of");
    refused(&one("f32", "[4]", "[0,16]"), "\"f32\" is none of");
    refused(&one("F32", "[4]", "[0,16],\"more\":0"), "unknown field `more`");

    let two = |first: &str, second: &str| {
        let entry = |name: &str, rest: &str| format!(r#""{name}":{{"dtype":"U8",{rest}}}"#);
        with_entries(&format!("{},{}", entry("a", first), entry("b", second)), &[0; 16])
    };
    let half = r#""shape":[8],"data_offsets":[0,8]"#;
    assert!(Container::from_bytes(&two(half, r#""shape":[8],"data_offsets":[8,16]"#)).is_ok());
    refused(&two(half, r#""shape":[9],"data_offsets":[7,16]"#), "\"b\": starts at 7");
    refused(&two(half, half), "starts at 0");
    refused(&two(half, r#""shape":[7],"data_offsets":[9,16]"#), "starts at 9");
}

/// Sizes that add up to 2⁶⁴ − 8: the reference implementation overflows here.
#[test]
fn sizes_whose_sum_overflows() {
    let size = (1_u64 << 61) - 1;
    let entry = |i: u64| {
        format!(r#""{i}":{{"dtype":"U8","shape":[{size}],"data_offsets":[{},{}]}}"#, i * size, (i + 1) * size)
    };
    let header = r#""__metadata__":{"riesz":"{\"format_version\":2,\"kind\":\"model\"}"}"#;
    let entries = (0..8).map(entry).collect::<Vec<_>>().join(",");
    refused(&file(format!("{{{header},{entries}}}"), &[]), "of 0 bytes");
}

#[test]
fn hostile_layouts() {
    let entry = r#""t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}"#;
    assert!(Container::from_bytes(&with_entries(entry, &[0])).is_ok());
    refused(&with_entries(&format!("{entry},{entry}"), &[0]), "\"t\" appears twice");
    let metadata = r#""__metadata__":{"riesz":"{}"}"#;
    refused(&with_entries(metadata, &[]), "\"__metadata__\" appears twice");
    refused(&file(b"{\"\xff\":0}", &[]), "not UTF-8");
    refused(&file(format!("{{{entry}}}"), &[0]), "missing field `__metadata__`");
    refused(&file(r#"{"__metadata__":{}}"#, &[]), "missing field `riesz`");
    refused(&file(r#"{"__metadata__":{"riesz":1}}"#, &[]), "invalid type");
    refused(&file(r#"{"__metadata__":{"riesz":"{}","format":"pt"}}"#, &[]), "unknown field `format`");
    refused(&file(r#"{"__metadata__":{"riesz":"{}","riesz":"{}"}}"#, &[]), "duplicate field `riesz`");
    refused(&file("[]", &[]), "invalid type");
    refused(&file("{} {}", &[]), "the layout is not valid");
    refused(&file("[".repeat(100_000), &[]), "the layout is not valid");
    refused(&file(format!("{{\"a\":{}", "[".repeat(100_000)), &[]), "the layout is not valid");
    let many = |count: usize| {
        let empty = r#"{"dtype":"U8","shape":[0],"data_offsets":[0,0]}"#;
        let entries: Vec<_> = (0..count).map(|i| format!("\"{i}\":{empty}")).collect();
        with_entries(&entries.join(","), &[])
    };
    assert_eq!(Container::from_bytes(&many(MAX_ENTRIES - 1)).unwrap().tensors.len(), MAX_ENTRIES - 1);
    refused(&many(MAX_ENTRIES), "more than 65536 tensors");
}

#[test]
fn hostile_headers() {
    let sound = |more: &str| format!(r#"{{"format_version":2,"kind":"model"{more}}}"#);
    assert!(Container::from_bytes(&with_header(&sound(""))).is_ok());
    for not_an_object in ["[]", "1", "null", "\"riesz\"", "true"] {
        refused(&with_header(not_an_object), "not a JSON object");
    }
    for not_json in ["", "{", "{}{}", "{\"a\":1e999}", "{\"a\":NaN}", "nul"] {
        refused(&with_header(not_json), "the header is not valid");
    }
    refused(&with_header(&sound(",\"kind\":\"model\"")), "\"kind\" appears twice");
    let nested = |depth: usize| sound(&format!(",\"a\":{}{}", "[".repeat(depth), "]".repeat(depth)));
    assert!(Container::from_bytes(&with_header(&nested(MAX_DEPTH))).is_ok());
    refused(&with_header(&nested(MAX_DEPTH + 1)), "more than 64 deep");
    refused(&with_header(&nested(100_000)), "more than 64 deep");
    let list = |count: usize| sound(&format!(",\"a\":[{}]", vec!["{}"; count].join(",")));
    assert!(Container::from_bytes(&with_header(&list(MAX_ENTRIES - 4))).is_ok());
    refused(&with_header(&list(MAX_ENTRIES - 3)), "more than 65536 values");
}

#[test]
fn versions_and_kinds() {
    refused(&with_header(r#"{"kind":"model"}"#), "no format_version");
    for version in ["0", "1", "3", "2.0", "-1", "\"2\"", "null", "18446744073709551615"] {
        let header = format!(r#"{{"format_version":{version},"kind":"model"}}"#);
        refused(&with_header(&header), &format!("format_version is {version}; this build reads version 2"));
    }
    // A later version is recognised as such, whatever types its tensors have.
    let later = r#"{"__metadata__":{"riesz":"{\"format_version\":3}"},"t":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}}"#;
    refused(&file(later, &[0; 2]), "format_version is 3; this build reads version 2");
    refused(&with_header(r#"{"format_version":2}"#), "no kind");
    refused(&with_header(r#"{"format_version":2,"kind":7}"#), "no kind");
    refused(&with_header(r#"{"format_version":2,"kind":"modem"}"#), "kind is \"modem\", expected one of");

    let container = Container::new("checkpoint");
    assert_eq!(container.kind(), Some("checkpoint"));
    container.expect_kind("checkpoint").unwrap();
    let error = container.expect_kind("model").unwrap_err().to_string();
    assert!(error.contains("holds a checkpoint, expected a kernel machine"), "{error}");
    let error = container.expect_kind("online").unwrap_err().to_string();
    assert!(error.contains("holds a checkpoint, expected an online kernel machine"), "{error}");
}

#[test]
fn messages_stay_short() {
    let long = "é".repeat(10_000);
    let entry = format!(r#""{long}":{{"dtype":"{long}","shape":[0],"data_offsets":[0,0]}}"#);
    for bytes in [
        with_entries(&entry, &[]),
        with_entries(&format!(r#""t":{{"{long}":0}}"#), &[]),
        with_header(&format!(r#"{{"format_version":"{long}"}}"#)),
        with_header(&format!(r#"{{"{long}":0,"{long}":0}}"#)),
    ] {
        assert!(Container::from_bytes(&bytes).unwrap_err().to_string().len() < 1_000);
    }
}

/// What could not be read back is not written.
#[test]
fn unsound_contents_are_not_written() {
    let refuses = |change: &dyn Fn(&mut Container), reason: &str| {
        let mut container = small();
        change(&mut container);
        match container.to_bytes() {
            Err(Error::Format(found)) => assert!(found.contains(reason), "{found:?} lacks {reason:?}"),
            other => panic!("expected a format error about {reason:?}, found {other:?}"),
        }
    };
    let odd = |shape: Vec<usize>| Tensor { shape, values: Values::U8(vec![0; 3]) };
    refuses(&|c| drop(c.tensors.insert("t".into(), odd(vec![2]))), "asks for 2 values, found 3");
    refuses(&|c| drop(c.tensors.insert("t".into(), odd(vec![usize::MAX, 3]))), "overflows");
    refuses(&|c| drop(c.tensors.insert("t".into(), odd([&[3], [1; 8].as_slice()].concat()))), "at most 8");
    refuses(&|c| drop(c.tensors.insert(RESERVED.into(), odd(vec![3]))), "reserved");
    refuses(&|c| c.header = json!([]), "not a JSON object");
    refuses(&|c| c.set_field("format_version", &3).unwrap(), "this build reads version 2");
    refuses(&|c| c.set_field("kind", "modem").unwrap(), "kind is \"modem\"");
    refuses(&|c| c.set_field("list", &vec![0; MAX_ENTRIES]).unwrap(), "belong in tensors");
    refuses(&|c| c.set_field("text", &"a".repeat(MAX_LAYOUT)).unwrap(), "at most 16777216");
    let nested = (0..=MAX_DEPTH).fold(json!(0), |inner, _| json!([inner]));
    refuses(&|c| c.set_field("nested", &nested).unwrap(), "more than 64 deep");
    assert!(Tensor::new(vec![2], vec![0_u8; 3]).is_err());
    let error = small().insert("t", vec![2], vec![0_u8; 3]).unwrap_err().to_string();
    assert!(error.contains("tensor \"t\": shape [2] asks for 2 values, found 3"), "{error}");
}

#[test]
fn typed_access() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Kernel {
        name: String,
        bandwidth: f64,
    }
    #[derive(Debug, PartialEq, Deserialize)]
    struct Whole {
        format_version: u64,
        kernel: Kernel,
    }
    let mut container = small();
    let kernel = || Kernel { name: "gaussian".into(), bandwidth: 0.1 };
    assert_eq!(container.field::<Kernel>("kernel").unwrap(), kernel());
    assert_eq!(container.header_as::<Whole>().unwrap(), Whole { format_version: 2, kernel: kernel() });
    assert_eq!(container.field::<Option<u64>>("absent").unwrap(), None);
    let message = |error: Error| error.to_string();
    let error = container.field::<u64>("kernel").map_err(message).unwrap_err();
    assert!(error.contains("header field \"kernel\": invalid type"), "{error}");

    assert_eq!(container.f64s("scale").unwrap(), (&[][..], &[f64::INFINITY][..]));
    assert_eq!(container.u8s("classes").unwrap(), (&[3][..], &b"a\0b"[..]));
    assert_eq!(container.u64s("empty").unwrap(), (&[0, 7][..], &[][..]));
    let error = container.f32s("scale").map_err(message).unwrap_err();
    assert!(error.contains("tensor \"scale\": holds F64 values, expected F32"), "{error}");
    let error = container.i64s("absent").map_err(message).unwrap_err();
    assert!(error.contains("tensor \"absent\": missing"), "{error}");
    let error = container.take_f32s("coefficient", &[4]).map_err(message).unwrap_err();
    assert!(error.contains("has shape [2, 2], expected [4]"), "{error}");
    container.insert("coefficient", vec![2, 2], vec![1.0_f32; 4]).unwrap();
    assert_eq!(container.take_f32s("coefficient", &[2, 2]).unwrap()[0], 1.0);
    assert!(container.take_f32s("coefficient", &[2, 2]).is_err());
}

#[test]
fn save_replaces_the_file_and_leaves_nothing_beside_it() {
    let folder = Folder::new();
    let path = folder.0.join("model.riesz");
    Container::new("checkpoint").save(&path).unwrap();
    small().save(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), small().to_bytes().unwrap());
    assert_eq!(Container::load(&path).unwrap().to_bytes().unwrap(), small().to_bytes().unwrap());
    assert_eq!(folder.names(), ["model.riesz"]);
}

#[test]
fn a_failed_save_changes_nothing() {
    let folder = Folder::new();
    let path = folder.0.join("model.riesz");
    small().save(&path).unwrap();
    let before = fs::read(&path).unwrap();

    // The disk fills up halfway.
    let full = replace(&path, |file| {
        file.write_all(&before[..40])?;
        Err(io::ErrorKind::StorageFull.into())
    });
    assert_eq!(full.unwrap_err().kind(), io::ErrorKind::StorageFull);
    // The contents are unsound.
    assert!(matches!(Container::new("modem").save(&path), Err(Error::Format(_))));
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(folder.names(), ["model.riesz"]);

    // The target is a folder, has no folder, or has no name.
    fs::create_dir(folder.0.join("folder")).unwrap();
    for target in ["folder", "absent/model.riesz", "folder/.."] {
        let target = folder.0.join(target);
        match small().save(&target) {
            Err(Error::Io { path, .. }) => assert_eq!(path, target),
            other => panic!("saved to {}: {other:?}", target.display()),
        }
    }
    assert_eq!(folder.names(), ["folder", "model.riesz"]);
    assert_eq!(fs::read_dir(folder.0.join("folder")).unwrap().count(), 0);
}

#[cfg(unix)]
#[test]
fn a_folder_that_cannot_be_written_keeps_its_file() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let path = folder.0.join("model.riesz");
    small().save(&path).unwrap();
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o555)).unwrap();
    let saved = Container::new("model").save(&path);
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o755)).unwrap();
    // The superuser writes where it likes.
    let expected = if saved.is_ok() { Container::new("model") } else { small() };
    assert_eq!(fs::read(&path).unwrap(), expected.to_bytes().unwrap());
    assert_eq!(folder.names(), ["model.riesz"]);
}

#[test]
fn threads_may_save_at_the_same_time() {
    let folder = Folder::new();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let path = folder.0.join(format!("{}.riesz", number % 2));
            scope.spawn(move || small().save(&path).unwrap());
        }
    });
    assert_eq!(folder.names(), ["0.riesz", "1.riesz"]);
    Container::load(&folder.0.join("0.riesz")).unwrap();
}

#[test]
fn load_names_the_file() {
    let folder = Folder::new();
    let path = folder.0.join("model.riesz");
    match Container::load(&path) {
        Err(Error::Io { path: found, source }) => {
            assert_eq!((found, source.kind()), (path.clone(), io::ErrorKind::NotFound));
        }
        other => panic!("loaded {other:?}"),
    }
    fs::write(&path, b"PK").unwrap();
    for (path, reason) in [(&path, "too short"), (&folder.0, "not a regular file")] {
        let error = Container::load(path).unwrap_err().to_string();
        assert!(error.contains(reason) && error.contains(path.to_str().unwrap()), "{error}");
    }
}
