//! The directive `bind ADDRESS|IFACE... { except ADDRESS|IFACE... }`.

use std::net::IpAddr;

use coredns_plugin::corefile::{Dispenser, ParseError, os_error_text, quote};
use coredns_plugin::{Setup, SetupError};

use super::interfaces::Interfaces;

/// Sets the hosts that the block listens on.
pub(super) fn setup(setup: &mut Setup<'_, '_>) -> Result<(), SetupError> {
    let interfaces = Interfaces::of_host().unwrap_or_else(|error| {
        let reason = os_error_text(&error);
        setup.warn(format!("failed to get interfaces list, cannot bind by interface name: {reason}"));
        Interfaces::default()
    });
    let hosts = read(&mut setup.tokens, &interfaces).map_err(|error| error.in_plugin(setup.name()))?;
    if hosts.is_empty() {
        setup.warn("no address is left to listen on: this server block answers nothing");
    }
    setup.block.listen_hosts = Some(hosts);
    Ok(())
}

/// The hosts of all lines in their order, what a line excepts left out of that line. Nothing is listed once only: the
/// same address twice is reported when listeners are put together.
pub(super) fn read(tokens: &mut Dispenser<'_>, interfaces: &Interfaces) -> Result<Vec<String>, ParseError> {
    let mut hosts = Vec::new();
    while tokens.next_token().is_some() {
        let mut of_line = read_hosts(tokens, interfaces, "at least one address or interface name is expected")?;
        while let Some(option) = tokens.next_block() {
            if option.text() != "except" {
                let message = format!("invalid option {}", quote(option.text()));
                return Err(tokens.plain_error(message).with_remedy("the only option is `except`"));
            }
            let missing = "at least one address or interface must be given to except subdirective";
            let excepted = read_hosts(tokens, interfaces, missing)?;
            of_line.retain(|host| !excepted.contains(host));
        }
        hosts.append(&mut of_line);
    }
    Ok(hosts)
}

/// The rest of the line as hosts; `missing` is the error where there is nothing.
fn read_hosts(tokens: &mut Dispenser<'_>, interfaces: &Interfaces, missing: &str) -> Result<Vec<String>, ParseError> {
    let words = tokens.remaining_args();
    if words.is_empty() {
        return Err(tokens.plain_error(missing));
    }
    let mut hosts = Vec::new();
    for word in words {
        match interfaces.hosts(word) {
            Some(of_interface) => hosts.extend_from_slice(of_interface),
            None if word.parse::<IpAddr>().is_ok() => hosts.push(word.to_owned()),
            None => {
                let message = format!("not a valid IP address or interface name: {}", quote(word));
                let remedy = match word {
                    "" => "an environment variable that stands here may not be set",
                    _ => "`ip address` lists both",
                };
                return Err(tokens.plain_error(message).with_remedy(remedy));
            }
        }
    }
    Ok(hosts)
}
