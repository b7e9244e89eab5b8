//! Errors of `roce dump`.

use roce_capture::CreateError;
use std::fmt;
use std::io;

/// Why `roce dump` ended.
#[non_exhaustive]
pub enum DumpError {
    /// No interface has this name.
    UnknownInterface {
        /// The requested name.
        name: String,
        /// The existing names.
        known: Vec<String>,
    },
    /// The packets of the interface begin with an unknown header.
    LinkType {
        /// The interface.
        name: String,
        /// Its hardware type (ARPHRD).
        hardware: u16,
    },
    /// Packet sockets are not allowed.
    Privilege,
    /// The capture file could not be made.
    Create(CreateError),
    /// Binary output would go to a terminal.
    Terminal,
    /// The file could not be written any further. The reason was already reported.
    Write,
    /// The operating system refused something.
    System {
        /// The operation that failed.
        what: String,
        /// Its error.
        source: io::Error,
    },
}

impl DumpError {
    /// The command's exit code: 2 for wrong usage.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::UnknownInterface { .. } | Self::LinkType { .. } | Self::Terminal => 2,
            _ => 1,
        }
    }
}

impl fmt::Display for DumpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownInterface { name, known } => write!(
                f,
                "no interface or device is named {name:?}; there are: {}",
                known.join(", ")
            ),
            Self::LinkType { name, hardware } => write!(
                f,
                "interface {name} is of hardware type {hardware}: only Ethernet and interfaces \
                 that carry bare IP packets can be read"
            ),
            Self::Privilege => {
                let program = std::env::current_exe().unwrap_or_else(|_| "roce".into());
                write!(
                    f,
                    "a packet socket needs the capability CAP_NET_RAW, which this process lacks: \
                     run it as root, or give it to the program once (sudo setcap cap_net_raw+ep {}). \
                     What a program's own RoCE devices send and receive can be captured without: \
                     set ROCE_PCAP=FILE for it",
                    program.display()
                )
            }
            Self::Create(error) => error.fmt(f),
            Self::Terminal => f.write_str(
                "a capture is not for a terminal: name a file with -w, or pipe it into a program",
            ),
            Self::Write => f.write_str("the capture could not be written to its end"),
            Self::System { what, source } => write!(f, "{what}: {source}"),
        }
    }
}

impl fmt::Debug for DumpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for DumpError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Create(error) => Some(error),
            Self::System { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<CreateError> for DumpError {
    fn from(error: CreateError) -> Self {
        Self::Create(error)
    }
}
