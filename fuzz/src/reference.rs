//! A slow and plain reader of queries, to hold the fast one against.
//!
//! It copies everything, follows RFC 1035 §4.1 by recursion, and shares no code with what it checks.

/// What is to be done with the octets of one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is answered.
    Ignore,
    /// An error is answered: its code, and how many octets of the question it repeats.
    Answer(u16, usize),
    /// The query is served.
    Accept(View),
}

/// A query that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Name in wire form, type and class.
    pub question: Option<(Vec<u8>, u16, u16)>,
    /// Where the question ends.
    pub question_end: usize,
    /// UDP size, extended response code, version, flags.
    pub edns: Option<(u16, u8, u8, u16)>,
    /// Code and data of each option.
    pub options: Vec<(u16, Vec<u8>)>,
}

/// Reads one query.
pub fn read(octets: &[u8]) -> Verdict {
    let field = |at: usize| u16::from_be_bytes([octets[at], octets[at + 1]]);
    if octets.len() < 12 || octets[2] >= 0x80 {
        return Verdict::Ignore;
    }
    let opcode = octets[2] / 8;
    if opcode != 0 && opcode != 4 {
        return Verdict::Answer(4, 0);
    }
    if field(4) != 1 || field(6) > 1 || field(8) > 1 || field(10) > 2 {
        return Verdict::Answer(1, 0);
    }
    let mut view = View { question: None, question_end: 12, edns: None, options: Vec::new() };
    if octets.len() == 12 {
        return Verdict::Accept(view);
    }
    let Some((name, at)) = name(octets, 12) else { return Verdict::Answer(1, 0) };
    // Nothing lies before the first name that it could point to.
    if at != 12 + name.len() {
        return Verdict::Answer(1, 0);
    }
    // Fields of the question may be missing, but not by half.
    let (qtype, qclass) = match octets.len() - at {
        0 => (0, 0),
        2 => (field(at), 0),
        1 | 3 => return Verdict::Answer(1, 0),
        _ => (field(at), field(at + 2)),
    };
    view.question = Some((name, qtype, qclass));
    view.question_end = octets.len().min(at + 4);
    let sections = [usize::from(field(6)), usize::from(field(8)), usize::from(field(10))];
    match records(octets, view.question_end, sections, &mut view) {
        Some(()) => Verdict::Accept(view),
        None => Verdict::Answer(1, view.question_end - 12),
    }
}

fn records(octets: &[u8], start: usize, sections: [usize; 3], view: &mut View) -> Option<()> {
    let mut at = start;
    for (section, count) in sections.into_iter().enumerate() {
        for _ in 0..count {
            if at == octets.len() {
                return Some(());
            }
            let (owner, fixed) = name(octets, at)?;
            let head = octets.get(fixed..fixed + 10)?.to_vec();
            let field = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
            let (begin, end) = (fixed + 10, fixed + 10 + usize::from(field(8)));
            let data = octets.get(begin..end)?;
            if field(0) == 41 {
                if section != 2 || view.edns.is_some() || owner != [0] {
                    return None;
                }
                view.edns = Some((field(2), head[4], head[5], field(6)));
                view.options = options(data)?;
            } else if expanded_len(&octets[..end], begin, shape(field(0)))? > 65535 {
                return None;
            }
            at = end;
        }
    }
    Some(())
}

/// Reads all options; `None` where one reaches past the end.
pub fn options(mut data: &[u8]) -> Option<Vec<(u16, Vec<u8>)>> {
    let mut options = Vec::new();
    while !data.is_empty() {
        let head = data.get(..4)?;
        let len = usize::from(u16::from_be_bytes([head[2], head[3]]));
        options.push((u16::from_be_bytes([head[0], head[1]]), data.get(4..4 + len)?.to_vec()));
        data = &data[4 + len..];
    }
    Some(options)
}

/// Reads the name at `at`: its uncompressed octets, and where it ends.
pub fn name(message: &[u8], at: usize) -> Option<(Vec<u8>, usize)> {
    let (name, end) = labels(message, at, at, 0)?;
    (name.len() <= 255).then_some((name, end))
}

/// Labels from `at` on; `run` is where the current run of labels began, `hops` how many pointers led here.
fn labels(message: &[u8], at: usize, run: usize, hops: usize) -> Option<(Vec<u8>, usize)> {
    let len = usize::from(*message.get(at)?);
    match len {
        0 => Some((vec![0], at + 1)),
        1..64 => {
            let mut name = message.get(at..at + 1 + len)?.to_vec();
            // Longer than any name already; also keeps the recursion shallow.
            if at - run > 255 {
                return None;
            }
            let (rest, end) = labels(message, at + 1 + len, run, hops)?;
            name.extend(rest);
            Some((name, end))
        }
        192.. => {
            let target = (len - 192) * 256 + usize::from(*message.get(at + 1)?);
            if target >= run || hops == 126 {
                return None;
            }
            Some((labels(message, target, target, hops + 1)?.0, at + 2))
        }
        _ => None,
    }
}

/// What the data of a type consist of: `b` an octet, `n` a name, `s` a character string, `+` strings to the end,
/// `*` anything to the end.
fn shape(rtype: u16) -> &'static str {
    match rtype {
        1 => "bbbb",
        28 => "bbbbbbbbbbbbbbbb",
        2 | 3 | 4 | 5 | 7 | 8 | 9 | 12 | 39 => "n",
        6 => "nnbbbbbbbbbbbbbbbbbbbb",
        13 => "ss",
        14 | 17 | 58 => "nn",
        15 | 18 | 21 | 36 | 107 => "bbn",
        16 | 56 | 99 | 258 => "+",
        24 | 46 => "bbbbbbbbbbbbbbbbbbn*",
        26 => "bbnn",
        30 | 47 | 249 | 250 => "n*",
        33 => "bbbbbbn",
        35 => "bbbbsssn",
        64 | 65 => "bbn*",
        _ => "*",
    }
}

/// The length of the data once names are expanded; `None` where they do not fill `begin..` of `message` exactly.
fn expanded_len(message: &[u8], begin: usize, shape: &str) -> Option<usize> {
    let mut at = begin;
    let mut len = 0;
    let string = |at: usize| message.get(at).map(|len| at + 1 + usize::from(*len));
    for part in shape.chars() {
        let before = at;
        match part {
            'n' => {
                let (name, end) = name(message, at)?;
                len += name.len();
                at = end;
                continue;
            }
            's' => at = string(at)?,
            '+' => {
                while at < message.len() {
                    at = string(at)?;
                }
            }
            '*' => at = message.len(),
            _ => at += 1,
        }
        len += at - before;
    }
    (at == message.len()).then_some(len)
}
