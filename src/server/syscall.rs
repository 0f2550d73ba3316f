//! The system calls that neither std nor tokio offers: many datagrams at once, with the address each was sent to.
//!
//! This is the only module with `unsafe`. It hands out plain values: how long each datagram is, whether it was cut,
//! whence it came and where it was sent to, all from the same receive.
#![expect(unsafe_code, reason = "recvmmsg, sendmmsg and socket options with control messages have no safe form")]

use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{c_int, c_void};

/// Datagrams received or sent by one call.
pub(crate) const BATCH: usize = 64;
/// The longest datagram that is read, in octets; a longer query is refused.
pub(crate) const SLOT: usize = 4096;
/// Room for one packet-info control message of either family, aligned as the kernel wants it.
const CONTROL_WORDS: usize = 8;

type Control = [u64; CONTROL_WORDS];

/// One datagram of a [`Receiver`].
#[derive(Debug)]
pub(crate) struct Datagram<'a> {
    /// What was received; at most [`SLOT`] octets.
    pub(crate) octets: &'a [u8],
    /// The datagram was longer than what was received.
    pub(crate) cut: bool,
    /// The sender.
    pub(crate) peer: SocketAddr,
    /// The address that it was sent to, and the interface where that matters; `None` where the socket does not tell.
    pub(crate) local: Option<Local>,
}

/// The address that a datagram was sent to; a reply leaves from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Local {
    /// The address; IPv4 in its own form also on dual-stack sockets.
    pub(crate) address: IpAddr,
    /// The index of the interface, for link-local addresses; 0 otherwise.
    pub(crate) interface: u32,
}

/// Buffers for receiving, allocated once for each socket.
pub(crate) struct Receiver {
    buffers: Box<[[u8; SLOT]]>,
    names: Box<[libc::sockaddr_storage; BATCH]>,
    controls: Box<[Control; BATCH]>,
    headers: Box<[libc::mmsghdr; BATCH]>,
    count: usize,
}

fn zeroed<T: Copy>() -> T {
    // SAFETY: used below for C structures of integers and pointers only, for which all zeros is a value.
    unsafe { MaybeUninit::<T>::zeroed().assume_init() }
}

impl Receiver {
    /// Fresh buffers.
    pub(crate) fn new() -> Self {
        Self {
            buffers: vec![[0; SLOT]; BATCH].into_boxed_slice(),
            names: Box::new([zeroed(); BATCH]),
            controls: Box::new([[0; CONTROL_WORDS]; BATCH]),
            headers: Box::new([zeroed(); BATCH]),
            count: 0,
        }
    }

    /// Receives what is there, up to [`BATCH`] datagrams, without waiting; returns how many.
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        self.count = 0;
        let mut vectors: [libc::iovec; BATCH] = zeroed();
        for (index, header) in self.headers.iter_mut().enumerate() {
            vectors[index] = libc::iovec { iov_base: self.buffers[index].as_mut_ptr().cast(), iov_len: SLOT };
            header.msg_len = 0;
            header.msg_hdr = libc::msghdr {
                msg_name: (&raw mut self.names[index]).cast(),
                msg_namelen: size_of::<libc::sockaddr_storage>() as u32,
                msg_iov: &raw mut vectors[index],
                msg_iovlen: 1,
                msg_control: self.controls[index].as_mut_ptr().cast(),
                msg_controllen: size_of::<Control>(),
                msg_flags: 0,
            };
        }
        // SAFETY: every header points at a name, a buffer and a control area of its own that live in `self` or, for
        // the vectors, on this stack frame, with their true sizes; the kernel writes only within them and only
        // during the call.
        let received = unsafe {
            let headers = self.headers.as_mut_ptr();
            libc::recvmmsg(socket.as_raw_fd(), headers, BATCH as u32, libc::MSG_DONTWAIT, std::ptr::null_mut())
        };
        self.count = usize::try_from(received).map_err(|_| io::Error::last_os_error())?.min(BATCH);
        Ok(self.count)
    }

    /// The datagram at `index` of the last receive; `None` beyond its count, or where the sender cannot be read.
    pub(crate) fn datagram(&self, index: usize) -> Option<Datagram<'_>> {
        if index >= self.count {
            return None;
        }
        let header = self.headers.get(index)?;
        let octets = self.buffers.get(index)?.get(..header.msg_len as usize)?;
        Some(Datagram {
            octets,
            cut: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            peer: read_name(self.names.get(index)?)?,
            local: read_local(&header.msg_hdr, self.controls.get(index)?),
        })
    }
}

fn read_name(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match c_int::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: the kernel wrote a sockaddr_in, as the family says; the storage is larger and aligned for it.
            let v4 = unsafe { &*(&raw const *name).cast::<libc::sockaddr_in>() };
            let address = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddrV4::new(address, u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above, for sockaddr_in6.
            let v6 = unsafe { &*(&raw const *name).cast::<libc::sockaddr_in6>() };
            let address = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            Some(match address.to_ipv4_mapped() {
                Some(v4) => SocketAddrV4::new(v4, port).into(),
                None => SocketAddrV6::new(address, port, 0, v6.sin6_scope_id).into(),
            })
        }
        _ => None,
    }
}

/// Reads the packet info out of the control area.
fn read_local(header: &libc::msghdr, control: &Control) -> Option<Local> {
    let filled = header.msg_controllen.min(size_of::<Control>());
    if filled < size_of::<libc::cmsghdr>() {
        return None;
    }
    // SAFETY: the control area is aligned for cmsghdr and the kernel filled at least one header of it.
    let first = unsafe { &*control.as_ptr().cast::<libc::cmsghdr>() };
    // SAFETY: plain arithmetic on sizes.
    let (wanted4, wanted6) = unsafe {
        (
            libc::CMSG_LEN(size_of::<libc::in_pktinfo>() as u32) as usize,
            libc::CMSG_LEN(size_of::<libc::in6_pktinfo>() as u32) as usize,
        )
    };
    // SAFETY: the data lie behind the header, inside the filled area as the length check says.
    match (first.cmsg_level, first.cmsg_type) {
        (libc::IPPROTO_IP, libc::IP_PKTINFO) if first.cmsg_len >= wanted4 && filled >= wanted4 => {
            let info = unsafe { libc::CMSG_DATA(first).cast::<libc::in_pktinfo>().read_unaligned() };
            Some(Local { address: Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr)).into(), interface: 0 })
        }
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) if first.cmsg_len >= wanted6 && filled >= wanted6 => {
            let info = unsafe { libc::CMSG_DATA(first).cast::<libc::in6_pktinfo>().read_unaligned() };
            let address = Ipv6Addr::from(info.ipi6_addr.s6_addr);
            let scoped = address.is_unicast_link_local();
            Some(match address.to_ipv4_mapped() {
                Some(v4) => Local { address: v4.into(), interface: 0 },
                None => Local { address: address.into(), interface: if scoped { info.ipi6_ifindex } else { 0 } },
            })
        }
        _ => None,
    }
}

/// One datagram to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Departure<'a> {
    /// What is sent.
    pub(crate) octets: &'a [u8],
    /// To whom.
    pub(crate) peer: SocketAddr,
    /// Whence, where the socket has several addresses.
    pub(crate) local: Option<Local>,
}

/// Buffers for sending, allocated once for each socket.
pub(crate) struct Sender {
    names: Box<[libc::sockaddr_storage; BATCH]>,
    controls: Box<[Control; BATCH]>,
    headers: Box<[libc::mmsghdr; BATCH]>,
    /// The socket is of family AF_INET6, so that IPv4 peers are written in mapped form.
    v6: bool,
}

impl Sender {
    /// Fresh buffers for a socket of family IPv6 (dual stack or not) or IPv4.
    pub(crate) fn new(v6: bool) -> Self {
        Self {
            names: Box::new([zeroed(); BATCH]),
            controls: Box::new([[0; CONTROL_WORDS]; BATCH]),
            headers: Box::new([zeroed(); BATCH]),
            v6,
        }
    }

    /// Sends up to [`BATCH`] datagrams without waiting; returns how many went, at least one.
    ///
    /// An error is about the first of them.
    pub(crate) fn send<'a>(
        &mut self,
        socket: BorrowedFd<'_>,
        departures: impl Iterator<Item = Departure<'a>>,
    ) -> io::Result<usize> {
        let mut vectors: [libc::iovec; BATCH] = zeroed();
        let mut count = 0;
        for departure in departures.take(BATCH) {
            let (name_len, control_len) = self.address(count, &departure);
            vectors[count] =
                libc::iovec { iov_base: departure.octets.as_ptr().cast_mut().cast(), iov_len: departure.octets.len() };
            let control =
                if control_len == 0 { std::ptr::null_mut() } else { self.controls[count].as_mut_ptr().cast() };
            self.headers[count].msg_hdr = libc::msghdr {
                msg_name: (&raw mut self.names[count]).cast(),
                msg_namelen: name_len,
                msg_iov: &raw mut vectors[count],
                msg_iovlen: 1,
                msg_control: control,
                msg_controllen: control_len,
                msg_flags: 0,
            };
            count += 1;
        }
        if count == 0 {
            return Ok(0);
        }
        // SAFETY: the first `count` headers point at names, octets and control areas that live through the call,
        // with their true sizes; the kernel only reads them (but for msg_len, inside the headers).
        let sent =
            unsafe { libc::sendmmsg(socket.as_raw_fd(), self.headers.as_mut_ptr(), count as u32, libc::MSG_DONTWAIT) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Writes peer and source of one datagram; returns the lengths of name and control message.
    fn address(&mut self, index: usize, departure: &Departure<'_>) -> (u32, usize) {
        let name = &raw mut self.names[index];
        let name_len = match (departure.peer, self.v6) {
            (SocketAddr::V4(v4), false) => {
                let mut raw: libc::sockaddr_in = zeroed();
                raw.sin_family = libc::AF_INET as u16;
                raw.sin_port = v4.port().to_be();
                raw.sin_addr.s_addr = u32::from(*v4.ip()).to_be();
                // SAFETY: the storage is larger than any address and aligned for all of them.
                unsafe { name.cast::<libc::sockaddr_in>().write(raw) };
                size_of::<libc::sockaddr_in>()
            }
            (peer, _) => {
                let (address, scope) = match peer {
                    SocketAddr::V4(v4) => (v4.ip().to_ipv6_mapped(), 0),
                    SocketAddr::V6(v6) => (*v6.ip(), v6.scope_id()),
                };
                let mut raw: libc::sockaddr_in6 = zeroed();
                raw.sin6_family = libc::AF_INET6 as u16;
                raw.sin6_port = peer.port().to_be();
                raw.sin6_addr.s6_addr = address.octets();
                raw.sin6_scope_id = scope;
                // SAFETY: as above.
                unsafe { name.cast::<libc::sockaddr_in6>().write(raw) };
                size_of::<libc::sockaddr_in6>()
            }
        };
        (name_len as u32, departure.local.map_or(0, |local| write_local(&mut self.controls[index], local, self.v6)))
    }
}

/// Writes the packet info that makes a datagram leave from `local`; returns the length of the control area.
fn write_local(control: &mut Control, local: Local, v6: bool) -> usize {
    match (local.address, v6) {
        (IpAddr::V4(v4), false) => {
            let mut info: libc::in_pktinfo = zeroed();
            info.ipi_spec_dst.s_addr = u32::from(v4).to_be();
            put_control(control, libc::IPPROTO_IP, libc::IP_PKTINFO, info)
        }
        (address, _) => {
            let address = match address {
                IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                IpAddr::V6(v6) => v6,
            };
            let mut info: libc::in6_pktinfo = zeroed();
            info.ipi6_addr.s6_addr = address.octets();
            info.ipi6_ifindex = local.interface;
            put_control(control, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info)
        }
    }
}

fn put_control<T>(control: &mut Control, level: c_int, kind: c_int, info: T) -> usize {
    let size = size_of::<T>() as u32;
    // SAFETY: plain arithmetic on sizes.
    let (len, space) = unsafe { (libc::CMSG_LEN(size) as usize, libc::CMSG_SPACE(size) as usize) };
    debug_assert!(space <= size_of::<Control>());
    let header = control.as_mut_ptr().cast::<libc::cmsghdr>();
    // SAFETY: the area is aligned for cmsghdr and has room for it and the data, as asserted: both packet infos are
    // at most 20 octets.
    unsafe {
        (*header).cmsg_len = len;
        (*header).cmsg_level = level;
        (*header).cmsg_type = kind;
        libc::CMSG_DATA(header).cast::<T>().write_unaligned(info);
    }
    space
}

fn set_option(socket: BorrowedFd<'_>, level: c_int, option: c_int, value: c_int) -> io::Result<()> {
    // SAFETY: the value is an int that lives through the call, with its true size.
    let outcome = unsafe {
        let value: *const c_int = &raw const value;
        let size = size_of::<c_int>() as u32;
        libc::setsockopt(socket.as_raw_fd(), level, option, value.cast::<c_void>(), size)
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the socket tell to which address each datagram was sent.
pub(crate) fn enable_packet_info(socket: BorrowedFd<'_>, v6: bool) -> io::Result<()> {
    if v6 {
        set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)
    } else {
        set_option(socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)
    }
}

/// Makes the socket ignore what ICMP says about path MTUs: a forged one must not change how replies are sent.
pub(crate) fn ignore_path_mtu(socket: BorrowedFd<'_>, v6: bool) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_OMIT)?;
    if v6 { set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_OMIT) } else { Ok(()) }
}

/// Gives back the pages of code that only the start has used; what is used again is mapped again from its file.
pub(crate) fn release_code_pages() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    for (start, end) in maps.lines().filter_map(code_range) {
        // SAFETY: the range is code that is mapped from a file, private and not writable. It was never written, so
        // that dropping its pages loses nothing: the next access maps them from the file again. A range that is
        // no longer mapped is an error of the call.
        unsafe { libc::madvise(start as *mut c_void, end.saturating_sub(start), libc::MADV_DONTNEED) };
    }
}

/// The range of a line of `/proc/self/maps` (proc_pid_maps(5)), if it is code of a file: `START-END r-xp … /PATH`.
fn code_range(line: &str) -> Option<(usize, usize)> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    if fields.next()? != "r-xp" || !fields.nth(3)?.starts_with('/') {
        return None;
    }
    Some((usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
}

/// The soft limit of open descriptors of the process.
pub(crate) fn descriptor_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure lives through the call.
    let outcome = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    if outcome == 0 { limit.rlim_cur } else { 1024 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    fn receive_all(receiver: &mut Receiver, socket: &UdpSocket, wanted: usize) {
        let deadline = coredns_plugin::clock::now() + std::time::Duration::from_secs(5);
        while coredns_plugin::clock::now() < deadline {
            match receiver.receive(socket.as_fd()) {
                Ok(count) if count >= wanted => return,
                Ok(_) => {}
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
            std::thread::yield_now();
        }
        panic!("nothing came");
    }

    #[test]
    fn only_code_of_files_is_given_back() {
        let code = "7f00a000-7f00c000 r-xp 00001000 fe:00 1234                       /usr/bin/server";
        assert_eq!(code_range(code), Some((0x7f00_a000, 0x7f00_c000)));
        for line in [
            "7f00a000-7f00c000 r--p 00001000 fe:00 1234                       /usr/bin/server",
            "7f00a000-7f00c000 rwxp 00001000 fe:00 1234                       /usr/bin/server",
            "7ffd1000-7ffd3000 r-xp 00000000 00:00 0                          [vdso]",
            "7f00a000-7f00c000 r-xp 00000000 00:00 0",
            "",
        ] {
            assert_eq!(code_range(line), None, "{line}");
        }
        // The code that runs now is among what is given back.
        release_code_pages();
    }

    #[test]
    fn lengths_peers_and_destinations_belong_together() {
        for (bind, target) in [("0.0.0.0:0", "127.0.0.1"), ("[::]:0", "127.0.0.1"), ("[::]:0", "::1")] {
            let v6 = bind.starts_with('[');
            let Ok(server) = UdpSocket::bind(bind) else { continue };
            enable_packet_info(server.as_fd(), v6).expect("packet info");
            let target: IpAddr = target.parse().expect("an address");
            let client = UdpSocket::bind((target, 0)).expect("a client");
            let to = SocketAddr::new(target, server.local_addr().expect("bound").port());
            client.send_to(b"hello", to).expect("sent");
            let mut receiver = Receiver::new();
            receive_all(&mut receiver, &server, 1);
            let datagram = receiver.datagram(0).expect("one datagram");
            assert_eq!((datagram.octets, datagram.cut), (&b"hello"[..], false));
            assert_eq!(datagram.peer, client.local_addr().expect("bound"));
            assert_eq!(datagram.local, Some(Local { address: target, interface: 0 }));
            assert!(receiver.datagram(1).is_none());
            // The reply leaves from the address that was asked.
            let departure = Departure { octets: b"answer", peer: datagram.peer, local: datagram.local };
            assert_eq!(Sender::new(v6).send(server.as_fd(), std::iter::once(departure)).expect("sent"), 1);
            let mut buffer = [0; 16];
            let (len, from) = client.recv_from(&mut buffer).expect("an answer");
            assert_eq!((&buffer[..len], from), (&b"answer"[..], to));
        }
    }

    #[test]
    fn a_failed_receive_leaves_nothing_behind() {
        let server = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let client = UdpSocket::bind("127.0.0.1:0").expect("a client");
        client.send_to(b"first", server.local_addr().expect("bound")).expect("sent");
        let mut receiver = Receiver::new();
        receive_all(&mut receiver, &server, 1);
        assert!(receiver.datagram(0).is_some());
        assert_eq!(receiver.receive(server.as_fd()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert!(receiver.datagram(0).is_none());
    }

    #[test]
    fn long_datagrams_are_known_to_be_cut() {
        let server = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let client = UdpSocket::bind("127.0.0.1:0").expect("a client");
        let to = server.local_addr().expect("bound");
        client.send_to(&[7; SLOT], to).expect("sent");
        client.send_to(&[7; SLOT + 1], to).expect("sent");
        let mut receiver = Receiver::new();
        let mut seen = Vec::new();
        while seen.len() < 2 {
            receive_all(&mut receiver, &server, 1);
            seen.extend((0..BATCH).filter_map(|index| receiver.datagram(index)).map(|one| (one.octets.len(), one.cut)));
        }
        assert_eq!(seen, [(SLOT, false), (SLOT, true)]);
    }
}
