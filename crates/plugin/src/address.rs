//! Addresses of the form `HOST:PORT`, split as Go splits them.

use coredns_corefile::excerpt;

/// A text that is no `HOST:PORT`; the texts are Go's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("address {address}: {problem}")]
pub struct AddressError {
    address: String,
    problem: &'static str,
}

/// Splits `HOST:PORT`, `[IPV6]:PORT` or `:PORT`; neither part is looked at any further.
///
/// # Errors
/// There is no port, or colons and brackets stand where they may not.
pub fn split_host_port(address: &str) -> Result<(&str, &str), AddressError> {
    let fault = |problem| AddressError { address: excerpt(address), problem };
    let (missing_port, too_many_colons) = ("missing port in address", "too many colons in address");
    let (head, port) = address.rsplit_once(':').ok_or_else(|| fault(missing_port))?;
    let host = match address.strip_prefix('[') {
        Some(inner) => {
            let (host, behind) = inner.split_once(']').ok_or_else(|| fault("missing ']' in address"))?;
            if behind.strip_prefix(':') != Some(port) {
                return Err(fault(if behind.starts_with(':') { too_many_colons } else { missing_port }));
            }
            host
        }
        None if head.contains(':') => return Err(fault(too_many_colons)),
        None => head,
    };
    if host.contains('[') || port.contains('[') {
        return Err(fault("unexpected '[' in address"));
    }
    if host.contains(']') || port.contains(']') {
        return Err(fault("unexpected ']' in address"));
    }
    Ok((host, port))
}

#[cfg(test)]
mod tests {
    use super::split_host_port;

    #[test]
    fn addresses_are_split_as_go_splits_them() {
        for (address, expected) in [
            (":8080", Ok(("", "8080"))),
            ("localhost:1234", Ok(("localhost", "1234"))),
            ("bla:a", Ok(("bla", "a"))),
            ("[::1]:80", Ok(("::1", "80"))),
            ("[fe80::1%eth0]:80", Ok(("fe80::1%eth0", "80"))),
            (":", Ok(("", ""))),
            ("bla", Err("address bla: missing port in address")),
            ("", Err("address : missing port in address")),
            ("[::1]", Err("address [::1]: missing port in address")),
            ("[::1]x:1", Err("address [::1]x:1: missing port in address")),
            ("[::1]:1:2", Err("address [::1]:1:2: too many colons in address")),
            ("[::1:80", Err("address [::1:80: missing ']' in address")),
            ("::1:80", Err("address ::1:80: too many colons in address")),
            ("a[b:80", Err("address a[b:80: unexpected '[' in address")),
            ("a]b:80", Err("address a]b:80: unexpected ']' in address")),
        ] {
            let split = split_host_port(address);
            assert_eq!(split.map_err(|error| error.to_string()), expected.map_err(str::to_owned), "{address}");
        }
    }
}
