//! The targets for DNS messages.

use coredns_wire::{
    EdnsOptions, Header, MAX_OPTIONS, Message, Name, Outgoing, Record, Reject, Request, RrType, encode,
    rdata_from_text, rdata_to_text, read_name, read_rdata, reject_reply, skip_name,
};

use super::reference::{self, Verdict, View};

/// A message as it came in: the query reader agrees with the reference, what it refuses is answered by a message that
/// can be read, and whatever can be read as a message is written and read again as the same.
pub fn question_view(data: &[u8]) {
    let verdict = match Request::parse(data) {
        Ok(request) => Verdict::Accept(view(&request, data)),
        Err(Reject::Ignore) => Verdict::Ignore,
        Err(Reject::Answer { rcode, question }) => {
            let mut reply = Vec::new();
            reject_reply(data, rcode, question, &mut reply);
            assert!(reply.len() <= data.len(), "the reply to a refused message is never longer than it");
            let reply = Message::parse(&reply).expect("the reply to a refused message can be read");
            assert_eq!((reply.header.rcode(), reply.header.has(Header::QR)), (rcode, true));
            Verdict::Answer(rcode.0, question)
        }
    };
    assert_eq!(verdict, without_excess(reference::read(data)));
    if let Ok(message) = Message::parse(data) {
        write_again(&message);
    }
}

fn view(request: &Request, data: &[u8]) -> View {
    View {
        question: request.question.as_ref().map(|(name, qtype, qclass)| (name.as_wire().to_vec(), qtype.0, qclass.0)),
        question_end: request.question_end,
        edns: request.edns.map(|edns| (edns.udp_size, edns.extended_rcode, edns.version, edns.flags)),
        options: request.options(data).map(|option| (option.code, option.data.to_vec())).collect(),
    }
}

/// The reference keeps all options; only the first hundred are ever looked at.
fn without_excess(mut verdict: Verdict) -> Verdict {
    if let Verdict::Accept(view) = &mut verdict {
        view.options.truncate(MAX_OPTIONS);
    }
    verdict
}

fn write_again(message: &Message) {
    let question = match &message.questions[..] {
        [question] => Outgoing::question(&question.name, question.qtype, question.qclass),
        _ => Vec::new(),
    };
    let sections = [&message.answer[..], &message.authority, &message.additional];
    let mut written = Vec::new();
    for (limit, compress_above) in [(65535, 65535), (65535, 0), (512, 512)] {
        let outgoing =
            Outgoing { header: message.header, question: &question, sections, opt: &[], limit, compress_above };
        let encoded = encode(&outgoing, &mut written);
        assert!(written.len() <= limit, "the limit holds");
        let read = Message::parse(&written).expect("what is written can be read");
        let before = sections.concat();
        let after = [read.answer, read.authority, read.additional].concat();
        assert!(if encoded.truncated { after.len() < before.len() } else { after.len() == before.len() });
        assert!(before.iter().zip(&after).all(|(before, after)| same(before, after)), "{before:?} {after:?}");
    }
}

/// Tells whether two records are equal, case included.
fn same(a: &Record, b: &Record) -> bool {
    a == b && a.owner.eq_exact(&b.owner)
}

/// A message and a place in it (its first octet): the name there agrees with the reference, and survives every form.
/// The same octets are then taken as the text of a name.
pub fn name(data: &[u8]) {
    if let Some((&start, message)) = data.split_first() {
        let start = usize::from(start);
        let read = read_name(message, start).ok();
        let plain = read.as_ref().map(|(name, end)| (name.as_wire().to_vec(), *end));
        assert_eq!(plain, reference::name(message, start));
        if let Some((name, end)) = read {
            assert_eq!(skip_name(message, start), Ok(end));
            survives(&name);
        }
    }
    if let Some(name) = std::str::from_utf8(data).ok().and_then(|text| text.parse::<Name>().ok()) {
        survives(&name);
    }
}

fn survives(name: &Name) {
    assert!((1..=255).contains(&name.len()));
    assert!(Name::from_wire(name.as_wire()).is_ok_and(|again| again.eq_exact(name)));
    assert!(Name::from_labels(name.labels()).is_ok_and(|again| again.eq_exact(name)));
    let text = name.to_string();
    assert!(text.bytes().all(|octet| octet.is_ascii_graphic()), "{text:?}");
    assert!(text.parse::<Name>().is_ok_and(|again| again.eq_exact(name)), "{text:?}");
    assert_eq!(&name.to_lowercase(), name);
}

/// The data of an OPT record: accepted and refused as by the reference, alone and inside a query.
pub fn opt(data: &[u8]) {
    let data = &data[..data.len().min(60_000)];
    let all = reference::options(data);
    assert_eq!(EdnsOptions::check(data).is_ok(), all.is_some());
    let seen: Vec<_> = EdnsOptions::new(data).map(|option| (option.code, option.data.to_vec())).collect();
    if let Some(all) = all {
        assert_eq!(seen, all[..all.len().min(MAX_OPTIONS)]);
    }
    let head =
        b"\x00\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01\x00\x00\x01\x00\x01\x00\x00\x29\x04\xd0\x00\x00\x80\x00";
    let len = u16::try_from(data.len()).expect("cut above").to_be_bytes();
    question_view(&[&head[..], &len, data].concat());
}

/// A type (two octets) and data: what can be read prints as one line of printable ASCII, which is read as the same
/// data or refused. The data are then taken as text, and what that gives prints as the same data.
pub fn rdata(data: &[u8]) {
    let Some((&[high, low], data)) = data.split_first_chunk() else { return };
    let rtype = RrType(u16::from_be_bytes([high, low]));
    let text = rdata_to_text(rtype, data);
    assert!(text.bytes().all(|octet| (b' '..=b'~').contains(&octet)), "{text:?}");
    if let Ok(again) = rdata_from_text(rtype, &text) {
        assert_eq!(again.as_bytes(), data, "{rtype} {text:?}");
    }
    if let Ok(read) = read_rdata(data, rtype, 0, data.len()) {
        let text = rdata_to_text(rtype, read.as_bytes());
        let again = rdata_from_text(rtype, &text).map(|again| again.as_bytes().to_vec());
        assert_eq!(again, Ok(read.as_bytes().to_vec()), "{rtype} {text:?}");
    }
    if let Some(typed) = std::str::from_utf8(data).ok().and_then(|text| rdata_from_text(rtype, text).ok()) {
        let text = rdata_to_text(rtype, typed.as_bytes());
        assert_eq!(rdata_from_text(rtype, &text), Ok(typed), "{rtype} {text:?}");
    }
}
