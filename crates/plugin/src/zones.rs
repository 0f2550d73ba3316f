//! Lists of zones, and which of them a name belongs to.

use coredns_corefile::normalize_zones;
use coredns_wire::Name;

/// A list of zones; the longest one that contains a name is its zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zones(Vec<Name>);

impl Zones {
    /// A list in the given order.
    #[must_use]
    pub const fn new(zones: Vec<Name>) -> Self {
        Self(zones)
    }

    /// Reads arguments as CoreDNS reads zone arguments: scheme and port are dropped, CIDR ranges become all their
    /// reverse zones, what is no zone is left out.
    #[must_use]
    pub fn from_args<S: AsRef<str>>(args: &[S]) -> Self {
        Self(normalize_zones(args.iter().map(AsRef::as_ref)).iter().filter_map(|zone| zone.parse().ok()).collect())
    }

    /// As [`Zones::from_args`]; without arguments the zones of the server block.
    #[must_use]
    pub fn from_args_or<S: AsRef<str>>(args: &[S], block: &Self) -> Self {
        if args.is_empty() { block.clone() } else { Self::from_args(args) }
    }

    /// The longest zone that equals `name` or contains it.
    #[inline]
    #[must_use]
    pub fn matching(&self, name: &Name) -> Option<&Name> {
        let mut best: Option<&Name> = None;
        for zone in &self.0 {
            if best.is_none_or(|best| zone.len() > best.len()) && name.is_within(zone) {
                best = Some(zone);
            }
        }
        best
    }

    /// The zones in their order.
    #[must_use]
    pub fn as_slice(&self) -> &[Name] {
        &self.0
    }

    /// Tells whether there is no zone at all; such a list contains no name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The option `fallthrough [ZONES...]`: for which names the next plugin is asked where this one has nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fallthrough(Option<Zones>);

impl Fallthrough {
    /// The option is absent: for no name.
    pub const NEVER: Self = Self(None);

    /// Reads the arguments of the option; without any it holds for all names.
    #[must_use]
    pub fn from_args<S: AsRef<str>>(args: &[S]) -> Self {
        Self(Some(if args.is_empty() { Zones(vec![Name::root()]) } else { Zones::from_args(args) }))
    }

    /// Tells whether the query for `name` goes on to the next plugin.
    #[inline]
    #[must_use]
    pub fn through(&self, name: &Name) -> bool {
        self.0.as_ref().is_some_and(|zones| zones.matching(name).is_some())
    }

    /// The zones of the option; empty where it is absent.
    #[must_use]
    pub fn zones(&self) -> &[Name] {
        self.0.as_ref().map_or(&[], Zones::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().expect("a valid name")
    }

    #[test]
    fn the_longest_zone_wins_without_regard_to_case() {
        let zones = Zones::new(vec![name("org"), name("Example.org"), name("a.b.example.org")]);
        assert_eq!(zones.matching(&name("www.EXAMPLE.org")), Some(&name("example.org")));
        assert_eq!(zones.matching(&name("x.a.b.example.org")), Some(&name("a.b.example.org")));
        assert_eq!(zones.matching(&name("example.net")), None);
        assert_eq!(Zones::default().matching(&Name::root()), None);
    }

    #[test]
    fn fallthrough_is_never_all_or_some() {
        assert!(!Fallthrough::NEVER.through(&name("a.org")));
        assert!(Fallthrough::from_args::<&str>(&[]).through(&name("a.org")));
        let some = Fallthrough::from_args(&["in-addr.arpa"]);
        assert!(some.through(&name("1.in-addr.arpa")));
        assert!(!some.through(&name("a.org")));
    }
}
