//! Fabrics commands: connect, and access to properties (Base, 6).

use super::command::{Command, FABRICS};
use super::{HostId, Nqn, NqnError, Property, Status, field};

const PROPERTY_SET: u8 = 0x00;
const CONNECT: u8 = 0x01;
const PROPERTY_GET: u8 = 0x04;

/// A Fabrics command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Makes a connection a queue of a controller. The data are a [`ConnectData`].
    Connect(Connect),
    /// Reads a property.
    PropertyGet(Property),
    /// Writes a property.
    PropertySet(Property, u64),
}

/// The fields of a connect command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connect {
    /// The queue's number: 0 is the admin queue.
    pub queue: u16,
    /// The queue's length, minus 1.
    pub length: u16,
    /// The keep-alive timeout in milliseconds; 0: none. Only for the admin queue.
    pub keep_alive_ms: u32,
}

impl Connect {
    /// The command.
    pub fn command(&self) -> Command {
        Command::fabrics(CONNECT)
            .with(42, &self.queue.to_le_bytes())
            .with(44, &self.length.to_le_bytes())
            .with(48, &self.keep_alive_ms.to_le_bytes())
    }
}

/// The command that reads a property.
pub fn property_get(property: Property) -> Command {
    Command::fabrics(PROPERTY_GET)
        .with(40, &[u8::from(property.is_wide())])
        .with(44, &property.offset().to_le_bytes())
}

/// The command that writes a property.
pub fn property_set(property: Property, value: u64) -> Command {
    Command::fabrics(PROPERTY_SET)
        .with(40, &[u8::from(property.is_wide())])
        .with(44, &property.offset().to_le_bytes())
        .with(48, &value.to_le_bytes())
}

impl Request {
    /// Parses a Fabrics command; `None` if it is another command.
    ///
    /// # Errors
    /// The status for the response, if the command is not one of those here.
    pub fn parse(command: &Command) -> Option<Result<Self, Status>> {
        (command.opcode() == FABRICS).then(|| Self::parse_fabrics(command))
    }

    fn parse_fabrics(command: &Command) -> Result<Self, Status> {
        match command.byte_at(4) {
            CONNECT if command.u16_at(40) != 0 => {
                Err(Status::CONNECT_INCOMPATIBLE_FORMAT.do_not_retry())
            }
            CONNECT => Ok(Self::Connect(Connect {
                queue: command.u16_at(42),
                length: command.u16_at(44),
                keep_alive_ms: command.u32_at(48),
            })),
            PROPERTY_GET => Self::property(command).map(Self::PropertyGet),
            PROPERTY_SET => {
                Self::property(command).map(|p| Self::PropertySet(p, command.u64_at(48)))
            }
            _ => Err(Status::INVALID_OPCODE.do_not_retry()),
        }
    }

    /// The property that a command names by offset and size.
    fn property(command: &Command) -> Result<Property, Status> {
        Property::at(command.u32_at(44))
            .filter(|p| u8::from(p.is_wide()) == command.byte_at(40) & 7)
            .ok_or(Status::INVALID_FIELD.do_not_retry())
    }
}

/// The length of a connect command's data in bytes.
pub const CONNECT_DATA_LEN: usize = 1024;

/// "Any controller": for an admin queue.
pub const ANY_CONTROLLER: u16 = 0xffff;

/// The data of a connect command (Base, 6.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectData {
    /// The host's identifier.
    pub host_id: HostId,
    /// The controller of an I/O queue; [`ANY_CONTROLLER`] for an admin queue.
    pub controller: u16,
    /// The subsystem's name.
    pub subsystem: Nqn,
    /// The host's name.
    pub host: Nqn,
}

impl ConnectData {
    /// Parses the data.
    ///
    /// # Errors
    /// If a name is none.
    pub fn parse(bytes: &[u8; CONNECT_DATA_LEN]) -> Result<Self, NqnError> {
        let mut host_id = [0; 16];
        host_id.copy_from_slice(&bytes[..16]);
        Ok(Self {
            host_id: HostId(host_id),
            controller: field::u16_at(bytes, 16),
            subsystem: Nqn::parse_field(&bytes[256..512])?,
            host: Nqn::parse_field(&bytes[512..768])?,
        })
    }

    /// The data's bytes.
    pub fn encode(&self) -> [u8; CONNECT_DATA_LEN] {
        let mut bytes = [0; CONNECT_DATA_LEN];
        field::put(&mut bytes, 0, &self.host_id.0);
        field::put(&mut bytes, 16, &self.controller.to_le_bytes());
        field::put(&mut bytes, 256, &self.subsystem.field());
        field::put(&mut bytes, 512, &self.host.field());
        bytes
    }
}
