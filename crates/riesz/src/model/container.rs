//! The file every model and every checkpoint lives in: safetensors with one JSON header.
//!
//! ```text
//! 8 bytes     length of the layout, little endian
//! layout      JSON, padded with spaces: {"__metadata__": {"riesz": header}, name: {dtype, shape, data_offsets}, …}
//! values      the tensors, back to back, little endian, row-major
//! ```
//!
//! `header` is itself JSON text, an object with sorted keys that holds at least `format_version` and
//! `kind`. Nothing else enters the bytes, so equal contents give equal bytes.
//!
//! A file is hostile until shown otherwise. The layout is parsed here rather than by the safetensors
//! crate, which lets the last of two equal names win, buffers the layout in a form many times its size
//! and adds the sizes of the tensors without looking for overflow. Here every length is compared with
//! the length of the file before memory is asked for. Beyond the values themselves, reading needs at
//! most about five times the length of the layout and, for parsed entries, some twenty megabytes; the
//! constants below bound both.

use crate::error::{Error, Result};
use safetensors::tensor::{Metadata, TensorInfo};
use safetensors::Dtype;
use serde::de::{self, DeserializeOwned, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Version of the header that this build writes, and the only one it reads.
pub const FORMAT_VERSION: u64 = 1;
/// Kind of a fitted model.
pub const MODEL: &str = "model";
/// Kind of a fitted Gaussian process.
pub const PROCESS: &str = "gaussian_process";
/// Kind of a fitted novelty detector.
pub const NOVELTY: &str = "novelty";
/// Kind of a fitted density ratio.
pub const RATIO: &str = "density_ratio";
/// Kind of a fit that can be resumed.
pub const CHECKPOINT: &str = "checkpoint";

/// Key of the header in the metadata of safetensors.
const KEY: &str = "riesz";
/// Name that safetensors reserves in the layout.
const RESERVED: &str = "__metadata__";
/// Bytes of the number that opens a file.
const PREFIX: usize = 8;
/// Longest layout, in bytes.
const MAX_LAYOUT: usize = 16 << 20;
/// Most values in a header, and most tensors in a container: one parsed value can take a hundred times
/// the room of its text.
const MAX_ENTRIES: usize = 1 << 16;
/// Deepest nesting of a header.
const MAX_DEPTH: usize = 64;
/// Most dimensions of a tensor.
const MAX_RANK: usize = 8;
/// Bytes converted at a time; a multiple of every element size.
const PIECE: usize = 1 << 16;

/// A JSON header and named tensors.
///
/// NaN and infinities are legal in tensors. JSON has no such numbers: in a header they become `null`.
///
/// ```
/// use riesz::model::{Container, MODEL};
///
/// let mut container = Container::new(MODEL);
/// container.set_field("seed", &7_u64)?;
/// container.insert("coefficient", vec![2, 3], vec![0.5_f32; 6])?;
///
/// let bytes = container.to_bytes()?;
/// let mut copy = Container::from_bytes(&bytes)?;
/// assert_eq!(copy.field::<u64>("seed")?, 7);
/// assert_eq!(copy.take_f32s("coefficient", &[2, 3])?, vec![0.5; 6]);
/// # Ok::<(), riesz::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Container {
    /// A JSON object with at least `format_version` and `kind`.
    pub header: Value,
    /// The tensors by name.
    pub tensors: BTreeMap<String, Tensor>,
}

/// Values with a shape, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Length of each dimension; a scalar has none.
    pub shape: Vec<usize>,
    /// As many values as the product of the shape.
    pub values: Values,
}

/// The values of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Single precision.
    F32(Vec<f32>),
    /// Double precision.
    F64(Vec<f64>),
    /// Bytes, text among them.
    U8(Vec<u8>),
    /// Small counts and indices.
    U32(Vec<u32>),
    /// Counts, indices and random words.
    U64(Vec<u64>),
    /// Signed integers.
    I64(Vec<i64>),
}

/// Evaluates an expression for whichever vector `Values` holds.
macro_rules! each {
    ($values:expr, $vector:ident => $body:expr) => {
        match $values {
            Values::F32($vector) => $body,
            Values::F64($vector) => $body,
            Values::U8($vector) => $body,
            Values::U32($vector) => $body,
            Values::U64($vector) => $body,
            Values::I64($vector) => $body,
        }
    };
}

impl Values {
    /// How many there are.
    pub fn len(&self) -> usize {
        each!(self, vector => vector.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn dtype(&self) -> Dtype {
        match self {
            Self::F32(_) => Dtype::F32,
            Self::F64(_) => Dtype::F64,
            Self::U8(_) => Dtype::U8,
            Self::U32(_) => Dtype::U32,
            Self::U64(_) => Dtype::U64,
            Self::I64(_) => Dtype::I64,
        }
    }

    fn bytes(&self) -> usize {
        each!(self, vector => size_of_val(vector.as_slice()))
    }
}

impl Tensor {
    /// Values with a shape, refused unless the two agree.
    pub fn new(shape: Vec<usize>, values: impl Into<Values>) -> Result<Self> {
        let tensor = Self { shape, values: values.into() };
        tensor.check().map_err(Error::Format)?;
        Ok(tensor)
    }

    fn check(&self) -> Result<(), String> {
        let expected = count(&self.shape)?;
        if expected != self.values.len() {
            let found = self.values.len();
            return Err(format!("shape {:?} asks for {expected} values, found {found}", self.shape));
        }
        Ok(())
    }
}

impl Container {
    /// An empty container of this version and of the given kind: [`MODEL`], [`PROCESS`], [`NOVELTY`], [`RATIO`] or
    /// [`CHECKPOINT`].
    pub fn new(kind: &str) -> Self {
        let header = serde_json::json!({ "format_version": FORMAT_VERSION, "kind": kind });
        Self { header, tensors: BTreeMap::new() }
    }

    /// The kind, as written in the header.
    pub fn kind(&self) -> Option<&str> {
        self.header.get("kind")?.as_str()
    }

    /// Refuses a container of another kind.
    pub fn expect_kind(&self, kind: &str) -> Result<()> {
        if self.kind() == Some(kind) {
            return Ok(());
        }
        let found = self.header.get("kind").unwrap_or(&Value::Null);
        Err(Error::Format(clip(&format!("kind is {found}, expected {kind:?}"))))
    }

    /// The whole header as a type; fields the type does not know are for it to ignore or refuse.
    pub fn header_as<T: DeserializeOwned>(&self) -> Result<T> {
        T::deserialize(&self.header).map_err(|error| Error::Format(clip(&format!("header: {error}"))))
    }

    /// One field of the header as a type; a missing field reads as `null`.
    pub fn field<T: DeserializeOwned>(&self, name: &str) -> Result<T> {
        let value = self.header.get(name).unwrap_or(&Value::Null);
        T::deserialize(value).map_err(|error| Error::Format(clip(&format!("header field {name:?}: {error}"))))
    }

    /// Writes one field of the header; NaN and infinities become `null`.
    pub fn set_field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<()> {
        let fault = |reason: String| Error::Format(clip(&format!("header field {name:?}: {reason}")));
        let value = serde_json::to_value(value).map_err(|error| fault(error.to_string()))?;
        let header =
            self.header.as_object_mut().ok_or_else(|| fault("the header is not an object".into()))?;
        header.insert(name.to_owned(), value);
        Ok(())
    }

    /// Adds or replaces a tensor.
    pub fn insert(&mut self, name: &str, shape: Vec<usize>, values: impl Into<Values>) -> Result<()> {
        let tensor = Tensor::new(shape, values).map_err(|error| match error {
            Error::Format(reason) => about(name, &reason),
            other => other,
        })?;
        self.tensors.insert(name.to_owned(), tensor);
        Ok(())
    }

    /// The file as bytes: a function of the contents and of nothing else.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = self.opening()?;
        bytes.reserve_exact(self.tensors.values().map(|tensor| tensor.values.bytes()).sum());
        self.write_values(&mut bytes).map_err(|error| Error::Format(error.to_string()))?;
        Ok(bytes)
    }

    /// Reads what [`Container::to_bytes`] wrote.
    pub fn from_bytes(mut bytes: &[u8]) -> Result<Self> {
        let length = bytes.len() as u64;
        read(&mut bytes, length).map_err(|fault| match fault {
            Fault::Format(reason) => Error::Format(reason),
            Fault::Io(source) => Error::Format(source.to_string()),
        })
    }

    /// Writes the file under `path`, all of it or nothing: a file already there stays as it was until
    /// the new one is complete and on disk. A symbolic link is replaced, not followed.
    pub fn save(&self, path: &Path) -> Result<()> {
        let opening = self.opening()?;
        replace(path, |file| {
            file.write_all(&opening)?;
            self.write_values(file)
        })
        .map_err(|source| Error::Io { path: path.to_owned(), source })
    }

    /// Reads the file under `path`.
    pub fn load(path: &Path) -> Result<Self> {
        let open = || -> Result<Self, Fault> {
            if !fs::metadata(path)?.is_file() {
                return Err("not a regular file".to_owned().into());
            }
            let mut file = File::open(path)?;
            let length = file.metadata()?.len();
            read(&mut file, length)
        };
        open().map_err(|fault| match fault {
            Fault::Format(reason) => Error::Format(format!("{}: {reason}", path.display())),
            Fault::Io(source) => Error::Io { path: path.to_owned(), source },
        })
    }

    fn tensor(&self, name: &str) -> Result<&Tensor> {
        self.tensors.get(name).ok_or_else(|| about(name, "missing"))
    }

    fn view<T: Element>(&self, name: &str) -> Result<(&[usize], &[T])> {
        let tensor = self.tensor(name)?;
        match T::slice(&tensor.values) {
            Some(values) => Ok((&tensor.shape, values)),
            None => {
                let found = tensor.values.dtype();
                Err(about(name, &format!("holds {found} values, expected {}", T::DTYPE)))
            }
        }
    }

    fn take<T: Element>(&mut self, name: &str, shape: &[usize]) -> Result<Vec<T>> {
        let (found, _) = self.view::<T>(name)?;
        if found != shape {
            return Err(about(name, &format!("has shape {found:?}, expected {shape:?}")));
        }
        let tensor = self.tensors.remove(name).ok_or_else(|| about(name, "missing"))?;
        T::vector(tensor.values).ok_or_else(|| about(name, "has another type"))
    }

    /// The tensors in the order of the file: widest alignment first, then by name.
    fn ordered(&self) -> Vec<(&String, &Tensor)> {
        let mut tensors: Vec<_> = self.tensors.iter().collect();
        tensors.sort_by_key(|(_, tensor)| std::cmp::Reverse(tensor.values.dtype()));
        tensors
    }

    /// Everything before the values, refused where [`Container::from_bytes`] would refuse it.
    fn opening(&self) -> Result<Vec<u8>> {
        check_header(&self.header).map_err(Error::Format)?;
        measure(&self.header, 0, &Cell::new(MAX_ENTRIES)).map_err(Error::Format)?;
        check_entries(self.tensors.len()).map_err(Error::Format)?;

        let mut offset = 0;
        let mut layout = Vec::with_capacity(self.tensors.len());
        for (name, tensor) in self.ordered() {
            if name == RESERVED {
                return Err(about(name, "the name is reserved"));
            }
            tensor.check().map_err(|reason| about(name, &reason))?;
            let end = offset + tensor.values.bytes();
            let (dtype, shape) = (tensor.values.dtype(), tensor.shape.clone());
            layout.push((name.clone(), TensorInfo { dtype, shape, data_offsets: (offset, end) }));
            offset = end;
        }
        // Sorted already, unless some crate of the build asks serde_json to keep the order of insertion.
        let mut header = self.header.clone();
        header.sort_all_objects();
        let header = HashMap::from([(KEY.to_owned(), header.to_string())]);
        let layout =
            Metadata::new(Some(header), layout).map_err(|error| Error::Format(clip(&error.to_string())))?;
        let mut layout = serde_json::to_vec(&layout).map_err(|error| Error::Format(error.to_string()))?;
        layout.resize(layout.len().next_multiple_of(PREFIX), b' ');
        check_length(layout.len() as u64).map_err(Error::Format)?;

        let mut bytes = (layout.len() as u64).to_le_bytes().to_vec();
        bytes.append(&mut layout);
        Ok(bytes)
    }

    fn write_values(&self, target: &mut impl Write) -> io::Result<()> {
        let mut piece = Vec::with_capacity(PIECE);
        for (_, tensor) in self.ordered() {
            each!(&tensor.values, vector => {
                for part in vector.chunks(PIECE / 8) {
                    piece.clear();
                    part.iter().for_each(|value| piece.extend_from_slice(&value.to_le_bytes()));
                    target.write_all(&piece)?;
                }
            });
        }
        Ok(())
    }
}

/// A type that tensors are made of.
trait Element: Copy {
    /// Its name in the layout.
    const DTYPE: Dtype;
    /// Appends the little-endian values in `bytes`, which need not be aligned.
    fn append(bytes: &[u8], values: &mut Vec<Self>);
    /// The values, if they are of this type.
    fn slice(values: &Values) -> Option<&[Self]>;
    /// The values, if they are of this type.
    fn vector(values: Values) -> Option<Vec<Self>>;
}

macro_rules! element {
    ($type:ident, $variant:ident, $get:ident, $take:ident) => {
        impl Element for $type {
            const DTYPE: Dtype = Dtype::$variant;

            fn append(bytes: &[u8], values: &mut Vec<Self>) {
                let (chunks, _) = bytes.as_chunks::<{ size_of::<$type>() }>();
                values.extend(chunks.iter().map(|chunk| Self::from_le_bytes(*chunk)));
            }

            fn slice(values: &Values) -> Option<&[Self]> {
                if let Values::$variant(vector) = values {
                    Some(vector)
                } else {
                    None
                }
            }

            fn vector(values: Values) -> Option<Vec<Self>> {
                if let Values::$variant(vector) = values {
                    Some(vector)
                } else {
                    None
                }
            }
        }

        impl From<Vec<$type>> for Values {
            fn from(vector: Vec<$type>) -> Self {
                Self::$variant(vector)
            }
        }

        impl Container {
            #[doc = concat!("Shape and values of a tensor of `", stringify!($type), "`.")]
            pub fn $get(&self, name: &str) -> Result<(&[usize], &[$type])> {
                self.view(name)
            }

            #[doc = concat!("Moves out the values of a tensor of `", stringify!($type), "` with this shape;")]
            /// a tensor of another type or shape stays where it is.
            pub fn $take(&mut self, name: &str, shape: &[usize]) -> Result<Vec<$type>> {
                self.take(name, shape)
            }
        }
    };
}

element!(f32, F32, f32s, take_f32s);
element!(f64, F64, f64s, take_f64s);
element!(u8, U8, u8s, take_u8s);
element!(u32, U32, u32s, take_u32s);
element!(u64, U64, u64s, take_u64s);
element!(i64, I64, i64s, take_i64s);

/// Why a file could not be read.
enum Fault {
    Format(String),
    Io(io::Error),
}

impl From<String> for Fault {
    fn from(reason: String) -> Self {
        Self::Format(reason)
    }
}

impl From<io::Error> for Fault {
    fn from(source: io::Error) -> Self {
        Self::Io(source)
    }
}

/// Reads a file of `length` bytes.
fn read(source: &mut impl Read, length: u64) -> Result<Container, Fault> {
    let Some(rest) = length.checked_sub(PREFIX as u64) else {
        return Err(format!("{length} bytes, too short for a length").into());
    };
    let mut prefix = [0; PREFIX];
    source.read_exact(&mut prefix)?;
    let layout_length = u64::from_le_bytes(prefix);
    check_length(layout_length)?;
    let Some(values_length) = rest.checked_sub(layout_length) else {
        return Err(format!("the layout asks for {layout_length} bytes, {rest} are left").into());
    };
    let mut layout = vec![0; layout_length as usize];
    source.read_exact(&mut layout)?;
    let layout = std::str::from_utf8(&layout).map_err(|error| format!("the layout is not UTF-8: {error}"))?;
    let layout: Layout =
        serde_json::from_str(layout).map_err(|error| clip(&format!("the layout is not valid: {error}")))?;

    let header = parse_header(&layout.header)?;
    check_header(&header)?;
    let mut tensors = BTreeMap::new();
    for (name, shape, dtype) in place(layout.tensors, values_length)? {
        let values = match dtype {
            Dtype::F32 => Values::F32(read_values(source, &shape)?),
            Dtype::F64 => Values::F64(read_values(source, &shape)?),
            Dtype::U8 => Values::U8(read_values(source, &shape)?),
            Dtype::U32 => Values::U32(read_values(source, &shape)?),
            Dtype::U64 => Values::U64(read_values(source, &shape)?),
            Dtype::I64 => Values::I64(read_values(source, &shape)?),
            other => return Err(about_text(&name, &format!("type {other} is not read here")).into()),
        };
        tensors.insert(name, Tensor { shape, values });
    }
    Ok(Container { header, tensors })
}

/// Reads the values of one tensor whose size was compared with the file's before.
fn read_values<T: Element>(source: &mut impl Read, shape: &[usize]) -> Result<Vec<T>, Fault> {
    let count = count(shape)?;
    let mut values = Vec::new();
    values.try_reserve_exact(count).map_err(io::Error::from)?;
    let mut piece = vec![0; PIECE.min(count * size_of::<T>())];
    while values.len() < count {
        let length = piece.len().min((count - values.len()) * size_of::<T>());
        source.read_exact(&mut piece[..length])?;
        T::append(&piece[..length], &mut values);
    }
    Ok(values)
}

/// Puts the tensors in the order of their values and shows that these fill the file exactly.
fn place(tensors: BTreeMap<String, Info>, length: u64) -> Result<Vec<(String, Vec<usize>, Dtype)>, String> {
    let mut tensors: Vec<_> = tensors.into_iter().collect();
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
    Ok(placed)
}

/// The type with this name, if containers hold it.
fn dtype(name: &str) -> Result<Dtype, String> {
    let known = [Dtype::F32, Dtype::F64, Dtype::U8, Dtype::U32, Dtype::U64, Dtype::I64];
    let found = known.into_iter().find(|dtype| dtype.to_string() == name);
    found.ok_or_else(|| format!("type {:?} is none of F32, F64, U8, U32, U64, I64", clip(name)))
}

/// Number of values in a shape.
fn count(shape: &[usize]) -> Result<usize, String> {
    if shape.len() > MAX_RANK {
        return Err(format!("{} dimensions, at most {MAX_RANK} are read", shape.len()));
    }
    let product = shape.iter().try_fold(1_usize, |product, &length| product.checked_mul(length));
    product.ok_or_else(|| format!("shape {shape:?} overflows"))
}

/// Refuses a layout longer than [`MAX_LAYOUT`].
fn check_length(length: u64) -> Result<(), String> {
    if length > MAX_LAYOUT as u64 {
        return Err(format!("the layout asks for {length} bytes, at most {MAX_LAYOUT} are read"));
    }
    Ok(())
}

/// Refuses more tensors than [`MAX_ENTRIES`].
fn check_entries(tensors: usize) -> Result<(), String> {
    if tensors > MAX_ENTRIES {
        return Err(format!("more than {MAX_ENTRIES} tensors"));
    }
    Ok(())
}

/// Refuses a header that is not an object of this version and of a known kind.
fn check_header(header: &Value) -> Result<(), String> {
    let Some(header) = header.as_object() else {
        return Err("the header is not a JSON object".to_owned());
    };
    match header.get("format_version") {
        None => return Err("the header has no format_version".to_owned()),
        Some(version) if version.as_u64() != Some(FORMAT_VERSION) => {
            let version = clip(&version.to_string());
            return Err(format!("format_version is {version}; this build reads version {FORMAT_VERSION}"));
        }
        Some(_) => {}
    }
    match header.get("kind").and_then(Value::as_str) {
        Some(MODEL | PROCESS | NOVELTY | RATIO | CHECKPOINT) => Ok(()),
        Some(other) => {
            let known = format!("{MODEL:?}, {PROCESS:?}, {NOVELTY:?}, {RATIO:?}, {CHECKPOINT:?}");
            Err(format!("kind is {:?}, expected one of {known}", clip(other)))
        }
        None => Err("the header has no kind".to_owned()),
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

/// Refuses a header that [`Header`] would refuse to read.
fn measure(value: &Value, depth: usize, left: &Cell<usize>) -> Result<(), String> {
    charge(depth, left)?;
    match value {
        Value::Array(values) => values.iter().try_for_each(|value| measure(value, depth + 1, left)),
        Value::Object(fields) => fields.values().try_for_each(|value| measure(value, depth + 1, left)),
        _ => Ok(()),
    }
}

fn parse_header(text: &str) -> Result<Value, String> {
    let fault = |error: serde_json::Error| clip(&format!("the header is not valid: {error}"));
    let left = Cell::new(MAX_ENTRIES);
    let mut json = serde_json::Deserializer::from_str(text);
    let header = Header { depth: 0, left: &left }.deserialize(&mut json).map_err(fault)?;
    json.end().map_err(fault)?;
    Ok(header)
}

fn about(name: &str, reason: &str) -> Error {
    Error::Format(about_text(name, reason))
}

fn about_text(name: &str, reason: &str) -> String {
    format!("tensor {:?}: {reason}", clip(name))
}

/// Shortens text of unknown origin for a message.
fn clip(text: &str) -> String {
    const LONGEST: usize = 200;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The layout of a file as written, nothing checked but its syntax and the number of its entries.
struct Layout {
    header: String,
    tensors: BTreeMap<String, Info>,
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

/// Writes a file beside `path`, brings it to disk and gives it the name; on failure nothing is left of it.
fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    if path.file_name().is_none() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file"));
    }
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    #[cfg(unix)]
    let opened = File::open(folder)?;
    let (temporary, mut file) = create_temporary(folder)?;
    let written = write(&mut file).and_then(|()| file.sync_all());
    drop(file);
    if let Err(error) = written.and_then(|()| fs::rename(&temporary, path)) {
        // The first error is the one to report.
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    // Some file systems have no such thing as bringing a folder to disk, and say so.
    #[cfg(unix)]
    opened.sync_all().or_else(|error| match error.kind() {
        io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported => Ok(()),
        _ => Err(error),
    })?;
    Ok(())
}

/// A new file with a name nobody uses: other processes and other threads may save at the same time.
fn create_temporary(folder: &Path) -> io::Result<(PathBuf, File)> {
    let process = std::process::id();
    let mut attempt = 0_u32;
    loop {
        let path = folder.join(format!(".riesz-{process}-{attempt}.tmp"));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < 1_000 => attempt += 1,
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;
    use safetensors::tensor::TensorView;
    use safetensors::SafeTensors;
    use serde_json::json;
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
        let mut container = Container::new(MODEL);
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

    /// A file with a sound header and these entries beside it.
    fn with_entries(entries: &str, values: &[u8]) -> Vec<u8> {
        let header = r#""__metadata__":{"riesz":"{\"format_version\":1,\"kind\":\"model\"}"}"#;
        file(format!("{{{header},{entries}}}"), values)
    }

    /// A file without tensors and with this text for a header.
    fn with_header(header: &str) -> Vec<u8> {
        file(json!({ RESERVED: { KEY: header } }).to_string(), &[])
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
        assert_eq!(reference.len(), container.tensors.len());
        for (name, view) in reference.iter() {
            let tensor = &container.tensors[name];
            let raw: Vec<u8> = each!(&tensor.values, v => v.iter().flat_map(|x| x.to_le_bytes()).collect());
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
        let kind = prop_oneof![Just(MODEL), Just(PROCESS), Just(NOVELTY), Just(RATIO), Just(CHECKPOINT)];
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
        let container = small();
        let raw: Vec<(String, Dtype, Vec<usize>, Vec<u8>)> = container
            .tensors
            .iter()
            .map(|(name, tensor)| {
                let raw = each!(&tensor.values, v => v.iter().flat_map(|x| x.to_le_bytes()).collect());
                (name.clone(), tensor.values.dtype(), tensor.shape.clone(), raw)
            })
            .collect();
        let views = raw
            .iter()
            .map(|(name, dtype, shape, raw)| (name, TensorView::new(*dtype, shape.clone(), raw).unwrap()));
        let metadata = HashMap::from([(KEY.to_owned(), container.header.to_string())]);
        assert_eq!(container.to_bytes().unwrap(), safetensors::serialize(views, Some(metadata)).unwrap());
    }

    #[test]
    fn more_values_than_a_piece() {
        let long: Vec<u32> = (0..3 * PIECE as u32 + 5).collect();
        let mut container = Container::new(CHECKPOINT);
        container.insert("long", vec![long.len()], long.clone()).unwrap();
        let mut copy = Container::from_bytes(&container.to_bytes().unwrap()).unwrap();
        assert_eq!(copy.take_u32s("long", &[long.len()]).unwrap(), long);
    }

    #[test]
    fn equal_contents_give_equal_bytes() {
        let fields =
            [("a", json!(1)), ("z", json!({ "y": 1, "x": [2, { "w": 3, "b": 4 }] })), ("m", json!("m"))];
        let build = |order: [usize; 3]| {
            let mut container = Container::new(MODEL);
            for index in order {
                let (name, value) = &fields[index];
                container.set_field(name, value).unwrap();
                container.insert(name, vec![1], vec![index as f32]).unwrap();
            }
            container.to_bytes().unwrap()
        };
        assert_eq!(build([0, 1, 2]), build([2, 1, 0]));
        assert_ne!(build([0, 1, 2]), Container::new(MODEL).to_bytes().unwrap());
        let text = String::from_utf8_lossy(&build([1, 0, 2])).into_owned();
        let sorted = r#"{\"a\":1,\"format_version\":1,\"kind\":\"model\",\"m\":\"m\",\"z\":{\"x\":[2,{\"b\":4,\"w\":3}],\"y\":1}}"#;
        assert!(text.contains(sorted), "{text}");
    }

    /// Holds with the feature `float_roundtrip` of serde_json only: without it the last bit may change.
    #[test]
    fn numbers_in_the_header_keep_every_bit() {
        let mut word = 1_u64;
        for _ in 0..2_000 {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let number = f64::from_bits(word >> 2);
            let mut container = Container::new(MODEL);
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
    fn every_changed_byte_is_refused_or_read() {
        let original = small().to_bytes().unwrap();
        let mut bytes = original.clone();
        let mut read = 0;
        for position in 0..bytes.len() {
            for change in 1..=u8::MAX {
                bytes[position] = original[position] ^ change;
                if let Ok(container) = Container::from_bytes(&bytes) {
                    agrees_with_reference(&bytes, &container);
                    read += 1;
                }
            }
            bytes[position] = original[position];
        }
        assert!(read > 0, "changed values are still values");
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
        refused(&one("F32", "[5]", "[0,20]"), "spans 0..20 of 16");
        refused(&one("F32", "[4]", "[0,18446744073709551615]"), "of 16 bytes");
        refused(&one("F32", "[4]", "[16,0]"), "starts at 16");
        refused(&one("F32", "[3]", "[4,16]"), "starts at 4");
        refused(&one("F32", "[3]", "[0,12]"), "end at 12 of 16");
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
            format!(
                r#""{i}":{{"dtype":"U8","shape":[{size}],"data_offsets":[{},{}]}}"#,
                i * size,
                (i + 1) * size
            )
        };
        refused(&with_entries(&(0..8).map(entry).collect::<Vec<_>>().join(","), &[]), "of 0 bytes");
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
        assert_eq!(Container::from_bytes(&many(MAX_ENTRIES)).unwrap().tensors.len(), MAX_ENTRIES);
        refused(&many(MAX_ENTRIES + 1), "more than 65536 tensors");
    }

    #[test]
    fn hostile_headers() {
        let sound = |more: &str| format!(r#"{{"format_version":1,"kind":"model"{more}}}"#);
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
        for version in ["0", "2", "1.0", "-1", "\"1\"", "null", "18446744073709551615"] {
            let header = format!(r#"{{"format_version":{version},"kind":"model"}}"#);
            refused(
                &with_header(&header),
                &format!("format_version is {version}; this build reads version 1"),
            );
        }
        // A later version is recognised as such, whatever types its tensors have.
        let later = r#"{"__metadata__":{"riesz":"{\"format_version\":2}"},"t":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}}"#;
        refused(&file(later, &[0; 2]), "format_version is 2; this build reads version 1");
        refused(&with_header(r#"{"format_version":1}"#), "no kind");
        refused(&with_header(r#"{"format_version":1,"kind":7}"#), "no kind");
        refused(&with_header(r#"{"format_version":1,"kind":"modem"}"#), "kind is \"modem\", expected one of");

        let container = Container::new(CHECKPOINT);
        assert_eq!(container.kind(), Some(CHECKPOINT));
        container.expect_kind(CHECKPOINT).unwrap();
        let error = container.expect_kind(MODEL).unwrap_err().to_string();
        assert!(error.contains("kind is \"checkpoint\", expected \"model\""), "{error}");
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
        refuses(
            &|c| drop(c.tensors.insert("t".into(), odd([&[3], [1; 8].as_slice()].concat()))),
            "at most 8",
        );
        refuses(&|c| drop(c.tensors.insert(RESERVED.into(), odd(vec![3]))), "reserved");
        refuses(&|c| c.header = json!([]), "not a JSON object");
        refuses(&|c| c.set_field("format_version", &2).unwrap(), "this build reads version 1");
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
        assert_eq!(container.header_as::<Whole>().unwrap(), Whole { format_version: 1, kernel: kernel() });
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
        assert_eq!(container.take_f32s("coefficient", &[2, 2]).unwrap()[0], 1.0);
        assert!(container.take_f32s("coefficient", &[2, 2]).is_err());
    }

    #[test]
    fn save_replaces_the_file_and_leaves_nothing_beside_it() {
        let folder = Folder::new();
        let path = folder.0.join("model.riesz");
        Container::new(CHECKPOINT).save(&path).unwrap();
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
        let saved = Container::new(MODEL).save(&path);
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o755)).unwrap();
        // The superuser writes where it likes.
        let expected = if saved.is_ok() { Container::new(MODEL) } else { small() };
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
}
