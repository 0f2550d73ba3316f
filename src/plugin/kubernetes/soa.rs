//! The SOA record of a zone.

use coredns_plugin::wire::{Name, Rdata, Record, RrType};

use super::{Kubernetes, ServedZone};

const REFRESH: u32 = 7_200;
const RETRY: u32 = 1_800;
const EXPIRE: u32 = 86_400;
/// The longest time to live of the record itself, in seconds.
const TTL_MAX: u32 = 300;
/// Two names and five numbers.
const RDATA_MAX: usize = 2 * 255 + 20;

impl Kubernetes {
    /// The SOA of a zone, spelt as in `owner`.
    pub(super) fn soa(&self, zone: &ServedZone, owner: Name) -> Record {
        let serials = self.index.serials();
        let serial = if zone.is_multicluster { serials.multicluster() } else { serials.internal() };
        // A zone that leaves no room for a label in front stands for itself.
        let server = owner.prepend_all([&b"ns"[..], b"dns"]).unwrap_or_else(|_| owner.clone());
        let mailbox = owner.prepend_all([&b"hostmaster"[..]]).unwrap_or_else(|_| owner.clone());
        let times = [serial, REFRESH, RETRY, EXPIRE, self.options.ttl].map(u32::to_be_bytes);
        let mut rdata = arrayvec::ArrayVec::<u8, RDATA_MAX>::new();
        for part in [server.as_wire(), mailbox.as_wire(), times.as_flattened()] {
            // Two names of 255 octets and five numbers fit.
            let _ = rdata.try_extend_from_slice(part);
        }
        let rdata = Rdata::new(&rdata).unwrap_or_else(|_| unreachable!("530 octets are record data"));
        Record::new(owner, self.options.ttl.min(TTL_MAX), RrType::SOA, rdata)
    }
}
