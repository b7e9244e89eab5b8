//! The part of HTTP/1.0 that Prometheus and a browser need: one GET for each connection.

use super::response::Response;
use std::sync::Arc;

/// The maximum size of a request's head, in bytes.
const MAX_HEAD_BYTES: usize = 8 << 10;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
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
pub(super) fn parse_request(request: &[u8], ended: bool) -> Option<Request> {
    let is_whole = [&b"\r\n\r\n"[..], b"\n\n"]
        .iter()
        .any(|end| request.windows(end.len()).any(|part| part == *end));
    if is_whole {
        return Some(parse_head(request));
    }
    if ended {
        return Some(Request::Malformed);
    }
    (request.len() >= MAX_HEAD_BYTES).then_some(Request::TooLong)
}

fn parse_head(request: &[u8]) -> Request {
    let line = request.split(|&byte| byte == b'\n').next();
    let line = line.and_then(|line| std::str::from_utf8(line).ok());
    let words: Vec<&str> = line.unwrap_or_default().split_ascii_whitespace().collect();
    let (method, target) = match words[..] {
        [method, target, version] if version.starts_with("HTTP/1.") => (method, target),
        _ => return Request::Malformed,
    };
    let path = target.split('?').next().unwrap_or_default();
    match (method, path) {
        ("GET" | "HEAD", "/metrics" | "/") => Request::Metrics {
            head_only: method == "HEAD",
        },
        ("GET" | "HEAD", _) => Request::NotFound,
        _ => Request::NotAllowed,
    }
}

/// The answer. `metrics` makes the body if the request is for metrics.
pub(super) fn response(request: Request, metrics: impl FnOnce() -> Arc<[u8]>) -> Response {
    let (status, text) = match request {
        Request::Metrics { head_only } => {
            let body = metrics();
            let head = head(
                "200 OK",
                "text/plain; version=0.0.4; charset=utf-8",
                body.len(),
            );
            let body = if head_only { Arc::from([]) } else { body };
            return Response::new(head, body);
        }
        Request::NotFound => ("404 Not Found", "The metrics are at /metrics.\n"),
        Request::NotAllowed => ("405 Method Not Allowed\r\nAllow: GET, HEAD", "GET it.\n"),
        Request::Malformed => ("400 Bad Request", "This is not an HTTP request.\n"),
        Request::TooLong => (
            "431 Request Header Fields Too Large",
            "The head of a request must not exceed 8 KiB.\n",
        ),
    };
    let head = head(status, "text/plain; charset=utf-8", text.len());
    Response::new(head, text.as_bytes().into())
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
    fn requests_are_parsed() {
        let metrics = Request::Metrics { head_only: false };
        for (request, expected) in [
            ("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", metrics),
            ("GET /metrics?x=1 HTTP/1.0\n\n", metrics),
            ("GET / HTTP/1.0\r\n\r\n", metrics),
            (
                "HEAD /metrics HTTP/1.1\r\n\r\n",
                Request::Metrics { head_only: true },
            ),
            ("GET /etc/passwd HTTP/1.0\r\n\r\n", Request::NotFound),
            ("POST /metrics HTTP/1.0\r\n\r\n", Request::NotAllowed),
            ("GET /metrics\r\n\r\n", Request::Malformed),
            ("\r\n\r\n", Request::Malformed),
            ("GET /metrics HTTP/2\r\n\r\n", Request::Malformed),
        ] {
            assert_eq!(
                parse_request(request.as_bytes(), false),
                Some(expected),
                "{request:?}"
            );
        }
    }

    #[test]
    fn an_incomplete_request_waits_until_it_ends_or_is_too_long() {
        let begun = b"GET /metrics HTTP/1.1\r\nHost: a\r\n";
        assert_eq!(parse_request(begun, false), None);
        assert_eq!(parse_request(begun, true), Some(Request::Malformed));
        assert_eq!(parse_request(&[b'a'; MAX_HEAD_BYTES - 1], false), None);
        assert_eq!(
            parse_request(&[b'a'; MAX_HEAD_BYTES], false),
            Some(Request::TooLong)
        );
    }

    #[test]
    fn arbitrary_bytes_are_malformed() {
        assert_eq!(
            parse_request(b"\xff\xfe \0\r\n\r\n", false),
            Some(Request::Malformed)
        );
    }
}
