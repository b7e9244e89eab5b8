//! The environment variable `ROCE_SOCKETS`: words, separated by commas.

use std::sync::OnceLock;
use std::time::Duration;

const VARIABLE: &str = "ROCE_SOCKETS";

/// How long a connection attempt over RDMA may take before TCP is tried.
const DEFAULT_WAIT: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// `off`: all sockets stay with the kernel.
    pub(crate) is_off: bool,
    /// `only`: no connection falls back to TCP; the program gets the error.
    pub(crate) is_only: bool,
    /// `loopback`: use RDMA for 127.0.0.0/8 and ::1, too.
    pub(crate) with_loopback: bool,
    /// `quiet`: nothing on stderr about sockets that stay on TCP.
    pub(crate) is_quiet: bool,
    /// `log`: a line on stderr for each connection, with its addresses and its transport.
    pub(crate) is_logged: bool,
    /// `wait=MILLISECONDS`: how long a connection attempt over RDMA may take.
    pub(crate) wait: Duration,
}

impl Settings {
    const DEFAULT: Self = Self {
        is_off: false,
        is_only: false,
        with_loopback: false,
        is_quiet: false,
        is_logged: false,
        wait: DEFAULT_WAIT,
    };

    /// Parses the value. Returns the last unknown word, if any, beside the settings.
    fn parse(value: &str) -> (Self, Option<&str>) {
        let mut settings = Self::DEFAULT;
        let mut unknown = None;
        for word in value.split(',').map(str::trim) {
            match word {
                "" => {}
                "off" => settings.is_off = true,
                "only" => settings.is_only = true,
                "loopback" => settings.with_loopback = true,
                "quiet" => settings.is_quiet = true,
                "log" => settings.is_logged = true,
                _ => match parse_wait(word) {
                    Some(limit) => settings.wait = limit,
                    None => unknown = Some(word),
                },
            }
        }
        (settings, unknown)
    }
}

fn parse_wait(word: &str) -> Option<Duration> {
    let milliseconds = word.strip_prefix("wait=")?.parse().ok()?;
    Some(Duration::from_millis(milliseconds))
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// The settings of this process.
pub(crate) fn get() -> &'static Settings {
    SETTINGS.get_or_init(|| Settings::parse(&value()).0)
}

/// A word of the variable that is not a setting.
pub(crate) fn unknown_word() -> Option<String> {
    Settings::parse(&value()).1.map(str::to_owned)
}

fn value() -> String {
    let value = roce_trust::environment::variable(VARIABLE).unwrap_or_default();
    value.into_string().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_independent() {
        let (settings, unknown) = Settings::parse("only, log,wait=250");
        assert!(settings.is_only && settings.is_logged && !settings.is_quiet);
        assert_eq!(settings.wait, Duration::from_millis(250));
        assert_eq!(unknown, None);
    }

    #[test]
    fn an_unknown_word_is_returned() {
        assert_eq!(
            Settings::parse("quiet,olny"),
            (
                Settings {
                    is_quiet: true,
                    ..Settings::DEFAULT
                },
                Some("olny")
            )
        );
        assert_eq!(Settings::parse("wait=soon").1, Some("wait=soon"));
        assert_eq!(Settings::parse(""), (Settings::DEFAULT, None));
    }
}
