//! What begins and ends with an instance.

use std::sync::Arc;

use coredns_plugin::{BoxError, BoxFuture, Lifecycle, Start};

use super::handler::Forward;

impl Lifecycle for Forward {
    fn start<'a>(&'a self, start: &'a Start) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async {
            let upstreams = &self.upstreams;
            let lists = upstreams.complete().await.map_err(|text| format!("plugin/forward: {text}"))?;
            upstreams.warn_of_loops(&start.servers);
            upstreams.prober.start();
            upstreams.prober.run(Arc::clone(upstreams).clean());
            if upstreams.is_watched() {
                upstreams.prober.run(Arc::clone(upstreams).watch(lists));
            }
            Ok(())
        })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { self.upstreams.stop() })
    }
}
