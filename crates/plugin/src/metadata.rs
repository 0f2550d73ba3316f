//! Labels about a query, such as `kubernetes/client-namespace`, made when somebody asks for them.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Mutex, PoisonError};

enum Value {
    Text(String),
    Lazy(Box<dyn Fn() -> String + Send>),
}

/// The labels of one query; shared by all its copies.
///
/// A valid label has the form `PLUGIN/NAME`: a slash that is neither first nor last.
#[derive(Default)]
pub struct Metadata {
    /// Protects the list; held for one push or one look-up.
    labels: Mutex<Vec<(Cow<'static, str>, Value)>>,
}

impl Metadata {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells whether `label` has the form of a label.
    #[must_use]
    pub fn is_label(label: &str) -> bool {
        label.find('/').is_some_and(|at| at > 0) && !label.ends_with('/')
    }

    /// Sets a label to a text; a label that is set twice keeps the later value.
    pub fn set(&self, label: impl Into<Cow<'static, str>>, text: impl Into<String>) {
        self.put(label.into(), Value::Text(text.into()));
    }

    /// Sets a label to what `make` returns when it is asked for.
    pub fn set_lazy(&self, label: impl Into<Cow<'static, str>>, make: impl Fn() -> String + Send + 'static) {
        self.put(label.into(), Value::Lazy(Box::new(make)));
    }

    /// The value of a label; `None` where it was never set.
    #[must_use]
    pub fn get(&self, label: &str) -> Option<String> {
        let labels = self.labels.lock().unwrap_or_else(PoisonError::into_inner);
        labels.iter().find(|(name, _)| name == label).map(|(_, value)| match value {
            Value::Text(text) => text.clone(),
            Value::Lazy(make) => make(),
        })
    }

    /// All labels with their values, in the order in which they were set.
    #[must_use]
    pub fn all(&self) -> Vec<(String, String)> {
        let labels = self.labels.lock().unwrap_or_else(PoisonError::into_inner);
        let text = |value: &Value| match value {
            Value::Text(text) => text.clone(),
            Value::Lazy(make) => make(),
        };
        labels.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
    }

    fn put(&self, label: Cow<'static, str>, value: Value) {
        let mut labels = self.labels.lock().unwrap_or_else(PoisonError::into_inner);
        match labels.iter_mut().find(|(name, _)| *name == label) {
            Some(slot) => slot.1 = value,
            None => labels.push((label, value)),
        }
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.all()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_need_a_slash_inside() {
        for (label, valid) in [
            ("p/L", true),
            ("P/L/S", true),
            ("LABEL", false),
            ("a.b", false),
            ("/x", false),
            ("x/", false),
            ("/", false),
            ("//", false),
        ] {
            assert_eq!(Metadata::is_label(label), valid, "{label}");
        }
    }

    #[test]
    fn the_later_value_counts() {
        let store = Metadata::new();
        store.set("a/b", "1");
        store.set_lazy("a/b", || "2".into());
        assert_eq!(store.get("a/b").as_deref(), Some("2"));
        assert_eq!(store.get("a/c"), None);
    }
}
