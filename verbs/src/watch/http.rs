//! The part of HTTP/1.0 that Prometheus and a browser need: one GET for each connection.

use super::answer::Answer;
use std::sync::Arc;

/// The maximum size of a request's head, in bytes.
const LONGEST: usize = 8 << 10;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The metrics; only the head of the answer if `head_only`.
    Metrics { head_only: bool },
    /// A path that does not exist.
    NotFound,
    /// A method other than GET and HEAD.
    NotAllowed,
    /// Not an HTTP request.
    Malformed,
    /// A head longer than the maximum.
    TooLong,
}

/// What a request asks for, once its head is complete or the peer has closed its end.
pub(super) fn wanted(request: &[u8], ended: bool) -> Option<Wanted> {
    let is_whole = [&b"\r\n\r\n"[..], b"\n\n"]
        .iter()
        .any(|end| request.windows(end.len()).any(|part| part == *end));
    if is_whole {
        return Some(parse(request));
    }
    if ended {
        return Some(Wanted::Malformed);
    }
    (request.len() >= LONGEST).then_some(Wanted::TooLong)
}

fn parse(request: &[u8]) -> Wanted {
    let line = request.split(|&byte| byte == b'\n').next();
    let line = line.and_then(|line| std::str::from_utf8(line).ok());
    let words: Vec<&str> = line.unwrap_or_default().split_ascii_whitespace().collect();
    let (method, target) = match words[..] {
        [method, target, version] if version.starts_with("HTTP/1.") => (method, target),
        _ => return Wanted::Malformed,
    };
    let path = target.split('?').next().unwrap_or_default();
    match (method, path) {
        ("GET" | "HEAD", "/metrics" | "/") => Wanted::Metrics {
            head_only: method == "HEAD",
        },
        ("GET" | "HEAD", _) => Wanted::NotFound,
        _ => Wanted::NotAllowed,
    }
}

/// The answer. `metrics` makes the body if the request is for metrics.
pub(super) fn answer(wanted: Wanted, metrics: impl FnOnce() -> Arc<[u8]>) -> Answer {
    let (status, text) = match wanted {
        Wanted::Metrics { head_only } => {
            let body = metrics();
            let head = head(
                "200 OK",
                "text/plain; version=0.0.4; charset=utf-8",
                body.len(),
            );
            let body = if head_only { Arc::from([]) } else { body };
            return Answer::new(head, body);
        }
        Wanted::NotFound => ("404 Not Found", "The metrics are at /metrics.\n"),
        Wanted::NotAllowed => ("405 Method Not Allowed\r\nAllow: GET, HEAD", "GET it.\n"),
        Wanted::Malformed => ("400 Bad Request", "This is not an HTTP request.\n"),
        Wanted::TooLong => (
            "431 Request Header Fields Too Large",
            "The head of a request must not exceed 8 KiB.\n",
        ),
    };
    let head = head(status, "text/plain; charset=utf-8", text.len());
    Answer::new(head, text.as_bytes().into())
}

fn head(status: &str, kind: &str, length: usize) -> String {
    format!(
        "HTTP/1.0 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read() {
        let metrics = Wanted::Metrics { head_only: false };
        for (request, expected) in [
            ("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", metrics),
            ("GET /metrics?x=1 HTTP/1.0\n\n", metrics),
            ("GET / HTTP/1.0\r\n\r\n", metrics),
            (
                "HEAD /metrics HTTP/1.1\r\n\r\n",
                Wanted::Metrics { head_only: true },
            ),
            ("GET /etc/passwd HTTP/1.0\r\n\r\n", Wanted::NotFound),
            ("POST /metrics HTTP/1.0\r\n\r\n", Wanted::NotAllowed),
            ("GET /metrics\r\n\r\n", Wanted::Malformed),
            ("\r\n\r\n", Wanted::Malformed),
            ("GET /metrics HTTP/2\r\n\r\n", Wanted::Malformed),
        ] {
            assert_eq!(
                wanted(request.as_bytes(), false),
                Some(expected),
                "{request:?}"
            );
        }
    }

    #[test]
    fn what_is_not_whole_waits_but_not_for_ever() {
        let begun = b"GET /metrics HTTP/1.1\r\nHost: a\r\n";
        assert_eq!(wanted(begun, false), None);
        assert_eq!(wanted(begun, true), Some(Wanted::Malformed));
        assert_eq!(wanted(&[b'a'; LONGEST - 1], false), None);
        assert_eq!(wanted(&[b'a'; LONGEST], false), Some(Wanted::TooLong));
    }

    #[test]
    fn no_bytes_are_too_odd() {
        assert_eq!(
            wanted(b"\xff\xfe \0\r\n\r\n", false),
            Some(Wanted::Malformed)
        );
    }
}
