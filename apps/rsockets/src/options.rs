//! The sizes of a socket's queues and buffers, and their configured defaults.

use crate::error::Error;
use crate::wire;
use nix::errno::Errno;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

/// Maximum number of requests in a queue, as in rdma-core.
pub(crate) const MAX_QUEUE: u16 = 0xfffe;

/// An option that is a number or a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Number {
    /// SO_REUSEADDR.
    ReuseAddress,
    /// SO_KEEPALIVE.
    KeepAlive,
    /// TCP_KEEPIDLE, in seconds.
    KeepIdle,
    /// SO_OOBINLINE.
    OobInline,
    /// TCP_NODELAY. Nothing is ever delayed.
    NoDelay,
    /// IPV6_V6ONLY.
    V6Only,
    /// SO_RCVBUF, in bytes.
    ReceiveBuffer,
    /// SO_SNDBUF, in bytes.
    SendBuffer,
    /// RDMA_SQSIZE: requests in the send queue.
    SendQueue,
    /// RDMA_RQSIZE: messages that the peer may send ahead of the program.
    ReceiveQueue,
    /// RDMA_INLINE: sends up to this number of bytes are inline.
    Inline,
    /// RDMA_IOMAPSIZE: mappings that the peer may announce.
    Mappings,
}

impl Number {
    /// Whether a connected socket can no longer change it.
    pub(crate) fn is_fixed_once_connected(self) -> bool {
        matches!(
            self,
            Self::SendQueue | Self::ReceiveQueue | Self::Inline | Self::Mappings
        )
    }
}

/// The sizes of a socket, set before it is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Bytes of the send buffer.
    pub(crate) send_buffer: usize,
    /// Bytes of the receive buffer.
    pub(crate) receive_buffer: usize,
    /// Requests in the send queue.
    pub(crate) send_queue: u16,
    /// Messages that the peer may send ahead of the program.
    pub(crate) receive_queue: u16,
    /// Sends up to this number of bytes are inline.
    pub(crate) inline: u16,
    /// Maximum number of mappings that the peer may announce.
    pub(crate) mappings: u16,
}

/// The largest buffer. Lengths in messages have 29 bits.
const MAX_BUFFER: usize = 1 << 28;

/// The smallest send buffer.
const MIN_SEND_BUFFER: usize = 4096;

/// The smallest receive buffer.
const MIN_RECEIVE_BUFFER: usize = 2;

impl Sizes {
    /// Sets the size of a queue or buffer. Returns false if `option` is none.
    ///
    /// # Errors
    /// EINVAL if the value is negative.
    pub(crate) fn set(&mut self, option: Number, value: i32) -> Result<bool, Error> {
        let size = || {
            let what = || format!("{option:?} must be at least 0, not {value}");
            usize::try_from(value).map_err(|_| Error::new(Errno::EINVAL, what()))
        };
        let queue = || size().map(|size| size.min(usize::from(MAX_QUEUE)) as u16);
        // Twice the requested size, as for TCP and in rdma-core.
        let buffer = |least| size().map(|size| size.saturating_mul(2).clamp(least, MAX_BUFFER));
        match option {
            Number::ReceiveBuffer => self.receive_buffer = buffer(MIN_RECEIVE_BUFFER)?,
            Number::SendBuffer => self.send_buffer = buffer(MIN_SEND_BUFFER)?,
            Number::SendQueue => self.send_queue = queue()?,
            Number::ReceiveQueue => self.receive_queue = queue()?,
            Number::Inline => self.inline = queue()?,
            Number::Mappings => self.mappings = wire::round_down_mappings(queue()?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The size of a queue or buffer; `None` for other options.
    pub(crate) fn get(&self, option: Number) -> Option<i32> {
        let size = |bytes: usize| i32::try_from(bytes).unwrap_or(i32::MAX);
        Some(match option {
            Number::ReceiveBuffer => size(self.receive_buffer),
            Number::SendBuffer => size(self.send_buffer),
            Number::SendQueue => self.send_queue.into(),
            Number::ReceiveQueue => self.receive_queue.into(),
            Number::Inline => self.inline.into(),
            Number::Mappings => self.mappings.into(),
            _ => return None,
        })
    }
}

/// The administrator's settings.
pub(crate) struct Configuration {
    pub(crate) sizes: Sizes,
    /// How long a call polls before it sleeps.
    pub(crate) polling: Duration,
}

/// The folder of rdma-core's configuration files, each of which holds a number.
const FOLDER: &str = "/etc/rdma/rsocket";

pub(crate) fn configuration() -> &'static Configuration {
    static READ: LazyLock<Configuration> = LazyLock::new(|| Configuration::read(FOLDER.as_ref()));
    &READ
}

impl Configuration {
    /// The defaults, overridden by the files in `folder`. As with rdma-core, a file without a number is
    /// ignored.
    fn read(folder: &Path) -> Self {
        let number = |name: &str| -> Option<u64> {
            let text = fs::read_to_string(folder.join(name)).ok()?;
            text.split_whitespace().next()?.parse().ok()
        };
        let size = |name, default: usize, least| {
            let set = number(name).map(|set| usize::try_from(set).unwrap_or(usize::MAX));
            set.map_or(default, |set| set.clamp(least, MAX_BUFFER))
        };
        let queue = |name, default: u16| {
            let set = number(name).map(|set| u16::try_from(set).unwrap_or(u16::MAX));
            set.map_or(default, |set| set.min(MAX_QUEUE))
        };
        Self {
            sizes: Sizes {
                send_buffer: size("wmem_default", 256 << 10, MIN_SEND_BUFFER),
                receive_buffer: size("mem_default", 256 << 10, MIN_RECEIVE_BUFFER),
                send_queue: queue("sqsize_default", 384),
                receive_queue: queue("rqsize_default", 384),
                inline: queue("inline_default", 256),
                mappings: wire::round_down_mappings(queue("iomap_size", 0)),
            },
            polling: Duration::from_micros(number("polling_time").unwrap_or(500)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_change_the_defaults() {
        let folder = std::env::temp_dir().join(format!("rsocket-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("made");
        let defaults = Configuration::read(&folder);
        for (name, text) in [
            ("mem_default", "1000000\n"),
            ("wmem_default", "7"),
            ("sqsize_default", "  64 and more"),
            ("rqsize_default", "100000"),
            ("inline_default", "much"),
            ("iomap_size", "300"),
            ("polling_time", "50"),
        ] {
            fs::write(folder.join(name), text).expect("written");
        }
        let set = Configuration::read(&folder);
        fs::remove_dir_all(&folder).expect("removed");
        assert_eq!(defaults.polling, Duration::from_micros(500));
        assert_eq!(set.polling, Duration::from_micros(50));
        let expected = Sizes {
            send_buffer: MIN_SEND_BUFFER,
            receive_buffer: 1_000_000,
            send_queue: 64,
            receive_queue: MAX_QUEUE,
            inline: defaults.sizes.inline,
            mappings: 256,
        };
        assert_eq!(set.sizes, expected);
    }
}
