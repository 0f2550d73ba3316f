//! What goes wrong, as far as it makes a difference.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use kube::client::AuthError;
use serde::Deserialize;

use super::super::object::raw::{List, Number, Section, Text};

/// The longest text of an error that is logged, in octets.
const TEXT_MAX: usize = 400;

/// What a failure means for what comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The version to go on from is unknown to the server: everything has to be read again.
    Expired,
    /// The server refuses the parameters.
    Refused,
    /// The server does not know the resource.
    Missing,
    /// The credentials are not, or no longer, good.
    Unauthorized,
    /// Any other answer that is an error.
    Status,
    /// The connection could not be made, or broke.
    Transport,
    /// Nothing came any more.
    Silent,
    /// The response makes no sense.
    Malformed,
    /// The response is larger than is read.
    TooLarge,
    /// A watch ended as soon as it began, or a streaming list before its end.
    Short,
}

/// A failed request.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) cause: Cause,
    /// What the server asks for.
    pub(super) retry_after: Option<Duration>,
    /// For people.
    pub(super) text: String,
}

impl Failure {
    pub(super) fn new(cause: Cause, text: impl fmt::Display) -> Self {
        Self { cause, retry_after: None, text: printable(&text.to_string()) }
    }

    /// An error of the API: its status code and its body, which is a `Status` or any text.
    pub(super) fn of_status(code: u16, body: &[u8]) -> Self {
        let status: RawStatus = serde_json::from_slice(body).unwrap_or_default();
        if status.message.0.is_empty() && status.reason.0.is_empty() {
            return Self::of_code(code, &String::from_utf8_lossy(body));
        }
        status.failure(Some(code))
    }

    fn of_code(code: u16, message: &str) -> Self {
        let cause = match code {
            410 => Cause::Expired,
            400 | 422 => Cause::Refused,
            404 => Cause::Missing,
            401 => Cause::Unauthorized,
            _ => Cause::Status,
        };
        let phrase = http::StatusCode::from_u16(code).ok().and_then(|code| code.canonical_reason()).unwrap_or("error");
        let message = message.trim();
        let colon = if message.is_empty() { "" } else { ": " };
        Self::new(cause, format_args!("the API server answers {code} {phrase}{colon}{message}"))
    }
}

/// A `Status` of the API.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawStatus {
    pub(super) code: Number,
    pub(super) reason: Text,
    pub(super) message: Text,
    pub(super) details: Section<RawDetails>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawDetails {
    retry_after_seconds: Number,
    causes: List<Section<RawCause>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RawCause {
    reason: Text,
}

impl RawStatus {
    /// The failure that the status tells of; `code` is that of the response, if it is one.
    pub(super) fn failure(&self, code: Option<u16>) -> Failure {
        let code = code.or_else(|| u16::try_from(self.code.0?).ok()).unwrap_or(500);
        let message = if self.message.0.is_empty() { &self.reason.0 } else { &self.message.0 };
        let mut failure = Failure::of_code(code, message);
        let details = &self.details.0;
        // The server's data are older than ours: it was restored from a backup.
        let is_ahead = details.causes.0.iter().any(|cause| &*cause.0.reason.0 == "ResourceVersionTooLarge")
            || self.message.0.starts_with("Too large resource version");
        if is_ahead || matches!(&*self.reason.0, "Expired" | "Gone") {
            failure.cause = Cause::Expired;
        }
        let seconds = details.retry_after_seconds.0.and_then(|seconds| u64::try_from(seconds).ok());
        failure.retry_after = seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs);
        failure
    }
}

/// The text of an error and of what caused it. Never has credentials in it, whatever the libraries below quote.
pub(super) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut links = vec![error];
    let mut last = error;
    while let Some(source) = last.source() {
        links.push(source);
        last = source;
    }
    if let Some(words) = links.iter().find_map(|link| discreet(*link)) {
        return printable(&words);
    }
    let mut text = String::new();
    for link in links.into_iter().filter(|link| !is_wrapper(*link)) {
        let part = link.to_string();
        if !text.contains(&part) {
            text.push_str(if text.is_empty() { "" } else { ": " });
            text.push_str(&part);
        }
    }
    printable(&text)
}

/// Whether an error says nothing that its cause does not say.
fn is_wrapper(error: &(dyn Error + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(kube::Error::Service(_) | kube::Error::HyperError(_)))
}

/// Our own words for errors whose text may hold output of a plugin, an answer of an identity provider, or a password.
fn discreet(error: &(dyn Error + 'static)) -> Option<String> {
    if let Some(kube::Error::ProxyProtocolUnsupported { .. } | kube::Error::ProxyProtocolDisabled { .. }) =
        error.downcast_ref()
    {
        return Some("the proxy's protocol is not supported; use http, https or socks5".to_owned());
    }
    Some(match error.downcast_ref::<AuthError>()? {
        AuthError::AuthExecStart(error) => format!("the exec plugin of the kubeconfig cannot be run: {error}"),
        AuthError::AuthExecRun { out, .. } => {
            format!("the exec plugin of the kubeconfig failed with {}; run it by hand to see why", out.status)
        }
        AuthError::AuthExecParse(_) | AuthError::ExecPluginFailed | AuthError::MalformedTokenExpirationDate(_) => {
            "the exec plugin of the kubeconfig does not print credentials".to_owned()
        }
        AuthError::ReadTokenFile(error, file) => format!("cannot read the token {}: {error}", file.display()),
        AuthError::MissingCommand => "the exec plugin of the kubeconfig has no command".to_owned(),
        AuthError::ExecMissingClusterInfo => {
            "the exec plugin of the kubeconfig asks for a cluster that is not there".to_owned()
        }
        AuthError::InvalidBasicAuth(_) | AuthError::InvalidBearerToken(_) => {
            "the credentials hold octets that no header field may have".to_owned()
        }
        AuthError::Oidc(_) => "no token could be had from the OpenID Connect provider of the kubeconfig".to_owned(),
        _ => "the credentials of the kubeconfig cannot be used".to_owned(),
    })
}

/// The text on one line and of bounded length: it may come from anywhere.
fn printable(text: &str) -> String {
    let clean = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    let mut short = String::new();
    for letter in clean {
        if short.len() + letter.len_utf8() > TEXT_MAX {
            short.push('…');
            break;
        }
        short.push(letter);
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_apart() {
        for (code, body, cause, text, seconds) in [
            (
                403,
                r#"{"kind":"Status","reason":"Forbidden","message":"pods is forbidden","code":403}"#,
                Cause::Status,
                "the API server answers 403 Forbidden: pods is forbidden",
                None,
            ),
            (
                404,
                "404 page not found\n",
                Cause::Missing,
                "the API server answers 404 Not Found: 404 page not found",
                None,
            ),
            (
                401,
                r#"{"reason":"Unauthorized","message":"Unauthorized"}"#,
                Cause::Unauthorized,
                "401 Unauthorized",
                None,
            ),
            (410, "", Cause::Expired, "the API server answers 410 Gone", None),
            (422, "{}", Cause::Refused, "422", None),
            (
                429,
                r#"{"reason":"TooManyRequests","message":"storage is (re)initializing","details":{"retryAfterSeconds":1}}"#,
                Cause::Status,
                "storage is (re)initializing",
                Some(1),
            ),
            (
                504,
                r#"{"reason":"Timeout","message":"x","details":{"causes":[{"reason":"ResourceVersionTooLarge"}]}}"#,
                Cause::Expired,
                "504 Gateway Timeout: x",
                None,
            ),
            (502, "<html>\n<b>bad</b>", Cause::Status, "502 Bad Gateway: <html> <b>bad</b>", None),
        ] {
            let failure = Failure::of_status(code, body.as_bytes());
            assert_eq!(failure.cause, cause, "{code} {body}");
            assert!(failure.text.contains(text), "{}", failure.text);
            assert_eq!(failure.retry_after.map(|time| time.as_secs()), seconds, "{body}");
        }
    }

    #[test]
    fn texts_are_short_and_on_one_line() {
        let failure = Failure::of_status(500, &[b'\n', b'x'].repeat(1 << 20));
        assert!(failure.text.len() < TEXT_MAX + 4 && !failure.text.contains('\n'));
    }
}
