//! A queue: capsules go out, responses come in, over one QP.

use super::HostOptions;
use super::slots::Slots;
use crate::Error;
use crate::completions::Completions;
use crate::nic::Nic;
use crate::wire::fabrics::{Connect, ConnectData};
use crate::wire::{
    AcceptPrivate, COMMAND_LEN, Command, RESPONSE_LEN, RejectPrivate, RequestPrivate, Response,
    Status,
};
use roce_verbs::cm::ConnectionError;
use roce_verbs::completion::{CqOverrun, WcOpcode};
use roce_verbs::why::InWords;
use roce_verbs::{
    Access, Completion, ConnectOptions, Connection, MemoryRegion, QpOptions, RecvRequest,
    SendRequest, Sge, WcStatus,
};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A queue that is connected at the level of RDMA.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) number: u16,
    /// The target's address.
    at: SocketAddr,
    connection: Connection,
    completions: Completions,
    /// A command for each slot.
    capsules: MemoryRegion,
    /// A response for each receive.
    responses: MemoryRegion,
    slots: Slots,
    timeout: Duration,
    /// Why the queue has failed.
    failure: Option<String>,
}

/// The length of a queue's parts, and its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) number: u16,
    /// Entries. One fewer command may be outstanding.
    pub(super) len: u16,
    /// The controller, for an I/O queue.
    pub(super) controller: u16,
}

impl Queue {
    /// Connects a queue.
    pub(super) fn connect(
        nic: &Nic,
        at: SocketAddr,
        plan: Plan,
        timeout: Duration,
    ) -> Result<Self, Error> {
        let len = usize::from(plan.len);
        let completions = Completions::new(&nic.context, 2 * len)?;
        let options = QpOptions {
            send_depth: len,
            recv_depth: len,
            max_send_sge: 2,
            max_recv_sge: 1,
            signal_all: true,
            ..QpOptions::default()
        };
        let pd = &nic.pd;
        let qp = pd
            .create_qp(&completions.queue, &completions.queue, &options)
            .map_err(|e| Error::Incompatible(e.to_string()))?;
        let failed = |source: ConnectionError| Error::Connect {
            queue: plan.number,
            at,
            refusal: refusal(&source),
            source: Box::new(source),
        };
        let connect = ConnectOptions::default();
        qp.to_init(connect.access).map_err(|e| failed(e.into()))?;
        let responses = pd.allocate(len * RESPONSE_LEN, Access::LOCAL_WRITE)?;
        for index in 0..len {
            let room = responses.slice(index * RESPONSE_LEN, RESPONSE_LEN)?;
            let sges = [room];
            let request = RecvRequest {
                wr_id: index as u64,
                sges: &sges,
            };
            qp.post_recv(&request).map_err(|e| Error::Lost {
                queue: plan.number,
                why: e.to_string(),
            })?;
        }
        let private = RequestPrivate {
            queue: plan.number,
            host_receive_len: plan.len,
            host_send_len: plan.len - 1,
            controller: plan.controller,
        };
        let connection =
            Connection::connect(qp, at, &connect, &private.encode()).map_err(failed)?;
        if AcceptPrivate::parse(connection.private()).is_none() {
            let what = format!("{at} accepted a connection, and not as an NVMe target does");
            return Err(Error::Incompatible(what));
        }
        Ok(Self {
            number: plan.number,
            at,
            connection,
            completions,
            capsules: pd.allocate(len * COMMAND_LEN, Access::empty())?,
            responses,
            // One entry stays empty, as a full ring would look like an empty one (Base, 3.3.1.4).
            slots: Slots::new(plan.len - 1),
            timeout,
            failure: None,
        })
    }

    /// The Fabrics connect command, which makes the connection a queue of a controller. Returns the
    /// controller's number.
    pub(super) fn establish(
        &mut self,
        data: &ConnectData,
        memory: &super::IoBuffer,
        options: &HostOptions,
    ) -> Result<u16, Error> {
        let keep_alive = match self.number {
            0 => u32::try_from(options.keep_alive.as_millis()).unwrap_or(u32::MAX),
            _ => 0,
        };
        let command = Connect {
            queue: self.number,
            length: self.slots.count(),
            keep_alive_ms: keep_alive,
        };
        memory.write(0, &data.encode())?;
        let len = crate::wire::fabrics::CONNECT_DATA_LEN;
        let sgl = memory.keyed(0..len);
        let response = self.respond_to(command.command().with_sgl(&sgl))?;
        if response.status.without_flags() == Status::CONNECT_INVALID_PARAMETERS
            && response.result & IN_CONNECT_DATA != 0
            && response.result as u16 == SUBSYSTEM_FIELD
        {
            return Err(Error::NoSuchSubsystem {
                at: self.at,
                subsystem: data.subsystem.clone(),
            });
        }
        let result = result_of("connect", response)?;
        let authentication = result >> 16 & 3;
        if authentication != 0 {
            let what = "it demands authentication, which this host cannot do".to_owned();
            return Err(Error::Incompatible(what));
        }
        Ok(result as u16)
    }

    /// How many commands may be posted now.
    pub(super) fn room(&self) -> usize {
        self.slots.room()
    }

    /// How many commands are outstanding.
    pub(super) fn outstanding(&self) -> usize {
        usize::from(self.slots.count()) - self.slots.room()
    }

    /// Posts a command, with `data` in its capsule, if any, and returns its identifier. There must
    /// be room.
    pub(super) fn post(&mut self, command: Command, data: Option<Sge>) -> Result<u16, Error> {
        self.check()?;
        let Some(slot) = self.slots.take(Instant::now()) else {
            let what = format!("queue {} is full", self.number);
            return Err(Error::Request(what));
        };
        let command = command.with_id(slot);
        let at = usize::from(slot) * COMMAND_LEN;
        self.capsules.write(at, command.bytes())?;
        let command = self.capsules.slice(at, COMMAND_LEN)?;
        let both = [command, data.unwrap_or(command)];
        let pieces = if data.is_some() {
            &both[..]
        } else {
            &both[..1]
        };
        let request = SendRequest::send(pieces).id(u64::from(slot)).solicited();
        if let Err(error) = self.connection.post_send(&request) {
            return Err(self.fail(error.to_string()));
        }
        Ok(slot)
    }

    /// Waits for the next response, until the oldest command has reached its timeout. At least one
    /// command must be outstanding.
    pub(super) fn next(&mut self) -> Result<(u16, Response), Error> {
        loop {
            if let Some(answered) = self.poll()? {
                return Ok(answered);
            }
            let left = self.until_timeout();
            let taken = self.completions.next(left);
            if let Some(answered) = self.note(taken)? {
                return Ok(answered);
            }
        }
    }

    /// The next response, if there is one.
    pub(super) fn poll(&mut self) -> Result<Option<(u16, Response)>, Error> {
        loop {
            self.check()?;
            let taken = self.completions.queue.poll();
            if matches!(taken, Ok(None)) {
                return Ok(None);
            }
            if let Some(answered) = self.note(taken)? {
                return Ok(Some(answered));
            }
        }
    }

    /// Posts a command and waits for its response. No other command may be outstanding. Returns the
    /// result.
    pub(super) fn call(&mut self, name: &'static str, command: Command) -> Result<u64, Error> {
        result_of(name, self.respond_to(command)?)
    }

    fn respond_to(&mut self, command: Command) -> Result<Response, Error> {
        let posted = self.post(command, None)?;
        let (answered, response) = self.next()?;
        debug_assert_eq!(posted, answered);
        Ok(response)
    }

    /// Disconnects, and waits at most `patience` for the target to agree.
    pub(super) fn disconnect(self, patience: Duration) -> bool {
        self.connection.disconnect(patience)
    }

    /// Makes the queue fail from now on.
    pub(super) fn fail(&mut self, why: String) -> Error {
        let why = self.failure.get_or_insert(why).clone();
        Error::Lost {
            queue: self.number,
            why,
        }
    }

    fn check(&self) -> Result<(), Error> {
        match &self.failure {
            None => Ok(()),
            Some(why) => Err(Error::Lost {
                queue: self.number,
                why: why.clone(),
            }),
        }
    }

    /// The time until the oldest outstanding command reaches its timeout.
    fn until_timeout(&self) -> Duration {
        let oldest = self.slots.oldest().unwrap_or_else(Instant::now);
        self.timeout.saturating_sub(oldest.elapsed())
    }

    /// Takes note of a completion. Returns a command that is over, with its response.
    fn note(
        &mut self,
        taken: Result<Option<Completion>, CqOverrun>,
    ) -> Result<Option<(u16, Response)>, Error> {
        let completion = match taken {
            Ok(Some(completion)) => completion,
            Ok(None) => {
                let why = format!("a command was not answered within {:?}", self.timeout);
                return Err(self.fail(why));
            }
            Err(error) => return Err(self.fail(error.to_string())),
        };
        if completion.status != WcStatus::Success {
            return Err(self.broken(&completion));
        }
        match completion.opcode {
            WcOpcode::Recv => self.received(&completion),
            _ => Ok(self.slots.sent(completion.wr_id as u16)),
        }
    }

    /// A receive has completed: the response to some command.
    fn received(&mut self, completion: &Completion) -> Result<Option<(u16, Response)>, Error> {
        if completion.byte_len as usize != RESPONSE_LEN {
            let len = completion.byte_len;
            return Err(self.fail(format!(
                "the target sent a response of {len} bytes: a response has {RESPONSE_LEN}"
            )));
        }
        let at = completion.wr_id as usize * RESPONSE_LEN;
        let mut bytes = [0; RESPONSE_LEN];
        self.responses.read(at, &mut bytes)?;
        let sges = [self.responses.slice(at, RESPONSE_LEN)?];
        let request = RecvRequest {
            wr_id: completion.wr_id,
            sges: &sges,
        };
        if let Err(error) = self.connection.post_recv(&request) {
            return Err(self.fail(error.to_string()));
        }
        let response = Response::parse(&bytes);
        let answered = self.slots.answered(response);
        answered.map_err(|error| self.fail(error.to_string()))
    }

    /// A completion with an error: the QP has failed, or the peer has gone.
    fn broken(&mut self, completion: &Completion) -> Error {
        let why = match self.completions.queue.why(completion) {
            Some(explanation) => InWords(&explanation.failure.cause).to_string(),
            None if completion.status == WcStatus::WorkRequestFlushed => {
                "the target has ended the connection".to_owned()
            }
            None => completion.status.explain().to_owned(),
        };
        self.fail(why)
    }
}

/// In the result of a connect command with invalid parameters: the wrong field is one of the data
/// (Fabrics, 3.3).
const IN_CONNECT_DATA: u64 = 1 << 16;
/// The offset of the subsystem's name in the data of a connect command.
const SUBSYSTEM_FIELD: u16 = 256;

fn result_of(command: &'static str, response: Response) -> Result<u64, Error> {
    let status = response.status;
    match status.is_success() {
        true => Ok(response.result),
        false => Err(Error::Command { command, status }),
    }
}

/// The reason that a target put into its refusal, if there is one.
fn refusal(error: &ConnectionError) -> Option<crate::wire::Refusal> {
    match error {
        ConnectionError::Rejected { private, .. } => RejectPrivate::parse(private)
            .map(|p| p.reason)
            .filter(|r| r.0 != 0),
        _ => None,
    }
}
