//! The server: listeners, workers, routing, and the lives of instances.
//!
//! | module | what |
//! |---|---|
//! | `syscall` | many datagrams with one call; the only `unsafe` of the product |
//! | `sockets`, `worker`, `endpoint` | sockets, the threads that own them, a listener as one of them sees it |
//! | `udp`, `tcp`, `connections` | what comes in, and its bounds |
//! | `slot`, `dispatch`, `edge` | one query: its place, its block and chain, its reply as bytes |
//! | `load`, `instance`, `remarks`, `control` | text to configuration to a running server |
//! | `process`, `signals`, `panics`, `validate` | the process, what ends it, and the check without one |
//! | `in_process` | the server without sockets, for benches and tests |
//! | `http`, `logging`, `core_metrics` | endpoints, log lines, numbers of the server itself |

mod connections;
mod control;
mod core_metrics;
mod dispatch;
mod edge;
mod endpoint;
mod http;
mod in_process;
mod instance;
mod load;
mod logging;
mod panics;
mod process;
mod remarks;
mod signals;
mod slot;
mod sockets;
mod syscall;
mod tcp;
mod udp;
mod validate;
mod worker;

pub use in_process::{InProcess, Waiting};
pub use load::Origin;
pub use process::run;
pub use validate::{Findings, check, validate};
