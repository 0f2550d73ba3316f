//! Queries: what is read, and from where.

use coredns_wire::{Header, Message, Rcode, Reject, Request, RrType, reject_reply};

use super::{QUESTION, header, record};

/// Nothing before the first name can be the rest of it but the header, which differs in the reply: a question that was
/// repeated with such a pointer would name something else there, or could not be read at all (RFC 9267 §2).
#[test]
fn a_question_that_points_into_the_header_is_a_form_error() {
    // With this identifier the header begins like a name: `a`, then a label of one octet, then the root.
    let head = Header { id: 0x0161, bits: 0x0100, questions: 1, ..Header::default() }.to_bytes();
    for name in [&b"\xc0\x00"[..], b"\x01x\xc0\x00", b"\xc0\x05"] {
        let octets = [&head[..], name, b"\x00\x01\x00\x01"].concat();
        assert_eq!(Request::parse(&octets).unwrap_err(), Reject::Answer { rcode: Rcode::FORMERR, question: 0 });
    }
}

/// The reply to a refused message has no records and is not longer than it, so it amplifies nothing.
#[test]
fn replies_to_refused_messages_are_short_and_can_be_read() {
    let refused = [
        [header(0x2800, [0, 0, 0]), QUESTION.to_vec()].concat(),
        [header(0, [2, 0, 0]), QUESTION.to_vec()].concat(),
        [header(0, [1, 0, 0]), QUESTION.to_vec(), vec![0xff]].concat(),
        [header(0, [0, 0, 1]), QUESTION.to_vec(), record(b"\x00", RrType::OPT, 0, 9, b"")].concat(),
    ];
    for octets in refused {
        let Err(Reject::Answer { rcode, question }) = Request::parse(&octets) else { panic!("refused") };
        let mut reply = b"left over".to_vec();
        reject_reply(&octets, rcode, question, &mut reply);
        assert!(reply.len() <= octets.len());
        let message = Message::parse(&reply).expect("readable");
        assert_eq!((message.header.id, message.header.rcode()), (0x1234, rcode));
        assert_eq!(message.questions.len(), usize::from(question > 0));
    }
    // Lengths that nothing stands behind give a reply without a question.
    let mut reply = Vec::new();
    reject_reply(&header(0, [0, 0, 0]), Rcode::FORMERR, usize::MAX, &mut reply);
    assert_eq!(reply.len(), 12);
    reject_reply(b"short", Rcode::FORMERR, 0, &mut reply);
    assert!(reply.is_empty());
}

/// A datagram lies in a larger slot, behind it what came before. Nothing of that is ever read (CVE-2020-17482).
#[test]
fn nothing_behind_the_received_length_is_read() {
    let opt = record(b"\x00", RrType::OPT, 0x8000, 6, b"\x00\x0a\x00\x02ab");
    let target = record(b"\xc0\x0c", RrType::MX, 5, 9, b"\x00\x0a\x02mx\xc0\x10\x00");
    let whole = [
        [header(0, [0, 0, 1]), QUESTION.to_vec(), opt.clone()].concat(),
        [header(0, [1, 0, 1]), QUESTION.to_vec(), target, opt].concat(),
    ];
    for octets in whole {
        for len in 0..=octets.len() {
            let alone = octets[..len].to_vec();
            for filler in [&b"\x00"[..], b"\xff", b"\xc0\x0c", b"\x01M", &octets[len..]] {
                let slot = [&alone[..], &filler.repeat(300)].concat();
                let view = &slot[..len];
                assert_eq!(format!("{:?}", Request::parse(view)), format!("{:?}", Request::parse(&alone)), "{len}");
                assert_eq!(Message::parse(view), Message::parse(&alone), "{len}");
                if let Ok(request) = Request::parse(view) {
                    assert!(request.question_end <= len && request.options.end <= len);
                    assert_eq!(request.options(view).collect::<Vec<_>>(), request.options(&alone).collect::<Vec<_>>());
                }
                let (mut reply, mut expected) = (Vec::new(), Vec::new());
                reject_reply(view, Rcode::FORMERR, QUESTION.len(), &mut reply);
                reject_reply(&alone, Rcode::FORMERR, QUESTION.len(), &mut expected);
                assert_eq!(reply, expected);
            }
        }
    }
}

/// Counts are claims. What a message costs depends on its octets (CVE-2026-86003).
#[test]
fn counts_that_nothing_stands_behind_are_refused() {
    for counts in [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 1, 1, 1]] {
        let [questions, answers, authorities, additionals] = counts.map(|count| count * u16::MAX);
        let head = Header { id: 1, bits: 0, questions, answers, authorities, additionals };
        assert!(Message::parse(&head.to_bytes()).is_err(), "{counts:?}");
        let octets = [&head.to_bytes()[..], QUESTION].concat();
        assert_eq!(
            Request::parse(&octets).unwrap_err(),
            Reject::Answer { rcode: Rcode::FORMERR, question: 0 },
            "{counts:?}"
        );
    }
}
