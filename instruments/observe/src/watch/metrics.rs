//! The address for metrics that the environment sets.

use roce_trust::environment::{Malformed, variable};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const VARIABLE: &str = "ROCE_METRICS";

/// The address at which `ROCE_METRICS` has this process serve its metrics in Prometheus text
/// format, if it is set: `9100` is port 9100 of the loopback; other addresses are written in full,
/// as in `10.0.0.1:9100` or `[::1]:9100`. With port 0, the system chooses a free one.
///
/// # Errors
/// If the value is malformed.
pub fn environment_metrics() -> Result<Option<SocketAddr>, Malformed> {
    let Some(value) = variable(VARIABLE) else {
        return Ok(None);
    };
    let address = parse(&value.to_string_lossy()).map(Some);
    address.map_err(|error| Malformed::new(VARIABLE, value, error))
}

fn parse(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse() {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    text.parse().map_err(|_| {
        "it must be a port of the loopback (9100), or an address and a port (10.0.0.1:9100, \
         [::1]:9100)"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_on_the_loopback() {
        for (text, address) in [
            ("9100", "127.0.0.1:9100"),
            ("0", "127.0.0.1:0"),
            ("127.0.0.1:9100", "127.0.0.1:9100"),
            ("[::1]:9100", "[::1]:9100"),
            ("0.0.0.0:80", "0.0.0.0:80"),
        ] {
            let expected = address.parse::<SocketAddr>().expect("an address");
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn an_error_shows_valid_values() {
        for text in [
            "",
            "yes",
            "65536",
            "-1",
            "localhost:9100",
            "::1:9100",
            "127.0.0.1",
            ":9100",
        ] {
            let error = parse(text).expect_err("it is wrong");
            assert!(
                error.contains("9100") && error.contains("[::1]"),
                "{text}: {error}"
            );
        }
    }
}
