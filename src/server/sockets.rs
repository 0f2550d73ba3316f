//! Sockets for listeners.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd;

use coredns_plugin::corefile::os_error_text;
use socket2::{Domain, Protocol, Socket, Type};

use super::syscall::{enable_packet_info, ignore_path_mtu};

/// Room for queries that wait in the kernel, in octets; it grants what its own limit allows.
const RECEIVE_BUFFER: usize = 4 << 20;
/// Room for replies on their way, in octets.
const SEND_BUFFER: usize = 1 << 20;
/// Connections that wait to be accepted; the kernel's own limit (somaxconn) applies as well.
const BACKLOG: i32 = 4096;

/// Where a listener listens, as configured.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    /// An address, with `%INTERFACE` where it is link-local; empty for all addresses.
    pub(crate) host: String,
    /// The port; 0 lets the kernel choose.
    pub(crate) port: u16,
}

impl Place {
    /// `HOST:PORT`, with brackets around IPv6 addresses.
    pub(crate) fn text(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// The addresses to try, best first: without a host all of IPv6 with IPv4 in it, then all of IPv4.
    fn addresses(&self) -> Result<Vec<SocketAddr>, String> {
        if self.host.is_empty() {
            let all: [IpAddr; 2] = [Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()];
            return Ok(all.map(|ip| SocketAddr::new(ip, self.port)).to_vec());
        }
        let (host, scope) = self.host.split_once('%').unwrap_or((&self.host, ""));
        let ip: IpAddr = host.parse().map_err(|_| format!("lookup {}: no such host", self.host))?;
        Ok(vec![match ip {
            IpAddr::V6(v6) if !scope.is_empty() => {
                let index = interface_index(scope).ok_or_else(|| format!("no such network interface: {scope}"))?;
                std::net::SocketAddrV6::new(v6, self.port, 0, index).into()
            }
            _ => SocketAddr::new(ip, self.port),
        }])
    }
}

/// The kernel's number of a network interface, or the number that the text is.
fn interface_index(name: &str) -> Option<u32> {
    let listed = std::fs::read_to_string(format!("/sys/class/net/{name}/ifindex")).ok();
    listed.as_deref().unwrap_or(name).trim().parse().ok()
}

/// A UDP and a TCP socket on one port.
pub(crate) struct Pair {
    /// The UDP socket.
    pub(crate) udp: UdpSocket,
    /// The TCP socket, listening.
    pub(crate) tcp: TcpListener,
}

impl Pair {
    /// Opens both sockets, TCP first.
    ///
    /// # Errors
    /// In CoreDNS's words: `Listen: listen tcp :53: bind: address already in use`.
    pub(crate) fn open(place: &Place) -> Result<Self, String> {
        let addresses = place.addresses().map_err(|error| format!("Listen: listen tcp: {error}"))?;
        // Without a port given, the kernel chooses one for TCP, which may be taken for UDP: then another try helps.
        let mut tries = if place.port == 0 { 16 } else { 1 };
        loop {
            tries -= 1;
            let tcp = first(&addresses, listen_tcp).map_err(|error| failure("Listen", "tcp", place, &error))?;
            let bound = tcp.local_addr().map_err(|error| failure("Listen", "tcp", place, &error))?;
            match bind_udp(bound) {
                Ok(udp) => return Ok(Self { udp, tcp }),
                Err(_) if tries > 0 => {}
                Err(error) => return Err(failure("ListenPacket", "udp", place, &error)),
            }
        }
    }

    /// The port that is listened on.
    pub(crate) fn port(&self) -> u16 {
        self.tcp.local_addr().map_or(0, |address| address.port())
    }
}

fn failure(call: &str, network: &str, place: &Place, error: &io::Error) -> String {
    format!("{call}: listen {network} {}: bind: {}", place.text(), os_error_text(error))
}

/// The first address that works; the last error otherwise. Only a family that the machine lacks is passed over.
fn first<T>(addresses: &[SocketAddr], open: impl Fn(SocketAddr) -> io::Result<T>) -> io::Result<T> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match open(*address) {
            Err(error) if addresses.len() > 1 && lacks_family(&error) => last = error,
            outcome => return outcome,
        }
    }
    Err(last)
}

fn lacks_family(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL | libc::EPROTONOSUPPORT))
}

fn open(address: SocketAddr, kind: Type, protocol: Protocol) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind.nonblocking().cloexec(), Some(protocol))?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    if let Err(error) = socket.set_reuse_port(true) {
        tracing::warn!(target: "server", "Failed to set SO_REUSEPORT on socket: {error}");
    }
    Ok(socket)
}

fn listen_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = open(address, Type::STREAM, Protocol::TCP)?;
    // A restart must not wait for connections of the last process to time out.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn bind_udp(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = open(address, Type::DGRAM, Protocol::UDP)?;
    // The kernel grants what it allows; a smaller buffer only means that bursts are lost earlier.
    let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
    let _ = socket.set_send_buffer_size(SEND_BUFFER);
    if address.ip().is_unspecified() {
        enable_packet_info(socket.as_fd(), address.is_ipv6())?;
    }
    ignore_path_mtu(socket.as_fd(), address.is_ipv6())?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}
