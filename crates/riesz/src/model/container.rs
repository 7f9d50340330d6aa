//! The contents of a file, and the bytes they are written as.

use super::checksum::{Summed, CHECKSUM, LENGTH};
use super::layout::{check_entries, check_length, Layout, RESERVED};
use super::replace::replace;
use super::tensor::{Tensor, Values};
use super::{about, clip, header, Fault, FORMAT_VERSION};
use crate::error::{Error, Result};
use safetensors::tensor::{Metadata, TensorInfo};
use safetensors::Dtype;
use serde::{de::DeserializeOwned, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

/// Key of the header in the metadata of safetensors.
pub(super) const KEY: &str = "riesz";
/// Bytes of the number that opens a file.
const PREFIX: usize = 8;

/// A JSON header and named tensors.
///
/// NaN and infinities can be put into tensors and are refused when they are taken out, except where a reader says that they
/// have a meaning ([`Container::take_f64s_where`]). JSON has no such numbers: in a header they become `null`.
///
/// ```
/// use riesz::model::Container;
///
/// let mut container = Container::new("model");
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

impl Container {
    /// An empty container of this version and of the given kind, such as `model` or `checkpoint`.
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
        let found = self.kind().map_or("nothing", header::in_words);
        Err(Error::Kind { found, expected: header::in_words(kind) })
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

    /// Writes the fields of a struct into the header; NaN and infinities become `null`.
    pub fn extend_header<T: Serialize + ?Sized>(&mut self, fields: &T) -> Result<()> {
        let fields = serde_json::to_value(fields).map_err(|error| Error::Format(error.to_string()))?;
        let fields = fields.as_object().ok_or_else(|| Error::Format("a header has fields".into()))?;
        fields.iter().try_for_each(|(name, value)| self.set_field(name, value))
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
        let opening = self.opening()?;
        let values: usize = self.tensors.values().map(|tensor| tensor.values.bytes()).sum();
        let mut bytes = Vec::with_capacity(opening.len() + values + LENGTH);
        self.write(&opening, &mut bytes).map_err(|error| Error::Format(error.to_string()))?;
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

    /// Writes the file under `path`, all of it or nothing: a file already there stays as it was until the new one is
    /// complete and on disk, see [`replace`].
    pub fn save(&self, path: &Path) -> Result<()> {
        let opening = self.opening()?;
        replace(path, |file| self.write(&opening, file))
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

    /// The tensors in the order of the file: widest alignment first, then by name.
    fn ordered(&self) -> Vec<(&String, &Tensor)> {
        let mut tensors: Vec<_> = self.tensors.iter().collect();
        tensors.sort_by_key(|(_, tensor)| std::cmp::Reverse(tensor.values.dtype()));
        tensors
    }

    /// Everything before the values, refused where [`Container::from_bytes`] would refuse it.
    fn opening(&self) -> Result<Vec<u8>> {
        header::check(&self.header).and_then(|()| header::check_size(&self.header)).map_err(Error::Format)?;
        check_entries(self.tensors.len() + 1).map_err(Error::Format)?;

        let mut offset = 0;
        let mut layout = Vec::with_capacity(self.tensors.len());
        for (name, tensor) in self.ordered() {
            if name == RESERVED || name == CHECKSUM {
                return Err(about(name, "the name is reserved"));
            }
            tensor.check().map_err(|reason| about(name, &reason))?;
            let end = offset + tensor.values.bytes();
            let (dtype, shape) = (tensor.values.dtype(), tensor.shape.clone());
            layout.push((name.clone(), TensorInfo { dtype, shape, data_offsets: (offset, end) }));
            offset = end;
        }
        let data_offsets = (offset, offset + LENGTH);
        layout
            .push((CHECKSUM.to_owned(), TensorInfo { dtype: Dtype::U8, shape: vec![LENGTH], data_offsets }));
        let header = header::text(&self.header).map_err(Error::Format)?;
        let header = HashMap::from([(KEY.to_owned(), header)]);
        let layout =
            Metadata::new(Some(header), layout).map_err(|error| Error::Format(clip(&error.to_string())))?;
        let mut layout = serde_json::to_vec(&layout).map_err(|error| Error::Format(error.to_string()))?;
        layout.resize(layout.len().next_multiple_of(PREFIX), b' ');
        check_length(layout.len() as u64).map_err(Error::Format)?;

        let mut bytes = (layout.len() as u64).to_le_bytes().to_vec();
        bytes.append(&mut layout);
        Ok(bytes)
    }

    /// Writes the file, of which `opening` is what precedes the values.
    fn write(&self, opening: &[u8], target: &mut impl Write) -> io::Result<()> {
        let mut target = Summed::new(target);
        target.write_all(opening)?;
        self.ordered().into_iter().try_for_each(|(_, tensor)| tensor.values.write(&mut target))?;
        target.finish()
    }
}

/// Reads a file of `length` bytes.
fn read(source: &mut impl Read, length: u64) -> Result<Container, Fault> {
    let mut source = Summed::new(source);
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
    let layout = Layout::parse(&layout)?;

    let header = header::parse(&layout.header)?;
    header::check(&header)?;
    let mut tensors = BTreeMap::new();
    for (name, shape, dtype) in layout.place(values_length)? {
        let values = Values::read(&mut source, dtype, &shape)?;
        tensors.insert(name, Tensor { shape, values });
    }
    if !source.agrees()? {
        return Err("the checksum does not fit the contents: the file is damaged; fetch or write it again"
            .to_owned()
            .into());
    }
    Ok(Container { header, tensors })
}
