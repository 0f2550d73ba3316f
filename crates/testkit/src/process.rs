//! The server's binary as a child process, and clients that ask it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use coredns_plugin::clock;
use coredns_wire::Message;

use crate::ask::Ask;

/// How long anything may take in a test before it counts as not happening.
pub const DEADLINE: Duration = Duration::from_secs(20);

#[derive(Default)]
struct Log {
    /// Protects the lines that the server has printed.
    lines: Mutex<Vec<String>>,
    grown: Condvar,
}

impl Log {
    fn push(&self, line: String) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        self.grown.notify_all();
    }

    fn wait(&self, found: impl Fn(&[String]) -> bool) -> Result<(), Vec<String>> {
        let end = clock::now() + DEADLINE;
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        while !found(&lines) {
            let left = end.saturating_duration_since(clock::now());
            if left.is_zero() {
                return Err(lines.clone());
            }
            lines = self.grown.wait_timeout(lines, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }
}

/// A directory that is removed with its value.
pub struct Scratch(PathBuf);

impl Scratch {
    /// An empty directory below the system's temporary one.
    ///
    /// # Panics
    /// Where it cannot be made.
    #[must_use]
    pub fn new() -> Self {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("coredns-rs-test-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self(path)
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file in it.
    ///
    /// # Panics
    /// Where that fails.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).unwrap_or_else(|error| panic!("{}: {error}", parent.display()));
        }
        std::fs::write(&path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running server; it is killed with its value.
pub struct Running {
    child: Child,
    log: Arc<Log>,
    /// The directory that the server runs in; the Corefile lies there.
    pub scratch: Scratch,
}

impl Running {
    /// Starts `binary` with a Corefile, and waits until it serves. Ports in the Corefile should be 0.
    ///
    /// # Panics
    /// Where it does not start; with what it printed.
    #[must_use]
    pub fn start(binary: &str, corefile: &str) -> Self {
        Self::start_in(binary, Scratch::new(), corefile, &[])
    }

    /// The same in a directory that holds other files already, with further arguments.
    ///
    /// # Panics
    /// Where it does not start; with what it printed.
    #[must_use]
    pub fn start_in(binary: &str, scratch: Scratch, corefile: &str, arguments: &[&str]) -> Self {
        let running = Self::spawn(binary, scratch, corefile, arguments);
        if let Err(lines) = running.log.wait(|lines| lines.iter().any(|line| line.starts_with("CoreDNS-"))) {
            panic!("the server did not start:\n{}", lines.join("\n"));
        }
        running
    }

    /// The same without waiting for it to serve.
    ///
    /// # Panics
    /// Where there is no such program.
    #[must_use]
    pub fn spawn(binary: &str, scratch: Scratch, corefile: &str, arguments: &[&str]) -> Self {
        scratch.write("Corefile", corefile);
        let mut command = Command::new(binary);
        command.current_dir(scratch.path()).args(["-conf", "Corefile"]).args(arguments);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.unwrap_or_else(|error| panic!("{binary}: {error}"));
        let log = Arc::new(Log::default());
        collect(child.stdout.take(), &log);
        collect(child.stderr.take(), &log);
        Self { child, log, scratch }
    }

    /// What it has printed so far, standard error included.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.log.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until `count` lines contain `text`.
    ///
    /// # Panics
    /// Where that does not happen in time; with what it printed.
    pub fn wait_for(&self, text: &str, count: usize) {
        let enough = |lines: &[String]| lines.iter().filter(|line| line.contains(text)).count() >= count;
        if let Err(lines) = self.log.wait(enough) {
            panic!("{text:?} was not printed {count} times:\n{}", lines.join("\n"));
        }
    }

    /// The port of the first line `ZONE:PORT` whose zone is `zone`.
    ///
    /// # Panics
    /// Where there is none.
    #[must_use]
    pub fn port_of(&self, zone: &str) -> u16 {
        let lines = self.lines();
        let found = lines.iter().find_map(|line| {
            let rest = line.strip_prefix(zone)?.strip_prefix(':')?;
            rest.split(' ').next()?.parse().ok()
        });
        found.unwrap_or_else(|| panic!("no line for {zone}:\n{}", lines.join("\n")))
    }

    /// A client of the listener that serves `zone`, on 127.0.0.1.
    #[must_use]
    pub fn client(&self, zone: &str) -> Client {
        Client::new(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port_of(zone))))
    }

    /// The process number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, such as `USR1`.
    ///
    /// # Panics
    /// Where there is no program `kill`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.pid().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill -s {name}");
    }

    /// Waits for the end of the process.
    ///
    /// # Panics
    /// Where it does not end in time.
    pub fn wait(&mut self) -> ExitStatus {
        let end = clock::now() + DEADLINE;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return status,
                Ok(None) if clock::now() < end => std::thread::sleep(Duration::from_millis(5)),
                other => panic!("the server did not end: {other:?}\n{}", self.lines().join("\n")),
            }
        }
    }

    /// Tells whether it still runs.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// A line of `/proc/PID/status`, such as `VmRSS`, in kB.
    #[must_use]
    pub fn status_kb(&self, field: &str) -> Option<u64> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse().ok()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn collect(stream: Option<impl std::io::Read + Send + 'static>, log: &Arc<Log>) {
    let Some(stream) = stream else { return };
    let log = Arc::clone(log);
    std::thread::spawn(move || {
        for line in BufReader::new(stream).split(b'\n') {
            let Ok(line) = line else { break };
            log.push(String::from_utf8_lossy(&line).into_owned());
        }
    });
}

/// Asks one server.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// The server.
    pub server: SocketAddr,
}

impl Client {
    /// A client of `server`.
    #[must_use]
    pub const fn new(server: SocketAddr) -> Self {
        Self { server }
    }

    fn socket(&self) -> UdpSocket {
        let any: IpAddr =
            if self.server.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { std::net::Ipv6Addr::LOCALHOST.into() };
        let socket = UdpSocket::bind((any, 0)).unwrap_or_else(|error| panic!("binding a client: {error}"));
        socket.connect(self.server).unwrap_or_else(|error| panic!("{}: {error}", self.server));
        socket
    }

    /// Asks `NAME TYPE [words]` by UDP, once.
    ///
    /// # Panics
    /// Without an answer in time, or with one that cannot be read.
    #[must_use]
    pub fn udp(&self, text: &str) -> Message {
        self.udp_ask(&Ask::new(text))
    }

    /// Asks by UDP, once.
    ///
    /// # Panics
    /// Without an answer in time, or with one that cannot be read.
    #[must_use]
    pub fn udp_ask(&self, ask: &Ask) -> Message {
        let octets = self.exchange(&ask.message(), DEADLINE).unwrap_or_else(|| panic!("no answer to {ask:?}"));
        Message::parse(&octets).unwrap_or_else(|error| panic!("{ask:?}: {error}"))
    }

    /// Sends any octets by UDP and waits for one datagram; `None` where none comes in time.
    #[must_use]
    pub fn exchange(&self, octets: &[u8], wait: Duration) -> Option<Vec<u8>> {
        let socket = self.socket();
        socket.set_read_timeout(Some(wait)).ok()?;
        socket.send(octets).ok()?;
        let mut buffer = vec![0; 65_535];
        let len = socket.recv(&mut buffer).ok()?;
        buffer.truncate(len);
        Some(buffer)
    }

    /// A TCP connection with time-outs.
    ///
    /// # Panics
    /// Where it is refused.
    #[must_use]
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.server).unwrap_or_else(|error| panic!("{}: {error}", self.server));
        let _ = stream.set_read_timeout(Some(DEADLINE));
        let _ = stream.set_write_timeout(Some(DEADLINE));
        stream
    }

    /// Asks `NAME TYPE [words]` by TCP on a connection of its own.
    ///
    /// # Panics
    /// Without an answer in time, or with one that cannot be read.
    #[must_use]
    pub fn tcp(&self, text: &str) -> Message {
        let mut stream = self.connect();
        write_frame(&mut stream, &Ask::new(text).message());
        let octets = read_frame(&mut stream).unwrap_or_else(|| panic!("no answer to {text}"));
        Message::parse(&octets).unwrap_or_else(|error| panic!("{text}: {error}"))
    }
}

/// Writes a message with its length before it.
///
/// # Panics
/// Where the connection is broken.
pub fn write_frame(stream: &mut TcpStream, message: &[u8]) {
    let len = u16::try_from(message.len()).unwrap_or(u16::MAX);
    let framed = [&len.to_be_bytes()[..], message].concat();
    stream.write_all(&framed).unwrap_or_else(|error| panic!("writing: {error}"));
}

/// Reads a message with its length before it; `None` where the connection ends or nothing comes in time.
pub fn read_frame(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut len = [0; 2];
    stream.read_exact(&mut len).ok()?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(len))];
    stream.read_exact(&mut message).ok()?;
    Some(message)
}
