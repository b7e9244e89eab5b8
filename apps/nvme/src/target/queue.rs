//! A queue: its connection, and the thread that carries out its commands.
//!
//! Each receive has a slot, and a command keeps its slot from its capsule's arrival until its
//! response has been acknowledged:
//!
//! ```text
//! receive ─► Session ─┬─► response                                         ─► receive again
//!                     └─► wait for memory ─┬─► [file] ─► WRITE + response  (read)
//!                                          └─► READ ─► [file] ─► response  (write)
//! ```
//!
//! There are twice as many slots as the host may have commands outstanding: a host may send the
//! next command when it has a response, before the acknowledgement of the response is here.

use super::arena::Arena;
use super::protocol::{Action, Answer, Data, Extent, Over, Session};
use super::shared::{Seat, Shared, add};
use super::storage::Storage;
use crate::Error;
use crate::completions::Completions;
use crate::wire::{COMMAND_LEN, KeyedSgl, Status};
use roce_verbs::cm::Connection;
use roce_verbs::completion::WcOpcode;
use roce_verbs::why::{Cause, InWords};
use roce_verbs::{
    Access, Completion, ConnectOptions, MemoryRegion, QpOptions, QueuePair, RecvRequest,
    RemoteAddr, SendOp, SendRequest, Sge, WcStatus,
};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often an idle queue looks whether its controller or the target has ended.
const TICK: Duration = Duration::from_millis(200);

/// Why a queue ends.
#[derive(Debug)]
enum End {
    /// The host has ended the connection, or the target stops.
    Orderly,
    /// Something went wrong.
    Failed(String),
}

/// A command that is being carried out.
#[derive(Debug)]
struct Job {
    command: u16,
    invalidate: Option<u32>,
    action: Action,
    /// Its place in the queue's memory.
    place: Option<Range<usize>>,
}

/// The parts of a queue that exist before its connection is accepted.
#[derive(Debug)]
pub(super) struct Parts {
    completions: Completions,
    /// A capsule for each slot.
    capsules: MemoryRegion,
    capsule_len: usize,
}

struct Queue {
    shared: Arc<Shared>,
    seat: Seat,
    session: Session,
    connection: Connection,
    parts: Parts,
    /// For the data of commands.
    memory: MemoryRegion,
    arena: Arena,
    /// The commands, by slot.
    jobs: Vec<Option<Job>>,
    /// Slots whose command waits for memory, in the order of arrival.
    waiting: VecDeque<usize>,
    capsule: Vec<u8>,
    scratch: Vec<u8>,
}

/// Serves a connection until it ends.
pub(super) fn serve(
    connection: Connection,
    parts: Parts,
    session: Session,
    seat: Seat,
    shared: &Arc<Shared>,
) {
    let (number, peer) = (session.number(), connection.peer());
    let queue_memory = shared.options.queue_memory.next_multiple_of(4096);
    let note = |why| shared.note_failure(format!("queue {number} of {peer}: {why}"));
    let memory = match shared.nic.pd.allocate(queue_memory, Access::LOCAL_WRITE) {
        Ok(memory) => memory,
        Err(error) => return note(error.to_string()),
    };
    let mut queue = Queue {
        shared: Arc::clone(shared),
        seat,
        connection,
        arena: Arena::new(memory.len()),
        memory,
        jobs: (0..slots(&session)).map(|_| None).collect(),
        session,
        parts,
        waiting: VecDeque::new(),
        capsule: Vec::new(),
        scratch: Vec::new(),
    };
    // The reason is there before the connection is gone.
    if let Err(End::Failed(why)) = queue.run() {
        note(why);
    }
}

/// How many slots a queue has.
pub(super) fn slots(session: &Session) -> usize {
    2 * usize::from(session.len())
}

/// A host has no access to the target's memory.
pub(super) fn connect_options() -> ConnectOptions {
    ConnectOptions {
        access: Access::empty(),
        ..ConnectOptions::default()
    }
}

impl Parts {
    /// Makes a QP with a receive for each slot.
    pub(super) fn new(shared: &Shared, slots: usize) -> Result<(QueuePair, Self), Error> {
        let (nic, options) = (&shared.nic, &shared.options);
        // For each slot a capsule, and at most a WRITE and a response, or a READ.
        let completions = Completions::new(&nic.context, 3 * slots)?;
        let qp_options = QpOptions {
            send_depth: 2 * slots,
            recv_depth: slots,
            max_send_sge: 1,
            max_recv_sge: 1,
            ..QpOptions::default()
        };
        let qp = nic
            .pd
            .create_qp(&completions.queue, &completions.queue, &qp_options)
            .map_err(|error| Error::Incompatible(error.to_string()))?;
        let capsule_len = COMMAND_LEN + options.limits.in_capsule_len as usize;
        let parts = Self {
            completions,
            capsules: nic.pd.allocate(slots * capsule_len, Access::LOCAL_WRITE)?,
            capsule_len,
        };
        let access = connect_options().access;
        qp.to_init(access)
            .map_err(|error| Error::Incompatible(error.to_string()))?;
        for slot in 0..slots {
            parts.receive(&qp, slot).map_err(Error::Incompatible)?;
        }
        Ok((qp, parts))
    }

    /// Posts the receive of a slot.
    fn receive(&self, qp: &QueuePair, slot: usize) -> Result<(), String> {
        let room = self
            .capsules
            .slice(slot * self.capsule_len, self.capsule_len);
        let sges = [room.map_err(|error| error.to_string())?];
        let request = RecvRequest {
            wr_id: slot as u64,
            sges: &sges,
        };
        qp.post_recv(&request).map_err(|error| error.to_string())
    }
}

impl Queue {
    fn run(&mut self) -> Result<(), End> {
        let begun = Instant::now();
        loop {
            let taken = self.parts.completions.next(TICK).map_err(failed)?;
            if self.shared.is_stopping() {
                return Ok(());
            }
            let now = Instant::now();
            self.check_connected(now.saturating_duration_since(begun))?;
            match taken {
                Some(completion) => self.note(&completion, now)?,
                None => self.session.check(now)?,
            }
        }
    }

    /// Fails if the host has not sent its connect command in time.
    fn check_connected(&self, age: Duration) -> Result<(), End> {
        let limit = self.shared.options.connect_within;
        if self.session.is_connected() {
            return Ok(());
        }
        if age > limit {
            let why = format_args!("no connect command within {limit:?}");
            return Err(failed(why));
        }
        match self.seat.is_half_open() {
            true => Ok(()),
            false => Err(failed(
                "no connect command came, and it made room for another connection",
            )),
        }
    }

    fn note(&mut self, completion: &Completion, now: Instant) -> Result<(), End> {
        if completion.status != WcStatus::Success {
            return Err(self.broken(completion));
        }
        let slot = completion.wr_id as usize;
        match completion.opcode {
            WcOpcode::Recv => self.received(slot, completion.byte_len as usize, now)?,
            WcOpcode::RdmaRead => self.fetched(slot, now)?,
            WcOpcode::Send => self.answered(slot)?,
            _ => {}
        }
        self.begin_waiting()
    }

    /// A capsule has arrived.
    fn received(&mut self, slot: usize, len: usize, now: Instant) -> Result<(), End> {
        self.capsule.resize(len, 0);
        let at = slot * self.parts.capsule_len;
        self.parts
            .capsules
            .read(at, &mut self.capsule)
            .map_err(failed)?;
        let step = self.session.handle(&self.capsule, now)?;
        let job = Job {
            command: step.command,
            invalidate: step.invalidate,
            action: step.action,
            place: None,
        };
        match &job.action {
            Action::Hold => self.receive(slot),
            &Action::Answer(answer) => self.answer(slot, job, answer),
            Action::Flush(namespaces) => {
                let mut namespaces = self.shared.namespaces[namespaces.clone()].iter();
                let flushed = namespaces.try_for_each(Storage::flush);
                self.answer(slot, job, outcome(flushed))
            }
            Action::Write {
                extent,
                data: Data::InCapsule(bytes),
                durable,
            } => {
                let bytes = COMMAND_LEN + bytes.start..COMMAND_LEN + bytes.end;
                let storage = &self.shared.namespaces[extent.namespace];
                let written = storage.write(extent.offset, &self.capsule[bytes]);
                let answer = self.written(*extent, *durable, written);
                self.answer(slot, job, answer)
            }
            _ => {
                self.jobs[slot] = Some(job);
                self.waiting.push_back(slot);
                Ok(())
            }
        }
    }

    /// Begins the commands for which there is memory, in the order of their arrival.
    fn begin_waiting(&mut self) -> Result<(), End> {
        while let Some(&slot) = self.waiting.front() {
            let Some(mut job) = self.jobs[slot].take() else {
                return Err(failed(format_args!("slot {slot} waits without a command")));
            };
            if let Some(len) = self.needs_memory(&job.action) {
                job.place = self.arena.take(len);
                if job.place.is_none() {
                    self.jobs[slot] = Some(job);
                    return Ok(());
                }
            }
            self.waiting.pop_front();
            self.begin(slot, job)?;
        }
        Ok(())
    }

    /// How much of the queue's memory an action needs.
    fn needs_memory(&self, action: &Action) -> Option<usize> {
        match action {
            Action::Return { bytes, .. } => Some(bytes.len()),
            Action::Fetch(from) => Some(from.len as usize),
            Action::Read { extent, .. } | Action::Write { extent, .. } => {
                match self.shared.namespaces[extent.namespace] {
                    Storage::Memory(_) => None,
                    Storage::File(_) => Some(extent.len as usize),
                }
            }
            Action::Answer(_) | Action::Flush(_) | Action::Hold => None,
        }
    }

    /// Begins to move the data of a command, which has its memory.
    fn begin(&mut self, slot: usize, job: Job) -> Result<(), End> {
        let local = self.local(&job)?;
        let place = job.place.clone().unwrap_or_default();
        match &job.action {
            Action::Return { bytes, to } => {
                self.memory.write(place.start, bytes).map_err(failed)?;
                let remote = to.remote;
                self.deliver(slot, job, local, remote)
            }
            Action::Read { extent, to } => {
                let (extent, remote) = (*extent, to.remote);
                let storage = &self.shared.namespaces[extent.namespace];
                if let Storage::File(file) = storage {
                    let into = (&self.memory, place.start);
                    let len = place.len();
                    if let Err(status) = file.read(extent.offset, into, len, &mut self.scratch) {
                        return self.answer(slot, job, status.into());
                    }
                }
                add(&self.shared.counters.bytes_read, extent.len.into());
                self.deliver(slot, job, local, remote)
            }
            &Action::Fetch(from)
            | &Action::Write {
                data: Data::AtHost(from),
                ..
            } => self.fetch(slot, job, local, from),
            action => Err(failed(format_args!("{action:?} moves no data"))),
        }
    }

    /// The local memory of a command's data.
    fn local(&self, job: &Job) -> Result<Sge, End> {
        let found = match (&job.place, &job.action) {
            (Some(place), _) => self.memory.slice(place.start, place.len()),
            (None, Action::Read { extent, .. } | Action::Write { extent, .. }) => {
                match &self.shared.namespaces[extent.namespace] {
                    Storage::Memory(region) => {
                        region.slice(extent.offset as usize, extent.len as usize)
                    }
                    Storage::File(_) => return Err(failed("a file is no memory")),
                }
            }
            (None, action) => return Err(failed(format_args!("{action:?} has no memory"))),
        };
        found.map_err(failed)
    }

    /// Reads the host's memory.
    fn fetch(&mut self, slot: usize, job: Job, into: Sge, from: KeyedSgl) -> Result<(), End> {
        let request = SendRequest::read(into, from.remote).id(slot as u64);
        self.connection.post_send(&request).map_err(failed)?;
        self.jobs[slot] = Some(job);
        Ok(())
    }

    /// The host's data are here.
    fn fetched(&mut self, slot: usize, now: Instant) -> Result<(), End> {
        let Some(mut job) = self.jobs[slot].take() else {
            return Err(failed(format_args!(
                "slot {slot} fetched without a command"
            )));
        };
        let place = job.place.take();
        let answer = match job.action {
            Action::Fetch(_) => self.fetched_for_session(place.clone().unwrap_or_default(), now)?,
            Action::Write {
                extent, durable, ..
            } => {
                let written = match &place {
                    Some(place) => self.write_out(extent, place.clone()),
                    None => Ok(()),
                };
                self.written(extent, durable, written)
            }
            ref action => return Err(failed(format_args!("{action:?} fetches nothing"))),
        };
        if let Some(place) = place {
            self.arena.give_back(place);
        }
        self.answer(slot, job, answer)
    }

    fn fetched_for_session(&mut self, place: Range<usize>, now: Instant) -> Result<Answer, End> {
        self.scratch.resize(place.len(), 0);
        self.memory
            .read(place.start, &mut self.scratch)
            .map_err(failed)?;
        match self.session.fetched(&self.scratch, now) {
            Action::Answer(answer) => Ok(answer),
            action => Err(failed(format_args!("{action:?} is no answer"))),
        }
    }

    fn write_out(&mut self, extent: Extent, place: Range<usize>) -> Result<(), Status> {
        let storage = &self.shared.namespaces[extent.namespace];
        let from = (&self.memory, place.start);
        storage.write_from(extent.offset, from, place.len(), &mut self.scratch)
    }

    /// The answer to a write.
    fn written(&self, extent: Extent, durable: bool, written: Result<(), Status>) -> Answer {
        let storage = &self.shared.namespaces[extent.namespace];
        let done = storage.finish(written, durable);
        if done.is_ok() {
            add(&self.shared.counters.bytes_written, extent.len.into());
        }
        outcome(done)
    }

    /// Writes to the host's memory, and answers "success".
    fn deliver(&mut self, slot: usize, job: Job, from: Sge, to: RemoteAddr) -> Result<(), End> {
        self.respond(slot, job, Answer::success(0), Some((from, to)))
    }

    fn answer(&mut self, slot: usize, job: Job, answer: Answer) -> Result<(), End> {
        self.respond(slot, job, answer, None)
    }

    /// Posts the response, behind the WRITE of `data`, if any.
    fn respond(
        &mut self,
        slot: usize,
        job: Job,
        answer: Answer,
        data: Option<(Sge, RemoteAddr)>,
    ) -> Result<(), End> {
        let counters = &self.shared.counters;
        add(&counters.commands, 1);
        add(&counters.errors, u64::from(!answer.status.is_success()));
        if self.session.is_connected() {
            self.seat.connected();
        }
        let response = self.session.respond(job.command, answer).encode();
        let op = match job.invalidate {
            Some(rkey) => SendOp::SendInvalidate(rkey),
            None => SendOp::Send,
        };
        let id = slot as u64;
        let response = SendRequest::new(id, op, ()).inline(&response).solicited();
        let posted = match data {
            Some((from, to)) => {
                let write = SendRequest::write(from, to).id(id).signaled(false);
                self.connection.post_sends(&[write, response])
            }
            None => self.connection.post_sends(&[response]),
        };
        posted.map_err(|(_, error)| failed(error))?;
        self.jobs[slot] = Some(job);
        Ok(())
    }

    /// The host has acknowledged the response of a slot.
    fn answered(&mut self, slot: usize) -> Result<(), End> {
        if let Some(place) = self.jobs[slot].take().and_then(|job| job.place) {
            self.arena.give_back(place);
        }
        self.receive(slot)
    }

    fn receive(&self, slot: usize) -> Result<(), End> {
        let posted = self.parts.receive(&self.connection, slot);
        posted.map_err(End::Failed)
    }

    /// A completion with an error: the QP has failed, or the connection manager has ended the
    /// connection, since the host has left.
    fn broken(&self, completion: &Completion) -> End {
        match self.parts.completions.queue.why(completion) {
            Some(explanation) if explanation.failure.cause != Cause::Application => {
                failed(InWords(&explanation.failure.cause))
            }
            _ if completion.status == WcStatus::WorkRequestFlushed => End::Orderly,
            _ => failed(completion.status.explain()),
        }
    }
}

fn failed(why: impl std::fmt::Display) -> End {
    End::Failed(why.to_string())
}

impl From<Over> for End {
    fn from(over: Over) -> Self {
        match over {
            Over::NoController => Self::Orderly,
            Over::ShortCapsule(_) | Over::Silent(_) => failed(over),
        }
    }
}

fn outcome(done: Result<(), Status>) -> Answer {
    done.err().unwrap_or(Status::SUCCESS).into()
}
