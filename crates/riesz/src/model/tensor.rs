//! Tensors: values of one type with a shape.

use super::container::Container;
use super::{about, clip, Fault};
use crate::error::{Error, Result};
use safetensors::Dtype;
use std::io::{self, Read, Write};

/// Most dimensions of a tensor.
pub(super) const MAX_RANK: usize = 8;
/// Bytes converted at a time; a multiple of every element size.
pub(super) const PIECE: usize = 1 << 16;

/// Values with a shape, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Length of each dimension; a scalar has none.
    pub shape: Vec<usize>,
    /// As many values as the product of the shape.
    pub values: Values,
}

impl Tensor {
    /// Values with a shape, refused unless the two agree.
    pub fn new(shape: Vec<usize>, values: impl Into<Values>) -> Result<Self> {
        let tensor = Self { shape, values: values.into() };
        tensor.check().map_err(Error::Format)?;
        Ok(tensor)
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let expected = count(&self.shape)?;
        if expected != self.values.len() {
            let found = self.values.len();
            return Err(format!("shape {:?} asks for {expected} values, found {found}", self.shape));
        }
        Ok(())
    }
}

/// Number of values in a shape.
pub(super) fn count(shape: &[usize]) -> Result<usize, String> {
    if shape.len() > MAX_RANK {
        return Err(format!("{} dimensions, at most {MAX_RANK} are read", shape.len()));
    }
    let product = shape.iter().try_fold(1_usize, |product, &length| product.checked_mul(length));
    product.ok_or_else(|| format!("shape {shape:?} overflows"))
}

/// A type that tensors are made of.
pub(super) trait Element: Copy + std::fmt::Display {
    /// Its name in the layout.
    const DTYPE: Dtype;
    /// Whether it is a number, finite.
    fn is_number(self) -> bool;
    /// Appends the little-endian values in `bytes`, which need not be aligned.
    fn append(bytes: &[u8], values: &mut Vec<Self>);
    /// The values, if they are of this type.
    fn slice(values: &Values) -> Option<&[Self]>;
    /// The values, if they are of this type.
    fn vector(values: Values) -> Option<Vec<Self>>;
}

/// Writes [`Values`] and what depends on their type, from one line for each type there is.
macro_rules! elements {
    ($($type:ident, $variant:ident, $view:ident, $take:ident, $number:expr, $what:literal;)*) => {
        /// The values of a tensor.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Values {
            $(#[doc = $what] $variant(Vec<$type>),)*
        }

        impl Values {
            /// How many there are.
            pub fn len(&self) -> usize {
                match self { $(Self::$variant(vector) => vector.len(),)* }
            }

            /// Whether there are none.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            pub(super) fn dtype(&self) -> Dtype {
                match self { $(Self::$variant(_) => Dtype::$variant,)* }
            }

            /// Room they take in a file.
            pub(super) fn bytes(&self) -> usize {
                match self { $(Self::$variant(vector) => size_of_val(vector.as_slice()),)* }
            }

            /// Writes them, little endian.
            pub(super) fn write(&self, target: &mut impl Write) -> io::Result<()> {
                let mut piece = Vec::with_capacity(PIECE);
                match self { $(Self::$variant(vector) => {
                    for part in vector.chunks(PIECE / 8) {
                        piece.clear();
                        part.iter().for_each(|value| piece.extend_from_slice(&value.to_le_bytes()));
                        target.write_all(&piece)?;
                    }
                })* }
                Ok(())
            }

            /// Reads the values of one tensor whose size was compared with the file's before.
            pub(super) fn read(source: &mut impl Read, dtype: Dtype, shape: &[usize]) -> Result<Self, Fault> {
                match dtype {
                    $(Dtype::$variant => Ok(Self::$variant(read_values(source, shape)?)),)*
                    other => Err(format!("type {other} is not read here").into()),
                }
            }
        }

        /// The type with this name, if containers hold it.
        pub(super) fn dtype(name: &str) -> Result<Dtype, String> {
            match name {
                $(stringify!($variant) => Ok(Dtype::$variant),)*
                _ => {
                    let known = [$(stringify!($variant)),*].join(", ");
                    Err(format!("type {:?} is none of {known}", clip(name)))
                }
            }
        }

        $(
            impl Element for $type {
                const DTYPE: Dtype = Dtype::$variant;

                fn is_number(self) -> bool {
                    let number: fn(Self) -> bool = $number;
                    number(self)
                }

                fn append(bytes: &[u8], values: &mut Vec<Self>) {
                    let (chunks, _) = bytes.as_chunks::<{ size_of::<$type>() }>();
                    values.extend(chunks.iter().map(|chunk| Self::from_le_bytes(*chunk)));
                }

                fn slice(values: &Values) -> Option<&[Self]> {
                    if let Values::$variant(vector) = values { Some(vector) } else { None }
                }

                fn vector(values: Values) -> Option<Vec<Self>> {
                    if let Values::$variant(vector) = values { Some(vector) } else { None }
                }
            }

            impl From<Vec<$type>> for Values {
                fn from(vector: Vec<$type>) -> Self {
                    Self::$variant(vector)
                }
            }
        )*

        impl Container {
            $(
                #[doc = concat!("Shape and values of a tensor of `", stringify!($type), "`.")]
                pub fn $view(&self, name: &str) -> Result<(&[usize], &[$type])> {
                    view(self, name)
                }

                #[doc = concat!("Moves out the values of a tensor of `", stringify!($type), "` with this shape;")]
                /// a tensor of another type or shape, or with NaN or infinities in it, stays where it is.
                pub fn $take(&mut self, name: &str, shape: &[usize]) -> Result<Vec<$type>> {
                    take(self, name, shape, Element::is_number)
                }
            )*
        }
    };
}

elements! {
    f32, F32, f32s, take_f32s, f32::is_finite, "Single precision.";
    f64, F64, f64s, take_f64s, f64::is_finite, "Double precision.";
    u8, U8, u8s, take_u8s, |_| true, "Bytes, text among them.";
    u32, U32, u32s, take_u32s, |_| true, "Small counts and indices.";
    u64, U64, u64s, take_u64s, |_| true, "Counts, indices and random words.";
    i64, I64, i64s, take_i64s, |_| true, "Signed integers.";
}

impl Container {
    /// [`Container::take_f64s`] for values among which infinities have a meaning: those for which `admitted` holds.
    pub fn take_f64s_where(
        &mut self,
        name: &str,
        shape: &[usize],
        admitted: impl Fn(f64) -> bool,
    ) -> Result<Vec<f64>> {
        take(self, name, shape, admitted)
    }
}

fn view<'a, T: Element>(container: &'a Container, name: &str) -> Result<(&'a [usize], &'a [T])> {
    let tensor = container.tensors.get(name).ok_or_else(|| about(name, "missing"))?;
    let wrong = || about(name, &format!("holds {} values, expected {}", tensor.values.dtype(), T::DTYPE));
    Ok((&tensor.shape, T::slice(&tensor.values).ok_or_else(wrong)?))
}

fn take<T: Element>(
    container: &mut Container,
    name: &str,
    shape: &[usize],
    admitted: impl Fn(T) -> bool,
) -> Result<Vec<T>> {
    let (found, values) = view::<T>(container, name)?;
    if found != shape {
        return Err(about(name, &format!("has shape {found:?}, expected {shape:?}")));
    }
    if let Some(place) = values.iter().position(|&value| !admitted(value)) {
        return Err(about(
            name,
            &format!("value {place} is {}; a model is made of finite numbers", values[place]),
        ));
    }
    let values = container.tensors.remove(name).and_then(|tensor| T::vector(tensor.values));
    values.ok_or_else(|| about(name, "missing"))
}

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
