//! The numbers of DNS with their names.

use std::fmt;

macro_rules! numbers {
    ($(#[$meta:meta])* $name:ident($int:ty), $unknown:expr, { $($(#[$cmeta:meta])* $constant:ident = $value:expr, $text:expr;)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name(pub $int);

        impl $name {
            $($(#[$cmeta])* #[doc = concat!("`", $text, "`.")] pub const $constant: Self = Self($value);)*

            /// The mnemonic, where there is one.
            #[must_use]
            pub const fn mnemonic(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some($text),)*
                    _ => None,
                }
            }

            /// Reads a mnemonic (in any case) or the generic form with a number behind the prefix.
            #[must_use]
            pub fn from_text(text: &str) -> Option<Self> {
                $(if text.eq_ignore_ascii_case($text) { return Some(Self($value)); })*
                let prefix: &str = $unknown;
                let (head, digits) = text.split_at_checked(prefix.len())?;
                if !head.eq_ignore_ascii_case(prefix) || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
                    return None;
                }
                digits.parse().ok().map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.mnemonic() {
                    Some(text) => f.pad(text),
                    None => write!(f, "{}{}", $unknown, self.0),
                }
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

numbers! {
    /// A resource record type (IANA registry "Resource Record (RR) TYPEs").
    RrType(u16), "TYPE", {
        A = 1, "A"; NS = 2, "NS"; MD = 3, "MD"; MF = 4, "MF"; CNAME = 5, "CNAME"; SOA = 6, "SOA"; MB = 7, "MB";
        MG = 8, "MG"; MR = 9, "MR"; NULL = 10, "NULL"; PTR = 12, "PTR"; HINFO = 13, "HINFO"; MINFO = 14, "MINFO";
        MX = 15, "MX"; TXT = 16, "TXT"; RP = 17, "RP"; AFSDB = 18, "AFSDB"; X25 = 19, "X25"; ISDN = 20, "ISDN";
        RT = 21, "RT"; SIG = 24, "SIG"; KEY = 25, "KEY"; PX = 26, "PX"; GPOS = 27, "GPOS"; AAAA = 28, "AAAA";
        LOC = 29, "LOC"; NXT = 30, "NXT"; EID = 31, "EID"; NIMLOC = 32, "NIMLOC"; SRV = 33, "SRV"; ATMA = 34, "ATMA";
        NAPTR = 35, "NAPTR"; KX = 36, "KX"; CERT = 37, "CERT"; DNAME = 39, "DNAME"; OPT = 41, "OPT"; APL = 42, "APL";
        DS = 43, "DS"; SSHFP = 44, "SSHFP"; IPSECKEY = 45, "IPSECKEY"; RRSIG = 46, "RRSIG"; NSEC = 47, "NSEC";
        DNSKEY = 48, "DNSKEY"; DHCID = 49, "DHCID"; NSEC3 = 50, "NSEC3"; NSEC3PARAM = 51, "NSEC3PARAM";
        TLSA = 52, "TLSA"; SMIMEA = 53, "SMIMEA"; HIP = 55, "HIP"; NINFO = 56, "NINFO"; RKEY = 57, "RKEY";
        TALINK = 58, "TALINK"; CDS = 59, "CDS"; CDNSKEY = 60, "CDNSKEY"; OPENPGPKEY = 61, "OPENPGPKEY";
        CSYNC = 62, "CSYNC"; ZONEMD = 63, "ZONEMD"; SVCB = 64, "SVCB"; HTTPS = 65, "HTTPS"; SPF = 99, "SPF";
        UINFO = 100, "UINFO"; UID = 101, "UID"; GID = 102, "GID"; UNSPEC = 103, "UNSPEC"; NID = 104, "NID";
        L32 = 105, "L32"; L64 = 106, "L64"; LP = 107, "LP"; EUI48 = 108, "EUI48"; EUI64 = 109, "EUI64";
        NXNAME = 128, "NXNAME"; TKEY = 249, "TKEY"; TSIG = 250, "TSIG"; IXFR = 251, "IXFR"; AXFR = 252, "AXFR";
        MAILB = 253, "MAILB"; MAILA = 254, "MAILA"; ANY = 255, "ANY"; URI = 256, "URI"; CAA = 257, "CAA";
        AVC = 258, "AVC"; AMTRELAY = 260, "AMTRELAY"; RESINFO = 261, "RESINFO"; TA = 32768, "TA"; DLV = 32769, "DLV";
    }
}

numbers! {
    /// A class. `ANY` (255) has no mnemonic here and prints as `CLASS255`, as CoreDNS prints it.
    Class(u16), "CLASS", {
        IN = 1, "IN"; CS = 2, "CS"; CH = 3, "CH"; HS = 4, "HS"; NONE = 254, "NONE";
    }
}

impl Class {
    /// The query class `ANY` (RFC 1035 §3.2.5).
    pub const ANY: Self = Self(255);
}

numbers! {
    /// A response code of up to 12 bits, extended by EDNS (RFC 6891 §6.1.3).
    Rcode(u16), "RCODE", {
        NOERROR = 0, "NOERROR"; FORMERR = 1, "FORMERR"; SERVFAIL = 2, "SERVFAIL"; NXDOMAIN = 3, "NXDOMAIN";
        NOTIMP = 4, "NOTIMP"; REFUSED = 5, "REFUSED"; YXDOMAIN = 6, "YXDOMAIN"; YXRRSET = 7, "YXRRSET";
        NXRRSET = 8, "NXRRSET"; NOTAUTH = 9, "NOTAUTH"; NOTZONE = 10, "NOTZONE"; DSOTYPENI = 11, "DSOTYPENI";
        BADSIG = 16, "BADSIG"; BADKEY = 17, "BADKEY"; BADTIME = 18, "BADTIME"; BADMODE = 19, "BADMODE";
        BADNAME = 20, "BADNAME"; BADALG = 21, "BADALG"; BADTRUNC = 22, "BADTRUNC"; BADCOOKIE = 23, "BADCOOKIE";
    }
}

impl Rcode {
    /// `BADVERS` shares its number with `BADSIG` (RFC 6891 §9).
    pub const BADVERS: Self = Self(16);
}

numbers! {
    /// An operation code of four bits.
    Opcode(u8), "OPCODE", {
        QUERY = 0, "QUERY"; IQUERY = 1, "IQUERY"; STATUS = 2, "STATUS"; NOTIFY = 4, "NOTIFY"; UPDATE = 5, "UPDATE";
        DSO = 6, "DSO";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_numbers_print_and_read_in_generic_form() {
        assert_eq!(RrType(65280).to_string(), "TYPE65280");
        assert_eq!(RrType::from_text("type65280"), Some(RrType(65280)));
        assert_eq!(Class::ANY.to_string(), "CLASS255");
        assert_eq!(Rcode(13).to_string(), "RCODE13");
        assert_eq!(RrType::from_text("TYPE"), None);
        assert_eq!(RrType::from_text("TYPE70000"), None);
        assert_eq!(RrType::from_text("TYPE+1"), None);
        assert_eq!(RrType::from_text("aaaa"), Some(RrType::AAAA));
    }
}
