//! The process: from a command line to an exit code.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use coredns_plugin::corefile::{ParseError, fingerprint_input};
use coredns_plugin::{ReloadSettings, take_fatal};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::control::Server;
use super::instance::Instance;
use super::load::{Origin, Text, built_in, check_text, parse_for_comparison, parse_text};
use super::{core_metrics, logging};
use crate::cli::Options;
use crate::registry::REGISTRY;
use crate::version;

/// Runs the server as `options` say, to its end.
///
/// Exit codes are CoreDNS's: 0 after a clean end, 1 where it could not start or a plugin gave up, 2 when a second
/// SIGINT forces it.
#[must_use]
pub fn run(options: &Options) -> ExitCode {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).thread_name("control").enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return refuse(&format!("starting the control runtime: {error}")),
    };
    let _log = logging::init();
    let code = runtime.block_on(serve(options));
    // What is still running in the background (a file being read) must not keep the process.
    runtime.shutdown_timeout(Duration::from_millis(100));
    code
}

/// Prints to standard error what kept the server from starting.
#[expect(clippy::print_stderr, reason = "fatal start errors go to standard error as they are")]
fn refuse(text: &str) -> ExitCode {
    eprintln!("{text}");
    ExitCode::from(1)
}

#[expect(clippy::print_stdout, reason = "zone lines and version block are no log lines")]
async fn serve(options: &Options) -> ExitCode {
    core_metrics::register_all();
    let mut signals = match Signals::new() {
        Ok(signals) => signals,
        Err(error) => return refuse(&format!("waiting for signals: {error}")),
    };
    let (mut server, text) = match start(options).await {
        Ok(started) => started,
        Err(error) => return refuse(&error),
    };
    if !options.quiet {
        for line in &server.facts().zone_lines {
            println!("{line}");
        }
        print!("{}", version::block());
    }
    if let Some(pidfile) = &options.pidfile
        && let Err(error) = write_pidfile(pidfile)
    {
        tracing::error!(target: "server", "Could not write pidfile: {error}");
    }
    if !server.is_listening() {
        return ExitCode::SUCCESS;
    }
    let code =
        Process { options, watch: Watch::of(&text, &options.dns_port) }.supervise(&mut server, &mut signals).await;
    if let Some(pidfile) = &options.pidfile {
        let _ = std::fs::remove_file(pidfile);
    }
    let Ok(code) = code else {
        // A second SIGINT does not wait for anything.
        return ExitCode::from(2);
    };
    if code == 0 {
        tokio::select! {
            () = server.shutdown() => {}
            () = signals.force_quit() => return ExitCode::from(2),
        }
    }
    ExitCode::from(code)
}

async fn start(options: &Options) -> Result<(Server, Text), String> {
    let text = options.origin.read()?;
    let corefile = parse_text(&text, &options.dns_port).map_err(|error| error.explain())?;
    for warning in &corefile.warnings {
        tracing::warn!(target: "server", "{warning}");
    }
    let server = Server::start(REGISTRY, &corefile, &options.dns_port).await?;
    Ok((server, text))
}

fn write_pidfile(path: &Path) -> std::io::Result<()> {
    std::fs::write(path, format!("{}\n", std::process::id()))
}

/// The signals that the process listens to.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    quit: Signal,
    reload: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            quit: signal(SignalKind::quit())?,
            reload: signal(SignalKind::user_defined1())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn force_quit(&mut self) {
        self.interrupt.recv().await;
        tracing::info!(target: "server", "SIGINT: Force quit");
    }
}

struct Process<'a> {
    options: &'a Options,
    watch: Watch,
}

impl Process<'_> {
    /// Serves until the end; the exit code, or an error where nothing is to be waited for.
    async fn supervise(mut self, server: &mut Server, signals: &mut Signals) -> Result<u8, ()> {
        self.watch.announce(server);
        loop {
            let period = self.watch.period(server.facts().reload);
            tokio::select! {
                biased;
                _ = signals.interrupt.recv() => {
                    tracing::info!(target: "server", "SIGINT: Shutting down");
                    return Ok(0);
                }
                _ = signals.terminate.recv() => {
                    tracing::info!(target: "server", "SIGTERM: Shutting down servers then terminating");
                    return Ok(0);
                }
                _ = signals.quit.recv() => {
                    tracing::info!(target: "server", "SIGQUIT: Quitting process immediately");
                    std::process::exit(0);
                }
                fatal = take_fatal() => {
                    logging::fatal(&fatal.message);
                    return Ok(1);
                }
                _ = signals.reload.recv() => self.reload_now(server).await,
                _ = signals.hangup.recv() => {}
                () = sleep(period) => self.look(server).await,
            }
        }
    }

    /// SIGUSR1: reads the Corefile again, changed or not.
    async fn reload_now(&mut self, server: &mut Server) {
        tracing::info!(target: "server", "SIGUSR1: Reloading");
        if self.options.origin == Origin::Stdin {
            let reason =
                "the Corefile came from standard input, which can be read once; start with -conf FILE to reload";
            tracing::error!(target: "server", "SIGUSR1: {reason}");
            return;
        }
        let outcome = match self.options.origin.read() {
            Ok(text) => {
                let outcome = reload(server, &text, &self.options.dns_port).await;
                self.watch.remember(&text, &self.options.dns_port);
                outcome
            }
            Err(error) => Err(error),
        };
        match outcome {
            Ok(()) => self.watch.announce(server),
            Err(error) => {
                core_metrics::reload_failed();
                tracing::error!(target: "server", "SIGUSR1: {error}");
            }
        }
    }

    /// The watch: reads the Corefile, and reloads where it says something else than last time.
    async fn look(&mut self, server: &mut Server) {
        // A file that is missing for a moment (a ConfigMap being swapped) or for good changes nothing.
        let Ok(text) = self.options.origin.read() else { return };
        let seen = match fingerprint(&text, &self.options.dns_port) {
            Ok(seen) => seen,
            Err(error) => {
                tracing::warn!(target: "plugin/reload", "Corefile parse failed: {}", error.explain());
                return;
            }
        };
        if seen == self.watch.seen {
            return;
        }
        self.watch.seen = seen;
        core_metrics::reload_version(&self.watch.seen);
        match reload(server, &text, &self.options.dns_port).await {
            Ok(()) => self.watch.announce(server),
            Err(error) => {
                core_metrics::reload_failed();
                tracing::error!(target: "plugin/reload", "Corefile changed but reload failed: {error}");
            }
        }
    }
}

async fn sleep(period: Option<Duration>) {
    match period {
        Some(period) => tokio::time::sleep(period).await,
        None => std::future::pending().await,
    }
}

async fn reload(server: &mut Server, text: &Text, dns_port: &str) -> Result<(), String> {
    tracing::info!(target: "server", "Reloading");
    let outcome = match parse_text(text, dns_port) {
        Ok(corefile) => server.reload(&corefile).await,
        Err(error) => Err(error.explain()),
    };
    match &outcome {
        Ok(()) => tracing::info!(target: "server", "Reloading complete"),
        Err(error) => tracing::error!(target: "server", "Restart failed: {error}"),
    }
    outcome
}

/// What the Corefile said when it was last looked at.
struct Watch {
    /// SHA-512 of what it parses to, in hexadecimal digits.
    seen: String,
}

impl Watch {
    fn of(text: &Text, dns_port: &str) -> Self {
        Self { seen: fingerprint(text, dns_port).unwrap_or_default() }
    }

    fn remember(&mut self, text: &Text, dns_port: &str) {
        if let Ok(seen) = fingerprint(text, dns_port) {
            self.seen = seen;
        }
    }

    fn announce(&self, server: &Server) {
        if server.facts().reload.is_some() {
            tracing::info!(target: "plugin/reload", "Running configuration SHA512 = {}", self.seen);
        }
    }

    /// The time to the next look: the interval and a random part of the jitter, half of it to either side.
    fn period(&self, settings: Option<ReloadSettings>) -> Option<Duration> {
        let ReloadSettings { interval, jitter } = settings?;
        let width = jitter.as_secs_f64();
        let shift = (rand::random::<f64>() - 0.5) * width;
        Some(Duration::from_secs_f64((interval.as_secs_f64() + shift).max(0.1)))
    }
}

fn fingerprint(text: &Text, dns_port: &str) -> Result<String, ParseError> {
    let built_in = built_in(dns_port);
    let source = match text {
        Text::Read(source) => source,
        Text::BuiltIn => &built_in,
    };
    let input = fingerprint_input(&parse_for_comparison(source)?);
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA512, &input);
    Ok(digest.as_ref().iter().map(|octet| format!("{octet:02x}")).collect())
}

/// Checks a configuration without opening anything; prints every error and warning. 0 where it would start.
#[must_use]
#[expect(clippy::print_stdout, reason = "the findings are the output")]
pub fn validate(options: &Options) -> ExitCode {
    let text = match options.origin.read() {
        Ok(text) => text,
        Err(error) => return refuse(&error),
    };
    let checked = check_text(&text, &options.dns_port);
    let mut errors = checked.errors;
    let mut warnings: Vec<String> = checked.corefile.warnings.iter().map(ToString::to_string).collect();
    match Instance::build(&checked.corefile, REGISTRY, &options.dns_port) {
        Ok(instance) => warnings.extend(instance.warnings.iter().map(ParseError::explain)),
        Err(more) => errors.extend(more),
    }
    for warning in &warnings {
        println!("[WARNING] {warning}");
    }
    for error in &errors {
        println!("[ERROR] {}", error.explain());
    }
    println!("{} errors, {} warnings", errors.len(), warnings.len());
    if errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}
