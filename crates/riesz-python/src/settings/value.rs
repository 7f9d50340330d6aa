//! Python values as serde reads them.

use crate::errors::InvalidInput;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use serde::de::value::{MapDeserializer, SeqDeserializer, StrDeserializer};
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, EnumAccess, IntoDeserializer, VariantAccess, Visitor,
};
use serde::Deserializer;
use std::fmt;

/// Why a value is not what was asked for.
#[derive(Debug)]
pub enum Refusal {
    /// It should be this, in words.
    Wanted(String),
    /// It, in these words, should be one of these names.
    Unknown(String, &'static [&'static str]),
    /// It is outside this range.
    Outside(&'static str),
    /// All has been said.
    Raised(PyErr),
}

impl Refusal {
    fn wanted<T>(words: &str) -> Result<T, Self> {
        Err(Self::Wanted(words.to_owned()))
    }

    /// The exception, which names the setting and its value.
    fn about(self, name: &str, value: &Bound<'_, PyAny>) -> PyErr {
        let found = value.repr().map_or_else(|error| error.to_string(), |text| text.to_string());
        match self {
            Self::Wanted(words) => InvalidInput::new_err(format!("{name} = {found} should be {words}")),
            Self::Unknown(value, expected) => {
                let expected = listed(expected);
                InvalidInput::new_err(format!("{name} = {value} is unknown; expected one of {expected}"))
            }
            Self::Outside(range) => InvalidInput::new_err(format!("{name} = {found} is outside {range}")),
            Self::Raised(error) => error,
        }
    }
}

/// The names of an enum, of which one that takes a number is called `value` or `fixed` in Rust.
fn listed(names: &[&str]) -> String {
    let plain: Vec<&str> = names.iter().copied().filter(|name| !takes_number(name)).collect();
    let number = if plain.len() < names.len() { " or a positive number" } else { "" };
    format!("{}{number}", plain.join(", "))
}

/// The same as what a value may be: `a positive number, 'auto' or 'median'`.
fn alternatives(names: &[&str]) -> String {
    let quoted = names.iter().filter(|name| !takes_number(name)).map(|name| format!("'{name}'"));
    let mut words: Vec<String> = std::iter::once("a positive number".to_owned()).chain(quoted).collect();
    let last = words.pop().unwrap_or_default();
    format!("{} or {last}", words.join(", "))
}

fn takes_number(variant: &str) -> bool {
    ["value", "fixed"].contains(&variant)
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl std::error::Error for Refusal {}

impl de::Error for Refusal {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Raised(InvalidInput::new_err(message.to_string()))
    }

    fn invalid_type(_: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::Wanted(expected.to_string())
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::Unknown(format!("{variant:?}"), expected)
    }
}

/// The struct whose fields are the keys of a dictionary. Where `strict`, every key must be a field; otherwise the others are
/// for somebody else to read.
pub fn read_fields<T: DeserializeOwned>(fields: &Bound<'_, PyDict>, strict: bool) -> PyResult<T> {
    T::deserialize(MapDeserializer::new(entries(fields, strict)?)).map_err(raised)
}

type Entries<'py> = std::vec::IntoIter<(String, Value<'py>)>;

fn entries<'py>(fields: &Bound<'py, PyDict>, strict: bool) -> PyResult<Entries<'py>> {
    let entry = |(name, value): (Bound<'py, PyAny>, _)| {
        let name: String = name.extract()?;
        Ok((name.clone(), Value { name, value, strict, optional: false }))
    };
    Ok(fields.iter().map(entry).collect::<PyResult<Vec<_>>>()?.into_iter())
}

/// A value that is asked for by a name.
#[derive(Clone)]
pub struct Value<'py> {
    name: String,
    value: Bound<'py, PyAny>,
    strict: bool,
    /// Whether it may be `None`.
    optional: bool,
}

impl<'py> Value<'py> {
    pub fn new(name: &str, value: Bound<'py, PyAny>) -> Self {
        Self { name: name.to_owned(), value, strict: true, optional: false }
    }

    pub fn read<T: DeserializeOwned>(self) -> PyResult<T> {
        T::deserialize(self).map_err(raised)
    }

    fn extract<T: for<'a> FromPyObject<'a, 'py>>(&self, wanted: &str) -> Result<T, Refusal> {
        self.value.extract().or_else(|_| Refusal::wanted(wanted))
    }

    /// Lets `visit` read the value; what it refuses becomes an exception that names the setting.
    fn visit<T>(&self, visit: impl FnOnce() -> Result<T, Refusal>) -> Result<T, Refusal> {
        visit().map_err(|refusal| {
            let refusal = match refusal {
                Refusal::Wanted(words) if self.optional => Refusal::Wanted(format!("{words} or None")),
                other => other,
            };
            Refusal::Raised(refusal.about(&self.name, &self.value))
        })
    }

    fn whole(&self) -> Result<u64, Refusal> {
        let number: i128 = self.extract("a whole number")?;
        u64::try_from(number).map_err(|_| Refusal::Outside("[0, 2^64)"))
    }

    /// The parts of a sequence; a number is a sequence of one.
    fn parts(&self) -> Result<Vec<Self>, Refusal> {
        let part = |value| Self { value, ..self.clone() };
        if self.value.extract::<f64>().is_ok() {
            return Ok(vec![self.clone()]);
        }
        let wanted = || Refusal::Wanted("a number or several".to_owned());
        if self.value.is_instance_of::<PyString>() {
            return Err(wanted());
        }
        let parts = self.value.try_iter().map_err(|_| wanted())?;
        parts.map(|value| value.map(part).map_err(Refusal::Raised)).collect()
    }
}

fn raised(refusal: Refusal) -> PyErr {
    match refusal {
        Refusal::Raised(error) => error,
        other => InvalidInput::new_err(format!("{other:?}")),
    }
}

impl<'py> IntoDeserializer<'_, Refusal> for Value<'py> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Value<'_> {
    type Error = Refusal;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Refusal> {
        self.visit(|| Refusal::wanted("a plain value"))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        self.visit(|| visitor.visit_bool(self.extract("True or False")?))
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        self.visit(|| visitor.visit_u64(self.whole()?))
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        self.visit(|| visitor.visit_f64(self.extract("a number")?))
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        self.visit(|| visitor.visit_string(self.extract("a name")?))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        match self.value.is_none() {
            true => visitor.visit_none(),
            false => visitor.visit_some(Self { optional: true, ..self }),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        self.visit(|| visitor.visit_seq(SeqDeserializer::new(self.parts()?.into_iter())))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        self.visit(|| {
            let fields = self.value.cast::<PyDict>().or_else(|_| Refusal::wanted("a dictionary"))?;
            visitor.visit_map(MapDeserializer::new(entries(fields, self.strict).map_err(Refusal::Raised)?))
        })
    }

    /// A name, a number where a variant takes one, or a dictionary of one variant and what it holds.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        self.visit(|| {
            let number = variants.iter().find(|name| takes_number(name));
            if let Ok(name) = self.value.cast::<PyString>() {
                let name = name.to_str().map_err(Refusal::Raised)?;
                return visitor.visit_enum(StrDeserializer::<Refusal>::new(name));
            }
            if let (Some(name), Ok(_)) = (number, self.value.extract::<f64>()) {
                return visitor.visit_enum(Variant { name: (*name).to_owned(), content: self.clone() });
            }
            let entry = self.value.cast::<PyDict>().ok().filter(|entries| entries.len() == 1);
            match entry.and_then(|entries| entries.iter().next()) {
                Some((name, value)) => {
                    let content = Self { name: self.name.clone(), value, ..self.clone() };
                    let Ok(name) = name.extract() else { return Refusal::wanted("a name") };
                    visitor.visit_enum(Variant { name, content })
                }
                None if number.is_some() => Refusal::wanted(&alternatives(variants)),
                None => {
                    let found = self.value.repr().map_err(Refusal::Raised)?;
                    Err(Refusal::Unknown(found.to_string(), variants))
                }
            }
        })
    }

    /// What serde does with a key that no field has.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        if self.strict {
            let message = format!("{} is no setting of this fit", self.name);
            return Err(Refusal::Raised(InvalidInput::new_err(message)));
        }
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i32 i64 u8 u16 u32 f32 char str bytes byte_buf unit unit_struct tuple tuple_struct map identifier
    }
}

/// A variant of an enum and what it holds.
struct Variant<'py> {
    name: String,
    content: Value<'py>,
}

impl<'de, 'py> EnumAccess<'de> for Variant<'py> {
    type Error = Refusal;
    type Variant = Value<'py>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Value<'py>), Refusal> {
        Ok((seed.deserialize(StrDeserializer::<Refusal>::new(&self.name))?, self.content))
    }
}

impl<'de> VariantAccess<'de> for Value<'_> {
    type Error = Refusal;

    fn unit_variant(self) -> Result<(), Refusal> {
        self.visit(|| Refusal::wanted("a name"))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Refusal> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Refusal> {
        self.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        self.deserialize_struct("", fields, visitor)
    }
}
