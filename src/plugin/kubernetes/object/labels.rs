//! Label sets.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::lenient::Text;

/// Longest key the API admits: a prefix of 253 octets, `/`, and a name of 63.
const KEY_MAX: usize = 317;
/// Longest value the API admits, in octets.
const VALUE_MAX: usize = 63;

/// The labels of an object, sorted by key, each key once.
///
/// Decoding drops labels that the API would not admit for their length, so a hostile object stays small.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Labels(Box<[(Box<str>, Box<str>)]>);

impl Labels {
    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.binary_search_by(|(held, _)| (**held).cmp(key)).ok()?;
        self.0.get(found).map(|(_, value)| &**value)
    }

    /// Whether there is no label at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keys and values in the order of the keys.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    /// Whether every label of `self` is in `other` too, as a Service's selector asks of a Pod's labels.
    pub fn is_subset_of(&self, other: &Self) -> bool {
        self.iter().all(|(key, value)| other.get(key) == Some(value))
    }
}

impl<K: Into<Box<str>>, V: Into<Box<str>>> FromIterator<(K, V)> for Labels {
    /// Of two labels with one key the later stands.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(labels: I) -> Self {
        let mut labels: Vec<(Box<str>, Box<str>)> =
            labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        // The sort is stable: reversed, the last of equal keys comes first and is the one that dedup keeps.
        labels.reverse();
        labels.sort_by(|a, b| a.0.cmp(&b.0));
        labels.dedup_by(|later, earlier| later.0 == earlier.0);
        Self(labels.into_boxed_slice())
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LabelsVisitor)
    }
}

struct LabelsVisitor;

impl<'de> Visitor<'de> for LabelsVisitor {
    type Value = Labels;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of labels")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Labels, A::Error> {
        let mut labels = Vec::new();
        while let Some((Text(key), Text(value))) = map.next_entry()? {
            if key.len() <= KEY_MAX && value.len() <= VALUE_MAX {
                labels.push((key, value));
            }
        }
        Ok(labels.into_iter().collect())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Labels, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Labels::default())
    }

    super::lenient::scalars_are_default!(Labels);
}
