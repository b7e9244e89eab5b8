//! Commands of the admin queue (Base, 5).

use super::Status;
use super::command::Command;

const GET_LOG_PAGE: u8 = 0x02;
const IDENTIFY: u8 = 0x06;
const ABORT: u8 = 0x08;
const SET_FEATURES: u8 = 0x09;
const GET_FEATURES: u8 = 0x0a;
const ASYNC_EVENT: u8 = 0x0c;
const KEEP_ALIVE: u8 = 0x18;

/// The feature "number of queues".
pub const NUMBER_OF_QUEUES: u8 = 0x07;
/// The feature "asynchronous event configuration".
pub const ASYNC_EVENT_CONFIGURATION: u8 = 0x0b;
/// The feature "keep alive timer".
pub const KEEP_ALIVE_TIMER: u8 = 0x0f;

/// The log page that lists subsystems.
pub const DISCOVERY_LOG: u8 = 0x70;

/// Which structure an identify command asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identify {
    /// The namespace of the command.
    Namespace,
    /// The controller.
    Controller,
    /// The numbers of the active namespaces, beginning behind that of the command.
    ActiveNamespaces,
    /// The identifiers of the namespace of the command.
    Descriptors,
    /// Another one, by its number (CNS).
    Other(u8),
}

impl Identify {
    fn number(self) -> u8 {
        match self {
            Self::Namespace => 0x00,
            Self::Controller => 0x01,
            Self::ActiveNamespaces => 0x02,
            Self::Descriptors => 0x03,
            Self::Other(number) => number,
        }
    }

    fn of(number: u8) -> Self {
        match number {
            0x00 => Self::Namespace,
            0x01 => Self::Controller,
            0x02 => Self::ActiveNamespaces,
            0x03 => Self::Descriptors,
            other => Self::Other(other),
        }
    }
}

/// A command of the admin queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A structure of 4096 bytes.
    Identify {
        /// Which structure.
        structure: Identify,
        /// The namespace, if the structure has one.
        namespace: u32,
    },
    /// Part of a log page.
    LogPage {
        /// Which page.
        page: u8,
        /// The first byte.
        offset: u64,
        /// Length in bytes.
        len: u64,
    },
    /// Sets a feature.
    SetFeature {
        /// Which feature.
        feature: u8,
        /// Its value (command dword 11).
        value: u32,
    },
    /// Reads a feature.
    GetFeature {
        /// Which feature.
        feature: u8,
    },
    /// Is answered when something happens.
    AsyncEvent,
    /// Says that the host is alive.
    KeepAlive,
    /// Aborts a command.
    Abort,
}

/// Asks for a structure.
pub fn identify(structure: Identify, namespace: u32) -> Command {
    Command::new(IDENTIFY, namespace).with(40, &[structure.number()])
}

/// Asks for `len` bytes, a multiple of 4, of a log page from `offset` on.
pub fn log_page(page: u8, offset: u64, len: u32) -> Command {
    let dwords = (len / 4).saturating_sub(1).to_le_bytes();
    Command::new(GET_LOG_PAGE, 0)
        .with(40, &[page])
        .with(42, &dwords[..2])
        .with(44, &dwords[2..])
        .with(48, &offset.to_le_bytes())
}

/// Sets a feature.
pub fn set_feature(feature: u8, value: u32) -> Command {
    Command::new(SET_FEATURES, 0)
        .with(40, &[feature])
        .with(44, &value.to_le_bytes())
}

/// Says that the host is alive.
pub fn keep_alive() -> Command {
    Command::new(KEEP_ALIVE, 0)
}

impl Request {
    /// Parses a command of the admin queue that is no Fabrics command.
    ///
    /// # Errors
    /// The status for the response, if the command is not one of those here.
    pub fn parse(command: &Command) -> Result<Self, Status> {
        let namespace = command.namespace();
        match command.opcode() {
            IDENTIFY => Ok(Self::Identify {
                structure: Identify::of(command.byte_at(40)),
                namespace,
            }),
            GET_LOG_PAGE => {
                let dwords = u64::from(command.u16_at(42)) | u64::from(command.u16_at(44)) << 16;
                Ok(Self::LogPage {
                    page: command.byte_at(40),
                    offset: command.u64_at(48),
                    len: (dwords + 1) * 4,
                })
            }
            SET_FEATURES => Ok(Self::SetFeature {
                feature: command.byte_at(40),
                value: command.u32_at(44),
            }),
            GET_FEATURES => Ok(Self::GetFeature {
                feature: command.byte_at(40),
            }),
            ASYNC_EVENT => Ok(Self::AsyncEvent),
            KEEP_ALIVE => Ok(Self::KeepAlive),
            ABORT => Ok(Self::Abort),
            _ => Err(Status::INVALID_OPCODE.do_not_retry()),
        }
    }
}
