//! Upstreams that do what a test says.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use coredns_plugin::clock;
use coredns_wire::{Header, Message, Outgoing, Rcode, Record, encode, parse_record};

use crate::process::{DEADLINE, read_frame};

/// How often the threads look whether the upstream is still wanted.
const TICK: Duration = Duration::from_millis(20);

/// What an upstream does with a query; several in a row are done one after the other.
#[derive(Clone, Debug)]
pub enum Act {
    /// Replies with these records.
    Answer(Vec<String>),
    /// Replies with a code and no record.
    Rcode(Rcode),
    /// Replies with TC and no record.
    Truncated,
    /// Replies with these records as if asked for another name.
    OtherQuestion(String),
    /// Replies with these records and an identifier that is wrong by so much.
    WrongId(u16, Vec<String>),
    /// Sends these octets, whatever they are; the first two are replaced by the query's identifier where there are two.
    Raw(Vec<u8>),
    /// Sends these octets as they are.
    Garbage(Vec<u8>),
    /// Waits.
    Delay(Duration),
    /// Closes the connection.
    Close,
}

impl Act {
    /// Replies with these records.
    #[must_use]
    pub fn answer(records: &[&str]) -> Self {
        Self::Answer(records.iter().map(|&record| record.to_owned()).collect())
    }

    /// Octets of the message that this sends to the query `query`; nothing for what sends none.
    #[must_use]
    pub fn octets(&self, query: &Message) -> Option<Vec<u8>> {
        let reply = |bits: u16, id: u16, records: &[String]| {
            let records: Vec<Record> = records
                .iter()
                .map(|line| parse_record(line).unwrap_or_else(|error| panic!("{line}: {error}")))
                .collect();
            message(query, &query.questions.first().map(|question| question.name.to_string())?, id, bits, &records)
        };
        let id = query.header.id;
        match self {
            Self::Answer(records) => reply(Header::RA, id, records),
            Self::Rcode(rcode) => reply(rcode.0 & 0xf, id, &[]),
            Self::Truncated => reply(Header::TC, id, &[]),
            Self::WrongId(by, records) => reply(0, id.wrapping_add(*by), records),
            Self::OtherQuestion(name) => message(query, name, id, 0, &[]),
            Self::Raw(octets) => {
                let mut octets = octets.clone();
                if let Some(place) = octets.first_chunk_mut() {
                    *place = id.to_be_bytes();
                }
                Some(octets)
            }
            Self::Garbage(octets) => Some(octets.clone()),
            Self::Delay(_) | Self::Close => None,
        }
    }
}

fn message(query: &Message, name: &str, id: u16, bits: u16, records: &[Record]) -> Option<Vec<u8>> {
    let asked = query.questions.first()?;
    let name = name.parse().unwrap_or_else(|error| panic!("{name}: {error}"));
    let question = Outgoing::question(&name, asked.qtype, asked.qclass);
    let header = Header { id, bits: bits | Header::QR | query.header.bits & Header::RD, ..Header::default() };
    let sections: [&[Record]; 3] = [records, &[], &[]];
    let limit = usize::from(u16::MAX);
    let mut octets = Vec::new();
    encode(&Outgoing { header, question: &question, sections, opt: &[], limit, compress_above: limit }, &mut octets);
    Some(octets)
}

/// A query that came.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The query.
    pub message: Message,
    /// `udp` or `tcp`.
    pub proto: &'static str,
    /// Who sent it.
    pub peer: SocketAddr,
}

impl Seen {
    /// `NAME TYPE`.
    #[must_use]
    pub fn question(&self) -> String {
        self.message.questions.first().map_or_else(String::new, |asked| format!("{} {}", asked.name, asked.qtype))
    }
}

type Script = dyn Fn(&Seen) -> Vec<Act> + Send + Sync;

struct Shared {
    script: Box<Script>,
    /// Protects what was seen.
    seen: Mutex<Vec<Seen>>,
    grown: Condvar,
    stopped: AtomicBool,
}

/// An upstream for UDP and TCP on one port of 127.0.0.1; it ends with its value.
pub struct MockUpstream {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl MockUpstream {
    /// An upstream that does with each query what `script` says; an empty list is silence.
    ///
    /// # Panics
    /// Where there is no port.
    #[must_use]
    pub fn start(script: impl Fn(&Seen) -> Vec<Act> + Send + Sync + 'static) -> Self {
        let (udp, tcp) = pair();
        let address = udp.local_addr().unwrap_or_else(|error| panic!("{error}"));
        let shared = Arc::new(Shared {
            script: Box::new(script),
            seen: Mutex::default(),
            grown: Condvar::new(),
            stopped: AtomicBool::new(false),
        });
        let (for_udp, for_tcp) = (Arc::clone(&shared), Arc::clone(&shared));
        std::thread::spawn(move || serve_udp(&for_udp, &udp));
        std::thread::spawn(move || accept(&for_tcp, &tcp));
        Self { address, shared }
    }

    /// An upstream that answers all queries with these records.
    #[must_use]
    pub fn answering(records: &[&str]) -> Self {
        let answer = Act::answer(records);
        Self::start(move |_| vec![answer.clone()])
    }

    /// Its address.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What came so far.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What came so far, without probes for NS.
    #[must_use]
    pub fn queries(&self) -> usize {
        self.seen().iter().filter(|seen| !seen.question().ends_with(" NS")).count()
    }

    /// Waits until `enough` holds for what came.
    ///
    /// # Panics
    /// Where that does not happen in time.
    pub fn wait_for(&self, enough: impl Fn(&[Seen]) -> bool) {
        let end = clock::now() + DEADLINE;
        let mut seen = self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner);
        while !enough(&seen) {
            let left = end.saturating_duration_since(clock::now());
            assert!(!left.is_zero(), "it has only seen {:?}", seen.iter().map(Seen::question).collect::<Vec<_>>());
            seen = self.shared.grown.wait_timeout(seen, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for MockUpstream {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
    }
}

/// Sockets on one port.
fn pair() -> (UdpSocket, TcpListener) {
    for _ in 0..100 {
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap_or_else(|error| panic!("{error}"));
        let address = udp.local_addr().unwrap_or_else(|error| panic!("{error}"));
        if let Ok(tcp) = TcpListener::bind(address) {
            let _ = udp.set_read_timeout(Some(TICK));
            let _ = tcp.set_nonblocking(true);
            return (udp, tcp);
        }
    }
    panic!("no port is free for both UDP and TCP")
}

impl Shared {
    fn is_wanted(&self) -> bool {
        !self.stopped.load(Ordering::Relaxed)
    }

    /// Takes note of a query, and returns what is to be done with it.
    fn take(&self, octets: &[u8], proto: &'static str, peer: SocketAddr) -> Option<(Message, Vec<Act>)> {
        let message = Message::parse(octets).ok()?;
        let seen = Seen { message: message.clone(), proto, peer };
        let acts = (self.script)(&seen);
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
        self.grown.notify_all();
        Some((message, acts))
    }
}

fn serve_udp(shared: &Arc<Shared>, socket: &UdpSocket) {
    let mut buffer = vec![0; 65_535];
    while shared.is_wanted() {
        let Ok((len, peer)) = socket.recv_from(&mut buffer) else { continue };
        let Some((message, acts)) = shared.take(&buffer[..len], "udp", peer) else { continue };
        let Ok(socket) = socket.try_clone() else { continue };
        let act = move || {
            for act in acts {
                if let Act::Delay(pause) = act {
                    std::thread::sleep(pause);
                } else if let Some(octets) = act.octets(&message) {
                    let _ = socket.send_to(&octets, peer);
                }
            }
        };
        std::thread::spawn(act);
    }
}

fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    while shared.is_wanted() {
        match listener.accept() {
            Ok((stream, peer)) => {
                let shared = Arc::clone(shared);
                std::thread::spawn(move || serve_stream(&shared, stream, peer));
            }
            Err(_) => std::thread::sleep(TICK),
        }
    }
}

fn serve_stream(shared: &Arc<Shared>, mut stream: TcpStream, peer: SocketAddr) {
    use std::io::Write as _;
    let _ = stream.set_nonblocking(false);
    let _ = stream.set_read_timeout(Some(DEADLINE));
    while let Some(octets) = read_frame(&mut stream) {
        let Some((message, acts)) = shared.take(&octets, "tcp", peer) else { break };
        let Ok(mut writer) = stream.try_clone() else { break };
        // A query that waits does not hold up those behind it.
        std::thread::spawn(move || {
            for act in acts {
                match act {
                    Act::Delay(pause) => std::thread::sleep(pause),
                    Act::Close => {
                        let _ = writer.shutdown(std::net::Shutdown::Both);
                    }
                    act => {
                        let octets = act.octets(&message).unwrap_or_default();
                        let len = u16::try_from(octets.len()).unwrap_or(u16::MAX);
                        let _ = writer.write_all(&[&len.to_be_bytes()[..], &octets].concat());
                    }
                }
            }
        });
    }
}
