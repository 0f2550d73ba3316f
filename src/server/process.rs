//! The process: from a command line to an exit code.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use coredns_plugin::corefile::{ParseError, excerpt_path, fingerprint_input, os_error_text};
use coredns_plugin::{ReloadSettings, take_fatal};
use tokio::time::Instant;

use super::control::Server;
use super::load::{Origin, Text, built_in, parse_for_comparison, parse_text};
use super::signals::{Demand, Ending, Signals, quit};
use super::{core_metrics, logging, panics, syscall};
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
pub(super) fn refuse(text: &str) -> ExitCode {
    eprintln!("{text}");
    ExitCode::from(1)
}

async fn serve(options: &Options) -> ExitCode {
    core_metrics::register_all();
    panics::install_hook();
    let mut signals = match Signals::new() {
        Ok(signals) => signals,
        Err(error) => return refuse(&format!("waiting for signals: {error}")),
    };
    let started = tokio::select! {
        biased;
        ending = signals.end_of_start() => return ending.code(),
        started = start(options) => started,
    };
    let (mut server, text) = match started {
        Ok(started) => started,
        Err(error) => return refuse(&error),
    };
    syscall::release_code_pages();
    // What was logged at the start stands before the banner.
    logging::flush();
    if !options.quiet {
        banner(&server);
    }
    if let Some(pidfile) = &options.pidfile
        && let Err(error) = write_pidfile(pidfile)
    {
        let (path, reason) = (pidfile.display().to_string(), os_error_text(&error));
        tracing::error!(target: "server", "Could not write pidfile: open {}: {reason}", excerpt_path(&path));
    }
    // Where every address is excluded there is nothing to wait for.
    let mut ending = Ending::Drained;
    if server.is_listening() {
        ending = Process { options, watch: Watch::of(&text, &options.dns_port), text }
            .supervise(&mut server, &mut signals)
            .await;
    }
    if let Some(pidfile) = &options.pidfile {
        let _ = std::fs::remove_file(pidfile);
    }
    if ending == Ending::Drained {
        tokio::select! {
            () = server.shutdown() => {}
            forced = signals.end_of_drain() => ending = forced,
        }
    }
    ending.code()
}

/// Prints what is served, and the version. These are no log lines; that nobody reads them ends nothing.
fn banner(server: &Server) {
    let mut text: String = server.facts().zone_lines.iter().flat_map(|line| [line, "\n"]).collect();
    text.push_str(&version::block());
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

async fn start(options: &Options) -> Result<(Server, Text), String> {
    let text = read(&options.origin).await?;
    let corefile = parse_text(&text, &options.dns_port).map_err(|error| error.explain())?;
    let server = Server::start(REGISTRY, &corefile, &options.dns_port).await?;
    Ok((server, text))
}

/// Reads the Corefile away from the thread that waits for signals: a pipe may have nothing to say for long.
async fn read(origin: &Origin) -> Result<Text, String> {
    let origin = origin.clone();
    let reading = tokio::task::spawn_blocking(move || origin.read());
    reading.await.unwrap_or_else(|error| Err(format!("loading Caddyfile: {error}")))
}

fn write_pidfile(path: &Path) -> std::io::Result<()> {
    std::fs::write(path, format!("{}\n", std::process::id()))
}

/// What the running configuration came from, and what may come after it.
struct Process<'a> {
    options: &'a Options,
    /// The text of the running configuration.
    text: Text,
    watch: Watch,
}

impl Process<'_> {
    /// Serves until the end.
    async fn supervise(mut self, server: &mut Server, signals: &mut Signals) -> Ending {
        self.watch.announce(server);
        let mut look_at = self.watch.next_look(server.facts().reload);
        loop {
            let demand = tokio::select! {
                biased;
                demand = signals.next() => demand,
                fatal = take_fatal() => {
                    logging::fatal(&fatal.message);
                    return Ending::Failed;
                }
                () = sleep_until(look_at) => {
                    self.look(server).await;
                    look_at = self.watch.next_look(server.facts().reload);
                    continue;
                }
            };
            match demand {
                Demand::Interrupt => {
                    tracing::info!(target: "server", "SIGINT: Shutting down");
                    return Ending::Drained;
                }
                Demand::Terminate => {
                    tracing::info!(target: "server", "SIGTERM: Shutting down servers then terminating");
                    return Ending::Drained;
                }
                Demand::Quit => return quit(),
                Demand::Reload => {
                    self.reload_now(server).await;
                    look_at = self.watch.next_look(server.facts().reload);
                }
                Demand::Upgrade => {
                    let reason = "not supported; replace the binary and start it anew, or reload with SIGUSR1";
                    tracing::error!(target: "server", "SIGUSR2: upgrading: {reason}");
                }
            }
        }
    }

    /// SIGUSR1: reads the Corefile again, changed or not.
    async fn reload_now(&mut self, server: &mut Server) {
        tracing::info!(target: "server", "SIGUSR1: Reloading");
        let outcome = match self.read_again().await {
            Ok(text) => self.reload(server, text).await,
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
        let Ok(Some(text)) = self.read_again().await else { return };
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
        core_metrics::reload_version(&seen);
        match self.reload(server, Some(text)).await {
            Ok(()) => self.watch.announce(server),
            Err(error) => {
                core_metrics::reload_failed();
                tracing::error!(target: "plugin/reload", "Corefile changed but reload failed: {error}");
            }
        }
    }

    /// Reads the Corefile once more; `None` where it is gone and the running text still holds.
    async fn read_again(&self) -> Result<Option<Text>, String> {
        match &self.options.origin {
            Origin::Stdin => {
                return Err("the Corefile came from standard input, which can be read once; start with -conf FILE to \
                            reload"
                    .to_owned());
            }
            // A pipe has said what it had to say; an empty text would mean the built-in configuration.
            Origin::File(path) if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) => {
                return Err(format!("{} is no regular file and can be read once", path.display()));
            }
            Origin::Default | Origin::File(_) => {}
        }
        match (read(&self.options.origin).await, &self.text) {
            (Ok(Text::BuiltIn), Text::Read(_)) => Ok(None),
            (Ok(Text::BuiltIn), Text::BuiltIn) => Err("no Caddyfile loader with which to reload Caddyfile".to_owned()),
            (Ok(text), _) => Ok(Some(text)),
            (Err(error), _) => Err(format!("loading updated Caddyfile: {error}")),
        }
    }

    /// Puts `text`, or the running text once more, in the place of the running configuration.
    async fn reload(&mut self, server: &mut Server, text: Option<Text>) -> Result<(), String> {
        tracing::info!(target: "server", "Reloading");
        let outcome = match parse_text(text.as_ref().unwrap_or(&self.text), &self.options.dns_port) {
            Ok(corefile) => server.reload(&corefile).await,
            Err(error) => Err(error.explain()),
        };
        if let Some(text) = text {
            // A text that failed is not tried again until it changes.
            self.watch.remember(&text, &self.options.dns_port);
            if outcome.is_ok() {
                self.text = text;
            }
        }
        let outcome = outcome.map_err(|error| format!("starting with listener file descriptors: {error}"));
        match &outcome {
            Ok(()) => tracing::info!(target: "server", "Reloading complete"),
            Err(error) => tracing::error!(target: "server", "Restart failed: {error}"),
        }
        outcome
    }
}

async fn sleep_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
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

    /// When to look next: after the interval and a random part of the jitter, half of it to either side.
    fn next_look(&self, settings: Option<ReloadSettings>) -> Option<Instant> {
        let ReloadSettings { interval, jitter } = settings?;
        let width = jitter.as_secs_f64();
        let shift = (rand::random::<f64>() - 0.5) * width;
        Some(Instant::now() + Duration::from_secs_f64((interval.as_secs_f64() + shift).max(0.1)))
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
