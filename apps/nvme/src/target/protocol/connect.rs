//! The connect command, which makes a connection a queue of a controller (Base, 6.3).

use super::session::{Decision, Role, Session, check_len, in_capsule, sgl};
use super::step::{Action, Answer};
use crate::wire::discovery::DISCOVERY_NQN;
use crate::wire::fabrics::{ANY_CONTROLLER, CONNECT_DATA_LEN, Connect, ConnectData};
use crate::wire::{Command, Sgl, Status};
use std::time::{Duration, Instant};

/// Fields of the command that can be wrong, by their offset.
const QUEUE: u16 = 42;
const LENGTH: u16 = 44;
/// Fields of the data that can be wrong, by their offset.
const CONTROLLER: u16 = 16;
const SUBSYSTEM: u16 = 256;
const HOST: u16 = 512;

impl Session {
    /// Connects, if the data are there, or asks for them.
    pub(super) fn begin_connect(
        &mut self,
        command: &Command,
        connect: Connect,
        data: &[u8],
        now: Instant,
    ) -> Decision {
        if self.connecting.is_some() {
            return Err(Status::COMMAND_SEQUENCE_ERROR.do_not_retry().into());
        }
        let sgl = sgl(command)?;
        check_len(sgl.len(), CONNECT_DATA_LEN as u64)?;
        match sgl {
            Sgl::InCapsule { offset, len } => {
                let bytes = in_capsule(offset, len, data.len())?;
                self.connect(&connect, &data[bytes], now)
            }
            Sgl::Keyed(keyed) => {
                self.connecting = Some(connect);
                Ok(Action::Fetch(keyed))
            }
        }
    }

    pub(super) fn connect(&mut self, connect: &Connect, data: &[u8], now: Instant) -> Decision {
        let data: &[u8; CONNECT_DATA_LEN] = data
            .try_into()
            .map_err(|_| Status::DATA_SGL_LENGTH_INVALID.do_not_retry())?;
        if connect.queue != self.number {
            return Err(wrong_field(QUEUE));
        }
        if connect.length == 0 || connect.length >= self.len {
            return Err(wrong_field(LENGTH));
        }
        // A name that is none is the wrong one. Which of the two it is matters little.
        let data = ConnectData::parse(data).map_err(|_| wrong_data(SUBSYSTEM))?;
        let is_discovery = data.subsystem.as_str() == DISCOVERY_NQN;
        if !is_discovery && data.subsystem != self.controllers.offer.subsystem {
            return Err(wrong_data(SUBSYSTEM));
        }
        let controller = match self.number {
            0 => self.connect_admin(connect, &data, is_discovery, now)?,
            _ => self.connect_io(&data)?,
        };
        self.len = connect.length + 1;
        Ok(Action::Answer(Answer::success(controller.into())))
    }

    /// Creates a controller.
    fn connect_admin(
        &mut self,
        connect: &Connect,
        data: &ConnectData,
        is_discovery: bool,
        now: Instant,
    ) -> Result<u16, Answer> {
        if data.controller != ANY_CONTROLLER {
            return Err(wrong_data(CONTROLLER));
        }
        let keep_alive = Duration::from_millis(connect.keep_alive_ms.into());
        let controller = self
            .controllers
            .create(data, is_discovery, keep_alive, now)
            .ok_or(Status::CONNECT_CONTROLLER_BUSY)?;
        let id = controller.id;
        self.role = Role::Admin(controller);
        Ok(id)
    }

    /// Adds this queue to its controller.
    fn connect_io(&mut self, data: &ConnectData) -> Result<u16, Answer> {
        let controller = self
            .controllers
            .find(data.controller)
            .filter(|controller| !controller.is_discovery)
            .ok_or(wrong_data(CONTROLLER))?;
        if !controller.is_of(data) {
            return Err(wrong_data(HOST));
        }
        {
            let mut state = controller.state();
            if !state.is_ready() {
                return Err(Status::COMMAND_SEQUENCE_ERROR.do_not_retry().into());
            }
            if self.number > state.granted {
                return Err(wrong_field(QUEUE));
            }
            // The former connection may be about to end.
            if !state.queues.insert(self.number) {
                return Err(Status::CONNECT_CONTROLLER_BUSY.into());
            }
        }
        let id = controller.id;
        self.role = Role::Io(controller);
        Ok(id)
    }
}

/// "Invalid parameters", with the field of the command that is wrong.
fn wrong_field(offset: u16) -> Answer {
    Answer {
        result: offset.into(),
        status: Status::CONNECT_INVALID_PARAMETERS.do_not_retry(),
    }
}

/// "Invalid parameters", with the field of the data that is wrong.
fn wrong_data(offset: u16) -> Answer {
    const IN_DATA: u64 = 1 << 16;
    Answer {
        result: u64::from(offset) | IN_DATA,
        status: Status::CONNECT_INVALID_PARAMETERS.do_not_retry(),
    }
}
