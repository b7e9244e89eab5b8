//! A queue: the commands of one connection.

use super::controllers::{Controller, Controllers};
use super::step::{Action, Answer, Over, Step};
use crate::wire::fabrics::{self, Connect};
use crate::wire::{COMMAND_LEN, Command, KeyedSgl, Refusal, RequestPrivate, Response, Sgl, Status};
use std::sync::Arc;
use std::time::Instant;

/// Bits of a command's second byte: part of a fused operation.
const FUSED: u8 = 3;
/// Bits of a command's second byte: how its data are described. Over Fabrics always 0x40, by an SGL.
const DATA_POINTER: u8 = 0xc0;
const BY_SGL: u8 = 0x40;

/// A session's reaction to a command: an action, or else the answer that refuses it.
pub(super) type Decision = Result<Action, Answer>;

/// A queue of a connection: the commands of its host go in, and what is to be done comes out.
#[derive(Debug)]
pub struct Session {
    pub(super) controllers: Arc<Controllers>,
    /// The queue's number, and its entries, as the connection's request named them.
    pub(super) number: u16,
    pub(super) len: u16,
    pub(super) role: Role,
    /// The connect command whose data are being fetched.
    pub(super) connecting: Option<Connect>,
    sq_head: u16,
}

/// The kind of queue that a connection is after its connect command.
#[derive(Clone, Debug)]
pub(super) enum Role {
    /// Nothing yet.
    New,
    Admin(Arc<Controller>),
    Io(Arc<Controller>),
}

impl Session {
    /// The session of a connection request.
    ///
    /// # Errors
    /// The reason to refuse the request.
    pub fn new(controllers: &Arc<Controllers>, request: &RequestPrivate) -> Result<Self, Refusal> {
        let limits = &controllers.offer.limits;
        let len = request.host_send_len.saturating_add(1);
        if request.queue > limits.queues {
            return Err(Refusal::INVALID_QUEUE);
        }
        if len > limits.entries {
            return Err(Refusal::INVALID_SEND_LEN);
        }
        if request.host_receive_len == 0 {
            return Err(Refusal::INVALID_RECEIVE_LEN);
        }
        // Older hosts do not name their controller.
        let names_controller = request.queue != 0 && request.controller != 0;
        if names_controller && controllers.find(request.controller).is_none() {
            return Err(Refusal::INVALID_CONTROLLER);
        }
        Ok(Self {
            controllers: Arc::clone(controllers),
            number: request.queue,
            len: len.max(2),
            role: Role::New,
            connecting: None,
            sq_head: 0,
        })
    }

    /// The queue's number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The queue's entries.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a queue has at least 2 entries"
    )]
    pub fn len(&self) -> u16 {
        self.len
    }

    /// Whether the queue belongs to a controller.
    pub fn is_connected(&self) -> bool {
        !matches!(self.role, Role::New)
    }

    /// The action for the command of a capsule.
    ///
    /// # Errors
    /// If the connection is over: the host has broken the protocol, or its controller has ended.
    pub fn handle(&mut self, capsule: &[u8], now: Instant) -> Result<Step, Over> {
        self.check(now)?;
        let (bytes, data) = capsule
            .split_first_chunk::<COMMAND_LEN>()
            .ok_or(Over::ShortCapsule(capsule.len()))?;
        let command = Command::from_bytes(*bytes);
        let action = self.decide(&command, data, now);
        let invalidate = match command.sgl() {
            Ok(Sgl::Keyed(keyed)) if keyed.invalidate => Some(keyed.remote.rkey),
            _ => None,
        };
        Ok(Step {
            command: command.id(),
            invalidate,
            action: action.unwrap_or_else(Action::Answer),
        })
    }

    /// The action for the command for which [`Action::Fetch`] asked for `data`.
    pub fn fetched(&mut self, data: &[u8], now: Instant) -> Action {
        let decision = match self.connecting.take() {
            Some(connect) => self.connect(&connect, data, now),
            None => Err(Status::INTERNAL_ERROR.into()),
        };
        decision.unwrap_or_else(Action::Answer)
    }

    /// The response to a command. Each command but those of [`Action::Hold`] has one.
    pub fn respond(&mut self, command: u16, answer: Answer) -> Response {
        self.sq_head = (self.sq_head + 1) % self.len;
        Response {
            result: answer.result,
            sq_head: self.sq_head,
            command_id: command,
            status: answer.status,
        }
    }

    /// Whether the connection may go on.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, now: Instant) -> Result<(), Over> {
        match &self.role {
            Role::New => Ok(()),
            Role::Admin(controller) | Role::Io(controller) => {
                let grace = self.controllers.offer.limits.grace;
                controller.state().check(grace, now)
            }
        }
    }

    fn decide(&mut self, command: &Command, data: &[u8], now: Instant) -> Decision {
        let flags = command.bytes()[1];
        if flags & FUSED != 0 || flags & DATA_POINTER != BY_SGL {
            return Err(Status::INVALID_FIELD.do_not_retry().into());
        }
        let request = fabrics::Request::parse(command).transpose()?;
        match (self.role.clone(), request) {
            (Role::New, Some(fabrics::Request::Connect(connect))) => {
                self.begin_connect(command, connect, data, now)
            }
            (Role::New, _) | (_, Some(fabrics::Request::Connect(_))) => {
                Err(Status::COMMAND_SEQUENCE_ERROR.do_not_retry().into())
            }
            (Role::Admin(controller), request) => {
                controller.state().hear(now);
                self.admin(&controller, command, request)
            }
            (Role::Io(_), Some(_)) => Err(Status::INVALID_OPCODE.do_not_retry().into()),
            (Role::Io(controller), None) => {
                let ready = {
                    let mut state = controller.state();
                    state.hear(now);
                    state.is_ready()
                };
                match ready {
                    true => self.io(command, data.len()),
                    false => Err(Status::COMMAND_SEQUENCE_ERROR.do_not_retry().into()),
                }
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        match &self.role {
            Role::New => {}
            Role::Admin(controller) => self.controllers.end(controller),
            Role::Io(controller) => {
                controller.state().queues.remove(&self.number);
            }
        }
    }
}

/// Where the command's data are.
pub(super) fn sgl(command: &Command) -> Result<Sgl, Answer> {
    let sgl = command.sgl();
    sgl.map_err(|_| Status::SGL_TYPE_INVALID.do_not_retry().into())
}

/// The host's memory of `len` bytes for what a command returns.
pub(super) fn memory_for(command: &Command, len: u64) -> Result<KeyedSgl, Answer> {
    match sgl(command)? {
        Sgl::InCapsule { .. } => Err(Status::SGL_TYPE_INVALID.do_not_retry().into()),
        Sgl::Keyed(keyed) => check_len(keyed.len, len).map(|()| keyed),
    }
}

/// Checks that a descriptor has the length of the command's data.
pub(super) fn check_len(found: u32, wanted: u64) -> Result<(), Answer> {
    match u64::from(found) == wanted {
        true => Ok(()),
        false => Err(Status::DATA_SGL_LENGTH_INVALID.do_not_retry().into()),
    }
}

/// Checks that a descriptor's bytes lie in the capsule's data of `data_len` bytes, and returns them.
pub(super) fn in_capsule(
    offset: u64,
    len: u32,
    data_len: usize,
) -> Result<std::ops::Range<usize>, Answer> {
    let end = offset.checked_add(len.into());
    match end.filter(|&end| end <= data_len as u64) {
        Some(end) => Ok(offset as usize..end as usize),
        None => Err(Status::SGL_OFFSET_INVALID.do_not_retry().into()),
    }
}
