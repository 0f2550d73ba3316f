//! What each layer of a query costs, from octets to octets.
//!
//! `cargo bench --bench layers`. Absolute times mean little on a shared machine; compare lines of one run.
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use coredns_plugin::{Answer, Lifecycle, Next, Outcome, Plugin, Query, Reply, Start, Zones};
use coredns_rs::plugin::cache::{Cache, Config};
use coredns_rs::server::InProcess;
use coredns_testkit::{Ask, Harness};
use coredns_wire::{Header, Name, Outgoing, Record, Request, encode, fold};
use criterion::{Criterion, criterion_group, criterion_main};

const QUESTION: &str = "web.shop.svc.cluster.local A";
const COREFILE: &str = ".:53 {
    errors
    prometheus localhost:0
    loadbalance
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        manifests examples/cluster
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }
}";

fn parse(bench: &mut Criterion) {
    let plain = Ask::new(QUESTION).message();
    let edns = Ask::new(&format!("{QUESTION} DO")).message();
    bench.bench_function("parse/question", |b| b.iter(|| Request::parse(black_box(&plain))));
    bench.bench_function("parse/question and OPT", |b| b.iter(|| Request::parse(black_box(&edns))));
}

fn zones(bench: &mut Criterion) {
    let zones = Zones::from_args(&["cluster.local", "in-addr.arpa", "ip6.arpa", "."]);
    let name: Name = "web.shop.svc.cluster.local".parse().expect("a name");
    bench.bench_function("zones/longest match of four", |b| b.iter(|| zones.matching(black_box(&name)).is_some()));
    bench.bench_function("zones/hash of a name", |b| b.iter(|| fold::hash(7, black_box(name.as_wire()))));
}

/// Passes on, and looks at what comes back.
struct Hop;

impl Plugin for Hop {
    fn name(&self) -> &'static str {
        "hop"
    }

    fn serve<'a>(&'a self, query: &'a Query, next: Next<'a>) -> Outcome<'a> {
        next.serve(query).map_reply(|reply| reply.truncated = false)
    }
}

/// Answers with one address.
struct End;

impl Plugin for End {
    fn name(&self) -> &'static str {
        "end"
    }

    fn serve<'a>(&'a self, query: &'a Query, _next: Next<'a>) -> Outcome<'a> {
        let mut reply = Reply::authoritative("end");
        reply.answer.push(Record::a(query.name().clone(), 30, Ipv4Addr::LOCALHOST));
        reply.into()
    }
}

fn chain(bench: &mut Criterion) {
    let query = Ask::new(QUESTION).query();
    for hops in [0, 1, 10] {
        let mut links: Vec<Arc<dyn Plugin>> = (0..hops).map(|_| Arc::new(Hop) as Arc<dyn Plugin>).collect();
        links.push(Arc::new(End));
        let harness = Harness::new(links);
        bench.bench_function(&format!("chain/{hops} hops and an answer"), |b| {
            b.iter(|| matches!(harness.ask_now(black_box(&query)), Answer::Reply(_)));
        });
    }
}

fn cached(bench: &mut Criterion) {
    let query = Ask::new(QUESTION).query();
    let cache = Arc::new(Cache::new(Config::new(Zones::from_args(&["."]))));
    let start = Start { servers: vec![Arc::clone(query.server())], ..Start::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(cache.start(&start)).expect("it starts");
    let harness = Harness::new(vec![cache, Arc::new(End)]);
    bench.bench_function("cache/hit with an address", |b| {
        b.iter(|| matches!(harness.ask_now(black_box(&query)), Answer::Reply(_)));
    });
}

fn encoding(bench: &mut Criterion) {
    let ask = Ask::new(QUESTION);
    let question = Outgoing::question(&ask.name, ask.qtype, ask.qclass);
    let mut out = Vec::with_capacity(4096);
    for (count, above) in [(1, usize::MAX), (10, usize::MAX), (10, 0)] {
        let records: Vec<Record> =
            (0..count).map(|last| Record::a(ask.name.clone(), 30, Ipv4Addr::new(10, 0, 0, last))).collect();
        let how = if above == 0 { "compressed" } else { "plain" };
        let header = Header { id: 1, bits: Header::QR, ..Header::default() };
        let sections: [&[Record]; 3] = [&records, &[], &[]];
        let message = Outgoing { header, question: &question, sections, opt: &[], limit: 1232, compress_above: above };
        bench.bench_function(&format!("encode/{count} addresses, {how}"), |b| {
            b.iter(|| encode(black_box(&message), &mut out));
        });
    }
}

fn whole(bench: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let client = SocketAddr::from(([10, 240, 0, 1], 40212));
    let kubernetes = COREFILE.replace("    errors\n    prometheus localhost:0\n    loadbalance\n", "");
    for (what, corefile) in
        [("kubeadm chain", COREFILE), ("kubernetes alone", &kubernetes), ("whoami", ".:53 {\n whoami\n}")]
    {
        let mut server = runtime.block_on(InProcess::start(corefile)).expect("a server");
        let questions =
            [QUESTION, "_https._tcp.kubernetes.default.svc.cluster.local SRV", "nope.shop.svc.cluster.local A"];
        for question in questions {
            let message = Ask::new(question).message();
            bench.bench_function(&format!("query/{what}: {question}"), |b| {
                b.iter(|| server.answer(black_box(&message), client).is_ok());
            });
        }
        runtime.block_on(server.stop());
    }
}

criterion_group!(layers, parse, zones, chain, cached, encoding, whole);
criterion_main!(layers);
