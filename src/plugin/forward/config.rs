//! What a directive says.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use coredns_plugin::wire::{Name, Rcode};

use super::policy::Policy;
use super::targets::Source;
use crate::upstream::HealthCheck;
use crate::upstream::tls::TlsFiles;

/// How queries are put into HTTP requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DohMethod {
    /// In the body.
    Post,
    /// In the path.
    Get,
}

impl DohMethod {
    /// The method's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Post => "POST",
            Self::Get => "GET",
        }
    }
}

/// What one stanza says.
#[derive(Clone, Debug)]
pub struct Config {
    /// The zone whose names are forwarded.
    pub from: Name,
    /// Zones below it that are not.
    pub except: Vec<Name>,
    /// Where to, as written.
    pub sources: Vec<Source>,
    /// Who is asked for the addresses of host names; the system where there is nobody.
    pub resolver: Vec<SocketAddr>,
    /// TCP also for what came by UDP.
    pub force_tcp: bool,
    /// UDP also for what came by TCP; TCP once a reply is truncated.
    pub prefer_udp: bool,
    /// Connections without use are closed after this.
    pub expire: Duration,
    /// Connections are closed at this age; zero for no limit.
    pub max_age: Duration,
    /// The most connections without use, for UDP and for streams each; 0 for no limit.
    pub max_idle_conns: usize,
    /// How long a reply is waited for.
    pub read_timeout: Duration,
    /// The most tries of a query; `None` for two an upstream, 0 for no limit but that of time.
    pub max_connect_attempts: Option<u32>,
    /// How DoH upstreams are asked.
    pub doh_method: DohMethod,
    /// Files for TLS.
    pub tls: TlsFiles,
    /// The name that certificates must bear.
    pub tls_servername: Option<String>,
    /// The order in which upstreams are asked.
    pub policy: Policy,
    /// How upstreams are probed.
    pub check: HealthCheck,
    /// The most queries under way; 0 for no limit.
    pub max_concurrent: usize,
    /// Codes with which the next `forward` is asked.
    pub next: Vec<Rcode>,
    /// The next `forward` is asked where there is no answer either.
    pub next_on_nodata: bool,
    /// Where all upstreams are down none is tried.
    pub failfast: bool,
    /// Codes with which the next upstream is asked.
    pub failover: Vec<Rcode>,
    /// The address that queries leave from.
    pub source_address: Option<IpAddr>,
}

impl Config {
    /// The defaults for a zone.
    #[must_use]
    pub fn new(from: Name) -> Self {
        Self {
            from,
            except: Vec::new(),
            sources: Vec::new(),
            resolver: Vec::new(),
            force_tcp: false,
            prefer_udp: false,
            expire: Duration::from_secs(10),
            max_age: Duration::ZERO,
            max_idle_conns: 0,
            read_timeout: Duration::from_secs(2),
            max_connect_attempts: None,
            doh_method: DohMethod::Post,
            tls: TlsFiles::default(),
            tls_servername: None,
            policy: Policy::Random,
            check: HealthCheck::default(),
            max_concurrent: 0,
            next: Vec::new(),
            next_on_nodata: false,
            failfast: false,
            failover: Vec::new(),
            source_address: None,
        }
    }

    /// Tells whether a query for `name` is forwarded. The zone itself is, even where it is excepted.
    #[must_use]
    pub fn matches(&self, name: &Name) -> bool {
        name.is_within(&self.from) && (*name == self.from || !self.except.iter().any(|except| name.is_within(except)))
    }
}
