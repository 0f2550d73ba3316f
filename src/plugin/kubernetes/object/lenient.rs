//! Decoding that survives fields of the wrong type.
//!
//! The API server never sends such fields, but files are written by hand and a server may be hostile. Each type here
//! accepts whatever JSON or YAML holds at its place; what does not fit is read, dropped, and counts as absent.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Implements the scalar visits of a visitor as "absent": the default value.
macro_rules! scalars_are_default {
    ($value:ty) => {
        fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<$value, E> {
            Ok(<$value>::default())
        }
        fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<$value, E> {
            Ok(<$value>::default())
        }
        fn visit_u64<E: serde::de::Error>(self, _: u64) -> Result<$value, E> {
            Ok(<$value>::default())
        }
        fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<$value, E> {
            Ok(<$value>::default())
        }
        fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<$value, E> {
            Ok(<$value>::default())
        }
        fn visit_none<E: serde::de::Error>(self) -> Result<$value, E> {
            Ok(<$value>::default())
        }
        fn visit_unit<E: serde::de::Error>(self) -> Result<$value, E> {
            Ok(<$value>::default())
        }
        fn visit_some<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<$value, D::Error> {
            deserializer.deserialize_any(self)
        }
    };
}
pub(super) use scalars_are_default;

/// Text; a number or truth value is its text, everything else is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Text(pub(in super::super) Box<str>);

/// A number between `i64`'s bounds, also when it is written as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Number(pub(in super::super) Option<i64>);

/// A truth value, also when it is written as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Flag(pub(in super::super) Option<bool>);

/// A scalar of any type.
enum Scalar {
    Text(Box<str>),
    Number(i64),
    Flag(bool),
    Other(Box<str>),
    Absent,
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a scalar")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Scalar, E> {
        Ok(Scalar::Flag(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Scalar, E> {
        Ok(Scalar::Number(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Scalar, E> {
        Ok(i64::try_from(value).map_or_else(|_| Scalar::Other(value.to_string().into()), Scalar::Number))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Scalar, E> {
        Ok(Scalar::Other(value.to_string().into()))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(value.into()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Scalar, E> {
        Ok(Scalar::Text(value.into()))
    }

    fn visit_none<E: Error>(self) -> Result<Scalar, E> {
        Ok(Scalar::Absent)
    }

    fn visit_unit<E: Error>(self) -> Result<Scalar, E> {
        Ok(Scalar::Absent)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Scalar, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Scalar, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::Absent)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scalar, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Absent)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match deserializer.deserialize_any(ScalarVisitor)? {
            Scalar::Text(text) | Scalar::Other(text) => text,
            Scalar::Number(number) => number.to_string().into(),
            Scalar::Flag(flag) => flag.to_string().into(),
            Scalar::Absent => Box::default(),
        }))
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match deserializer.deserialize_any(ScalarVisitor)? {
            Scalar::Text(text) => text.parse().ok(),
            Scalar::Number(number) => Some(number),
            Scalar::Flag(_) | Scalar::Other(_) | Scalar::Absent => None,
        }))
    }
}

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match deserializer.deserialize_any(ScalarVisitor)? {
            Scalar::Text(text) => text.to_ascii_lowercase().parse().ok(),
            Scalar::Flag(flag) => Some(flag),
            Scalar::Number(_) | Scalar::Other(_) | Scalar::Absent => None,
        }))
    }
}

/// A struct; anything but a map counts as an empty one.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Section<T>(pub(in super::super) T);

impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for Section<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SectionVisitor(PhantomData))
    }
}

struct SectionVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de> + Default> Visitor<'de> for SectionVisitor<T> {
    type Value = Section<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Section<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Section)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Section<T>, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Section::default())
    }

    scalars_are_default!(Section<T>);
}

/// A list; anything but a list counts as an empty one.
#[derive(Clone, Debug)]
pub(in super::super) struct List<T>(pub(in super::super) Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ListVisitor(PhantomData))
    }
}

struct ListVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = List<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<List<T>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<List<T>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(List::default())
    }

    scalars_are_default!(List<T>);
}
