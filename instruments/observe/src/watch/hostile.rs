//! Watchers and watched processes that misbehave according to a script, for the fuzz target
//! `metrics` and for tests.

use super::client::Query;
use super::connection::{Connection, Stream};
use super::devices::Devices;
use super::response_cache::ResponseCache;
use super::snapshot::Snapshot;
use super::{names, prometheus};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The memory that all answers to `roce top` may take.
const MAX_ANSWER_BYTES: usize = 1 << 16;

/// The bytes of a script, one after the other. After the end, zeros follow.
struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    /// The next piece of what is sent.
    fn piece(&mut self) -> &'a [u8] {
        let how = self.byte();
        let len = match how % 4 {
            0 => 1,
            1 => usize::from(how / 4),
            2 => usize::from(how) * 16,
            _ => self.0.len(),
        };
        let (piece, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        piece
    }
}

/// Plays a script. The first byte says whether it is a client of the server, a process that answers
/// `roce top`, or the kernel's table of names. Returns the snapshot that the process has answered.
///
/// # Panics
/// If an answer is not well-formed, or takes more memory than it may.
pub fn run_script(script: &[u8]) -> Option<Snapshot> {
    let mut script = Script(script);
    match script.byte() % 4 {
        0 => be_http_client(&mut script),
        1 => be_local_client(&mut script),
        2 => read_names(&mut script),
        _ => return be_watched(&mut script),
    }
    None
}

fn pair() -> (UnixStream, UnixStream) {
    let (peer, own) = UnixStream::pair().expect("a pair");
    peer.set_nonblocking(true).expect("allowed");
    own.set_nonblocking(true).expect("allowed");
    (peer, own)
}

/// Sends a request in pieces, and closes the connection at any time.
fn be_http_client(script: &mut Script<'_>) {
    let (mut peer, own) = pair();
    let devices = Devices::new();
    let mut cache = ResponseCache::new(&devices);
    let mut now = Instant::now();
    let begin = now;
    // A stream is a stream: the server only reads and writes.
    let stream = Stream::Http(TcpStream::from(OwnedFd::from(own)));
    let mut connection = Connection::new(stream, now, &mut cache);
    let (mut sent, mut goes_on) = (Vec::new(), true);
    while goes_on && !script.0.is_empty() {
        let piece = script.piece();
        match peer.write(piece) {
            Ok(count) => sent.extend_from_slice(&piece[..count]),
            Err(error) => assert_ne!(error.kind(), ErrorKind::InvalidInput),
        }
        if script.byte() % 16 == 15 {
            now += Duration::from_millis(u64::from(script.byte()) * 10);
        }
        goes_on = connection.advance(now, &mut cache);
        assert!(now < connection.deadline() || !goes_on);
    }
    if goes_on {
        peer.shutdown(std::net::Shutdown::Write)
            .expect("it is open");
        goes_on = connection.advance(now, &mut cache);
        // Without a request, there is an answer nevertheless.
        assert!(!goes_on || now >= begin);
    }
    drop(connection);
    let answer = read_all(&mut peer);
    if !answer.is_empty() {
        check_response(&answer, sent.starts_with(b"HEAD"));
    }
}

/// Everything that waits in a connection whose other end is closed.
fn read_all(from: &mut UnixStream) -> Vec<u8> {
    let mut all = Vec::new();
    // A reset follows what has arrived, if the other end left something unread.
    let _ = from.read_to_end(&mut all);
    all
}

/// Checks an answer of HTTP: its status, and that the body has the length that the head says.
fn check_response(answer: &[u8], is_head: bool) {
    let end = answer.windows(4).position(|part| part == b"\r\n\r\n");
    let (head, body) = answer.split_at(end.expect("a whole head") + 4);
    let head = std::str::from_utf8(head).expect("text");
    let status = head.split(' ').nth(1).expect("a status");
    assert!(
        ["200", "400", "404", "405", "421", "431"].contains(&status),
        "{head}"
    );
    let length = head.split("Content-Length: ").nth(1).expect("a length");
    let length: usize = length
        .split("\r\n")
        .next()
        .and_then(|text| text.parse().ok())
        .expect("a number");
    assert!(body.len() == length || (is_head && body.is_empty()));
}

/// Sends what a local client never sends, and reads the answer.
fn be_local_client(script: &mut Script<'_>) {
    let (mut peer, own) = pair();
    let devices = Devices::new();
    let mut cache = ResponseCache::new(&devices);
    let now = Instant::now();
    let mut connection = Connection::new(Stream::Local(own), now, &mut cache);
    while script.byte() % 2 == 1 {
        let _ = peer.write(script.piece());
    }
    if script.byte().is_multiple_of(4) {
        peer.shutdown(std::net::Shutdown::Read).expect("it is open");
    }
    let goes_on = connection.advance(now, &mut cache);
    assert!(!goes_on, "the answer is short");
    drop(connection);
    let answer = read_all(&mut peer);
    if !answer.is_empty() {
        serde_json::from_slice::<Snapshot>(&answer).expect("a snapshot");
    }
}

/// Reads the kernel's table of names, in which each user may choose some.
fn read_names(script: &mut Script<'_>) {
    let with_prefix = script.byte() % 2 == 1;
    let text = String::from_utf8_lossy(script.0);
    let text: String = if with_prefix {
        text.lines()
            .map(|line| format!("0: 2 0 00010000 0001 01 4711 @roce-watch-1/{line}\n"))
            .collect()
    } else {
        text.into_owned()
    };
    for name in names::parse(&text) {
        assert!(name.bytes().all(|byte| byte.is_ascii_graphic()));
    }
}

/// Answers `roce top` in pieces.
fn be_watched(script: &mut Script<'_>) -> Option<Snapshot> {
    let (mut peer, own) = pair();
    let mut query = Query::of(OwnedFd::from(own), u32::from(script.byte()));
    let mut bytes_left = MAX_ANSWER_BYTES;
    while !script.0.is_empty() && !query.has_ended() {
        let _ = peer.write(script.piece());
        query.read_answer(&mut bytes_left);
        assert!(query.response_len() <= MAX_ANSWER_BYTES - bytes_left);
    }
    let is_whole = !query.has_ended();
    drop(peer);
    while !query.has_ended() {
        query.read_answer(&mut bytes_left);
    }
    let snapshot = query.into_snapshot()?;
    assert!(is_whole, "an answer that is too long is not one");
    let json = serde_json::to_vec(&snapshot).expect("numbers and texts");
    // Not compared: a number with a fraction may differ in its last bit.
    serde_json::from_slice::<Snapshot>(&json).expect("a snapshot");
    check_metrics(&prometheus::text(&snapshot));
    Some(snapshot)
}

/// Checks that each line is a comment, or a sample whose labels are closed.
fn check_metrics(text: &str) {
    for line in text.split_terminator('\n') {
        if line.starts_with("# ") {
            continue;
        }
        let (labels, value) = line.rsplit_once(' ').expect("a value");
        assert!(labels.ends_with('}'), "{line:?}");
        assert!(value.parse::<f64>().is_ok(), "{line:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_of_random_bytes_are_played() {
        let mut state = 7_u32;
        let mut draw = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        for kind in (0..4).cycle().take(400) {
            let script: Vec<u8> = (0..300).map(|_| draw()).collect();
            run_script(&[&[kind], &script[..]].concat());
        }
    }

    #[test]
    fn a_snapshot_that_arrives_in_pieces_is_one() {
        let snapshot = Snapshot::default();
        let json = serde_json::to_vec(&snapshot).expect("numbers and texts");
        let pieces = json.iter().flat_map(|byte| [0, *byte]);
        let script: Vec<u8> = [3, 0].into_iter().chain(pieces).collect();
        assert_eq!(run_script(&script), Some(snapshot));
    }
}
