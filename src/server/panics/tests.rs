//! Plugins that panic, and what becomes of their queries and of everyone else's.

use std::io;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use coredns_plugin::{Answer, Next, Outcome, Plugin, Query, Reply, ServerInfo, Transport, clock};
use coredns_testkit::Ask;
use coredns_wire::{Message, Name, Rcode, Request};
use tracing_subscriber::fmt::MakeWriter;

use super::*;
use crate::server::dispatch::{Dispatcher, Site};
use crate::server::slot::{Handle, Slot, answer};

/// Protects the counter of panics, which is the process's, for the time of a test that compares it.
static COUNTING: Mutex<()> = Mutex::new(());

/// Panics on every tenth query, from the first on: at once, or while it waits.
#[derive(Default)]
struct Faulty {
    seen: AtomicU32,
    waits: bool,
}

impl Faulty {
    fn answer(number: u32) -> Answer {
        assert!(!number.is_multiple_of(10), "query {number} is too much");
        Reply::authoritative("faulty").into()
    }
}

impl Plugin for Faulty {
    fn name(&self) -> &'static str {
        "faulty"
    }

    fn serve<'a>(&'a self, _query: &'a Query, _next: Next<'a>) -> Outcome<'a> {
        let number = self.seen.fetch_add(1, Ordering::Relaxed);
        if self.waits {
            return Outcome::Later(Box::pin(async move {
                tokio::task::yield_now().await;
                Self::answer(number)
            }));
        }
        Outcome::Now(Self::answer(number))
    }
}

/// Log lines, as text.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no test panics with it").extend_from_slice(octets);
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

fn handle(plugin: Faulty, debug: bool, stacktrace: bool) -> Arc<Handle> {
    let info = Arc::new(ServerInfo { label: "dns://:53".into(), host: String::new(), port: 53 });
    let chain: Arc<[Arc<dyn Plugin>]> = Arc::from([Arc::new(plugin) as Arc<dyn Plugin>]);
    let site = Arc::new(Site::new(chain, None, None));
    let dispatcher = Dispatcher::new(info, vec![(Name::root(), site)], debug, stacktrace);
    Arc::new(Handle { dispatcher })
}

/// Asks a number of times; the codes of the replies.
fn ask(handle: &Arc<Handle>, count: usize) -> Vec<Rcode> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let message = Ask::new("www.example.org A DO").message();
    let query = Query::empty(Arc::clone(&handle.dispatcher.info), Transport::Udp, clock::now());
    let mut slot = Box::new(Slot { query, has_question: true, reply: Vec::new(), prefix: 0 });
    let mut codes = Vec::new();
    for _ in 0..count {
        let request = Request::parse(&message).expect("a query");
        let somebody = ([192, 0, 2, 1], 4000).into();
        slot.has_question = slot.query.receive(&message, request, somebody, somebody, clock::now());
        slot = runtime.block_on(answer(Arc::clone(handle), slot));
        codes.push(Message::parse(&slot.reply).expect("a reply").header.rcode());
    }
    codes
}

/// On a thread that counts as a worker, so that panics are kept and not printed.
fn on_worker<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            enter_worker();
            run()
        });
        worker.join().expect("the worker lives")
    })
}

#[test]
fn one_query_in_ten_fails_and_the_rest_is_answered() {
    let _counting = COUNTING.lock();
    install_hook();
    let expected: Vec<Rcode> =
        (0..30).map(|number| if number % 10 == 0 { Rcode::SERVFAIL } else { Rcode::NOERROR }).collect();
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt().with_writer(lines.clone()).with_ansi(false).without_time().finish();
    let before = core_metrics::PANICS.get();
    let begin = clock::now();
    on_worker(|| {
        tracing::subscriber::with_default(subscriber, || {
            for waits in [false, true] {
                let handle = handle(Faulty { waits, ..Faulty::default() }, false, true);
                assert_eq!(ask(&handle, 30), expected, "waits: {waits}");
            }
        });
    });
    assert_eq!(core_metrics::PANICS.get() - before, 6);
    let text = String::from_utf8(lines.0.lock().expect("no test panics with it").clone()).expect("text");
    let recovered = text.matches("Recovered from panic in server: \"dns://:53\" query 0 is too much (").count();
    assert_eq!(recovered, 1, "{text}");
    // One line a second, however many panics there were.
    let seconds = clock::now().saturating_duration_since(begin).as_secs() as usize;
    assert!(text.matches("Recovered from panic").count() <= 1 + seconds, "{text}");
    assert!(text.contains("Faulty"), "the stack is there: {text}");
}

/// Runs a test of this binary in a process of its own, with a variable that tells it to crash.
fn in_own_process(test: &str) -> (ExitStatus, String) {
    let mut command = Command::new(std::env::current_exe().expect("this binary"));
    let output = command.args(["--exact", test, "--nocapture"]).env("COREDNS_TEST_CRASH", "1").output();
    let output = output.expect("this binary runs");
    (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn with_debug_a_panic_ends_the_process() {
    if std::env::var_os("COREDNS_TEST_CRASH").is_some() {
        install_hook();
        on_worker(|| ask(&handle(Faulty::default(), true, false), 1));
        return;
    }
    let (status, stderr) = in_own_process("server::panics::tests::with_debug_a_panic_ends_the_process");
    assert!(!status.success(), "{stderr}");
    assert_eq!(status.code(), None, "ended by a signal: {stderr}");
    assert!(stderr.contains("panic in server dns://:53: query 0 is too much ("), "{stderr}");
    assert!(stderr.contains("Faulty"), "the stack is there: {stderr}");
}

#[test]
fn a_panic_in_the_loop_of_a_socket_is_told() {
    let _counting = COUNTING.lock();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let before = core_metrics::PANICS.get();
    let said = runtime.block_on(complaint("UDP", async { panic!("an invariant is broken") })).expect("a complaint");
    assert!(said.starts_with("panic in the UDP loop of a worker: an invariant is broken"), "{said}");
    assert_eq!(core_metrics::PANICS.get() - before, 1);
    assert_eq!(runtime.block_on(complaint("UDP", async {})), None);
}
