//! Queries from text.

use std::net::SocketAddr;
use std::sync::Arc;

use coredns_plugin::{Query, ServerInfo, Transport, clock};
use coredns_wire::{Class, Header, Name, Outgoing, Record, Request, RrType, encode};

/// A query in the making; `NAME TYPE [CH|HS] [DO] [CD] [AD]`, RD set, no EDNS unless DO or a size is asked for.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The name, in the case that is sent.
    pub name: Name,
    /// The type.
    pub qtype: RrType,
    /// The class.
    pub qclass: Class,
    /// The flags of the header.
    pub flags: u16,
    /// The UDP size of the OPT record, where there is one.
    pub udp_size: Option<u16>,
    /// DO.
    pub dnssec_ok: bool,
    /// Options of the OPT record in wire form.
    pub options: Vec<u8>,
    /// The client.
    pub client: SocketAddr,
    /// How it comes.
    pub transport: Transport,
}

impl Ask {
    /// Reads `NAME TYPE [words]`.
    ///
    /// # Panics
    /// On text that is no query: a test that is wrong.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut words = text.split_whitespace();
        let name = words.next().unwrap_or_else(|| panic!("no name in {text:?}"));
        let qtype = words.next().unwrap_or("A");
        let mut ask = Self {
            name: name.parse().unwrap_or_else(|error| panic!("{name:?}: {error}")),
            qtype: RrType::from_text(qtype).unwrap_or_else(|| panic!("no type {qtype:?}")),
            qclass: Class::IN,
            flags: Header::RD,
            udp_size: None,
            dnssec_ok: false,
            options: Vec::new(),
            client: SocketAddr::from(([10, 240, 0, 1], 40212)),
            transport: Transport::Udp,
        };
        for word in words {
            match word {
                "CH" => ask.qclass = Class::CH,
                "HS" => ask.qclass = Class::HS,
                "CD" => ask.flags |= Header::CD,
                "AD" => ask.flags |= Header::AD,
                "DO" => {
                    ask.dnssec_ok = true;
                    ask.udp_size = Some(4096);
                }
                _ => panic!("unknown word {word:?} in {text:?}"),
            }
        }
        ask
    }

    /// The same from another client.
    #[must_use]
    pub fn from(mut self, client: SocketAddr) -> Self {
        self.client = client;
        self
    }

    /// The message in wire form.
    #[must_use]
    pub fn message(&self) -> Vec<u8> {
        let question = Outgoing::question(&self.name, self.qtype, self.qclass);
        let mut opt = Vec::new();
        if let Some(size) = self.udp_size {
            let flags = if self.dnssec_ok { 0x80 } else { 0 };
            let [s0, s1] = size.to_be_bytes();
            let [l0, l1] = (self.options.len() as u16).to_be_bytes();
            opt.extend_from_slice(&[0, 0, 41, s0, s1, 0, 0, flags, 0, l0, l1]);
            opt.extend_from_slice(&self.options);
        }
        let nothing: [&[Record]; 3] = [&[], &[], &[]];
        let mut out = Vec::new();
        let header = Header { id: 0x2a2a, bits: self.flags, ..Header::default() };
        let limit = usize::from(u16::MAX);
        encode(
            &Outgoing { header, question: &question, sections: nothing, opt: &opt, limit, compress_above: limit },
            &mut out,
        );
        out
    }

    /// The query as a plugin sees it, on a listener `dns://:53`.
    ///
    /// # Panics
    /// Where the server would reject it.
    #[must_use]
    pub fn query(&self) -> Query {
        let message = self.message();
        let request = Request::parse(&message).unwrap_or_else(|reject| panic!("{self:?}: {reject:?}"));
        let server = Arc::new(ServerInfo { label: "dns://:53".into(), host: String::new(), port: 53 });
        let mut query = Query::empty(server, self.transport, clock::now());
        query.receive(&message, request, self.client, SocketAddr::from(([127, 0, 0, 1], 53)), clock::now());
        query
    }
}

/// The query `NAME TYPE [words]` as a plugin sees it.
#[must_use]
pub fn query(text: &str) -> Query {
    Ask::new(text).query()
}
