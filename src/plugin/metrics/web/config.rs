//! The text of a web configuration.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use coredns_plugin::corefile::{GoDuration, excerpt, os_error_text, quote, read_regular_file};
use serde::Deserialize;

/// The largest web configuration, in octets.
const FILE_MAX: u64 = 1 << 20;
/// Headers that may be set.
const HEADERS: [&str; 5] = [
    "Strict-Transport-Security",
    "X-Content-Type-Options",
    "X-Frame-Options",
    "X-XSS-Protection",
    "Content-Security-Policy",
];

/// A web configuration.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Config {
    tls_server_config: Option<TlsConfig>,
    http_server_config: Option<HttpConfig>,
    basic_auth_users: Option<BTreeMap<String, String>>,
    rate_limit: Option<RateLimit>,
}

/// TLS, as the file has it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TlsConfig {
    pub(super) cert: Option<String>,
    pub(super) cert_file: Option<String>,
    pub(super) key: Option<String>,
    pub(super) key_file: Option<String>,
    pub(super) client_auth_type: Option<String>,
    pub(super) client_ca: Option<String>,
    pub(super) client_ca_file: Option<String>,
    pub(super) client_allowed_sans: Option<Vec<String>>,
    pub(super) min_version: Option<String>,
    pub(super) max_version: Option<String>,
    pub(super) cipher_suites: Option<Vec<String>>,
    pub(super) prefer_server_cipher_suites: Option<bool>,
    pub(super) curve_preferences: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct HttpConfig {
    http2: Option<bool>,
    headers: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RateLimit {
    interval: Option<String>,
    burst: Option<u32>,
}

/// A limit on requests: `burst` at once, and one more each `interval`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    pub(super) interval: Duration,
    pub(super) burst: u32,
}

impl Config {
    /// What the file says about TLS.
    pub(super) const fn tls(&self) -> Option<&TlsConfig> {
        self.tls_server_config.as_ref()
    }

    /// HTTP/2 is offered where TLS is spoken.
    pub(super) fn http2(&self) -> bool {
        self.http_server_config.as_ref().and_then(|http| http.http2).unwrap_or(true)
    }

    /// Headers of every response.
    pub(super) fn headers(&self) -> Vec<(&'static str, String)> {
        let set = self.http_server_config.as_ref().and_then(|http| http.headers.as_ref());
        let set = set.into_iter().flatten().filter(|(_, value)| !value.is_empty());
        set.filter_map(|(name, value)| Some((known_header(name)?, value.clone()))).collect()
    }

    /// Users and the bcrypt hashes of their passwords; without any, everybody is let in.
    pub(super) fn users(&self) -> Option<&BTreeMap<String, String>> {
        self.basic_auth_users.as_ref().filter(|users| !users.is_empty())
    }

    /// The limit on requests.
    pub(super) fn limit(&self) -> Option<Limit> {
        let limit = self.rate_limit.as_ref()?;
        let interval = GoDuration::parse(limit.interval.as_deref()?).ok()?.to_std()?;
        (!interval.is_zero()).then_some(Limit { interval, burst: limit.burst.unwrap_or_default() })
    }

    fn check(&self) -> Result<(), String> {
        let headers = self.http_server_config.iter().filter_map(|http| http.headers.as_ref()).flatten();
        for (name, value) in headers {
            check_header(name, value)?;
        }
        for (user, hash) in self.users().into_iter().flatten() {
            // The hash is a secret: it is not shown.
            hash.parse::<bcrypt::HashParts>().map_err(|_| {
                format!("basic_auth_users: the password of {} is no bcrypt hash", quote(&excerpt(user)))
            })?;
        }
        let Some(limit) = &self.rate_limit else { return Ok(()) };
        if let Some(interval) = &limit.interval {
            let interval = GoDuration::parse(interval).map_err(|error| format!("rate_limit: {error}"))?;
            if interval.as_nanos() < 0 {
                return Err(format!("rate_limit: negative interval {interval}"));
            }
        }
        if self.limit().is_some_and(|limit| limit.burst == 0) {
            return Err("rate_limit: a burst of 0 refuses every request; write at least 1".to_owned());
        }
        Ok(())
    }
}

fn known_header(name: &str) -> Option<&'static str> {
    HEADERS.into_iter().find(|known| *known == name)
}

fn check_header(name: &str, value: &str) -> Result<(), String> {
    if known_header(name).is_none() {
        return Err(format!("HTTP header {} can not be configured", quote(&excerpt(name))));
    }
    let allowed: &[&str] = match name {
        "X-Content-Type-Options" => &["nosniff"],
        "X-Frame-Options" => &["deny", "sameorigin"],
        _ => &[],
    };
    let printable = value.bytes().all(|octet| octet == b'\t' || (b' '..0x7f).contains(&octet));
    let fine =
        printable && (value.is_empty() || allowed.is_empty() || allowed.contains(&value.to_lowercase().as_str()));
    if fine {
        return Ok(());
    }
    Err(format!(
        "invalid value for {name}. Expected one of: {}, but got: {}",
        quoted_list(allowed),
        quote(&excerpt(value))
    ))
}

fn quoted_list(values: &[&str]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| quote(value)).collect();
    format!("[{}]", quoted.join(" "))
}

/// Reads and checks a web configuration; an empty file is one without any setting.
pub(super) fn read(path: &Path) -> Result<Config, String> {
    let octets = read_regular_file(path, FILE_MAX)
        .map_err(|error| format!("open {}: {}", path.display(), os_error_text(&error)))?;
    let text = String::from_utf8(octets).map_err(|_| format!("{}: not UTF-8", path.display()))?;
    let config = parse(&text).map_err(|problem| format!("{}: {problem}", path.display()))?;
    config.check().map_err(|problem| format!("{}: {problem}", path.display()))?;
    Ok(config)
}

fn parse(text: &str) -> Result<Config, String> {
    // Excerpts of the file would show its secrets.
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_str_with_options::<Option<Config>>(text, options).map(Option::unwrap_or_default).map_err(
        |error| match error.location() {
            Some(location) => format!("line {}: {}", location.line(), excerpt(&error.to_string())),
            None => excerpt(&error.to_string()),
        },
    )
}
