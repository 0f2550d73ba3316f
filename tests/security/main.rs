//! What hostile clients, files and objects must not be able to do to a whole server.
#![forbid(unsafe_code)]

mod configuration;
mod endpoints;
mod floods;
mod lines;
mod objects;
mod packets;
mod support;
