//! Workers: threads that own sockets and serve what comes to them.
//!
//! A worker drives a tokio runtime of one thread. It shares nothing on the query path with other workers; the
//! control plane speaks to it by commands.

use std::io;
use std::net::{TcpListener, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;

use coredns_plugin::metrics::enter_worker;
use tokio::sync::{mpsc, oneshot};
use tokio::task::LocalSet;

use super::endpoint::{Endpoint, Shared};
use super::sockets::Pair;
use super::udp::UdpServer;
use super::{panics, tcp};

/// Stack of a worker, in octets: chains run on it, plugin within plugin.
pub(super) const STACK: usize = 4 << 20;

enum Command {
    /// Serve a listener on these sockets.
    Open { shared: Arc<Shared>, udp: UdpSocket, tcp: TcpListener, done: oneshot::Sender<io::Result<()>> },
    /// Take over what the control plane has set.
    Refresh { done: oneshot::Sender<()> },
    /// Stop serving a listener, once what has arrived is answered.
    Close { shared: Arc<Shared>, done: oneshot::Sender<()> },
}

/// A running worker.
struct Worker {
    commands: mpsc::UnboundedSender<Command>,
    thread: JoinHandle<()>,
}

/// All workers of the process.
#[derive(Default)]
pub(crate) struct Workers {
    workers: Vec<Worker>,
}

impl Workers {
    /// Starts workers until there are `count`.
    ///
    /// # Errors
    /// Where the system gives no more threads.
    pub(crate) fn ensure(&mut self, count: usize) -> io::Result<()> {
        while self.workers.len() < count {
            self.workers.push(start(self.workers.len())?);
        }
        Ok(())
    }

    /// Serves a listener with the sockets `pair` on worker `index`.
    ///
    /// # Errors
    /// Where the runtime does not take the sockets.
    pub(crate) async fn open(&self, index: usize, shared: &Arc<Shared>, pair: Pair) -> io::Result<()> {
        let (done, wait) = oneshot::channel();
        let Pair { udp, tcp } = pair;
        self.send(index, Command::Open { shared: Arc::clone(shared), udp, tcp, done });
        wait.await.unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))
    }

    /// Makes all workers take over what has been set in their listeners.
    pub(crate) async fn refresh(&self) {
        let mut waits = Vec::new();
        for index in 0..self.workers.len() {
            let (done, wait) = oneshot::channel();
            self.send(index, Command::Refresh { done });
            waits.push(wait);
        }
        for wait in waits {
            let _ = wait.await;
        }
    }

    /// Stops serving a listener on the workers from `first` on, once what has arrived is answered.
    pub(crate) async fn close(&self, shared: &Arc<Shared>, first: usize) {
        let mut waits = Vec::new();
        for index in first..self.workers.len() {
            let (done, wait) = oneshot::channel();
            self.send(index, Command::Close { shared: Arc::clone(shared), done });
            waits.push(wait);
        }
        for wait in waits {
            let _ = wait.await;
        }
    }

    /// Ends all workers; their listeners must have been closed.
    pub(crate) fn join(self) {
        for worker in self.workers {
            drop(worker.commands);
            let _ = worker.thread.join();
        }
    }

    fn send(&self, index: usize, command: Command) {
        // A worker that is gone drops the command, and with it the sender that the caller waits for.
        if let Some(worker) = self.workers.get(index) {
            let _ = worker.commands.send(command);
        }
    }
}

fn start(index: usize) -> io::Result<Worker> {
    let (commands, queue) = mpsc::unbounded_channel();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let thread = std::thread::Builder::new().name(format!("dns-{index}")).stack_size(STACK).spawn(move || {
        enter_worker(index);
        panics::enter_worker();
        LocalSet::new().block_on(&runtime, work(queue));
    })?;
    Ok(Worker { commands, thread })
}

/// A listener on this worker: its own part, and the tasks that serve it.
struct Served {
    endpoint: Rc<Endpoint>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

async fn work(mut commands: mpsc::UnboundedReceiver<Command>) {
    let mut served: Vec<Served> = Vec::new();
    while let Some(command) = commands.recv().await {
        match command {
            Command::Open { shared, udp, tcp, done } => {
                let _ = done.send(open(shared, udp, tcp).map(|one| served.push(one)));
            }
            Command::Refresh { done } => {
                served.iter().for_each(|one| one.endpoint.refresh());
                let _ = done.send(());
            }
            Command::Close { shared, done } => {
                let closing: Vec<Served> = served.extract_if(.., |one| one.endpoint.is_of(&shared)).collect();
                closing.iter().for_each(|one| one.endpoint.stop());
                tokio::task::spawn_local(async move {
                    for task in closing.into_iter().flat_map(|one| one.tasks) {
                        let _ = task.await;
                    }
                    let _ = done.send(());
                });
            }
        }
    }
}

fn open(shared: Arc<Shared>, udp: UdpSocket, tcp: TcpListener) -> io::Result<Served> {
    let endpoint = Endpoint::new(shared);
    let udp = UdpServer::new(Rc::clone(&endpoint), tokio::net::UdpSocket::from_std(udp)?)?;
    let tcp = tokio::net::TcpListener::from_std(tcp)?;
    let tasks = vec![
        tokio::task::spawn_local(panics::watched("UDP", udp.run())),
        tokio::task::spawn_local(panics::watched("TCP", tcp::accept(Rc::clone(&endpoint), tcp))),
    ];
    Ok(Served { endpoint, tasks })
}
