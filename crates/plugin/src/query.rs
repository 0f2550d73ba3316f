//! What is asked, by whom, and how it came.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use coredns_wire::{Class, Edns, EdnsOption, EdnsOptions, HEADER_LEN, Header, Name, Request, RrType, option_code};

use crate::metadata::Metadata;

/// The UDP payload size of a client that says nothing (RFC 1035 §4.2.1), in octets.
const MIN_UDP_SIZE: u16 = 512;

/// Options that are repeated to the client that sent them.
const MIRRORED: [u16; 5] =
    [option_code::NSID, option_code::EXPIRE, option_code::COOKIE, option_code::TCP_KEEPALIVE, option_code::PADDING];

/// How a query came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Plain UDP.
    Udp,
    /// Plain TCP.
    Tcp,
    /// DNS over TLS.
    Tls,
    /// DNS over HTTPS.
    Https,
    /// DNS over HTTP/3.
    Https3,
    /// DNS over QUIC.
    Quic,
    /// DNS over gRPC.
    Grpc,
}

impl Transport {
    /// `udp` or `tcp`, as metrics and logs name it: DoQ and DoH3 count as `udp`, as in CoreDNS.
    #[must_use]
    pub const fn proto(self) -> &'static str {
        match self {
            Self::Udp | Self::Quic | Self::Https3 => "udp",
            Self::Tcp | Self::Tls | Self::Https | Self::Grpc => "tcp",
        }
    }

    /// Tells whether replies are bounded by 65,535 octets only.
    #[must_use]
    pub const fn is_stream(self) -> bool {
        matches!(self, Self::Tcp | Self::Tls | Self::Https | Self::Grpc)
    }
}

/// A listener of the server, as plugins see it.
#[derive(Debug, PartialEq, Eq)]
pub struct ServerInfo {
    /// `SCHEME://HOST:PORT`, the label `server` of metrics, such as `dns://:53`.
    pub label: String,
    /// The listen host as configured; empty for all addresses.
    pub host: String,
    /// The port that is listened on.
    pub port: u16,
}

/// One query on its way through a chain.
///
/// A query is not changed in place: a plugin that asks for something else makes a copy ([`Query::with_question`])
/// and serves it through [`Next::serve_owned`](crate::Next::serve_owned). The one exception is the UDP size, which
/// can be lowered ([`Query::lower_udp_size`]) and holds for the reply as well.
#[derive(Debug)]
pub struct Query {
    message: Vec<u8>,
    header: Header,
    question_end: usize,
    name: Name,
    qtype: RrType,
    qclass: Class,
    edns: Option<Edns>,
    options: std::ops::Range<usize>,
    udp_size: AtomicU16,
    client: SocketAddr,
    local: SocketAddr,
    transport: Transport,
    received: Instant,
    server: Arc<ServerInfo>,
    view: Option<Arc<str>>,
    metadata: Option<Arc<Metadata>>,
    lookups: OnceLock<Arc<AtomicU32>>,
    wants_stamp: bool,
}

impl Query {
    /// A place for queries of one listener; filled by [`Query::receive`], again and again.
    #[must_use]
    pub fn empty(server: Arc<ServerInfo>, transport: Transport, now: Instant) -> Self {
        let nobody = SocketAddr::from(([0, 0, 0, 0], 0));
        Self {
            message: Vec::new(),
            header: Header::default(),
            question_end: HEADER_LEN,
            name: Name::root(),
            qtype: RrType(0),
            qclass: Class(0),
            edns: None,
            options: 0..0,
            udp_size: AtomicU16::new(0),
            client: nobody,
            local: nobody,
            transport,
            received: now,
            server,
            view: None,
            metadata: None,
            lookups: OnceLock::new(),
            wants_stamp: false,
        }
    }

    /// Fills in a message that came; `request` was read from `message`. Returns whether it has a question.
    pub fn receive(
        &mut self,
        message: &[u8],
        request: Request,
        client: SocketAddr,
        local: SocketAddr,
        now: Instant,
    ) -> bool {
        self.message.clear();
        self.message.extend_from_slice(message);
        self.header = request.header;
        self.question_end = request.question_end;
        if let Some((name, ..)) = &request.question {
            // A question that breaks off behind its name has type and class 0; a reply has to say so.
            let whole = HEADER_LEN + name.len() + 4;
            if self.question_end < whole {
                self.message.resize(whole, 0);
                self.question_end = whole;
            }
        }
        self.edns = request.edns;
        self.options = request.options;
        *self.udp_size.get_mut() = request.edns.map_or(0, |edns| edns.udp_size);
        self.client = client;
        self.local = local;
        self.received = now;
        self.view = None;
        self.metadata = None;
        self.lookups = OnceLock::new();
        self.wants_stamp = false;
        match request.question {
            Some((name, qtype, qclass)) => {
                self.name = name;
                self.qtype = qtype;
                self.qclass = qclass;
                true
            }
            None => {
                self.name = Name::root();
                self.qtype = RrType(0);
                self.qclass = Class(0);
                false
            }
        }
    }

    /// The name asked for, in the case that it was sent in.
    #[inline]
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The type asked for.
    #[inline]
    #[must_use]
    pub const fn qtype(&self) -> RrType {
        self.qtype
    }

    /// The class asked for.
    #[inline]
    #[must_use]
    pub const fn qclass(&self) -> Class {
        self.qclass
    }

    /// The header as it came.
    #[inline]
    #[must_use]
    pub const fn header(&self) -> Header {
        self.header
    }

    /// The whole message as it came from the client; plugins above may have changed what is asked since.
    #[must_use]
    pub fn message(&self) -> &[u8] {
        &self.message
    }

    /// The question section of [`Query::message`], as it came.
    #[inline]
    #[must_use]
    pub fn question_section(&self) -> &[u8] {
        self.message.get(HEADER_LEN..self.question_end).unwrap_or(&[])
    }

    /// The fixed part of the client's OPT record, the UDP size as lowered since.
    #[inline]
    #[must_use]
    pub fn edns(&self) -> Option<Edns> {
        self.edns.map(|edns| Edns { udp_size: self.udp_size.load(Ordering::Relaxed), ..edns })
    }

    /// The options of the client's OPT record.
    #[must_use]
    pub fn options(&self) -> EdnsOptions<'_> {
        EdnsOptions::new(self.message.get(self.options.clone()).unwrap_or(&[]))
    }

    /// The options that a reply without an OPT record of its own repeats to the client; each once.
    pub fn mirrored_options(&self) -> impl Iterator<Item = EdnsOption<'_>> {
        let mut seen = [false; MIRRORED.len()];
        self.options().filter(move |option| {
            let at = MIRRORED.iter().position(|code| *code == option.code);
            at.and_then(|at| seen.get_mut(at)).is_some_and(|seen| !std::mem::replace(seen, true))
        })
    }

    /// Tells whether the client set DO.
    #[inline]
    #[must_use]
    pub fn dnssec_ok(&self) -> bool {
        self.edns.is_some_and(Edns::dnssec_ok)
    }

    /// The most octets that a reply may have: 65,535 on streams, else what EDNS says, 512 at least.
    #[inline]
    #[must_use]
    pub fn reply_limit(&self) -> usize {
        if self.transport.is_stream() {
            usize::from(u16::MAX)
        } else {
            usize::from(self.edns().map_or(MIN_UDP_SIZE, |edns| edns.udp_size.max(MIN_UDP_SIZE)))
        }
    }

    /// Lowers the UDP size of the OPT record to `octets`; never raises it, never adds an OPT record.
    pub fn lower_udp_size(&self, octets: u16) {
        // Relaxed: a query is served by one thread at a time, and handed over with synchronisation of its own.
        if self.edns.is_some() && self.udp_size.load(Ordering::Relaxed) > octets {
            self.udp_size.store(octets, Ordering::Relaxed);
        }
    }

    /// Tells whether the UDP size of the OPT record is no longer the client's: see [`Query::lower_udp_size`].
    #[must_use]
    pub fn udp_size_was_lowered(&self) -> bool {
        self.edns.is_some_and(|edns| edns.udp_size != self.udp_size.load(Ordering::Relaxed))
    }

    /// Where the query came from; IPv4 clients of a dual-stack socket as plain IPv4.
    #[inline]
    #[must_use]
    pub const fn client(&self) -> SocketAddr {
        self.client
    }

    /// Where it was sent to.
    #[must_use]
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// How it came.
    #[inline]
    #[must_use]
    pub const fn transport(&self) -> Transport {
        self.transport
    }

    /// When it came, or its batch.
    #[must_use]
    pub const fn received(&self) -> Instant {
        self.received
    }

    /// The listener that it came to.
    #[inline]
    #[must_use]
    pub fn server(&self) -> &Arc<ServerInfo> {
        &self.server
    }

    /// The name of the view that the serving block belongs to; empty for none.
    #[must_use]
    pub fn view(&self) -> &str {
        self.view.as_deref().unwrap_or("")
    }

    /// Labels about the query, where the serving block collects them.
    #[must_use]
    pub fn metadata(&self) -> Option<&Metadata> {
        self.metadata.as_deref()
    }

    /// Tells whether somebody above keeps answers and asks for a [`Stamp`](crate::Stamp).
    #[must_use]
    pub const fn wants_stamp(&self) -> bool {
        self.wants_stamp
    }

    /// Asks plugins below for a stamp; for the server, where a block holds a plugin that keeps answers.
    pub const fn want_stamp(&mut self) {
        self.wants_stamp = true;
    }

    /// Sets the view and the metadata; for the server, before a chain is entered.
    pub fn enter(&mut self, view: Option<Arc<str>>, metadata: Option<Arc<Metadata>>) {
        self.view = view;
        self.metadata = metadata;
    }

    /// Sets the view; for the server, before a chain is entered.
    pub fn set_view(&mut self, view: Arc<str>) {
        self.view = Some(view);
    }

    /// A copy that asks something else; client, transport, EDNS and metadata stay.
    #[must_use]
    pub fn with_question(&self, name: Name, qtype: RrType) -> Self {
        Self { name, qtype, ..self.copy() }
    }

    /// A copy with AD set, so that what answers it tells whether the data are authentic (RFC 6840 §5.7).
    #[must_use]
    pub fn with_authentic_data(&self) -> Self {
        let mut copy = self.copy();
        copy.set_authentic_data();
        copy
    }

    /// A copy for a refresh that no client waits for: AD set, a stream as transport, so that nothing is cut, client
    /// address 0.0.0.0:0, labels and count of lookups of its own. Question, DO, CD and view stay; `now` is when it came.
    #[must_use]
    pub fn for_refresh(&self, now: Instant) -> Self {
        let mut copy = self.copy();
        copy.set_authentic_data();
        copy.client = SocketAddr::from(([0, 0, 0, 0], 0));
        copy.transport = Transport::Tcp;
        copy.received = now;
        copy.metadata = copy.metadata.map(|_| Arc::default());
        copy.lookups = OnceLock::new();
        copy
    }

    fn set_authentic_data(&mut self) {
        self.header.bits |= Header::AD;
        // AD is in the second octet of the flags.
        if let Some(flags) = self.message.get_mut(3) {
            *flags |= Header::AD.to_be_bytes()[1];
        }
    }

    fn copy(&self) -> Self {
        // The count of lookups belongs to the client's query: all copies share it.
        let lookups = Arc::clone(self.lookups.get_or_init(Arc::default));
        Self {
            message: self.message.clone(),
            header: self.header,
            question_end: self.question_end,
            name: self.name.clone(),
            qtype: self.qtype,
            qclass: self.qclass,
            edns: self.edns,
            options: self.options.clone(),
            udp_size: AtomicU16::new(self.udp_size.load(Ordering::Relaxed)),
            client: self.client,
            local: self.local,
            transport: self.transport,
            received: self.received,
            server: Arc::clone(&self.server),
            view: self.view.clone(),
            metadata: self.metadata.clone(),
            lookups: OnceLock::from(lookups),
            wants_stamp: self.wants_stamp,
        }
    }

    /// Counts one lookup made inside the server for this client's query; returns how many there have been.
    pub(crate) fn count_lookup(&self) -> u32 {
        let count = self.lookups.get_or_init(Arc::default);
        // Relaxed: it is a bound, not a hand-over. Wide enough not to wrap, whatever a plugin goes on to try.
        count.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }
}
