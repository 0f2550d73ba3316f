//! The names of the list.

use std::collections::HashSet;
use std::path::Path;

use coredns_plugin::corefile::{os_error_text, read_regular_file};
use coredns_plugin::wire::Name;

/// The largest file that is read, in octets.
pub const FILE_BYTES_MAX: u64 = 64 << 20;

/// A set of names, each of which stands for itself and for all names below it.
#[derive(Clone, Debug, Default)]
pub struct Names(HashSet<Name>);

impl Names {
    /// Adds one name; a dot at its end may be left out.
    ///
    /// # Errors
    /// The text is not a domain name.
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        let name = text.parse().map_err(|error| format!("'{text}' is not a domain name: {error}"))?;
        self.0.insert(name);
        Ok(())
    }

    /// Adds the names of a file: one a line; what follows a `#` is a comment.
    ///
    /// # Errors
    /// The file cannot be read, or a line is not a name; the text says which.
    pub fn add_file(&mut self, path: &Path) -> Result<(), String> {
        let shown = path.display();
        let content = read_regular_file(path, FILE_BYTES_MAX)
            .map_err(|error| format!("open {shown}: {}", os_error_text(&error)))?;
        for (number, line) in (1..).zip(String::from_utf8_lossy(&content).lines()) {
            let text = line.split('#').next().unwrap_or_default().trim();
            if !text.is_empty() {
                self.add(text).map_err(|error| format!("{shown}:{number}: {error}"))?;
            }
        }
        Ok(())
    }

    /// The name of the list that `name` equals or lies below; where there are several, the longest.
    #[must_use]
    pub fn matching(&self, name: &Name) -> Option<&Name> {
        let mut suffixes = (0..=name.label_count()).filter_map(|skip| name.suffix(skip));
        suffixes.find_map(|suffix| self.0.get(&suffix))
    }

    /// Tells whether there is no name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
