//! The server without sockets: for benches, fuzzing and tests that count allocations.
//!
//! What a worker does for one datagram is done here for one slice of octets: the same parse, the same blocks and
//! chains, the same reusable future, the same encoding. HTTP endpoints are not opened.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use coredns_plugin::corefile::Source;
use coredns_plugin::{Query, ServerInfo, Transport, clock};
use coredns_wire::{Reject, Request, reject_reply};
use tokio_util::sync::ReusableBoxFuture;

use super::control::{Running, build};
use super::load::{Text, parse_text};
use super::slot::{Handle, Slot, answer};
use crate::registry::REGISTRY;

/// A query that has to wait for I/O, which cannot be done here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting;

/// A server that answers octets with octets.
pub struct InProcess {
    handle: Arc<Handle>,
    running: Running,
    slot: Option<Box<Slot>>,
    serving: Option<ReusableBoxFuture<'static, Box<Slot>>>,
}

impl InProcess {
    /// Sets up a Corefile and starts its plugins on the current tokio runtime; queries go to its first listener.
    ///
    /// # Errors
    /// What kept it from starting, as one line.
    pub async fn start(corefile: &str) -> Result<Self, String> {
        REGISTRY.iter().for_each(|descriptor| (descriptor.register_metrics)());
        let text = Text::Read(Source::new("Corefile", corefile));
        let corefile = parse_text(&text, "53").map_err(|error| error.explain())?;
        let instance = build(REGISTRY, &corefile, "53")?;
        let infos: Vec<Arc<ServerInfo>> = instance
            .listeners
            .iter()
            .map(|listener| {
                let place = &listener.place;
                let label = format!("dns://{}", place.text());
                Arc::new(ServerInfo { label, host: place.host.clone(), port: place.port })
            })
            .collect();
        let (Some(listener), Some(info)) = (instance.listeners.first().cloned(), infos.first().cloned()) else {
            return Err("the Corefile has no listener".to_owned());
        };
        let running = Running::new((instance.blocks, instance.parts), &instance.listeners, &infos, true);
        if let Err(error) = running.start().await {
            running.stop().await;
            return Err(error);
        }
        let dispatcher = running.dispatcher(&listener, &info);
        let query = Query::empty(info, Transport::Udp, clock::now());
        let slot = Box::new(Slot { query, has_question: false, reply: Vec::new(), prefix: 0 });
        Ok(Self { handle: Arc::new(Handle { dispatcher }), running, slot: Some(slot), serving: None })
    }

    /// Answers the octets of one datagram from `client`; `Ok(None)` where nothing is to be sent.
    ///
    /// # Errors
    /// [`Waiting`] where some plugin has to wait; the query is given up then.
    pub fn answer(&mut self, message: &[u8], client: SocketAddr) -> Result<Option<&[u8]>, Waiting> {
        let now = clock::now();
        let mut slot = self.slot.take().unwrap_or_else(|| {
            let query = Query::empty(Arc::clone(&self.handle.dispatcher.info), Transport::Udp, now);
            Box::new(Slot { query, has_question: false, reply: Vec::new(), prefix: 0 })
        });
        match Request::parse(message) {
            Ok(request) => {
                slot.has_question = slot.query.receive(message, request, client, client, now);
                let future = answer(Arc::clone(&self.handle), slot);
                let serving = match &mut self.serving {
                    Some(serving) => {
                        serving.set(future);
                        serving
                    }
                    None => self.serving.insert(ReusableBoxFuture::new(future)),
                };
                match serving.poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(served) => slot = served,
                    Poll::Pending => {
                        self.serving = None;
                        return Err(Waiting);
                    }
                }
            }
            Err(Reject::Answer { rcode, question }) => reject_reply(message, rcode, question, &mut slot.reply),
            Err(Reject::Ignore) => slot.reply.clear(),
        }
        let slot = self.slot.insert(slot);
        Ok((!slot.reply.is_empty()).then_some(slot.reply.as_slice()))
    }

    /// Stops the plugins.
    pub async fn stop(self) {
        self.running.stop().await;
    }
}
