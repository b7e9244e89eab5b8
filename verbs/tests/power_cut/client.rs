//! The peer: writes, flushes, kills, and looks at the disk.

use crate::server::{OUTPUT_PREFIX, ROLE};
use crate::{Plan, SLOTS};
use roce_sim::power_cut::{Model, SLOT, WORD};
use roce_verbs::work::{Flush, FlushPlacement, FlushSelectivity};
use roce_verbs::{
    Access, CompletionQueue, ConnectOptions, Context, Device, MemoryRegion, ProtectionDomain,
    QpOptions, QueuePair, RemoteAddr, SendOp, SendRequest, Sge, WcStatus,
};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Lines, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use testkit::Dice;

/// The most requests that have not completed.
const OUTSTANDING: usize = 24;
/// The most slots of a WRITE.
const LONGEST: usize = 4;
/// The power fails within this time after the first completion, in microseconds.
const LATEST_US: usize = 4000;

/// A process that holds the memory.
struct Holder {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Holder {
    fn start(address: IpAddr, seed: u64, file: &Path) -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut child = Command::new(program)
            .args(["holds_the_memory", "--exact", "--nocapture"])
            .env(ROLE, format!("{address} {seed} {}", file.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let output = child.stdout.take().expect("piped");
        let lines = BufReader::new(output).lines();
        Self { child, lines }
    }

    /// The next thing that it says.
    fn next(&mut self) -> String {
        let said = self.lines.by_ref().map(|line| line.expect("read"));
        let mut said = said.filter_map(|line| Some(line.strip_prefix(OUTPUT_PREFIX)?.to_owned()));
        said.next().expect("the process runs")
    }

    fn tell(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("piped");
        writeln!(input, "{line}").expect("written");
    }

    fn kill(mut self) {
        self.child.kill().expect("it runs until now");
        self.child.wait().expect("it was started here");
    }
}

/// This end, for all rounds.
struct Client {
    context: Context,
    pd: ProtectionDomain,
    source: MemoryRegion,
    gid_index: u8,
    /// The number of the newest WRITE of all rounds.
    number: u64,
    acknowledged: u64,
}

pub(super) fn run(plan: Plan) {
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let at = |last| IpAddr::V4(Ipv4Addr::new(127, 64 | (high & 63), low, last));
    let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
    let path = folder.path().join("disk");
    let file = File::create_new(&path).expect("a file");
    file.set_len((SLOTS * SLOT) as u64).expect("longer");
    let mut client = Client::open(at(201));
    for round in 0..plan.rounds {
        let mut dice = Dice::new(
            plan.seed
                .wrapping_add(round.wrapping_mul(0x1234_5678_9abc_def1)),
        );
        let mut holder = Holder::start(at(202), dice.number(), &path);
        let mut model = Model::new(&fs::read(&path).expect("read"));
        let mut connection = client.connect(&mut holder);
        client.write_until_the_end(&mut connection, &mut model, &mut dice);
        holder.kill();
        let found = model.check(&fs::read(&path).expect("read"));
        assert_eq!(found, Ok(()), "round {round} of {plan:?}");
    }
    println!("{} FLUSHes were acknowledged", client.acknowledged);
    assert!(client.acknowledged > 0, "nothing was tested");
}

/// What waits for its completion.
enum Posted {
    Other,
    Flush(usize, Range<usize>),
}

struct Connection {
    qp: QueuePair,
    cq: CompletionQueue,
    memory: RemoteAddr,
    /// The requests so far.
    posts: usize,
    outstanding: VecDeque<Posted>,
}

impl Client {
    fn open(address: IpAddr) -> Self {
        let device = Device::with_address(address).expect("loopback");
        let context = device.open().expect("opened");
        let gids = context.gids();
        let entry = gids.iter().find(|entry| entry.gid.ip() == address);
        let gid_index = entry.expect("the address has a GID").index;
        let pd = context.alloc_pd();
        Self {
            source: pd
                .allocate(OUTSTANDING * LONGEST * SLOT, Access::empty())
                .expect("memory"),
            context,
            pd,
            gid_index,
            number: 0,
            acknowledged: 0,
        }
    }

    fn connect(&self, holder: &mut Holder) -> Connection {
        let cq = self.context.create_cq(2 * OUTSTANDING);
        let qp = self.pd.create_qp(&cq, &cq, &QpOptions::default());
        let qp = qp.expect("a QP");
        let endpoint = holder.next().parse().expect("an endpoint");
        let memory = holder.next().parse().expect("an address and a key");
        qp.connect(self.gid_index, &endpoint, &ConnectOptions::default())
            .expect("connected");
        let ours = qp.endpoint(self.gid_index).expect("an endpoint");
        holder.tell(&ours.to_string());
        assert_eq!(holder.next(), "connected");
        Connection {
            qp,
            cq,
            memory,
            posts: 0,
            outstanding: VecDeque::new(),
        }
    }

    /// Writes and flushes, until the power fails.
    fn write_until_the_end(
        &mut self,
        connection: &mut Connection,
        model: &mut Model,
        dice: &mut Dice,
    ) {
        let left = Duration::from_micros(dice.below(LATEST_US) as u64);
        let mut end = None;
        while end.is_none_or(|end| Instant::now() < end) {
            // Three requests at most.
            if connection.outstanding.len() + 3 <= OUTSTANDING {
                self.post_some(connection, model, dice);
            }
            while let Some(done) = connection.cq.poll().expect("no overrun") {
                assert_eq!(done.status, WcStatus::Success, "its peer still runs");
                end = end.or(Some(Instant::now() + left));
                if let Some(Posted::Flush(place, slots)) = connection.outstanding.pop_front() {
                    model.acknowledge(place, &slots);
                    self.acknowledged += 1;
                }
            }
        }
    }

    fn post_some(&mut self, connection: &mut Connection, model: &mut Model, dice: &mut Dice) {
        let first = 1 + dice.below(SLOTS - LONGEST);
        let slots = first..first + 1 + dice.below(LONGEST);
        match dice.below(4) {
            0 => self.post_flush(connection, dice, 0..SLOTS),
            1 => {
                self.post_write(connection, model, slots.clone());
                self.post_flush(connection, dice, slots);
            }
            2 => {
                let before = self.post_write(connection, model, slots.clone());
                self.post_flush(connection, dice, slots.clone());
                let number = self.post_atomic_write(connection, model);
                model.order(number, slots, before);
            }
            _ => {
                self.post_write(connection, model, slots);
            }
        }
    }

    /// Fills slots with the next number, which it returns.
    fn post_write(
        &mut self,
        connection: &mut Connection,
        model: &mut Model,
        slots: Range<usize>,
    ) -> u64 {
        self.number += 1;
        let len = slots.len() * SLOT;
        let local = self.fill(connection, len);
        let to = connection.memory.offset((slots.start * SLOT) as u64);
        model.write(connection.posts, slots, self.number);
        connection.post(SendOp::Write(to), Some(local), Posted::Other);
        self.number
    }

    fn post_atomic_write(&mut self, connection: &mut Connection, model: &mut Model) -> u64 {
        self.number += 1;
        let local = self.fill(connection, WORD);
        model.write(connection.posts, 0..1, self.number);
        let op = SendOp::AtomicWrite(connection.memory);
        connection.post(op, Some(local), Posted::Other);
        self.number
    }

    /// Local memory for the next request, filled with the number.
    fn fill(&self, connection: &Connection, len: usize) -> Sge {
        let at = connection.posts % OUTSTANDING * LONGEST * SLOT;
        let bytes = self.number.to_ne_bytes().repeat(len / WORD);
        self.source.write(at, &bytes).expect("in range");
        self.source.slice(at, len).expect("in range")
    }

    /// Flushes the slots, or all of the memory, to persistence.
    fn post_flush(&self, connection: &mut Connection, dice: &mut Dice, slots: Range<usize>) {
        let whole = slots.len() == SLOTS && dice.below(2) == 0;
        let flush = Flush {
            remote: connection.memory.offset((slots.start * SLOT) as u64),
            len: (slots.len() * SLOT) as u32,
            placement: FlushPlacement::PERSISTENCE,
            selectivity: match whole {
                true => FlushSelectivity::Region,
                false => FlushSelectivity::Range,
            },
        };
        let posted = Posted::Flush(connection.posts, slots);
        connection.post(SendOp::Flush(flush), None, posted);
    }
}

impl Connection {
    fn post(&mut self, op: SendOp, local: Option<Sge>, posted: Posted) {
        let elements: &[Sge] = local.as_slice();
        let request = SendRequest::new(self.posts as u64, op, elements);
        self.qp.post_send(&request).expect("posted");
        self.posts += 1;
        self.outstanding.push_back(posted);
    }
}
