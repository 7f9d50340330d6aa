//! The header of a file: a JSON object that says at least which version of the format it is and what it holds.

use super::clip;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use std::cell::Cell;
use std::fmt;

/// Version of the header that this build writes, and the only one it reads.
pub const FORMAT_VERSION: u64 = 2;
/// Every kind of file there is, and what people call it.
const KINDS: [(&str, &str); 14] = [
    ("model", "a kernel machine"),
    ("gaussian_process", "a Gaussian process"),
    ("novelty", "a novelty detector"),
    ("online", "an online kernel machine"),
    ("density_ratio", "a density ratio"),
    ("posterior", "a posterior"),
    ("kernel_density", "a kernel density"),
    ("sparse_gaussian_process", "a sparse Gaussian process"),
    ("topics", "a topic model"),
    ("invariance", "an invariant function"),
    ("policy_evaluation", "a policy evaluation"),
    ("hitting_time", "a chain of hitting times"),
    ("sbeed", "a control agent"),
    ("checkpoint", "a checkpoint"),
];
/// Most values in a header: one parsed value can take a hundred times the room of its text.
pub(super) const MAX_ENTRIES: usize = 1 << 16;
/// Deepest nesting of a header.
pub(super) const MAX_DEPTH: usize = 64;

/// A kind as people call it.
pub(super) fn in_words(kind: &str) -> &'static str {
    let found = KINDS.iter().find(|(name, _)| *name == kind);
    found.map_or("a file of an unknown kind", |(_, words)| words)
}

/// Refuses a header that is not an object of this version and of a known kind.
pub(super) fn check(header: &Value) -> Result<(), String> {
    let Some(header) = header.as_object() else {
        return Err("the header is not a JSON object".to_owned());
    };
    match header.get("format_version") {
        None => return Err("the header has no format_version".to_owned()),
        Some(version) if version.as_u64() != Some(FORMAT_VERSION) => {
            let version = clip(&version.to_string());
            return Err(format!(
                "format_version is {version}; this build reads version {FORMAT_VERSION}: fit again, or read it with the \
                 build that wrote it"
            ));
        }
        Some(_) => {}
    }
    match header.get("kind").and_then(Value::as_str) {
        Some(kind) if KINDS.iter().any(|(name, _)| *name == kind) => Ok(()),
        Some(other) => {
            let known = KINDS.map(|(name, _)| name);
            Err(format!("kind is {:?}, expected one of {known:?}", clip(other)))
        }
        None => Err("the header has no kind".to_owned()),
    }
}

/// Refuses a header that [`parse`] would refuse to read.
pub(super) fn check_size(header: &Value) -> Result<(), String> {
    measure(header, 0, &Cell::new(MAX_ENTRIES))
}

/// Reads a header of bounded size and depth without repeated keys.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    let fault = |error: serde_json::Error| clip(&format!("the header is not valid: {error}"));
    let left = Cell::new(MAX_ENTRIES);
    let mut json = serde_json::Deserializer::from_str(text);
    let header = Header { depth: 0, left: &left }.deserialize(&mut json).map_err(fault)?;
    json.end().map_err(fault)?;
    Ok(header)
}

/// The text of a header, the fields of every object by name.
pub(super) fn text(header: &Value) -> Result<String, String> {
    serde_json::to_string(&Sorted(header)).map_err(|error| clip(&error.to_string()))
}

/// A value whose objects are sorted: they are already, unless some crate of the build asks serde_json to keep the order of
/// insertion.
struct Sorted<'a>(&'a Value);

impl Serialize for Sorted<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Array(values) => serializer.collect_seq(values.iter().map(Sorted)),
            Value::Object(fields) => {
                let mut fields: Vec<_> = fields.iter().map(|(name, value)| (name, Sorted(value))).collect();
                fields.sort_unstable_by_key(|(name, _)| *name);
                serializer.collect_map(fields)
            }
            other => other.serialize(serializer),
        }
    }
}

/// Takes one value at `depth` out of those left.
fn charge(depth: usize, left: &Cell<usize>) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err(format!("the header is nested more than {MAX_DEPTH} deep"));
    }
    let rest = left.get().checked_sub(1).ok_or_else(|| {
        format!("the header holds more than {MAX_ENTRIES} values; long lists belong in tensors")
    })?;
    left.set(rest);
    Ok(())
}

fn measure(value: &Value, depth: usize, left: &Cell<usize>) -> Result<(), String> {
    charge(depth, left)?;
    match value {
        Value::Array(values) => values.iter().try_for_each(|value| measure(value, depth + 1, left)),
        Value::Object(fields) => fields.values().try_for_each(|value| measure(value, depth + 1, left)),
        _ => Ok(()),
    }
}

/// Parses a header of bounded size and depth without repeated keys.
#[derive(Clone, Copy)]
struct Header<'a> {
    depth: usize,
    left: &'a Cell<usize>,
}

impl Header<'_> {
    fn inner(&self) -> Self {
        Self { depth: self.depth + 1, ..*self }
    }
}

impl<'de> DeserializeSeed<'de> for Header<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        charge(self.depth, self.left).map_err(de::Error::custom)?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Header<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = elements.next_element_seed(self.inner())? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(self.inner())?;
            if fields.contains_key(&name) {
                return Err(de::Error::custom(format!("{:?} appears twice", clip(&name))));
            }
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }
}
