//! The signals that the process listens to, and how it ends.

use std::process::ExitCode;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What an operator asks of the running process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Demand {
    /// SIGINT: end, by hand.
    Interrupt,
    /// SIGTERM: end.
    Terminate,
    /// SIGQUIT: end at once.
    Quit,
    /// SIGUSR1: read the Corefile again.
    Reload,
    /// SIGUSR2: CoreDNS puts another binary in its place.
    Upgrade,
}

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// What has arrived is answered first.
    Drained,
    /// At once, and nothing is wrong.
    Quit,
    /// At once, since a second SIGINT asks for it.
    Forced,
    /// At once, since the server cannot go on.
    Failed,
}

impl Ending {
    /// CoreDNS's exit code for it.
    pub(super) fn code(self) -> ExitCode {
        match self {
            Self::Drained | Self::Quit => ExitCode::SUCCESS,
            Self::Failed => ExitCode::from(1),
            Self::Forced => ExitCode::from(2),
        }
    }
}

/// The signals that the process listens to. SIGHUP is one of them, so that it does not end the process, and means nothing.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    quit: Signal,
    reload: Signal,
    upgrade: Signal,
    hangup: Signal,
}

impl Signals {
    /// From here on none of them ends the process by itself.
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            quit: signal(SignalKind::quit())?,
            reload: signal(SignalKind::user_defined1())?,
            upgrade: signal(SignalKind::user_defined2())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The next demand; those that end the process come first where several wait.
    pub(super) async fn next(&mut self) -> Demand {
        loop {
            tokio::select! {
                biased;
                _ = self.quit.recv() => return Demand::Quit,
                _ = self.interrupt.recv() => return Demand::Interrupt,
                _ = self.terminate.recv() => return Demand::Terminate,
                _ = self.reload.recv() => return Demand::Reload,
                _ = self.upgrade.recv() => return Demand::Upgrade,
                _ = self.hangup.recv() => {}
            }
        }
    }

    /// Waits for a signal that ends a process that has not begun to serve; others wait until it has.
    pub(super) async fn end_of_start(&mut self) -> Ending {
        tokio::select! {
            biased;
            _ = self.quit.recv() => quit(),
            _ = self.interrupt.recv() => {
                tracing::info!(target: "server", "SIGINT: Shutting down");
                Ending::Quit
            }
            _ = self.terminate.recv() => {
                tracing::info!(target: "server", "SIGTERM: Shutting down servers then terminating");
                Ending::Quit
            }
        }
    }

    /// Waits for a signal that ends a process at once that is ending already.
    pub(super) async fn end_of_drain(&mut self) -> Ending {
        tokio::select! {
            biased;
            _ = self.quit.recv() => quit(),
            _ = self.interrupt.recv() => {
                tracing::info!(target: "server", "SIGINT: Force quit");
                Ending::Forced
            }
        }
    }
}

/// SIGQUIT.
pub(super) fn quit() -> Ending {
    tracing::info!(target: "server", "SIGQUIT: Quitting process immediately");
    Ending::Quit
}
