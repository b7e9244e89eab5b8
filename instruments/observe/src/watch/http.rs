//! The part of HTTP/1.0 that Prometheus and a browser need: one GET for each connection.

use super::response_cache::Response;
use std::fs::File;
use std::io::Read as _;
use std::net::IpAddr;
use std::sync::Arc;

/// The maximum size of a request's head, in bytes.
const MAX_HEAD_BYTES: usize = 8 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// The metrics; only the head of the answer if `head_only`.
    Metrics { head_only: bool },
    /// A path that does not exist.
    NotFound,
    /// A method other than GET and HEAD.
    NotAllowed,
    /// The request came from this host, by a name that is not this host's.
    Misdirected,
    /// Not an HTTP request.
    Malformed,
    /// A head longer than the maximum.
    TooLong,
}

/// The kind of request, once its head is complete or the peer has closed its end. A request
/// from this host (`is_local`) must name this host: any web page can have its reader's browser send
/// requests there, under a name of the page's own.
pub(super) fn parse_request(
    request: &[u8],
    ended: bool,
    is_local: impl FnOnce() -> bool,
) -> Option<Request> {
    let is_whole = [&b"\r\n\r\n"[..], b"\n\n"]
        .iter()
        .any(|end| request.windows(end.len()).any(|part| part == *end));
    if is_whole {
        return Some(parse_head(request, is_local));
    }
    if ended {
        return Some(Request::Malformed);
    }
    (request.len() >= MAX_HEAD_BYTES).then_some(Request::TooLong)
}

fn parse_head(request: &[u8], is_local: impl FnOnce() -> bool) -> Request {
    let mut lines = request.split(|&byte| byte == b'\n');
    let line = lines.next();
    let line = line.and_then(|line| std::str::from_utf8(line).ok());
    let words: Vec<&str> = line.unwrap_or_default().split_ascii_whitespace().collect();
    let (method, target) = match words[..] {
        [method, target, version] if version.starts_with("HTTP/1.") => (method, target),
        _ => return Request::Malformed,
    };
    if is_local() && !lines.filter_map(host).all(is_this_host) {
        return Request::Misdirected;
    }
    let path = target.split('?').next().unwrap_or_default();
    match (method, path) {
        ("GET" | "HEAD", "/metrics" | "/") => Request::Metrics {
            head_only: method == "HEAD",
        },
        ("GET" | "HEAD", _) => Request::NotFound,
        _ => Request::NotAllowed,
    }
}

/// The value of a line of the head that is the field `Host`, without its port. If it is not text, it
/// is empty.
fn host(line: &[u8]) -> Option<&str> {
    let (name, value) = line.split_at(line.iter().position(|&byte| byte == b':')?);
    if !name.eq_ignore_ascii_case(b"Host") {
        return None;
    }
    let value = std::str::from_utf8(&value[1..]).unwrap_or_default().trim();
    Some(match value.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => value,
    })
}

/// Whether a name or an address is this host's. An address cannot be a page's own name.
fn is_this_host(host: &str) -> bool {
    let address = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    address.unwrap_or(host).parse::<IpAddr>().is_ok()
        || host.eq_ignore_ascii_case("localhost")
        || own_name().is_some_and(|own| {
            own.eq_ignore_ascii_case(host) || is_alias(host, &own, &hosts_file())
        })
}

fn own_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim_end().to_owned()).filter(|name| !name.is_empty())
}

/// Whether a line of the file of hosts gives an address both names, as it gives the host's own address
/// the short name and the one with the domain. A web page cannot write to that file.
fn is_alias(name: &str, own: &str, hosts: &str) -> bool {
    hosts.lines().any(|line| {
        let line = line.split('#').next().unwrap_or_default();
        let names = line.split_ascii_whitespace().skip(1);
        let has = |wanted: &str| names.clone().any(|one| one.eq_ignore_ascii_case(wanted));
        has(own) && has(name)
    })
}

/// The maximum size of the file of hosts, in bytes. Names after it are unknown.
const MAX_HOSTS_BYTES: u64 = 1 << 20;

/// The text of /etc/hosts; empty if there is none.
fn hosts_file() -> String {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open("/etc/hosts") {
        // If reading fails, the lines before are enough.
        let _ = file.take(MAX_HOSTS_BYTES).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
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
        Request::Misdirected => (
            "421 Misdirected Request",
            "From this host, the metrics are at localhost, the host's addresses, its name and the \
             names beside it in /etc/hosts, under no other name.\n",
        ),
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
                parse_request(request.as_bytes(), false, || false),
                Some(expected),
                "{request:?}"
            );
        }
    }

    #[test]
    fn an_incomplete_request_waits_until_it_ends_or_is_too_long() {
        let begun = b"GET /metrics HTTP/1.1\r\nHost: a\r\n";
        assert_eq!(parse_request(begun, false, || true), None);
        assert_eq!(
            parse_request(begun, true, || true),
            Some(Request::Malformed)
        );
        assert_eq!(
            parse_request(&[b'a'; MAX_HEAD_BYTES - 1], false, || true),
            None
        );
        assert_eq!(
            parse_request(&[b'a'; MAX_HEAD_BYTES], false, || true),
            Some(Request::TooLong)
        );
    }

    /// A name that a web page has made point to the loopback is not this host's.
    #[test]
    fn a_request_on_this_host_must_name_this_host() {
        let own = own_name().expect("a name");
        for (host, is_own) in [
            ("127.0.0.1:9100", true),
            ("[::1]:9100", true),
            ("[::1]", true),
            ("LOCALHOST:9100", true),
            ("localhost", true),
            (&*own, true),
            ("attacker.example:9100", false),
            ("localhost.attacker.example", false),
            ("127.0.0.1.attacker.example:9100", false),
            ("", false),
            ("\u{e9}", false),
        ] {
            let request = format!("GET /metrics HTTP/1.1\r\nX: y\r\nhOST: {host}\r\n\r\n");
            let expected = match is_own {
                true => Request::Metrics { head_only: false },
                false => Request::Misdirected,
            };
            let parsed = parse_request(request.as_bytes(), false, || true);
            assert_eq!(parsed, Some(expected), "{host}");
            // From elsewhere, a name is the configuration of whoever scrapes.
            let parsed = parse_request(request.as_bytes(), false, || false);
            assert_eq!(parsed, Some(Request::Metrics { head_only: false }));
        }
        let two = b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: attacker.example\r\n\r\n";
        assert_eq!(
            parse_request(two, false, || true),
            Some(Request::Misdirected)
        );
    }

    /// The name with the domain is one that Prometheus knows a host by.
    #[test]
    fn the_names_beside_the_hosts_own_in_the_file_of_hosts_are_its_own() {
        let hosts = "127.0.0.1 localhost\n127.0.1.1\tnode1.example.com NODE1 # attacker.example\n\
                     192.0.2.9 attacker.example\n# 127.0.1.1 node1 attacker.example";
        for (name, is_own) in [
            ("node1.example.com", true),
            ("Node1.Example.com", true),
            ("node1", true),
            ("attacker.example", false),
            ("localhost", false),
            ("127.0.1.1", false),
            ("example.com", false),
            ("", false),
        ] {
            assert_eq!(is_alias(name, "node1", hosts), is_own, "{name}");
        }
        assert!(!is_alias("node1", "node1", ""));
    }

    #[test]
    fn arbitrary_bytes_are_malformed() {
        assert_eq!(
            parse_request(b"\xff\xfe \0\r\n\r\n", false, || true),
            Some(Request::Malformed)
        );
    }
}
