//! Whole servers: a Corefile goes in, the binary runs, real sockets are asked.
#![forbid(unsafe_code)]

mod cache;
mod cli;
mod dispatch;
#[cfg(plugin = "forward")]
mod forward;
mod intake;
mod kubernetes_api;
mod reload;
mod reload_watch;
mod shutdown;
mod startup;
mod support;
mod tcp;
mod tcp_limits;
mod udp;
mod validate;
mod writing;
