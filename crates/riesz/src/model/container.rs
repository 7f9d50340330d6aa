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
/// Kind of a posterior: weighted particles.
pub const POSTERIOR: &str = "posterior";
/// Kind of a kernel density.
pub const DENSITY: &str = "kernel_density";
/// Kind of a sparse Gaussian process.
pub const SPARSE_PROCESS: &str = "sparse_gaussian_process";
/// Kind of a topic model.
pub const TOPICS: &str = "topics";
/// Kind of a fit that can be resumed.
pub const CHECKPOINT: &str = "checkpoint";
/// Every kind there is.
const KINDS: [&str; 9] =
    [MODEL, PROCESS, NOVELTY, RATIO, POSTERIOR, DENSITY, SPARSE_PROCESS, TOPICS, CHECKPOINT];

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
    /// An empty container of this version and of the given kind: [`MODEL`], [`PROCESS`], [`NOVELTY`], [`RATIO`],
    /// [`POSTERIOR`], [`DENSITY`], [`SPARSE_PROCESS`], [`TOPICS`] or [`CHECKPOINT`].
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
        let found = self.kind().map_or("nothing", in_words);
        Err(Error::Kind { found, expected: in_words(kind) })
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
        Some(kind) if KINDS.contains(&kind) => Ok(()),
        Some(other) => Err(format!("kind is {:?}, expected one of {KINDS:?}", clip(other))),
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

/// A kind as people call it.
fn in_words(kind: &str) -> &'static str {
    match kind {
        MODEL => "kernel machine",
        PROCESS => "Gaussian process",
        NOVELTY => "novelty detector",
        RATIO => "density ratio",
        POSTERIOR => "posterior",
        DENSITY => "kernel density",
        SPARSE_PROCESS => "sparse Gaussian process",
        TOPICS => "topic model",
        CHECKPOINT => "checkpoint",
        _ => "file of an unknown kind",
    }
}

#[cfg(test)]
mod tests;
