//! Lookups that plugins make inside the server: how many, for whom, and by which rules.

use std::net::SocketAddr;
use std::sync::Mutex;

use coredns_plugin::{Filter, Reply};
use coredns_testkit::Ask;

use super::*;

/// Answers with what the server says to the same name in another zone, asking so often.
struct Alias {
    target: &'static str,
    times: usize,
    /// The clients of the queries that have come.
    clients: Arc<Mutex<Vec<SocketAddr>>>,
}

impl Plugin for Alias {
    fn name(&self) -> &'static str {
        "alias"
    }

    fn serve<'a>(&'a self, query: &'a Query, next: Next<'a>) -> Outcome<'a> {
        self.clients.lock().expect("no test panics with it").push(query.client());
        let target: Name = self.target.parse().expect("a name");
        Outcome::Later(Box::pin(async move {
            let mut last = Answer::from(Reply::authoritative("alias"));
            for _ in 0..self.times {
                last = next.lookup(query, target.clone(), query.qtype()).wait().await;
            }
            last
        }))
    }
}

/// Passes queries on, and looks at what comes back.
struct Wrapper;

impl Plugin for Wrapper {
    fn name(&self) -> &'static str {
        "wrapper"
    }

    fn serve<'a>(&'a self, query: &'a Query, next: Next<'a>) -> Outcome<'a> {
        next.serve(query).map(|answer| answer)
    }
}

/// Takes queries of one client only.
struct Only(SocketAddr);

impl Filter for Only {
    fn accepts(&self, query: &Query) -> bool {
        query.client() == self.0
    }
}

/// A server with two zones, each an alias of the other; that of `b.test` has a view.
struct Fixture {
    dispatcher: Arc<Dispatcher>,
    clients: Arc<Mutex<Vec<SocketAddr>>>,
}

impl Fixture {
    fn new(times: [usize; 2], view: Option<SocketAddr>) -> Self {
        Self::with_wrappers(times, view, 0)
    }

    fn with_wrappers(times: [usize; 2], view: Option<SocketAddr>, wrappers: usize) -> Self {
        let clients: Arc<Mutex<Vec<SocketAddr>>> = Arc::default();
        let info = Arc::new(ServerInfo { label: "dns://:53".into(), host: String::new(), port: 53 });
        let block = |zone: &str, target, times, view: Option<SocketAddr>| {
            let alias: Arc<dyn Plugin> = Arc::new(Alias { target, times, clients: Arc::clone(&clients) });
            let chain = std::iter::repeat_with(|| Arc::new(Wrapper) as Arc<dyn Plugin>).take(wrappers);
            let chain: Vec<Arc<dyn Plugin>> = chain.chain([alias]).collect();
            let view = view.map(|client| View { name: "view".into(), filter: Arc::new(Only(client)) });
            (zone.parse::<Name>().expect("a name"), Arc::new(Site::new(chain.into(), view, None)))
        };
        let blocks = vec![block("a.test", "www.b.test", times[0], None), block("b.test", "www.a.test", times[1], view)];
        Self { dispatcher: Dispatcher::new(info, blocks, false, false), clients }
    }

    /// The code of the answer, and how many queries came to a plugin.
    async fn ask(&self, client: SocketAddr) -> (Rcode, usize) {
        let mut ask = Ask::new("www.a.test A");
        ask.client = client;
        let mut query = ask.query();
        let rcode = match serve(&self.dispatcher, &mut query, true).await.answer {
            Answer::Reply(reply) => reply.rcode,
            Answer::Failed(failure) => failure.rcode,
            Answer::Dropped => panic!("an answer is due"),
        };
        let clients = std::mem::take(&mut *self.clients.lock().expect("no test panics with it"));
        assert!(clients.iter().all(|seen| *seen == client), "{clients:?}");
        (rcode, clients.len())
    }
}

const CLIENT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7)), 4000);

#[tokio::test]
async fn a_ring_of_lookups_ends() {
    let most = 1 + usize::from(coredns_plugin::MAX_LOOKUPS);
    assert_eq!(Fixture::new([1, 1], None).ask(CLIENT).await, (Rcode::SERVFAIL, most));
    // Each query of the ring that fans out counts for the client's query, and trying on does not start afresh.
    assert_eq!(Fixture::new([3, 3], None).ask(CLIENT).await, (Rcode::SERVFAIL, most));
    assert_eq!(Fixture::new([1000, 0], None).ask(CLIENT).await, (Rcode::SERVFAIL, most));
}

#[tokio::test]
async fn a_lookup_is_for_the_client_and_by_the_rules_of_the_block_asked() {
    let fixture = Fixture::new([1, 0], Some(CLIENT));
    assert_eq!(fixture.ask(CLIENT).await, (Rcode::NOERROR, 2));
    let stranger = SocketAddr::new(CLIENT.ip(), CLIENT.port() + 1);
    assert_eq!(fixture.ask(stranger).await, (Rcode::REFUSED, 1));
}

#[test]
fn the_deepest_ring_takes_less_than_half_of_a_stack() {
    // More plugins than there are names of plugins, in each chain of the ring.
    let wrappers = crate::registry::DIRECTIVES.len();
    let ring = move || {
        let fixture = Fixture::with_wrappers([1, 1], None, wrappers);
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(fixture.ask(CLIENT))
    };
    let thread = std::thread::Builder::new().stack_size(crate::server::worker::STACK / 2).spawn(ring);
    let answer = thread.expect("a thread").join().expect("its stack suffices");
    assert_eq!(answer.0, Rcode::SERVFAIL);
}
