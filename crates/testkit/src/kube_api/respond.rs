//! Lists and watches.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufStream};
use tokio::time::Instant;

use super::fault::{ErrorBody, Fault};
use super::request::{self, Call, Verb};
use super::selector::{fields_match, labels_match};
use super::store::{Event, RESOURCES, Resource};
use super::{Shared, State};

/// In place of the version of a watch that ends after its first line.
const TOO_OLD: u64 = u64::MAX;
/// How long a list waits for a version that is yet to come.
const FUTURE_WAIT: Duration = Duration::from_millis(300);

/// Serves one connection until it ends.
pub(super) async fn connection(shared: Arc<Shared>, number: u64, stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut stream = BufStream::new(stream);
    while let Some(call) = request::read(&mut stream, number).await {
        let fault = note(&shared, &call);
        let mut body = Body { stream: &mut stream, budget: None, drip: false };
        if !matches!(respond(&shared, &call, fault, &mut body).await, Ok(Next::Request)) {
            return;
        }
    }
}

/// Whether another request may follow on the connection.
enum Next {
    Request,
    Close,
}

/// Writes the request down and looks up what goes wrong with it.
fn note(shared: &Shared, call: &Call) -> Option<Fault> {
    let mut state = shared.state();
    state.calls.push(call.clone());
    let fault = state.rules.iter_mut().find_map(|(rule, fault)| rule.takes(call).then(|| fault.clone()));
    drop(state);
    shared.touch();
    fault
}

async fn respond<S: AsyncRead + AsyncWrite + Unpin>(
    shared: &Arc<Shared>,
    call: &Call,
    fault: Option<Fault>,
    body: &mut Body<'_, S>,
) -> io::Result<Next> {
    match &fault {
        Some(Fault::Close) => return Ok(Next::Close),
        Some(Fault::BlackHole) => {
            std::future::pending::<()>().await;
        }
        Some(Fault::Status { code, retry_after, body: text }) => {
            return body.failure(&error(*code, text.clone()), *retry_after).await;
        }
        Some(Fault::Empty) => return body.whole(200, "application/json", "", &[]).await,
        Some(Fault::Body(text)) => {
            body.begin_chunks().await?;
            body.chunk(text.as_bytes()).await?;
            body.end_chunks().await?;
            return Ok(Next::Request);
        }
        Some(Fault::Hang(text)) => {
            body.begin_chunks().await?;
            body.chunk(text.as_bytes()).await?;
            std::future::pending::<()>().await;
        }
        Some(Fault::Cut { after }) => body.budget = Some(*after),
        Some(Fault::Drip) => body.drip = true,
        Some(Fault::Silence { .. } | Fault::End(_)) | None => {}
    }
    let admitted = admit(&shared.state(), call);
    if let Err(failure) = admitted {
        let retry_after = (failure.code == 429).then_some("1");
        return body.failure(&failure, retry_after).await;
    }
    let Some(resource) = RESOURCES.iter().find(|resource| resource.plural == call.resource) else {
        return body.whole(200, "text/plain", "ok", &[]).await;
    };
    match call.verb {
        Verb::List => list(shared, call, resource, body).await,
        Verb::Watch => watch(shared, call, resource, fault, body).await,
        _ => body.failure(&error(405, ErrorBody::Text("method not allowed")), None).await,
    }
}

/// A request that is refused.
struct Failure {
    code: u16,
    content_type: &'static str,
    body: String,
}

fn error(code: u16, body: ErrorBody) -> Failure {
    match body {
        ErrorBody::Text(text) => Failure { code, content_type: "text/plain", body: text.to_owned() },
        ErrorBody::Status(reason, message) => status(code, reason, message),
    }
}

fn status(code: u16, reason: &str, message: &str) -> Failure {
    Failure { code, content_type: "application/json", body: status_object(code, reason, message).to_string() }
}

fn status_object(code: u16, reason: &str, message: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "reason": reason, "code": code})
}

/// Checks who asks for what, and how.
fn admit(state: &State, call: &Call) -> Result<(), Failure> {
    if let Some(tokens) = &state.settings.tokens {
        let token = call.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
        match token {
            None => {
                return Err(status(403, "Forbidden", &forbidden(call, "system:anonymous")));
            }
            Some(token) if !tokens.contains(token) => return Err(status(401, "Unauthorized", "Unauthorized")),
            Some(_) => {}
        }
    }
    if call.verb == Verb::Other || state.settings.missing.contains(call.resource) {
        let known = call.path == "/healthz" || call.path == "/readyz" || call.path == "/livez";
        return if known { Ok(()) } else { Err(error(404, ErrorBody::Text("404 page not found\n"))) };
    }
    if state.settings.denied.contains(&(call.verb, call.resource.to_owned())) {
        let user = "system:serviceaccount:kube-system:coredns";
        return Err(status(403, "Forbidden", &forbidden(call, user)));
    }
    let is_set = |name: &str| call.parameter(name).is_some_and(|value| !value.is_empty());
    let matched = call.parameter("resourceVersionMatch").unwrap_or_default();
    let wrong = match call.verb {
        Verb::Watch if is_set("sendInitialEvents") && !state.settings.streaming_lists => {
            "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
        }
        Verb::Watch if is_set("sendInitialEvents") && matched != "NotOlderThan" => {
            "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        }
        Verb::Watch if !is_set("sendInitialEvents") && !matched.is_empty() => {
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        }
        Verb::List if !matched.is_empty() && !is_set("resourceVersion") => {
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
        }
        Verb::List if is_set("sendInitialEvents") => {
            "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"
        }
        Verb::List
            if is_set("continue") && is_set("resourceVersion") && call.parameter("resourceVersion") != Some("0") =>
        {
            return Err(status(400, "BadRequest", "specifying resource version is not allowed when using continue"));
        }
        _ => return Ok(()),
    };
    Err(status(422, "Invalid", &format!("ListOptions.meta.k8s.io \"\" is invalid: {wrong}")))
}

fn forbidden(call: &Call, user: &str) -> String {
    format!(
        "{} is forbidden: User \"{user}\" cannot {} resource \"{}\" in API group \"{}\" at the cluster scope",
        call.resource,
        call.verb.as_str(),
        call.resource,
        call.group
    )
}

/// Whether an object meets the selectors of a request.
fn selected(object: &Value, call: &Call) -> Result<bool, Failure> {
    let labels = labels_match(object, call.parameter("labelSelector").unwrap_or_default());
    let fields = fields_match(object, call.parameter("fieldSelector").unwrap_or_default());
    match (labels, fields) {
        (Ok(labels), Ok(fields)) => Ok(labels && fields),
        (Err(refusal), _) | (_, Err(refusal)) => Err(status(400, "BadRequest", &refusal)),
    }
}

fn select(state: &State, call: &Call, resource: &Resource) -> Result<Vec<Arc<Value>>, Failure> {
    let mut chosen = Vec::new();
    for object in state.store.objects(resource.plural) {
        if selected(&object, call)? {
            chosen.push(object);
        }
    }
    Ok(chosen)
}

async fn list<S: AsyncRead + AsyncWrite + Unpin>(
    shared: &Arc<Shared>,
    call: &Call,
    resource: &Resource,
    body: &mut Body<'_, S>,
) -> io::Result<Next> {
    if let Some(version) = number(call, "resourceVersion")
        && version > shared.state().store.version()
    {
        tokio::time::sleep(FUTURE_WAIT).await;
    }
    let page = page(&mut shared.state(), call, resource);
    match page {
        Ok(text) => body.whole(200, "application/json", &text, &[]).await,
        Err(failure) => body.failure(&failure, None).await,
    }
}

/// The text of one page of a list.
fn page(state: &mut State, call: &Call, resource: &Resource) -> Result<String, Failure> {
    let current = state.store.version();
    if let Some(version) = number(call, "resourceVersion").filter(|version| *version > current) {
        let message = format!("Too large resource version: {version}, current: {current}");
        return Err(status(504, "Timeout", &message));
    }
    let limit = number(call, "limit").map_or(usize::MAX, |limit| limit as usize);
    let (chain, start, version, items) = match call.parameter("continue") {
        None => {
            let items: Arc<[Arc<Value>]> = select(state, call, resource)?.into();
            let chain = if items.len() > limit { state.store.keep_snapshot(Arc::clone(&items)) } else { 0 };
            (chain, 0, current, items)
        }
        Some(token) => {
            let place =
                token.split_once('.').and_then(|(chain, start)| Some((chain.parse().ok()?, start.parse().ok()?)));
            let (chain, start) = place.ok_or_else(|| status(400, "BadRequest", "continue key is not valid"))?;
            let message = "The provided continue parameter is too old to display a consistent list result.";
            let snapshot = state.store.snapshot(chain).ok_or_else(|| status(410, "Expired", message))?;
            (chain, start, snapshot.version, Arc::clone(&snapshot.items))
        }
    };
    let end = items.len().min(start + limit.max(1));
    let mut metadata = json!({"resourceVersion": version.to_string()});
    if end < items.len() {
        metadata["continue"] = json!(format!("{chain}.{end}"));
        metadata["remainingItemCount"] = json!(items.len() - end);
    }
    let shown: Vec<Value> = items.iter().take(end).skip(start).map(|object| item(object, resource)).collect();
    let list = json!({"kind": format!("{}List", resource.kind), "apiVersion": resource.api_version(),
        "metadata": metadata, "items": shown});
    Ok(list.to_string())
}

/// An object as lists show it.
fn item(object: &Value, resource: &Resource) -> Value {
    let mut object = object.clone();
    if !resource.custom
        && let Some(fields) = object.as_object_mut()
    {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
    object
}

fn number(call: &Call, name: &str) -> Option<u64> {
    call.parameter(name)?.parse().ok()
}

/// A watch that is open, for counting.
struct Open<'a> {
    shared: &'a Shared,
    number: u64,
}

impl<'a> Open<'a> {
    fn new(shared: &'a Shared, number: u64) -> Self {
        shared.state().watches.insert(number);
        shared.touch();
        Self { shared, number }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.shared.state().watches.remove(&self.number);
        self.shared.touch();
    }
}

async fn watch<S: AsyncRead + AsyncWrite + Unpin>(
    shared: &Arc<Shared>,
    call: &Call,
    resource: &Resource,
    fault: Option<Fault>,
    body: &mut Body<'_, S>,
) -> io::Result<Next> {
    let mut changed = shared.changed.subscribe();
    let begun = begin_watch(&shared.state(), call, resource);
    let Begun { lines, mut version } = match begun {
        Ok(begun) => begun,
        Err(failure) => return body.failure(&failure, None).await,
    };
    body.begin_chunks().await?;
    let _open = Open::new(shared, call.connection);
    let end = end_of(shared, call, fault.as_ref());
    let mut left = if let Some(Fault::Silence { after }) = fault { after } else { usize::MAX };
    let mut pending = lines;
    let mut next_bookmark = bookmark_after(shared, call);
    loop {
        for line in pending.drain(..) {
            if left == 0 {
                // The client has to find out by itself.
                std::future::pending::<()>().await;
            }
            left -= 1;
            body.chunk(format!("{line}\n").as_bytes()).await?;
        }
        if left == 0 {
            std::future::pending::<()>().await;
        }
        if version == TOO_OLD {
            break;
        }
        tokio::select! {
            biased;
            gone = changed.changed() => if gone.is_err() { break },
            () = tokio::time::sleep_until(end) => break,
            () = sleep_until(next_bookmark) => {
                pending.push(bookmark(shared.state().store.version(), resource, false));
                next_bookmark = bookmark_after(shared, call);
            }
        }
        let state = shared.state();
        let events = state.store.since(version, resource.plural);
        // While its version lies before the client's, a restored server has nothing to say.
        version = version.max(events.last().map_or(0, |event| event.version));
        pending.extend(events.iter().filter_map(|event| line(event, call)));
    }
    body.end_chunks().await?;
    Ok(Next::Request)
}

/// When a watch ends properly.
fn end_of(shared: &Shared, call: &Call, fault: Option<&Fault>) -> Instant {
    let asked = number(call, "timeoutSeconds").filter(|seconds| *seconds > 0).map(Duration::from_secs);
    let longest = shared.state().settings.watch_max;
    let time = match fault {
        Some(Fault::End(time)) => *time,
        _ => asked.unwrap_or(longest).min(longest),
    };
    Instant::now() + time
}

fn bookmark_after(shared: &Shared, call: &Call) -> Option<Instant> {
    let wanted = call.parameter("allowWatchBookmarks") == Some("true");
    let interval = shared.state().settings.bookmarks.filter(|_| wanted)?;
    Some(Instant::now() + interval)
}

async fn sleep_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// What a watch says first, and the version that it goes on from.
struct Begun {
    lines: Vec<String>,
    version: u64,
}

fn begin_watch(state: &State, call: &Call, resource: &Resource) -> Result<Begun, Failure> {
    let current = state.store.version();
    selected(&Value::Null, call)?;
    match call.parameter("resourceVersion") {
        Some(text) if !text.is_empty() && text != "0" => {
            let version: u64 = text.parse().map_err(|_| status(400, "BadRequest", "invalid resource version"))?;
            if version < state.store.compacted() {
                let message = format!("too old resource version: {version} ({current})");
                let line = json!({"type": "ERROR", "object": status_object(410, "Expired", &message)});
                return Ok(Begun { lines: vec![line.to_string()], version: TOO_OLD });
            }
            let events = state.store.since(version, resource.plural);
            let lines = events.iter().filter_map(|event| line(event, call)).collect();
            Ok(Begun { lines, version: events.last().map_or(version, |event| event.version) })
        }
        _ => {
            let objects = select(state, call, resource)?;
            let mut lines: Vec<String> =
                objects.iter().map(|object| json!({"type": "ADDED", "object": **object}).to_string()).collect();
            if call.is_streaming_list() && call.parameter("allowWatchBookmarks") == Some("true") {
                lines.push(bookmark(current, resource, true));
            }
            Ok(Begun { lines, version: current })
        }
    }
}

fn bookmark(version: u64, resource: &Resource, ends_list: bool) -> String {
    let mut metadata = json!({"resourceVersion": version.to_string(), "creationTimestamp": null});
    if ends_list {
        metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    }
    let object = json!({"kind": resource.kind, "apiVersion": resource.api_version(), "metadata": metadata});
    json!({"type": "BOOKMARK", "object": object}).to_string()
}

/// An event as a watch with selectors sees it.
fn line(event: &Event, call: &Call) -> Option<String> {
    let is_seen = |object: &Value| selected(object, call).unwrap_or(false);
    let before = event.previous.as_deref().is_some_and(is_seen);
    let after = !event.deleted && is_seen(&event.object);
    let (kind, object) = match (before, after) {
        (false, true) => ("ADDED", Value::clone(&event.object)),
        (true, true) => ("MODIFIED", Value::clone(&event.object)),
        (true, false) => {
            // The last state that the client saw, with the version of the change.
            let mut object = Value::clone(event.previous.as_deref()?);
            object["metadata"]["resourceVersion"] = json!(event.version.to_string());
            ("DELETED", object)
        }
        (false, false) => return None,
    };
    Some(format!("{{\"type\":\"{kind}\",\"object\":{object}}}"))
}

/// The body of a response, and what goes wrong while it is sent.
struct Body<'a, S> {
    stream: &'a mut BufStream<S>,
    /// The octets of the body after which the connection breaks.
    budget: Option<usize>,
    drip: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Body<'_, S> {
    async fn failure(&mut self, failure: &Failure, retry_after: Option<&str>) -> io::Result<Next> {
        let fields: Vec<(&str, &str)> = retry_after.map(|value| ("Retry-After", value)).into_iter().collect();
        self.whole(failure.code, failure.content_type, &failure.body, &fields).await
    }

    async fn whole(&mut self, code: u16, content_type: &str, body: &str, fields: &[(&str, &str)]) -> io::Result<Next> {
        let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!(
            "HTTP/1.1 {code} {}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n{fields}\r\n",
            phrase(code),
            body.len()
        );
        self.stream.write_all(head.as_bytes()).await?;
        self.send(body.as_bytes()).await?;
        Ok(Next::Request)
    }

    async fn begin_chunks(&mut self) -> io::Result<()> {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: no-cache, private\r\n\
                    Transfer-Encoding: chunked\r\n\r\n";
        self.stream.write_all(head.as_bytes()).await?;
        self.stream.flush().await
    }

    async fn chunk(&mut self, octets: &[u8]) -> io::Result<()> {
        if self.drip {
            for octet in octets {
                self.stream.write_all(&[b'1', b'\r', b'\n', *octet, b'\r', b'\n']).await?;
                self.stream.flush().await?;
            }
            return Ok(());
        }
        if octets.is_empty() {
            return Ok(());
        }
        self.stream.write_all(format!("{:x}\r\n", octets.len()).as_bytes()).await?;
        self.send(octets).await?;
        self.stream.write_all(b"\r\n").await?;
        self.stream.flush().await
    }

    async fn end_chunks(&mut self) -> io::Result<()> {
        self.stream.write_all(b"0\r\n\r\n").await?;
        self.stream.flush().await
    }

    /// Sends octets of the body, or as many as there may be before the connection breaks.
    async fn send(&mut self, octets: &[u8]) -> io::Result<()> {
        let allowed = self.budget.unwrap_or(usize::MAX);
        let (sent, rest) = octets.split_at(octets.len().min(allowed));
        self.stream.write_all(sent).await?;
        self.stream.flush().await?;
        if let Some(budget) = &mut self.budget {
            *budget -= sent.len();
        }
        if rest.is_empty() { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }
}

const fn phrase(code: u16) -> &'static str {
    match code {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        410 => "Gone",
        422 => "Unprocessable Entity",
        429 => "Too Many Requests",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Internal Server Error",
    }
}
