//! The options of a stanza.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use coredns_plugin::corefile::{
    GoDuration, excerpt, fully_qualified, is_domain_name, normalize_zones, parse_integer, quote,
};
use coredns_plugin::wire::{Name, Rcode};
use coredns_plugin::{Setup, SetupError};
use rustls_pki_types::ServerName;

use super::config::{Config, DohMethod};
use super::policy::Policy;
use super::setup::arg_error;
use crate::upstream::address::parse_socket_address;
use crate::upstream::tls::TlsFiles;

type Result<T> = std::result::Result<T, SetupError>;

/// The port of a resolver where none is given.
const DNS_PORT: u16 = 53;

/// Reads the option `name` with its arguments.
pub(super) fn read(setup: &mut Setup<'_, '_>, config: &mut Config, name: &str) -> Result<()> {
    match name {
        "except" => config.except.extend(zones(setup)?),
        "force_tcp" => config.force_tcp = flag(setup)?,
        "prefer_udp" => config.prefer_udp = flag(setup)?,
        "next_on_nodata" => config.next_on_nodata = flag(setup)?,
        "failfast_all_unhealthy_upstreams" => config.failfast = flag(setup)?,
        "expire" => config.expire = not_negative(setup, name)?,
        "max_age" => config.max_age = not_negative(setup, name)?,
        "read_timeout" => config.read_timeout = read_timeout(setup)?,
        "max_idle_conns" => config.max_idle_conns = count(setup, name)?,
        "max_concurrent" => config.max_concurrent = count(setup, name)?,
        "max_fails" => config.check.max_fails = unsigned(setup)?,
        "max_connect_attempts" => config.max_connect_attempts = Some(unsigned(setup)?),
        "doh_method" => config.doh_method = doh_method(setup)?,
        "tls" => config.tls = tls(setup)?,
        "tls_servername" => {
            let text = one(setup)?;
            config.tls_servername = Some(server_name(setup, text)?);
        }
        "policy" => {
            let text = one(setup)?;
            config.policy = Policy::from_text(text).ok_or_else(|| {
                let remedy = "the policies are random, round_robin and sequential";
                setup.error(format!("unknown policy '{}'", excerpt(text))).with_remedy(remedy)
            })?;
        }
        "health_check" => health_check(setup, config)?,
        "next" => config.next.extend(rcodes(setup)?),
        "failover" => {
            config.failover.extend(rcodes(setup)?);
            if config.failover.contains(&Rcode::NOERROR) {
                return Err(setup.error("NoError cannot be used in failover"));
            }
        }
        "source_address" => {
            let text = one(setup)?;
            let address: IpAddr =
                text.parse().map_err(|_| setup.error(format!("invalid IP address: {}", excerpt(text))))?;
            config.source_address = Some(address.to_canonical());
        }
        "resolver" => config.resolver = resolvers(setup)?,
        other => return Err(setup.error(format!("unknown property '{}'", excerpt(other)))),
    }
    Ok(())
}

/// An option that says all by standing there.
fn flag(setup: &mut Setup<'_, '_>) -> Result<bool> {
    setup.tokens.end_of_args().map_err(|error| error.in_plugin(setup.name()))?;
    Ok(true)
}

fn one<'t>(setup: &mut Setup<'_, 't>) -> Result<&'t str> {
    let text = setup.tokens.arg().map_err(|error| error.in_plugin(setup.name()))?.text();
    setup.tokens.end_of_args().map_err(|error| error.in_plugin(setup.name()))?;
    Ok(text)
}

fn several<'t>(setup: &mut Setup<'_, 't>) -> Result<Vec<&'t str>> {
    let args = setup.tokens.remaining_args();
    if args.is_empty() { Err(arg_error(setup)) } else { Ok(args) }
}

fn duration(setup: &mut Setup<'_, '_>) -> Result<GoDuration> {
    let duration = setup.tokens.duration_arg().map_err(|error| error.in_plugin(setup.name()))?;
    Ok(duration)
}

fn not_negative(setup: &mut Setup<'_, '_>, name: &str) -> Result<Duration> {
    let duration = duration(setup)?;
    flag(setup)?;
    duration.to_std().ok_or_else(|| setup.error(format!("{name} can't be negative: {duration}")))
}

fn read_timeout(setup: &mut Setup<'_, '_>) -> Result<Duration> {
    let duration = duration(setup)?;
    flag(setup)?;
    let positive = duration.to_std().filter(|duration| !duration.is_zero());
    positive.ok_or_else(|| setup.error(format!("read_timeout must be positive: {duration}")))
}

fn count(setup: &mut Setup<'_, '_>, name: &str) -> Result<usize> {
    let text = one(setup)?;
    let number = parse_integer(text).map_err(|error| setup.error(error.to_string()))?;
    usize::try_from(number).map_err(|_| setup.error(format!("{name} can't be negative: {number}")))
}

/// A number of 32 bits without a sign.
fn unsigned(setup: &mut Setup<'_, '_>) -> Result<u32> {
    let text = one(setup)?;
    let digits = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    let reason = if digits { "value out of range" } else { "invalid syntax" };
    let number = text.parse().ok().filter(|_| digits);
    number.ok_or_else(|| setup.error(format!("strconv.ParseUint: parsing {}: {reason}", quote(text))))
}

fn zones(setup: &mut Setup<'_, '_>) -> Result<Vec<Name>> {
    let mut names = Vec::new();
    for text in several(setup)? {
        let zones = normalize_zones([text]);
        if zones.is_empty() {
            return Err(setup.error(format!("unable to normalize '{}'", excerpt(text))));
        }
        names.extend(zones.iter().filter_map(|zone| zone.parse::<Name>().ok()));
    }
    Ok(names)
}

fn doh_method(setup: &mut Setup<'_, '_>) -> Result<DohMethod> {
    match one(setup)? {
        "POST" => Ok(DohMethod::Post),
        "GET" => Ok(DohMethod::Get),
        _ => Err(setup.error("doh_method must be either POST or GET")),
    }
}

/// Files, read here to tell what is wrong with them before anything starts.
fn tls(setup: &mut Setup<'_, '_>) -> Result<TlsFiles> {
    let args = setup.tokens.remaining_args();
    let path = |name: &str| setup.path(name);
    let files = match args[..] {
        [] => TlsFiles::default(),
        [authorities] => TlsFiles { authorities: Some(path(authorities)), ..TlsFiles::default() },
        [certificate, key] => TlsFiles { identity: Some((path(certificate), path(key))), ..TlsFiles::default() },
        [certificate, key, authorities] => {
            TlsFiles { identity: Some((path(certificate), path(key))), authorities: Some(path(authorities)) }
        }
        _ => return Err(arg_error(setup)),
    };
    files.client_config().map_err(|error| setup.error(error.to_string()))?;
    Ok(files)
}

/// The name that a certificate must bear.
pub(super) fn server_name(setup: &Setup<'_, '_>, text: &str) -> Result<String> {
    match ServerName::try_from(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err(setup.error(format!("invalid TLS server name: {}", quote(text)))),
    }
}

fn health_check(setup: &mut Setup<'_, '_>, config: &mut Config) -> Result<()> {
    let interval = duration(setup)?;
    let negative = || setup.error(format!("health_check can't be negative: {}", interval.as_nanos()));
    config.check.interval = interval.to_std().ok_or_else(negative)?;
    config.check.domain = Name::root();
    while let Some(option) = setup.tokens.next_arg() {
        match option.text() {
            "no_rec" => config.check.recursion = false,
            "domain" => {
                let Some(domain) = setup.tokens.next_arg() else { return Err(arg_error(setup)) };
                let text = domain.text();
                let name = Some(fully_qualified(text)).filter(|name| is_domain_name(name));
                let invalid = || setup.error(format!("health_check: invalid domain name {}", excerpt(text)));
                config.check.domain = name.and_then(|name| name.parse().ok()).ok_or_else(invalid)?;
            }
            other => return Err(setup.error(format!("health_check: unknown option {}", excerpt(other)))),
        }
    }
    Ok(())
}

fn rcodes(setup: &mut Setup<'_, '_>) -> Result<Vec<Rcode>> {
    let mut rcodes = Vec::new();
    for text in several(setup)? {
        let upper = text.to_uppercase();
        let known =
            (0..=u8::MAX).map(|number| Rcode(number.into())).find(|rcode| rcode.mnemonic() == Some(upper.as_str()));
        let rcode = if upper == "NOTIMPL" { Some(Rcode::NOTIMP) } else { known };
        rcodes.push(rcode.ok_or_else(|| setup.error(format!("{} is not a valid rcode", excerpt(text))))?);
    }
    Ok(rcodes)
}

fn resolvers(setup: &mut Setup<'_, '_>) -> Result<Vec<SocketAddr>> {
    let mut resolvers = Vec::new();
    for text in several(setup)? {
        let address = parse_socket_address(text, DNS_PORT);
        let wrong = || setup.error(format!("resolver must be an IP address or IP:port: {}", quote(text)));
        resolvers.push(address.ok_or_else(wrong)?);
    }
    Ok(resolvers)
}

/// A duration as Go writes it.
pub(super) fn go_text(duration: Duration) -> String {
    GoDuration::from_nanos(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)).to_string()
}
