//! Opening and closing what a plugin needs.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use crate::chain::Plugin;
use crate::query::ServerInfo;
use crate::zones::Zones;

/// An error of any kind, with its text for people.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A future on the heap.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a plugin is told when its instance starts.
#[derive(Clone, Default)]
pub struct Start {
    /// The listeners that serve the block.
    pub servers: Vec<Arc<ServerInfo>>,
    /// The zones of the block, in the order of its keys.
    pub zones: Zones,
    /// The name of the block's view; empty for none.
    pub view: String,
    /// All links of the block's chain, in order.
    pub plugins: Arc<[Arc<dyn Plugin>]>,
    /// False when this instance replaces a running one.
    pub first: bool,
    /// What the parts of all blocks of this instance have in common.
    pub shared: Arc<Shared>,
}

/// Values that the parts of one instance share, one of each type; a reload begins with none.
#[derive(Debug, Default)]
pub struct Shared {
    /// Protects the table; held for one look-up.
    values: Mutex<BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

impl Shared {
    /// The instance's value of type `T`; the first to ask makes it.
    #[must_use]
    pub fn of<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let value = values.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default()));
        // The entry of a type is of that type.
        Arc::clone(value).downcast().unwrap_or_default()
    }
}

/// What lives as long as an instance: watches, timers, files that are read again.
///
/// All calls come from the control runtime, never from a worker. The order is: `start` of every part in the order
/// of `plugin.cfg`, listeners open, `serving`; then at the end of the process `lameduck`, listeners close, `stop`,
/// or on a reload just `stop`, after the new instance has taken over and this one has answered what it had.
pub trait Lifecycle: Send + Sync {
    /// Opens what is needed before the first query; an error ends the start, or keeps the old instance.
    fn start<'a>(&'a self, start: &'a Start) -> BoxFuture<'a, Result<(), BoxError>> {
        let _ = start;
        Box::pin(async { Ok(()) })
    }

    /// The listeners are open and answer.
    fn serving<'a>(&'a self, start: &'a Start) -> BoxFuture<'a, ()> {
        let _ = start;
        Box::pin(async {})
    }

    /// The process is about to end; queries are still answered until this returns.
    fn lameduck(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    /// Closes what was opened; must work after half a start, and more than once.
    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_has_one_value_of_a_type() {
        let shared = Shared::default();
        assert!(Arc::ptr_eq(&shared.of::<Mutex<u8>>(), &shared.of::<Mutex<u8>>()));
        *shared.of::<Mutex<u8>>().lock().expect("not poisoned") = 1;
        assert_eq!(*shared.of::<Mutex<u16>>().lock().expect("not poisoned"), 0);
    }
}
