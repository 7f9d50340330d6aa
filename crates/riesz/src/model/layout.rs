//! The layout of a file: which tensors it holds, of which types and shapes, and where.
//!
//! It is parsed here rather than by the safetensors crate, which lets the last of two equal names win, buffers the
//! layout in a form many times its size and adds the sizes of the tensors without looking for overflow.

use super::checksum::{CHECKSUM, LENGTH};
use super::tensor::{count, dtype, MAX_RANK};
use super::{about_text, clip};
use safetensors::Dtype;
use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;

/// Name that safetensors reserves for metadata.
pub(super) const RESERVED: &str = "__metadata__";
/// Longest layout, in bytes.
pub(super) const MAX_LAYOUT: usize = 16 << 20;
/// Most tensors in a container.
const MAX_TENSORS: usize = 1 << 16;

/// The layout of a file as written, nothing checked but its syntax and the number of its entries.
pub(super) struct Layout {
    /// The text of the header.
    pub(super) header: String,
    tensors: BTreeMap<String, Info>,
}

impl Layout {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes).map_err(|error| format!("the layout is not UTF-8: {error}"))?;
        serde_json::from_str(text).map_err(|error| clip(&format!("the layout is not valid: {error}")))
    }

    /// Puts the tensors in the order of their values and shows that these, with the checksum at their end, fill the file
    /// exactly.
    pub(super) fn place(self, length: u64) -> Result<Vec<(String, Vec<usize>, Dtype)>, String> {
        let mut tensors: Vec<_> = self.tensors.into_iter().collect();
        tensors.sort_by_key(|(_, info)| info.data_offsets);
        let mut placed = Vec::with_capacity(tensors.len());
        let mut reached = 0;
        for (name, info) in tensors {
            let fault = |reason: String| about_text(&name, &reason);
            let (start, end) = info.data_offsets;
            if start != reached {
                return Err(fault(format!("starts at {start}, but the tensor before it ends at {reached}")));
            }
            if end < start || end > length {
                return Err(fault(format!("spans {start}..{end} of {length} bytes")));
            }
            let dtype = dtype(&info.dtype).map_err(fault)?;
            let shape = info.shape.0.iter().map(|&n| usize::try_from(n)).collect::<Result<Vec<_>, _>>();
            let shape = shape.map_err(|error| fault(format!("shape: {error}")))?;
            let bytes = count(&shape).map_err(fault)?.checked_mul(dtype.bitsize() / 8);
            if bytes.map(|bytes| bytes as u64) != Some(end - start) {
                return Err(fault(format!("shape {shape:?} of {dtype} does not fill {} bytes", end - start)));
            }
            reached = end;
            placed.push((name, shape, dtype));
        }
        if reached != length {
            return Err(format!("the tensors end at {reached} of {length} bytes"));
        }
        match placed.pop() {
            Some((name, shape, Dtype::U8)) if name == CHECKSUM && shape == [LENGTH] => Ok(placed),
            _ => Err("the file does not end with a checksum".to_owned()),
        }
    }
}

/// Refuses a layout longer than [`MAX_LAYOUT`].
pub(super) fn check_length(length: u64) -> Result<(), String> {
    if length > MAX_LAYOUT as u64 {
        return Err(format!("the layout asks for {length} bytes, at most {MAX_LAYOUT} are read"));
    }
    Ok(())
}

/// Refuses more tensors than [`MAX_TENSORS`].
pub(super) fn check_entries(tensors: usize) -> Result<(), String> {
    if tensors > MAX_TENSORS {
        return Err(format!("more than {MAX_TENSORS} tensors"));
    }
    Ok(())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HeaderText {
    riesz: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Info {
    dtype: String,
    shape: Shape,
    data_offsets: (u64, u64),
}

struct Shape(Vec<u64>);

impl<'de> Deserialize<'de> for Layout {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Layout;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Layout, A::Error> {
                let mut header = None;
                let mut tensors = BTreeMap::new();
                while let Some(name) = entries.next_key::<String>()? {
                    let repeated = if name == RESERVED {
                        header.replace(entries.next_value::<HeaderText>()?.riesz).is_some()
                    } else {
                        tensors.insert(name.clone(), entries.next_value::<Info>()?).is_some()
                    };
                    if repeated {
                        return Err(de::Error::custom(format!("{:?} appears twice", clip(&name))));
                    }
                    check_entries(tensors.len()).map_err(de::Error::custom)?;
                }
                let header = header.ok_or_else(|| de::Error::missing_field(RESERVED))?;
                Ok(Layout { header, tensors })
            }
        }

        deserializer.deserialize_map(Entries)
    }
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Lengths;

        impl<'de> Visitor<'de> for Lengths {
            type Value = Shape;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {MAX_RANK} lengths")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut lengths: A) -> Result<Shape, A::Error> {
                let mut shape = Vec::new();
                while let Some(length) = lengths.next_element()? {
                    if shape.len() == MAX_RANK {
                        return Err(de::Error::invalid_length(MAX_RANK + 1, &self));
                    }
                    shape.push(length);
                }
                Ok(Shape(shape))
            }
        }

        deserializer.deserialize_seq(Lengths)
    }
}
