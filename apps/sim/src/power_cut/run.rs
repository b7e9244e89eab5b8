//! One run: some lives of a host, each of which ends with a power cut.

use super::disk::{Disk, SECTOR};
use super::{Model, SLOT, WORD};
use crate::connect::{ConnectSpec, connect};
use crate::dice::Dice;
use crate::fabric::{Fabric, FabricBuilder, HostId, HostSpec, LinkSpec, Step};
use roce_faults::{Chance, FaultSpec};
use roce_stack::{
    Access, Buffer, CompletionQueue, CqId, Duration, Flush, Memory, Nic, Persist, QpInit, QpKind,
    QueueLimits, RemoteAddr, SendFlags, SendOp, SendRequest, Sge, WcStatus,
};
use roce_wire::{FlushPlacement, FlushSelectivity, PathMtu, Qpn};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// The slots of each memory.
const SLOTS: usize = 48;
/// The most slots of a WRITE: more than a packet.
const LONGEST: usize = 12;
/// The most requests that have not completed.
const OUTSTANDING: usize = 16;
/// The address of each memory for requests. That of the buffer differs from run to run.
const IOVA: u64 = 0x10_0000;
/// The longest life, and the longest time that a disk takes.
const LONGEST_LIFE_NS: u64 = 2_000_000;
const SLOWEST_NS: u64 = 300_000;

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Power cuts.
    pub cuts: u64,
    /// FLUSHes to persistence that were acknowledged.
    pub acknowledged: u64,
    /// FLUSHes to persistence whose memory was not durable when the power failed.
    pub under_way: u64,
    /// The violations after a power cut.
    pub violation: Option<String>,
}

/// Runs a seed.
pub fn run(seed: u64) -> Outcome {
    let mut dice = Dice::new(seed);
    let mut world = World::new(&mut dice);
    let mut outcome = Outcome::default();
    for _ in 0..1 + dice.below(4) {
        let lived = world.live(&mut dice, &mut outcome);
        outcome.cuts += 1;
        if let Err(violation) = lived {
            outcome.violation = Some(violation);
            break;
        }
    }
    outcome
}

struct World {
    fabric: Fabric,
    client: HostId,
    server: HostId,
    /// The contents of the server's disks while its power is off.
    disks: Vec<Vec<u8>>,
    slow: bool,
    spec: ConnectSpec,
    /// The number of the newest WRITE.
    number: u64,
}

/// A memory of the server, and the QPs through which the client uses it.
struct Connection {
    disk: Arc<Disk>,
    model: Model,
    qpn: Qpn,
    cq: Arc<CompletionQueue>,
    source: Arc<Buffer>,
    lkey: u32,
    rkey: u32,
    posts: usize,
    /// The requests that have not completed: what they flush, and their places.
    outstanding: VecDeque<Option<(usize, Range<usize>)>>,
    failed: bool,
}

fn faults(dice: &mut Dice) -> FaultSpec {
    let mut chance = || match dice.below(3) {
        0 => Chance::per_million(20_000),
        _ => Chance::NEVER,
    };
    FaultSpec {
        loss: chance(),
        duplicate: chance(),
        reorder: chance(),
        ..FaultSpec::default()
    }
}

fn cq() -> Arc<CompletionQueue> {
    Arc::new(CompletionQueue::new(CqId(0), 2 * OUTSTANDING))
}

fn buffer(len: usize) -> Result<Arc<Buffer>, String> {
    Buffer::new(len).map(Arc::new).map_err(|e| e.to_string())
}

impl World {
    fn new(dice: &mut Dice) -> Self {
        let mut builder = FabricBuilder::new();
        let host = |dice: &mut Dice| HostSpec {
            seed: dice.number(),
            ..HostSpec::default()
        };
        let client = builder.host(host(dice));
        let server = builder.host(host(dice));
        let cable = builder.cable(client, server, LinkSpec::default());
        let mut fabric = builder.build(dice.number());
        fabric.set_faults(cable, faults(dice));
        Self {
            fabric,
            client,
            server,
            disks: vec![vec![0; SLOTS * SLOT]; 1 + dice.index(3)],
            slow: !dice.one_in(4),
            spec: ConnectSpec {
                access: Access::REMOTE_WRITE | Access::FLUSH_PERSISTENT,
                path_mtu: dice.pick(&[PathMtu::Mtu256, PathMtu::Mtu1024]),
                // From 65 us, less than a disk may take.
                timeout: dice.pick(&[4, 6, 8]),
                ..ConnectSpec::default()
            },
            number: 0,
        }
    }

    /// A life of the server, from its start to a power cut.
    fn live(&mut self, dice: &mut Dice, outcome: &mut Outcome) -> Result<(), String> {
        let mut connections = Vec::new();
        for disk in 0..self.disks.len() {
            connections.push(self.connect(disk)?);
        }
        let end = self.fabric.now() + Duration::from_nanos(dice.below(LONGEST_LIFE_NS));
        let mut working: BTreeMap<u64, Persist> = BTreeMap::new();
        let mut token = 0;
        self.post_all(&mut connections, dice)?;
        while let Some(step) = self.fabric.step(end) {
            if let Step::Call(done) = step
                && let Some(persist) = working.remove(&done)
            {
                let disk = &connections[dice.index(connections.len())].disk;
                write_some(disk, dice);
                let now = self.fabric.now();
                let nic = self.fabric.nic(self.server);
                nic.finish_persist(now, persist.run());
                self.fabric.drive(self.server);
            }
            while let Some(persist) = self.fabric.nic(self.server).poll_persist() {
                token += 1;
                working.insert(token, persist);
                let time = Duration::from_nanos(dice.below(SLOWEST_NS));
                self.fabric.call_at(self.fabric.now() + time, token);
            }
            for connection in &mut connections {
                outcome.acknowledged += connection.take_completions()?;
            }
            self.post_all(&mut connections, dice)?;
        }
        outcome.under_way += working.len() as u64;
        self.cut_power(&connections, dice)
    }

    /// The power of the server fails.
    fn cut_power(&mut self, connections: &[Connection], dice: &mut Dice) -> Result<(), String> {
        for (number, connection) in connections.iter().enumerate() {
            for _ in 0..dice.below(8) {
                write_some(&connection.disk, dice);
            }
            let contents = connection.disk.contents();
            let checked = connection.model.check(&contents);
            checked.map_err(|wrong| format!("memory {number}: {wrong}"))?;
            self.disks[number] = contents;
            self.fabric.nic(self.client).destroy_qp(connection.qpn);
        }
        self.fabric.restart(self.server);
        Ok(())
    }

    fn connect(&mut self, disk: usize) -> Result<Connection, String> {
        let contents = self.disks[disk].clone();
        let model = Model::new(&contents);
        let memory = buffer(contents.len())?;
        let disk = Disk::start(Arc::clone(&memory), contents, self.slow);
        let rights = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::FLUSH_PERSISTENT;
        let durable = Memory::buffer(memory).with_durable(disk.clone());
        let theirs = cq();
        let (server, rkey) = endpoint(self.fabric.nic(self.server), &theirs, durable, rights)?;
        let source = buffer(OUTSTANDING * LONGEST * SLOT)?;
        let ours = cq();
        let memory = Memory::buffer(Arc::clone(&source));
        let nic = self.fabric.nic(self.client);
        let (client, lkey) = endpoint(nic, &ours, memory, Access::empty())?;
        let ends = [(self.client, client), (self.server, server)];
        connect(&mut self.fabric, ends, &self.spec).map_err(|error| error.to_string())?;
        Ok(Connection {
            disk,
            model,
            qpn: client,
            cq: ours,
            source,
            lkey,
            rkey,
            posts: 0,
            outstanding: VecDeque::new(),
            failed: false,
        })
    }

    /// Posts requests to the connections that have room.
    fn post_all(&mut self, connections: &mut [Connection], dice: &mut Dice) -> Result<(), String> {
        let now = self.fabric.now();
        let nic = self.fabric.nic(self.client);
        for connection in connections {
            // A WRITE, a FLUSH, an ATOMIC WRITE and a FLUSH at most.
            while !connection.failed && connection.outstanding.len() + 4 <= OUTSTANDING {
                for (op, local, flushes) in connection.draw(dice, &mut self.number)? {
                    let elements: &[Sge] = local.as_slice();
                    let request = SendRequest::new(connection.posts as u64, op, elements)
                        .with_flags(SendFlags::SIGNALED);
                    let posted = nic.post_send(now, connection.qpn, &request);
                    posted.map_err(|refused| refused.to_string())?;
                    let place = connection.posts;
                    let flushes = flushes.map(|slots| (place, slots));
                    connection.outstanding.push_back(flushes);
                    connection.posts += 1;
                }
            }
        }
        self.fabric.drive(self.client);
        Ok(())
    }
}

/// A request: its local memory, and the slots that it flushes.
type Request = (SendOp, Option<Sge>, Option<Range<usize>>);

impl Connection {
    /// Counts the FLUSHes that were acknowledged.
    fn take_completions(&mut self) -> Result<u64, String> {
        let mut acknowledged = 0;
        while let Some(done) = self.cq.poll().map_err(|overrun| overrun.to_string())? {
            let flushed = self.outstanding.pop_front().flatten();
            match done.status {
                WcStatus::Success => {}
                // The network or the disk took too long.
                WcStatus::RetryExceeded => self.failed = true,
                WcStatus::WorkRequestFlushed if self.failed => {}
                status => return Err(format!("request {} completed: {status}", done.wr_id)),
            }
            if let Some((place, slots)) = flushed.filter(|_| done.status == WcStatus::Success) {
                self.model.acknowledge(place, &slots);
                acknowledged += 1;
            }
        }
        Ok(acknowledged)
    }

    /// Draws the next requests. The model learns what they write.
    fn draw(&mut self, dice: &mut Dice, number: &mut u64) -> Result<Vec<Request>, String> {
        let first = 1 + dice.index(SLOTS - LONGEST);
        let slots = first..first + 1 + dice.index(LONGEST);
        let kind = dice.below(4);
        if kind == 0 {
            return Ok(vec![self.flush(0..SLOTS, dice.one_in(2))]);
        }
        *number += 1;
        let written = *number;
        let mut requests = vec![self.write(0, slots.clone(), written)?];
        if kind < 3 {
            requests.push(self.flush(slots.clone(), false));
        }
        if kind == 2 {
            *number += 1;
            requests.push(self.atomic_write(2, *number)?);
            self.model.order(*number, slots, written);
            if dice.one_in(2) {
                requests.push(self.flush(0..1, false));
            }
        }
        Ok(requests)
    }

    /// Fills slots. The request is posted `after` some others.
    fn write(&mut self, after: usize, slots: Range<usize>, number: u64) -> Result<Request, String> {
        let place = self.posts + after;
        let local = self.fill(place, number, slots.len() * SLOT)?;
        let remote = self.remote(slots.start);
        self.model.write(place, slots, number);
        Ok((SendOp::Write(remote), Some(local), None))
    }

    fn atomic_write(&mut self, after: usize, number: u64) -> Result<Request, String> {
        let place = self.posts + after;
        let local = self.fill(place, number, WORD)?;
        self.model.write(place, 0..1, number);
        Ok((SendOp::AtomicWrite(self.remote(0)), Some(local), None))
    }

    fn flush(&self, slots: Range<usize>, whole: bool) -> Request {
        let flush = Flush {
            remote: self.remote(slots.start),
            len: u32::try_from(slots.len() * SLOT).unwrap_or(0),
            placement: FlushPlacement::PERSISTENCE,
            selectivity: match whole {
                true => FlushSelectivity::Region,
                false => FlushSelectivity::Range,
            },
        };
        (SendOp::Flush(flush), None, Some(slots))
    }

    /// Local memory for the request with this place, filled with the number.
    fn fill(&self, place: usize, number: u64, len: usize) -> Result<Sge, String> {
        let at = place % OUTSTANDING * LONGEST * SLOT;
        let bytes = number.to_ne_bytes().repeat(len / WORD);
        let written = self.source.write(at, &bytes);
        written.map_err(|error| error.to_string())?;
        Ok(Sge {
            addr: IOVA + at as u64,
            length: u32::try_from(len).unwrap_or(0),
            lkey: self.lkey,
        })
    }

    fn remote(&self, slot: usize) -> RemoteAddr {
        RemoteAddr {
            addr: IOVA + (slot * SLOT) as u64,
            rkey: self.rkey,
        }
    }
}

/// The disk writes a sector without being asked.
fn write_some(disk: &Disk, dice: &mut Dice) {
    let sector = dice.index(SLOTS * SLOT / SECTOR);
    // The sector is one of the disk's.
    let _ = disk.write(sector..sector + 1);
}

/// A QP and a memory of a NIC.
fn endpoint(
    nic: &mut Nic,
    cq: &Arc<CompletionQueue>,
    memory: Memory,
    access: Access,
) -> Result<(Qpn, u32), String> {
    let pd = nic.alloc_pd();
    let limits = QueueLimits {
        depth: OUTSTANDING,
        max_sge: 1,
    };
    let qpn = nic.create_qp(QpInit {
        kind: QpKind::Rc,
        pd,
        send_cq: Arc::clone(cq),
        recv_cq: Arc::clone(cq),
        send: limits,
        recv: limits,
        max_inline: 0,
        signal_all: false,
    });
    let qpn = qpn.map_err(|refused| refused.to_string())?;
    let key = nic.register_memory(pd, memory, Some(IOVA), access);
    Ok((qpn, key.map_err(|refused| refused.to_string())?))
}
