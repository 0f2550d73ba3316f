//! What is legal in a configuration and surely not meant: blocks that get nothing, settings that count for nothing.

use std::collections::HashMap;

use coredns_plugin::corefile::{ParseError, ServerBlock, Token};
use coredns_plugin::{BlockConfig, Timeouts};

use super::instance::Listener;

/// Remarks on the blocks and on the listeners made of them.
pub(super) fn remarks(blocks: &[ServerBlock], configs: &[BlockConfig], listeners: &[Listener]) -> Vec<ParseError> {
    let whole = Whole { blocks, configs };
    let mut remarks = Vec::new();
    for (index, config) in configs.iter().enumerate() {
        if config.plugins.is_empty() && config.listen_hosts.as_ref().is_none_or(|hosts| !hosts.is_empty()) {
            remarks.extend(whole.at(
                index,
                "no plugin in this block answers: all of its queries are REFUSED",
                "add one, such as forward",
            ));
        }
    }
    for listener in listeners {
        whole.unreachable(listener, &mut remarks);
        whole.outvoted(listener, &mut remarks);
    }
    whole.half_bound(listeners, &mut remarks);
    // A block with several keys earns the same remark for each of its listeners.
    let mut seen = std::collections::HashSet::new();
    remarks.retain(|remark| seen.insert(remark.explain()));
    remarks
}

struct Whole<'a> {
    blocks: &'a [ServerBlock],
    configs: &'a [BlockConfig],
}

impl Whole<'_> {
    fn key(&self, block: usize) -> Option<&Token> {
        self.blocks.get(block)?.keys.first()
    }

    /// A remark on a block, at its first key.
    fn at(&self, block: usize, text: impl Into<String>, remedy: &str) -> Option<ParseError> {
        Some(ParseError::plain(self.key(block)?, text).with_remedy(remedy))
    }

    fn line(&self, block: usize) -> u32 {
        self.key(block).map_or(0, Token::line)
    }

    /// The first block of a zone that takes every query leaves nothing for those behind it.
    fn unreachable(&self, listener: &Listener, remarks: &mut Vec<ParseError>) {
        let mut takers: HashMap<&coredns_wire::Name, usize> = HashMap::new();
        for (zone, block) in &listener.zones {
            let Some(config) = self.configs.get(*block) else { continue };
            if let Some(taker) = takers.get(zone) {
                let line = self.line(*taker);
                let text = format!(
                    "this block gets no query for {zone}: the block of line {line} comes first and takes all of them"
                );
                remarks.extend(self.at(*block, text, "put the block with a view before the one without"));
            } else if config.view.is_none() && !(zone.is_root() && config.plugins.is_empty()) {
                takers.insert(zone, *block);
            }
        }
    }

    /// A listener has one number of sockets, that of its first block, and one set of time-outs, those that come last.
    fn outvoted(&self, listener: &Listener, remarks: &mut Vec<ParseError>) {
        let Some((_, first)) = listener.zones.first() else { return };
        let mut blocks: Vec<usize> = listener.zones.iter().map(|(_, block)| *block).collect();
        blocks.dedup();
        for (place, block) in blocks.iter().enumerate() {
            let Some(config) = self.configs.get(*block) else { continue };
            if config.sockets.is_some() && config.sockets != listener.sockets {
                let line = self.line(*first);
                let text = format!(
                    "multisocket counts for nothing here: the block of line {line} is the first of the same listener"
                );
                remarks.extend(self.at(*block, text, "move multisocket to that block"));
            }
            let later = blocks.get(place + 1..).unwrap_or(&[]);
            let overruled = later.iter().find(|later| {
                self.configs.get(**later).is_some_and(|later| overrules(&config.timeouts, &later.timeouts))
            });
            if let Some(later) = overruled {
                let line = self.line(*later);
                let text = format!(
                    "timeouts of this block count for nothing where the block of line {line}, which shares its listener, has others"
                );
                remarks.extend(self.at(*block, text, "give both blocks the same timeouts"));
            }
        }
    }

    /// A socket on an address takes its queries away from the socket on all addresses.
    fn half_bound(&self, listeners: &[Listener], remarks: &mut Vec<ParseError>) {
        for all in listeners.iter().filter(|one| one.place.host.is_empty() && one.place.port != 0) {
            let bound = listeners.iter().find(|one| !one.place.host.is_empty() && one.place.port == all.place.port);
            let (Some(bound), Some((_, block))) = (bound, all.zones.first()) else { continue };
            let other = bound.zones.first().map_or(0, |(_, block)| *block);
            let text = format!(
                "this block gets no query sent to {}: the block of line {} is bound to that address on the same port",
                bound.place.text(),
                self.line(other),
            );
            remarks.extend(self.at(*block, text, "bind all blocks of a port, or none"));
        }
    }
}

/// Tells whether `later` sets anything to another value.
fn overrules(earlier: &Timeouts, later: &Timeouts) -> bool {
    fn differs<T: PartialEq>(earlier: &Option<T>, later: &Option<T>) -> bool {
        earlier.is_some() && later.is_some() && earlier != later
    }
    differs(&earlier.read, &later.read)
        || differs(&earlier.write, &later.write)
        || differs(&earlier.idle, &later.idle)
        || differs(&earlier.max_tcp_queries, &later.max_tcp_queries)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use coredns_plugin::corefile::{ParseOptions, Source, parse};
    use coredns_plugin::{Descriptor, Filter, Next, Outcome, Plugin, Query, Reply, View};

    use crate::server::instance::Instance;

    struct Anything;

    impl Filter for Anything {
        fn accepts(&self, _query: &Query) -> bool {
            true
        }
    }

    impl Plugin for Anything {
        fn name(&self) -> &'static str {
            "answer"
        }

        fn serve<'a>(&'a self, _query: &'a Query, _next: Next<'a>) -> Outcome<'a> {
            Outcome::Now(Reply::authoritative("answer").into())
        }
    }

    static VIEW: Descriptor = Descriptor {
        name: "view",
        setup: |setup| {
            setup.block.view = Some(View { name: "some".into(), filter: Arc::new(Anything) });
            Ok(())
        },
        register_metrics: || {},
    };

    static ANSWER: Descriptor = Descriptor {
        name: "answer",
        setup: |setup| {
            setup.add_plugin(Arc::new(Anything));
            Ok(())
        },
        register_metrics: || {},
    };

    /// Keys and bodies of blocks; the lines of those that get no query, each with the zone.
    type Case = (&'static [(&'static str, &'static str)], &'static [(u32, &'static str)]);

    /// The lines of blocks that get no query for a zone, and the zones.
    fn unreachable(text: &str) -> Vec<(u32, String)> {
        let options = ParseOptions { directives: None, environment: &|_| None };
        let corefile = parse(&Source::new("Corefile", text), &options).expect("a Corefile");
        let instance = Instance::build(&corefile, &[&VIEW, &ANSWER], "0").expect("a configuration");
        let found = instance.warnings.iter().filter_map(|warning| {
            let zone = warning.message().strip_prefix("this block gets no query for ")?.split(':').next()?;
            Some((warning.line(), zone.to_owned()))
        });
        found.collect()
    }

    #[test]
    fn blocks_behind_one_that_takes_all() {
        const ANSWERS: &str = " {\nanswer\n}\n";
        const VIEWS: &str = " {\nview\nanswer\n}\n";
        let cases: &[Case] = &[
            (&[("a", ANSWERS), ("b", ANSWERS)], &[]),
            (&[("a", VIEWS), ("a", VIEWS), ("a", ANSWERS)], &[]),
            (&[("a", ANSWERS), ("a", VIEWS)], &[(4, "a.")]),
            (&[("a", VIEWS), ("a", ANSWERS), ("a", VIEWS)], &[(8, "a.")]),
            (&[("a", ANSWERS), ("b a c", VIEWS)], &[(4, "a.")]),
            (&[("a", ANSWERS), ("x.a", VIEWS)], &[]),
            // A block without plugins refuses, but for the root, where the next one is tried.
            (&[("a", " {\n}\n"), ("a", VIEWS)], &[(3, "a.")]),
            (&[(".", " {\n}\n"), (".", VIEWS)], &[]),
        ];
        for (blocks, wanted) in cases {
            let text: String = blocks.iter().flat_map(|(key, body)| [*key, *body]).collect();
            let wanted: Vec<_> = wanted.iter().map(|(line, zone)| (*line, (*zone).to_owned())).collect();
            assert_eq!(unreachable(&text), wanted, "{text}");
        }
    }
}
