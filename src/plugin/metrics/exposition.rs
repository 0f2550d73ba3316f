//! All metrics of the process as text.

use std::io::Write as _;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, Weak};

use coredns_plugin::metrics::{prometheus, registry};
use flate2::Compression;
use flate2::write::GzEncoder;
use prometheus::TextEncoder;
use tokio::sync::OnceCell;

/// The metrics at one moment.
#[derive(Debug, Default)]
pub(super) struct Exposition {
    text: Vec<u8>,
    gzip: OnceLock<Option<Vec<u8>>>,
}

/// The gathering that is under way, if any. Protects one value, for as long as it takes to look at it.
static UNDER_WAY: LazyLock<Mutex<Weak<OnceCell<Arc<Exposition>>>>> = LazyLock::new(Mutex::default);

/// Gathers all metrics; scrapes that come while somebody gathers get the same text.
///
/// # Errors
/// The encoder's, or the thread that gathers ended early.
pub(super) async fn gather() -> Result<Arc<Exposition>, String> {
    let cell = {
        let mut under_way = UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.upgrade().unwrap_or_else(|| {
            let cell = Arc::default();
            *under_way = Arc::downgrade(&cell);
            cell
        })
    };
    let made = cell.get_or_try_init(|| async {
        // Reading files of /proc and formatting some thousands of lines is no work for the runtime's threads.
        let text = tokio::task::spawn_blocking(|| TextEncoder::new().encode_to_string(&registry().gather()));
        let text = text.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        Ok(Arc::new(Exposition { text: text.into_bytes(), gzip: OnceLock::new() }))
    });
    made.await.cloned()
}

impl Exposition {
    /// The text exposition format, version 0.0.4.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// The same compressed.
    pub(super) fn gzip(&self) -> Option<&[u8]> {
        let compress = || {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(&self.text).ok()?;
            encoder.finish().ok()
        };
        self.gzip.get_or_init(compress).as_deref()
    }
}

/// Tells whether a client takes gzip (RFC 9110 §12.5.3): it is named, or `*` is, with a weight above 0.
pub(super) fn accepts_gzip(accept_encoding: &str) -> bool {
    let mut any = false;
    for part in accept_encoding.split(',') {
        let mut fields = part.split(';').map(str::trim);
        let coding = fields.next().unwrap_or_default();
        let weight =
            fields.find_map(|field| field.strip_prefix("q=")).map_or(Some(1.0), |text| text.parse::<f32>().ok());
        let wanted = weight.is_some_and(|weight| weight > 0.0);
        if coding.eq_ignore_ascii_case("gzip") {
            return wanted;
        }
        any |= coding == "*" && wanted;
    }
    any
}

#[cfg(test)]
mod tests {
    use super::accepts_gzip;

    #[test]
    fn gzip_is_sent_to_those_that_take_it() {
        for (header, expected) in [
            ("gzip", true),
            ("deflate, GZIP;q=0.5", true),
            ("*", true),
            ("*;q=0.1, gzip;q=0", false),
            ("gzip;q=0", false),
            ("gzip;q=x", false),
            ("identity", false),
            ("", false),
        ] {
            assert_eq!(accepts_gzip(header), expected, "{header}");
        }
    }
}
