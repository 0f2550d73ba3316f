//! The plugin *forward*: exchanges, policies, probes, connections.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use coredns_plugin::wire::{HEADER_LEN, Header, MessageError, NameError, Rcode, Reject, Request};
use coredns_plugin::{Answer, Reply, Transport, metrics};
use coredns_rs::plugin::forward::{Policy, Selector};
use coredns_rs::upstream::{
    Asked, DialTimeout, Health, HealthCheck, Protocol, Settings, Signals, Target, Upstream, Way, cuts_message,
    parse_reply,
};
use coredns_testkit::libtest_mimic::Trial;
use coredns_testkit::vectors::{flag, text, texts};
use coredns_testkit::{Act, Ask, Harness, MockUpstream, Scripted, query, same_records, start_parts, stop_parts};
use toml::{Table, Value};

use crate::common::{Check, same, trials};
use crate::forward::{forward, forwards};

const DEADLINE: Duration = Duration::from_secs(20);
const RECORD: &str = "example.org. 3600 IN A 127.0.0.1";

pub(crate) fn all() -> Vec<Trial> {
    let tables: [(&str, Check); 11] = [
        ("protocol", protocol),
        ("policy", policy),
        ("attempts", attempts),
        ("exchange", exchange),
        ("match", matching),
        ("overflow", overflow),
        ("unpack_error_to_tc", unpack_error),
        ("udp_noise", noise),
        ("health", health),
        ("pool", pool),
        ("dial_timeout", dial_timeout),
    ];
    tables.into_iter().flat_map(|(key, check)| trials("forward-behaviour", key, check)).collect()
}

pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap_or_else(|error| panic!("{error}")).block_on(future)
}

pub(crate) fn number(case: &Table, key: &str) -> Option<i64> {
    case.get(key).and_then(Value::as_integer)
}

/// A counter of the upstream `to`.
fn counted(name: &str, to: &str) -> f64 {
    let families = metrics::registry().gather();
    let family = families.iter().find(|family| family.name() == name);
    let all = family.map(|family| family.get_metric()).unwrap_or_default();
    let of_it = all.iter().filter(|metric| metric.get_label().iter().any(|pair| pair.value() == to));
    of_it.map(|metric| metric.get_counter().get_value()).sum()
}

fn misses(to: &str) -> f64 {
    counted("coredns_proxy_conn_cache_misses_total", to)
}

fn hits(to: &str) -> f64 {
    counted("coredns_proxy_conn_cache_hits_total", to)
}

fn protocol(_file: &Table, case: &Table) -> Result<(), String> {
    let option = |name: &str| if flag(case, name) == Some(true) { format!("{name}\n") } else { String::new() };
    let stanza = format!("forward . 127.0.0.1 {{\n{}{}}}", option("force_tcp"), option("prefer_udp"));
    let transport = if text(case, "client") == Some("tcp") { Transport::Tcp } else { Transport::Udp };
    let way = match forward(&stanza)?.way(transport) {
        Way::Udp => "udp",
        Way::Tcp => "tcp",
    };
    same("protocol", &Some(way), &text(case, "upstream"))
}

fn policy(_file: &Table, case: &Table) -> Result<(), String> {
    let upstreams = texts(case, "upstreams");
    let selector = Selector::new(text(case, "policy").and_then(Policy::from_text).ok_or("no policy")?);
    let mut order = Vec::new();
    for _ in 0..number(case, "call").ok_or("no call")? {
        order = selector.order(upstreams.len()).iter().map(|at| upstreams[*at].clone()).collect();
    }
    same("order", &order, &texts(case, "expect"))
}

/// Ports that nobody listens on, of an address that no other test uses, kept apart by sockets that only send.
fn closed_ports(count: usize) -> Vec<(std::net::UdpSocket, SocketAddr)> {
    let open = || {
        let socket = std::net::UdpSocket::bind("127.0.0.99:0").unwrap_or_else(|error| panic!("{error}"));
        let address = socket.local_addr().unwrap_or_else(|error| panic!("{error}"));
        (socket, address)
    };
    (0..count).map(|_| open()).collect()
}

fn attempts(_file: &Table, case: &Table) -> Result<(), String> {
    let ports =
        closed_ports(number(case, "upstreams").and_then(|count| usize::try_from(count).ok()).ok_or("no upstreams")?);
    let addresses: Vec<String> = ports.iter().map(|(_, address)| address.to_string()).collect();
    let limit = match text(case, "max_connect_attempts") {
        Some("default") | None => String::new(),
        Some(limit) => format!("max_connect_attempts {limit}\n"),
    };
    let stanza = format!("forward . {} {{\nforce_tcp\nmax_fails 0\n{limit}}}", addresses.join(" "));
    (coredns_rs::plugin::forward::DESCRIPTOR.register_metrics)();
    let answer =
        run(async { Ok::<_, String>(Harness::new(forwards(&stanza)?.plugins).ask(&query("example.org A")).await) })?;
    same("code", &answer.rcode(), &text(case, "rcode").and_then(Rcode::from_text))?;
    same("error", &matches!(&answer, Answer::Failed(failure) if failure.error.is_some()), &true)?;
    let tried: Vec<f64> = addresses.iter().map(|address| misses(address)).collect();
    let total: f64 = tried.iter().sum();
    match text(case, "attempts") {
        Some("at least 1") if total >= 1.0 => {}
        expected => same("attempts", &Some(total.to_string().as_str()), &expected)?,
    }
    match number(case, "per_upstream") {
        Some(each) => same("each", &tried, &vec![each as f64; tried.len()]),
        None => Ok(()),
    }
}

/// An upstream that does what a line of words says.
fn scripted(line: &str) -> MockUpstream {
    let line = line.split_once(": ").map_or(line, |(_, behind)| behind).to_owned();
    MockUpstream::start(move |_| {
        vec![match line.as_str() {
            "NOERROR, no records" => Act::Rcode(Rcode::NOERROR),
            "reply whose question is example.net. A" => Act::OtherQuestion("example.net.".to_owned()),
            "plain UDP/TCP server" => Act::answer(&[RECORD]),
            code if Rcode::from_text(code).is_some() => Act::Rcode(Rcode::from_text(code).unwrap_or_default()),
            record => Act::answer(&[record]),
        }]
    })
}

fn exchange(_file: &Table, case: &Table) -> Result<(), String> {
    if text(case, "id") == Some("pack-error") {
        return pack_error(case);
    }
    if text(case, "id") == Some("doh") {
        return crate::forward_doh::exchange(case);
    }
    let upstreams: Vec<MockUpstream> = texts(case, "upstream").iter().map(|line| scripted(line)).collect();
    let mut stanza = text(case, "corefile").ok_or("no corefile")?.to_owned();
    for (line, upstream) in texts(case, "upstream").iter().zip(&upstreams) {
        let name = line.split(':').next().unwrap_or_default();
        stanza = stanza.replace(name, &upstream.address().to_string());
    }
    let stanza = stanza.replace("whoami", "");
    let answer = run(async {
        let mut chain = forwards(&stanza)?.plugins;
        chain.push(Arc::new(Scripted::new("whoami", |_| Reply::with_rcode("whoami", Rcode::NOTAUTH).into())));
        Ok::<_, String>(Harness::new(chain).ask(&query(text(case, "q").ok_or("no query")?)).await)
    })?;
    judge_exchange(case, &answer)?;
    for (upstream, seen) in
        upstreams.iter().zip(case.get("queries_seen").and_then(Value::as_array).into_iter().flatten())
    {
        same("queries", &Some(upstream.queries() as i64), &seen.as_integer())?;
    }
    Ok(())
}

pub(crate) fn judge_exchange(case: &Table, answer: &Answer) -> Result<(), String> {
    same("code", &answer.rcode(), &text(case, "rcode").and_then(Rcode::from_text))?;
    if let Answer::Reply(reply) = answer {
        let expected = texts(case, "answer");
        let lines: Vec<&str> = expected.iter().map(String::as_str).collect();
        same_records(&reply.answer, &lines, true, true)?;
    }
    match (flag(case, "error"), answer) {
        (Some(true), Answer::Failed(failure)) if failure.error.is_some() => Ok(()),
        (Some(true), answer) => Err(format!("no error: {answer:?}")),
        _ => Ok(()),
    }
}

/// No message can hold such a string: its octet of length cannot say so, and what it says else does not fit the record.
fn pack_error(case: &Table) -> Result<(), String> {
    let mut message = Ask::new("example.org A").message();
    let header = Header { questions: 1, additionals: 1, ..Header::default() };
    message[..HEADER_LEN].copy_from_slice(&header.to_bytes());
    message.extend_from_slice(&[0, 0, 16, 0, 1, 0, 0, 0, 0, 1, 0, 255]);
    message.extend_from_slice(&[b'x'; 255]);
    let Err(Reject::Answer { rcode, .. }) = Request::parse(&message) else { return Err("it is accepted".to_owned()) };
    same("code", &Some(rcode), &text(case, "rcode").and_then(Rcode::from_text))?;
    same("attempts", &Some(0), &number(case, "attempts"))
}

fn matching(_file: &Table, case: &Table) -> Result<(), String> {
    let forward = forward(text(case, "corefile").ok_or("no corefile")?)?;
    let names = case.get("names").and_then(Value::as_table).ok_or("no names")?;
    names.iter().try_for_each(|(name, expected)| {
        let parsed = name.parse().map_err(|error| format!("{name}: {error}"))?;
        same(name, &Some(forward.config().matches(&parsed)), &expected.as_bool())
    })
}

fn settings() -> Settings {
    Settings {
        plugin: "forward",
        expire: Duration::from_secs(10),
        max_age: Duration::ZERO,
        max_idle: 0,
        read_timeout: Duration::from_secs(2),
        source: None,
        https_get: false,
        force_tcp: false,
        check: HealthCheck::default(),
    }
}

fn upstream_at(address: SocketAddr, settings: Settings) -> Arc<Upstream> {
    Upstream::new(Target { address, protocol: Protocol::Dns, server_name: None }, Arc::new(settings), None)
}

async fn ask(upstream: &Upstream, way: Way) -> Result<Reply, String> {
    let asked = Asked::new(&query("example.org A")).map_err(|error| error.to_string())?;
    upstream.exchange(&asked, way, &Signals::default()).await.map_err(|error| error.to_string())
}

fn overflow(_file: &Table, case: &Table) -> Result<(), String> {
    let records: Vec<String> = (0..20).map(|number| format!("example.org. 3600 IN A 127.0.0.{number}")).collect();
    let records: Vec<&str> = records.iter().map(String::as_str).collect();
    let mock = MockUpstream::answering(&records);
    let way = if texts(case, "options").iter().any(|option| option == "force_tcp") { Way::Tcp } else { Way::Udp };
    let reply = run(ask(&upstream_at(mock.address(), settings()), way))?;
    same("TC", &Some(reply.truncated), &flag(case, "tc"))?;
    same("answers", &Some(reply.answer.len() as i64), &number(case, "answer_count"))
}

fn unpack_error(_file: &Table, case: &Table) -> Result<(), String> {
    let described = text(case, "error").ok_or("no error")?;
    let error = if described.contains("bad") { MessageError::Name(NameError::Pointer) } else { MessageError::Short };
    same("becomes TC", &Some(cuts_message(error)), &flag(case, "becomes_tc"))?;
    // And this is what a reply that was cut off anywhere gives.
    let mut message = Ask::new("example.org A").message();
    message[7] = 1;
    message.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 127, 0, 0, 1]);
    for end in HEADER_LEN + 17..message.len() {
        let cut = parse_reply("forward", &message[..end]).err();
        if !matches!(cut, Some(MessageError::Short | MessageError::Name(_))) {
            return Err(format!("cut at {end}: {cut:?}"));
        }
    }
    Ok(())
}

fn noise(_file: &Table, case: &Table) -> Result<(), String> {
    let datagrams = texts(case, "datagrams");
    let mock = MockUpstream::start(move |seen| {
        let other = seen.message.header.id.wrapping_add(1).to_be_bytes();
        let acts = datagrams.iter().map(|datagram| match datagram.as_str() {
            text if text.starts_with("3 bytes") => Act::Garbage(vec![other[0], other[1], 0]),
            text if text.starts_with("header with another id") => {
                Act::Garbage([&other[..], &[0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0, 7]].concat())
            }
            "well-formed reply with another id" => Act::WrongId(1, vec!["example.org. 1 IN A 192.0.2.66".to_owned()]),
            _ => Act::answer(&["example.org. 1 IN A 192.0.2.55"]),
        });
        acts.collect()
    });
    let reply = run(ask(&upstream_at(mock.address(), settings()), Way::Udp))?;
    same_records(&reply.answer, &["example.org. 1 IN A 192.0.2.55"], true, true)?;
    same("queries", &mock.seen().len(), &1)
}

fn dial_timeout(_file: &Table, case: &Table) -> Result<(), String> {
    let millis = |key: &str| -> Option<f64> {
        let value = case.get(key)?;
        value.as_float().or_else(|| value.as_integer().map(|number| number as f64))
    };
    let duration = |key: &str| millis(key).map(|millis| Duration::from_secs_f64(millis / 1000.0)).ok_or("no number");
    let dial = DialTimeout::with_average(duration("average_ms")?);
    same("timeout", &dial.timeout(), &duration("timeout_ms")?)?;
    dial.observe(duration("observed_ms")?);
    same("average", &dial.average(), &duration("new_average_ms")?)
}

async fn until(mut found: impl FnMut() -> bool) -> Result<(), String> {
    let waiting = async {
        while !found() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(DEADLINE, waiting).await.map_err(|_| "it did not happen".to_owned())
}

fn health(_file: &Table, case: &Table) -> Result<(), String> {
    let probes = |mock: &MockUpstream| {
        mock.seen().into_iter().filter(|seen| seen.question().ends_with(" NS")).collect::<Vec<_>>()
    };
    let id = text(case, "id").ok_or("no id")?;
    // Silent to the first query, then well.
    let count = Arc::new(AtomicUsize::new(0));
    let is_silent = matches!(id, "hc-maxfails" | "hc-timeout");
    let mock = MockUpstream::start(move |_| match count.fetch_add(1, Ordering::Relaxed) {
        0 => Vec::new(),
        _ if is_silent => Vec::new(),
        _ => vec![Act::answer(&[])],
    });
    let options = match id {
        "hc-udp" => "",
        "hc-tcp" => "force_tcp",
        "hc-norec" => "health_check 0.5s no_rec",
        "hc-domain" => "health_check 0.5s domain example.org",
        "hc-maxfails" => "health_check 10ms",
        "hc-maxfails0" => "max_fails 0",
        "hc-https" => return crate::forward_doh::probe(case),
        "hc-timeout" => {
            let upstream = upstream_at(mock.address(), settings());
            return same("failed", &Some(run(upstream.probe()).is_err()), &flag(case, "probe_error"));
        }
        "fails-overflow" => {
            let fails = number(case, "fails").and_then(|fails| u32::try_from(fails).ok()).ok_or("no fails")?;
            let health = Health::with_fails(fails);
            health.probed(false);
            return same("fails", &health.fails(), &fails);
        }
        "all-down-failfast" => return all_down(case, "failfast_all_unhealthy_upstreams"),
        "all-down-default" => return all_down(case, ""),
        other => return Err(format!("nobody knows {other}")),
    };
    run(async {
        let stanza =
            format!("forward . {} {{\nread_timeout 400ms\nmax_connect_attempts 1\n{options}\n}}", mock.address());
        let block = forwards(&stanza)?;
        start_parts(&block).await.map_err(|error| error.to_string())?;
        let harness = Harness::new(block.plugins.clone());
        same("code", &harness.ask(&query("example.org A")).await.rcode(), &Some(Rcode::SERVFAIL))?;
        match flag(case, "down") {
            Some(true) => {
                // All of one are down: the chance that is left is said to be one.
                let broken = || {
                    metrics::registry().gather().iter().any(|family| {
                        family.name() == "coredns_forward_healthcheck_broken_total"
                            && family.get_metric()[0].get_counter().get_value() > 0.0
                    })
                };
                let waiting = async {
                    while !broken() {
                        let _ = harness.ask(&query("example.org A")).await;
                    }
                };
                tokio::time::timeout(DEADLINE, waiting).await.map_err(|_| "it is never down".to_owned())?;
            }
            _ if number(case, "probes") == Some(0) => {
                let _ = harness.ask(&query("example.org A")).await;
                same("probes", &probes(&mock).len(), &0)?;
            }
            _ => {
                until(|| !probes(&mock).is_empty()).await?;
                same("code", &harness.ask(&query("example.org A")).await.rcode(), &Some(Rcode::NOERROR))?;
                let seen = probes(&mock);
                same("probes", &Some(seen.len() as i64), &number(case, "probes"))?;
                let flags = if seen[0].message.header.has(Header::RD) { "RD=1" } else { "RD=0" };
                same("probe", &Some(format!("{} {flags}", seen[0].question()).as_str()), &text(case, "probe"))?;
                let proto = if id == "hc-tcp" { "tcp" } else { "udp" };
                same("protocol", &seen[0].proto, &proto)?;
            }
        }
        stop_parts(&block).await;
        Ok(())
    })
}

fn all_down(case: &Table, options: &str) -> Result<(), String> {
    let (first, second) = (MockUpstream::answering(&[RECORD]), MockUpstream::answering(&[RECORD]));
    let stanza = format!("forward . {} {} {{\n{options}\n}}", first.address(), second.address());
    let forward = forward(&stanza)?;
    for upstream in forward.upstreams().load().iter() {
        (0..3).for_each(|_| upstream.health().probed(false));
        same("down", &upstream.is_down(), &true)?;
    }
    let answer = run(async { Harness::new(vec![forward]).ask(&query("example.org A")).await });
    same("queries", &Some((first.queries() + second.queries()) as i64), &number(case, "upstream_queries"))?;
    let Some(expected) = text(case, "error") else { return same("code", &answer.rcode(), &Some(Rcode::NOERROR)) };
    let Answer::Failed(failure) = answer else { return Err("it is answered".to_owned()) };
    same("code", &Some(failure.rcode), &text(case, "rcode").and_then(Rcode::from_text))?;
    same("error", &failure.error.map(|error| error.to_string()).as_deref(), &Some(expected))
}

/// Exchanges over UDP at the same time.
async fn together(upstream: &Upstream, count: usize) -> Result<(), String> {
    let all = futures_util::future::join_all((0..count).map(|_| ask(upstream, Way::Udp))).await;
    all.into_iter().collect::<Result<Vec<_>, _>>().map(drop)
}

fn pool(_file: &Table, case: &Table) -> Result<(), String> {
    (coredns_rs::plugin::forward::DESCRIPTOR.register_metrics)();
    // Answers take a moment, so that exchanges that begin together need a socket each.
    let mock = MockUpstream::start(|_| vec![Act::Delay(Duration::from_millis(30)), Act::answer(&[RECORD])]);
    let to = mock.address().to_string();
    let upstream = |settings: Settings| upstream_at(mock.address(), settings);
    // The numbers are the process's, and another test may have had an upstream on this port before.
    let (misses_before, hits_before) = (misses(&to) as i64, hits(&to) as i64);
    let counts = || (misses(&to) as i64 - misses_before, hits(&to) as i64 - hits_before);
    run(async {
        match text(case, "id").ok_or("no id")? {
            "pool-fifo" => {
                let upstream = upstream(settings());
                together(&upstream, 2).await?;
                same("opened, used again", &(counts(), upstream.idle()), &((2, 0), (2, 0)))?;
                ask(&upstream, Way::Udp).await?;
                same("opened, used again", &(counts(), upstream.idle()), &((2, 1), (2, 0)))?;
                ask(&upstream, Way::Tcp).await?;
                same("opened, used again", &(counts(), upstream.idle()), &((3, 1), (2, 1)))
            }
            "pool-expire" => {
                let upstream = upstream(Settings { expire: Duration::from_millis(100), ..settings() });
                together(&upstream, 2).await?;
                tokio::time::sleep(Duration::from_millis(130)).await;
                ask(&upstream, Way::Udp).await?;
                same("opened, used again", &(counts(), upstream.idle()), &((3, 0), (1, 0)))
            }
            "pool-max-idle" => {
                let upstream = upstream(Settings { max_idle: 2, ..settings() });
                together(&upstream, 3).await?;
                same("opened, used again", &(counts(), upstream.idle()), &((3, 0), (2, 0)))?;
                together(&upstream, 3).await?;
                same("opened, used again", &(counts(), upstream.idle()), &((4, 2), (2, 0)))
            }
            "pool-unlimited" => {
                let upstream = upstream(settings());
                together(&upstream, 5).await?;
                same("opened, used again", &(counts(), upstream.idle()), &((5, 0), (5, 0)))
            }
            "pool-stopped" => {
                let upstream = upstream(settings());
                let mut under_way = std::pin::pin!(ask(&upstream, Way::Udp));
                tokio::select! {
                    _ = &mut under_way => return Err("it was not under way".to_owned()),
                    () = tokio::time::sleep(Duration::from_millis(1)) => upstream.stop(),
                }
                under_way.await?;
                same("kept", &upstream.idle(), &(0, 0))?;
                let error = ask(&upstream, Way::Udp).await.err().unwrap_or_default();
                same("refused", &error.ends_with("proxy: transport stopped"), &true)
            }
            "pool-max-age" => {
                aged(&upstream(Settings { max_age: Duration::from_secs(1), ..settings() }), 1, counts).await
            }
            "pool-max-age-rotation" => {
                aged(&upstream(Settings { max_age: Duration::from_secs(1), ..settings() }), 3, counts).await
            }
            other => Err(format!("nobody knows {other}")),
        }
    })
}

/// Sockets that are in use all the time end at their age all the same.
async fn aged(upstream: &Upstream, count: i64, counts: impl Fn() -> (i64, i64)) -> Result<(), String> {
    let together_all = || together(upstream, usize::try_from(count).unwrap_or_default());
    together_all().await?;
    together_all().await?;
    same("opened, used again", &counts(), &(count, count))?;
    tokio::time::sleep(Duration::from_millis(1100)).await;
    together_all().await?;
    same("opened, used again", &counts(), &(2 * count, count))
}
