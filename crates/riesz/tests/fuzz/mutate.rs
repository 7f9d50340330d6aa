//! Changes of bytes and of containers, each a function of a number.

use riesz::model::{Container, Tensor, Values};
use serde_json::{json, Map, Value};

/// SplitMix64: a sequence of numbers from one.
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    pub fn below(&mut self, most: usize) -> usize {
        (self.next() % most.max(1) as u64) as usize
    }

    pub fn of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

/// Whole numbers at which sizes and signs go wrong.
const EDGES: [u64; 22] = [
    0,
    1,
    2,
    7,
    63,
    64,
    65,
    255,
    256,
    1 << 15,
    1 << 16,
    1 << 20,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    300_000_000,
    1 << 53,
    (1 << 63) - 1,
    1 << 63,
    u64::MAX - 1,
    u64::MAX,
];

/// Words of the formats.
const WORDS: [&str; 45] = [
    "__metadata__",
    "riesz",
    "checksum",
    "columns",
    "\"dtype\":\"F64\"",
    "\"shape\":[0]",
    "data_offsets",
    "format_version",
    "kind",
    "nan",
    "inf",
    "-inf",
    "1e39",
    "-1e-46",
    "?",
    "\"",
    "\"\"",
    ",",
    ";",
    "\t",
    "\n",
    "\r\n",
    "\0",
    "#",
    ":",
    "qid:1",
    "0:1",
    "4294967295:1",
    "\u{feff}",
    "'descr': '<f8'",
    "'descr': '>i2'",
    "'fortran_order': True",
    "'shape': (2, 3)",
    "'shape': (4294967296, 4294967296)",
    "'shape': ()",
    "\u{93}NUMPY",
    "PK\u{1}\u{2}",
    "PK\u{3}\u{4}",
    "PK\u{5}\u{6}",
    "a.npy",
    "1_0",
    "+1",
    "1.0",
    "1,5",
    "PAR1",
];

/// Changes some of the bytes; `other` is another seed.
pub fn bytes(dice: &mut Dice, bytes: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..1 + dice.below(4) {
        change(dice, bytes, other);
        bytes.truncate(1 << 16);
    }
}

fn change(dice: &mut Dice, bytes: &mut Vec<u8>, other: &[u8]) {
    let length = bytes.len();
    let (at, end) = (dice.below(length + 1), dice.below(length + 1));
    let range = at.min(end)..at.max(end);
    match dice.below(12) {
        0 | 1 if length > 0 => bytes[at % length] ^= 1 << dice.below(8),
        2 if length > 0 => bytes[at % length] = dice.next() as u8,
        3 => bytes.truncate(at),
        4 => drop(bytes.drain(range.start..range.end.min(range.start + 64))),
        5 => {
            let again = bytes[range.start..range.end.min(range.start + 256)].to_vec();
            bytes.splice(at..at, again);
        }
        6 => {
            let from = dice.below(other.len() + 1);
            let part = &other[from..(from + dice.below(256)).min(other.len())];
            bytes.splice(range.start..range.end.min(range.start + part.len()), part.iter().copied());
        }
        7 | 8 => {
            let (edge, width) = (*dice.of(&EDGES), 1 << dice.below(4));
            let raw = if dice.below(2) == 0 { edge.to_le_bytes() } else { edge.to_be_bytes().map(|b| b) };
            let raw = if dice.below(2) == 0 { &raw[..width] } else { &raw[8 - width..] };
            bytes.splice(at..(at + width).min(length), raw.iter().copied());
        }
        9 | 10 => {
            let word = dice.of(&WORDS).as_bytes();
            let over = if dice.below(2) == 0 { at } else { (at + word.len()).min(length) };
            bytes.splice(at..over, word.iter().copied());
        }
        _ => number(dice, bytes),
    }
}

/// Replaces a number in text.
fn number(dice: &mut Dice, bytes: &mut Vec<u8>) {
    let from = dice.below(bytes.len() + 1);
    let Some(start) = bytes[from..].iter().position(u8::is_ascii_digit).map(|place| from + place) else {
        return;
    };
    let length = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let text = dice.of(&EDGES).to_string();
    bytes.splice(start..start + length, text.bytes());
}

/// A file of the library: changed as bytes with and without a new checksum, or part by part. Returns whether whatever was
/// changed must be found.
pub fn file(
    dice: &mut Dice,
    seed: &mut Vec<u8>,
    parts: &Container,
    other: &Container,
    others: &[u8],
) -> bool {
    match dice.below(8) {
        0 => {
            let before = seed.clone();
            bytes(dice, seed, others);
            *seed != before
        }
        1 | 2 => {
            let end = seed.len() - 4;
            seed.truncate(end);
            bytes(dice, seed, others);
            let mut sum = flate2::Crc::new();
            sum.update(seed);
            seed.extend(sum.sum().to_le_bytes());
            false
        }
        _ => {
            let mut changed = parts.clone();
            for _ in 0..1 + dice.below(3) {
                if dice.below(2) == 0 {
                    header(dice, &mut changed.header, &other.header);
                } else {
                    tensor(dice, &mut changed, other);
                }
            }
            if let Ok(written) = changed.to_bytes() {
                *seed = written;
            }
            false
        }
    }
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(values) => values.iter().map(count).sum::<usize>(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

/// The `place`-th value, counted from the outside.
fn at<'a>(value: &'a mut Value, place: &mut usize) -> Option<&'a mut Value> {
    if *place == 0 {
        return Some(value);
    }
    *place -= 1;
    match value {
        Value::Array(values) => values.iter_mut().find_map(|value| at(value, place)),
        Value::Object(fields) => fields.values_mut().find_map(|value| at(value, place)),
        _ => None,
    }
}

/// Changes one value of a header.
fn header(dice: &mut Dice, header: &mut Value, other: &Value) {
    let replacement = match dice.below(8) {
        0 => {
            let (mut other, mut place) = (other.clone(), dice.below(count(other)));
            at(&mut other, &mut place).map_or(Value::Null, |value| value.take())
        }
        1 => dice
            .of(&[
                json!(null),
                json!(true),
                json!(false),
                json!(""),
                json!([]),
                json!({}),
                json!("gaussian"),
                json!([[]]),
            ])
            .clone(),
        2 => json!(*dice.of(&[0.5, -0.5, -1.0, 1e-300, 1e300, -1e300, 5e-324, 1e39, 1.0, 0.0, -0.0])),
        3 => json!(-(dice.of(&EDGES).wrapping_shr(1) as i64)),
        _ => json!(*dice.of(&EDGES)),
    };
    let nodes = count(header);
    // The outermost value, and version and kind as a rule, are left alone.
    let mut place = 1 + dice.below(nodes - 1);
    let Some(value) = at(header, &mut place) else { return };
    match value {
        Value::Object(fields) if !fields.is_empty() && dice.below(2) == 0 => remove(dice, fields),
        Value::Array(values) if dice.below(2) == 0 => match values.pop() {
            Some(last) if dice.below(2) == 0 => values.extend([last.clone(), last]),
            _ => {}
        },
        value => *value = replacement,
    }
}

fn remove(dice: &mut Dice, fields: &mut Map<String, Value>) {
    let name = fields.keys().nth(dice.below(fields.len())).cloned();
    fields.remove(&name.unwrap_or_default());
}

/// Changes one tensor: values, shape, type, or whether it is there.
fn tensor(dice: &mut Dice, container: &mut Container, other: &Container) {
    let Some(name) = container.tensors.keys().nth(dice.below(container.tensors.len())).cloned() else {
        return;
    };
    let Some(tensor) = container.tensors.get_mut(&name) else { return };
    match dice.below(8) {
        0 => drop(container.tensors.remove(&name)),
        1 => {
            if let Some((_, tensor)) = other.tensors.iter().nth(dice.below(other.tensors.len())) {
                container.tensors.insert(name, tensor.clone());
            }
        }
        2 | 3 => reshape(dice, tensor),
        4 => {
            let count = tensor.values.len();
            *tensor = Tensor {
                shape: tensor.shape.clone(),
                values: match dice.below(3) {
                    0 => Values::F32(vec![1.0; count]),
                    1 => Values::F64(vec![1.0; count]),
                    _ => Values::U64(vec![1; count]),
                },
            };
        }
        _ => value(dice, &mut tensor.values),
    }
}

/// Another shape, and as many values as it asks for where they are few.
fn reshape(dice: &mut Dice, tensor: &mut Tensor) {
    let length = tensor.shape.len();
    match dice.below(5) {
        0 => tensor.shape.push(1),
        1 => drop(tensor.shape.pop()),
        2 => tensor.shape.reverse(),
        _ if length > 0 => {
            tensor.shape[dice.below(length)] = *dice.of(&[0, 1, 2, 3, 63, 64, 65, 128, 1 << 40])
        }
        _ => {}
    }
    let wanted =
        tensor.shape.iter().try_fold(1_usize, |product, &n| product.checked_mul(n)).unwrap_or(0).min(1 << 11);
    match &mut tensor.values {
        Values::F32(values) => values.resize(wanted, 0.5),
        Values::F64(values) => values.resize(wanted, 0.5),
        Values::U8(values) => values.resize(wanted, b'{'),
        Values::U32(values) => values.resize(wanted, 1),
        Values::U64(values) => values.resize(wanted, 1),
        Values::I64(values) => values.resize(wanted, 1),
    }
}

/// Sets one value, or all of them.
fn value(dice: &mut Dice, values: &mut Values) {
    let special = *dice.of(&[
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.0,
        -0.0,
        -1.0,
        1e30,
        -1e30,
        1e-30,
        1e300,
        -1e300,
        1e-320,
    ]);
    let (all, place, edge) = (dice.below(4) == 0, dice.below(values.len()), *dice.of(&EDGES));
    fn set<T: Copy>(values: &mut [T], all: bool, place: usize, value: T) {
        if all {
            values.fill(value);
        } else if let Some(slot) = values.get_mut(place) {
            *slot = value;
        }
    }
    match values {
        Values::F32(values) => set(values, all, place, special as f32),
        Values::F64(values) => set(values, all, place, special),
        Values::U8(values) => set(values, all, place, edge as u8),
        Values::U32(values) => set(values, all, place, edge as u32),
        Values::U64(values) => set(values, all, place, edge),
        Values::I64(values) => set(values, all, place, edge as i64),
    }
}
