//! A name server that knows one name: to see whether a program that has no library with it can ask
//! one.
//!
//! Source: RFC 1035, section 4.

use std::net::{Ipv4Addr, UdpSocket};
use std::thread;

/// Starts a thread that answers on `at`, port 53: `name` is 127.0.0.1, and nothing else is known.
pub(crate) fn start(at: Ipv4Addr, name: &'static str) {
    let socket = UdpSocket::bind((at, 53)).expect("port 53 of an address of the loopback");
    thread::spawn(move || {
        let mut packet = [0; 512];
        while let Ok((len, from)) = socket.recv_from(&mut packet) {
            let _ = socket.send_to(&answer(&packet[..len], name), from);
        }
    });
}

/// The answer to `query`: its address, that it has none of that type, or that there is no such
/// name.
fn answer(query: &[u8], name: &str) -> Vec<u8> {
    let question = &query[HEADER_BYTES..];
    let (asked, len) = labels(question);
    let question = &question[..len + 4];
    let known = asked.eq_ignore_ascii_case(name);
    let address = known && question[len..] == [0, 1, 0, 1];
    // A response, recursion asked for and available; 3: there is no such name.
    let mut packet =
        [&query[..2], &[0x81, if known { 0x80 } else { 0x83 }], &[0, 1, 0, u8::from(address), 0, 0, 0, 0]].concat();
    packet.extend(question);
    if address {
        // The name of the question, type A, class IN, a minute, four bytes.
        packet.extend([0xc0, HEADER_BYTES as u8, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        packet.extend(Ipv4Addr::LOCALHOST.octets());
    }
    packet
}

/// The name at the start of a question, and its length there.
fn labels(question: &[u8]) -> (String, usize) {
    let (mut at, mut name) = (0, Vec::new());
    while question[at] > 0 {
        let end = at + 1 + usize::from(question[at]);
        name.push(String::from_utf8_lossy(&question[at + 1..end]).into_owned());
        at = end;
    }
    (name.join("."), at + 1)
}

/// Of a query and an answer, before the question.
const HEADER_BYTES: usize = 12;
