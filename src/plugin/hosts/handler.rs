//! Queries against the two tables, and the life of the watch over the file.

use std::net::IpAddr;
use std::sync::Arc;

use coredns_plugin::wire::{Name, Rcode, Rdata, Record, RrType};
use coredns_plugin::{
    Answer, Background, BoxError, BoxFuture, Failure, Lifecycle, Next, Outcome, Plugin, Query, Reply, Start,
};

use super::NAME;
use super::file::{self, HostsFile};
use super::reverse::address_of;
use super::setup::Config;
use super::table::Table;

/// The most records of one answer; more do not fit into any message.
const ANSWER_RECORDS_MAX: usize = 4096;

/// The plugin of one server block.
#[derive(Debug)]
pub struct Hosts {
    config: Config,
    inline: Table,
    file: Arc<HostsFile>,
    /// The watch over the file.
    watch: Background,
}

impl Hosts {
    /// A plugin that knows its inline entries; the file is read by [`Lifecycle::start`].
    #[must_use]
    pub fn new(config: Config) -> Self {
        let mut inline = Table::default();
        for line in &config.inline {
            inline.add_line(line.as_bytes(), &config.zones, config.reverse);
        }
        let file = HostsFile::new(config.path.clone(), config.zones.clone(), config.reverse, inline.len());
        Self { config, inline, file: Arc::new(file), watch: Background::new() }
    }

    fn addresses<'a>(&'a self, query: &'a Query, next: Next<'a>) -> Outcome<'a> {
        let name = query.name();
        let wire = name.as_wire();
        let from_file = self.file.table.load();
        let tables = [&**from_file, &self.inline];
        let mut reply = Reply::authoritative(NAME);
        match query.qtype() {
            RrType::A => {
                let addresses = tables.into_iter().flat_map(|table| table.ipv4(wire)).map(IpAddr::V4);
                self.fill(&mut reply, name, addresses);
            }
            RrType::AAAA => {
                let addresses = tables.into_iter().flat_map(|table| table.ipv6(wire)).map(IpAddr::V6);
                self.fill(&mut reply, name, addresses);
            }
            _ if self.config.fallthrough_unsupported && self.config.fallthrough.through(name) => {
                return next.serve(query);
            }
            _ => {}
        }
        let exists = |table: &Table| table.ipv4(wire).next().is_some() || table.ipv6(wire).next().is_some();
        if !reply.answer.is_empty() || tables.into_iter().any(exists) {
            return reply.into();
        }
        if self.config.fallthrough.through(name) {
            return next.serve(query);
        }
        // There is no zone here, so there is no SOA to deny the name with.
        Outcome::Now(Answer::Failed(Failure::silent(Rcode::SERVFAIL)))
    }

    fn fill(&self, reply: &mut Reply, name: &Name, addresses: impl Iterator<Item = IpAddr>) {
        let owner = name.to_lowercase();
        let records = addresses.map(|address| Record::address(owner.clone(), self.config.ttl, address));
        reply.answer.extend(records.take(ANSWER_RECORDS_MAX));
    }

    fn pointers<'a>(&'a self, query: &'a Query, next: Next<'a>) -> Outcome<'a> {
        let Some(address) = address_of(query.name()) else { return next.serve(query) };
        let from_file = self.file.table.load();
        let names = [&**from_file, &self.inline].into_iter().flat_map(|table| table.names(address));
        let targets = names.filter_map(|name| Rdata::new(name).ok()).take(ANSWER_RECORDS_MAX);
        let owner = query.name().to_lowercase();
        let mut reply = Reply::authoritative(NAME);
        reply.answer.extend(targets.map(|target| Record::new(owner.clone(), self.config.ttl, RrType::PTR, target)));
        if reply.answer.is_empty() { next.serve(query) } else { reply.into() }
    }
}

impl Plugin for Hosts {
    fn name(&self) -> &'static str {
        NAME
    }

    fn serve<'a>(&'a self, query: &'a Query, next: Next<'a>) -> Outcome<'a> {
        if query.qtype() == RrType::PTR {
            return self.pointers(query, next);
        }
        if self.config.zones.matching(query.name()).is_none() {
            return next.serve(query);
        }
        self.addresses(query, next)
    }
}

impl Lifecycle for Hosts {
    fn start<'a>(&'a self, _start: &'a Start) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async {
            self.file.check()?;
            let known = file::refresh(&self.file, None).await;
            if !self.config.reload.is_zero() {
                self.watch.run(file::watch(Arc::clone(&self.file), self.config.reload, known));
            }
            Ok(())
        })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.watch.stop())
    }
}
