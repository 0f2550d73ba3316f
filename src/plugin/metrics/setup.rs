//! The directive `prometheus`.

use std::path::PathBuf;
use std::sync::Arc;

use coredns_plugin::corefile::excerpt;
use coredns_plugin::metrics::RequestMetrics;
use coredns_plugin::{HttpEndpoint, HttpSecurity, Setup, SetupError};

use super::endpoint::{Endpoint, report, report_secured};
use super::handler::Prometheus;
use super::web::Web;
use super::{NAME, PATH};

const DEFAULT_ADDRESS: &str = "localhost:9153";

/// What the directive says.
#[derive(Debug)]
struct Options {
    address: String,
    runtime_metrics: bool,
    web_config: Option<PathBuf>,
}

pub(super) fn setup(setup: &mut Setup<'_, '_>) -> Result<(), SetupError> {
    let mut seen: Option<Options> = None;
    while setup.tokens.next_token().is_some() {
        if seen.is_some() {
            return Err(setup.tokens.once_error().in_plugin(setup.name()));
        }
        seen = Some(parse_one(setup)?);
    }
    let Some(options) = seen else { return Ok(()) };
    let web = options.web_config.map(|path| Arc::new(Web::new(path)));
    setup.add_http(HttpEndpoint {
        plugin: NAME,
        address: options.address,
        path: PATH,
        handler: Arc::new(Endpoint::new(web.clone())),
        required: false,
        report: if web.is_some() { report_secured } else { report },
        security: web.map(|web| web as Arc<dyn HttpSecurity>),
    });
    setup.add_living(Prometheus::new(Arc::clone(RequestMetrics::global()), options.runtime_metrics));
    Ok(())
}

fn parse_one(setup: &mut Setup<'_, '_>) -> Result<Options, SetupError> {
    let address = setup.endpoint_address()?.unwrap_or(DEFAULT_ADDRESS);
    let mut options = Options { address: address.to_owned(), runtime_metrics: false, web_config: None };
    while let Some(option) = setup.tokens.next_block() {
        match option.text() {
            "runtime_metrics" => {
                if !setup.tokens.remaining_args().is_empty() {
                    return Err(setup.tokens.arg_error().in_plugin(setup.name()));
                }
                options.runtime_metrics = true;
            }
            "tls" => {
                if options.web_config.is_some() {
                    return Err(setup.error("tls block already specified").with_remedy("keep one of the two lines"));
                }
                let [path] = setup.tokens.remaining_args()[..] else {
                    return Err(setup.tokens.arg_error().in_plugin(setup.name()));
                };
                options.web_config = Some(setup.path(path));
            }
            word => {
                let error = setup.error(format!("unknown option: {}", excerpt(word)));
                return Err(error.with_remedy("the options are runtime_metrics and tls WEB_CONFIG_FILE"));
            }
        }
    }
    Ok(options)
}
