//! One of the processes. It executes the commands on its standard input.
//!
//! It has QPs in slots. Each QP sends message after message to the QP that it is connected to, and
//! receives that one's messages. A message's content follows from the number of the connection, the
//! end that sends it, and the number of messages before it.

use super::OUTPUT_PREFIX;
use roce_verbs::completion::{CompletionChannel, Notify};
use roce_verbs::{
    Access, Completion, CompletionQueue, ConnectOptions, Context, Device, Endpoint, MemoryRegion,
    ProtectionDomain, Psn, QpOptions, Qpn, QueuePair, RecvRequest, SendOp, SendRequest, WcStatus,
};
use std::io::{BufRead, Read as _, Write};
use std::net::IpAddr;
use std::os::fd::AsRawFd as _;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;
use testkit::Dice;

/// The maximum size of a message, in bytes.
const MAX_MESSAGE_BYTES: usize = 12_000;
/// The number of receives that are posted at a time.
const RECEIVES: usize = 4;

struct Player {
    at: IpAddr,
    context: Context,
    pd: ProtectionDomain,
    channel: CompletionChannel,
    cq: CompletionQueue,
    slots: Vec<Slot>,
}

struct Slot {
    /// The number of QPs that this slot has had.
    generation: u64,
    qp: QueuePair,
    /// Memory for a message to send, and for received ones.
    region: MemoryRegion,
    connection: Option<Connection>,
}

/// The messages of one connection.
struct Connection {
    number: u64,
    /// Which of the two ends this is: 0 or 1.
    side: u64,
    sent: u64,
    received: u64,
}

impl Connection {
    /// Message number `count` of an end.
    fn message(&self, side: u64, count: u64) -> Vec<u8> {
        let mut dice = Dice::new(self.number << 33 | side << 32 | count);
        let len = match dice.below(3) {
            0 => 1 + dice.below(64),
            1 => 4096,
            _ => 1 + dice.below(MAX_MESSAGE_BYTES),
        };
        let mut bytes: Vec<u8> = (0..len.div_ceil(8))
            .flat_map(|_| dice.number().to_le_bytes())
            .collect();
        bytes.truncate(len);
        bytes
    }
}

/// Runs a player until its standard input ends. `role` is an address and a number of QPs.
pub(super) fn play(role: &str) {
    let (at, qps) = role.split_once(' ').expect("address and QPs");
    let commands = commands();
    let mut player = Player::new(at.parse().expect("an address"));
    for slot in 0..qps.parse().expect("a number") {
        player.slots.push(Slot::new(&player.pd, &player.cq));
        player.report_qp(slot);
    }
    loop {
        match commands.try_recv() {
            Ok(command) => player.handle_command(&command),
            Err(TryRecvError::Disconnected) => return,
            Err(TryRecvError::Empty) => player.poll_completions(),
        }
    }
}

/// The lines of standard input.
fn commands() -> Receiver<String> {
    let (to, from) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if to.send(line).is_err() {
                return;
            }
        }
    });
    from
}

/// Starts a child that sleeps for two minutes, unless it is killed. Returns its process ID, once the child
/// has given up what it has from this process.
fn fork_sleeper() -> libc::pid_t {
    let (mut ready, tell) = std::io::pipe().expect("a pipe");
    // SAFETY: the child only makes system calls, with a byte that exists.
    let child = unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::alarm(120);
            libc::write(tell.as_raw_fd(), c"!".as_ptr().cast(), 1);
            loop {
                libc::pause();
            }
        }
        child
    };
    assert!(child > 0, "forked");
    ready.read_exact(&mut [0]).expect("the child is ready");
    child
}

fn report(what: &str) {
    let mut out = std::io::stdout().lock();
    // If the parent no longer reads, this process is about to be killed.
    let _ = writeln!(out, "\n{OUTPUT_PREFIX}{what}");
    let _ = out.flush();
}

impl Player {
    fn new(at: IpAddr) -> Self {
        let device = Device::with_address(at).expect("loopback");
        let context = device.open().expect("opened");
        let channel = context.create_channel().expect("a channel");
        Self {
            at,
            pd: context.alloc_pd(),
            cq: context.create_cq_with_channel(4096, &channel),
            context,
            channel,
            slots: Vec::new(),
        }
    }

    fn gid_index(&self) -> u8 {
        let gids = self.context.gids();
        let own = gids.iter().find(|entry| entry.gid.ip() == self.at);
        own.expect("the address has a GID").index
    }

    /// Reports which QP is in the slot.
    fn report_qp(&self, slot: usize) {
        let own = self.slots[slot].qp.endpoint(self.gid_index());
        let own = own.expect("there is such a GID");
        report(&format!("qp {slot} {} {}", own.qpn.get(), own.psn.get()));
    }

    fn handle_command(&mut self, command: &str) {
        let words: Vec<&str> = command.split(' ').collect();
        let number = |index: usize| words[index].parse::<u64>().expect("a number");
        match words[0] {
            "connect" => {
                let peer = Endpoint {
                    gid: self.at.into(),
                    qpn: Qpn::from_bits(number(4) as u32),
                    psn: Psn::new(number(5) as u32),
                };
                self.connect(number(1) as usize, (number(2), number(3)), &peer);
            }
            "reset" => {
                let slot = number(1) as usize;
                let mut fresh = Slot::new(&self.pd, &self.cq);
                fresh.generation = self.slots[slot].generation + 1;
                self.slots[slot] = fresh;
                self.report_qp(slot);
            }
            "fork" => report(&format!("child {}", fork_sleeper())),
            "report" => {
                let connections = self.slots.iter().map(|slot| slot.connection.as_ref());
                let received: Vec<String> = connections
                    .map(|connection| {
                        connection
                            .map_or(0, |connection| connection.received)
                            .to_string()
                    })
                    .collect();
                let counters = self.context.port_counters();
                let of = |name| counters.iter().find(|(other, _)| *other == name);
                for name in ["tx_lane_packets", "rx_lane_packets", "tx_datagrams"] {
                    report(&format!(
                        "{name} {}",
                        of(name).map_or(0, |(_, count)| *count)
                    ));
                }
                report(&format!("seen {}", received.join(" ")));
            }
            other => panic!("an unknown command: {other:?}"),
        }
    }

    fn connect(&mut self, slot: usize, (connection, side): (u64, u64), peer: &Endpoint) {
        let index = self.gid_index();
        let own = &mut self.slots[slot];
        let options = ConnectOptions {
            // On a busy machine, a process may be slow to answer without being dead.
            timeout: 18,
            ..ConnectOptions::default()
        };
        own.qp.connect(index, peer, &options).expect("connected");
        own.connection = Some(Connection {
            number: connection,
            side,
            sent: 0,
            received: 0,
        });
        for buffer in 0..RECEIVES {
            own.post_receive(slot, buffer);
        }
        own.send(slot);
    }

    /// Takes completions, or waits a moment if there are none.
    fn poll_completions(&mut self) {
        let mut any = false;
        for _ in 0..64 {
            let Some(completion) = self.cq.poll().expect("no overrun") else {
                break;
            };
            any = true;
            self.handle_completion(&completion);
        }
        if any {
            return;
        }
        self.cq.request_notify(Notify::Next);
        match self.cq.poll().expect("no overrun") {
            Some(completion) => self.handle_completion(&completion),
            None => {
                let _ = self.channel.wait(Duration::from_millis(3)).expect("waited");
            }
        }
    }

    fn handle_completion(&mut self, completion: &Completion) {
        let (generation, slot, buffer) = unpack(completion.wr_id);
        let own = &mut self.slots[slot];
        if own.generation != generation {
            return;
        }
        if completion.status != WcStatus::Success {
            if own.connection.take().is_some() {
                report(&format!("failed {slot} {:?}", completion.status));
            }
            return;
        }
        if buffer == 0 {
            own.send(slot);
        } else {
            own.check(slot, buffer - 1, completion.byte_len as usize);
            own.post_receive(slot, buffer - 1);
        }
    }
}

impl Slot {
    fn new(pd: &ProtectionDomain, cq: &CompletionQueue) -> Self {
        let len = (1 + RECEIVES) * MAX_MESSAGE_BYTES;
        Self {
            generation: 0,
            qp: pd.create_qp(cq, cq, &QpOptions::default()).expect("a QP"),
            region: pd.allocate(len, Access::LOCAL_WRITE).expect("allocated"),
            connection: None,
        }
    }

    fn send(&mut self, slot: usize) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        let bytes = connection.message(connection.side, connection.sent);
        connection.sent += 1;
        self.region.write(0, &bytes).expect("in range");
        let sge = self.region.slice(0, bytes.len()).expect("in range");
        let (wr_id, sges) = (pack(self.generation, slot, 0), &[sge]);
        self.qp
            .post_send(&SendRequest::new(wr_id, SendOp::Send, sges))
            .expect("posted");
    }

    fn post_receive(&self, slot: usize, buffer: usize) {
        let at = (1 + buffer) * MAX_MESSAGE_BYTES;
        let sge = self.region.slice(at, MAX_MESSAGE_BYTES).expect("in range");
        let wr_id = pack(self.generation, slot, buffer + 1);
        let sges = &[sge];
        self.qp
            .post_recv(&RecvRequest { wr_id, sges })
            .expect("posted");
    }

    /// Checks every byte of a received message.
    fn check(&mut self, slot: usize, buffer: usize, len: usize) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        let expected = connection.message(1 - connection.side, connection.received);
        let mut got = vec![0; len];
        self.region
            .read((1 + buffer) * MAX_MESSAGE_BYTES, &mut got)
            .expect("in range");
        if got != expected {
            report(&format!(
                "wrong: slot {slot}, talk {}, message {}: {len} bytes, not the {} expected ones",
                connection.number,
                connection.received,
                expected.len()
            ));
        }
        connection.received += 1;
    }
}

fn pack(generation: u64, slot: usize, buffer: usize) -> u64 {
    generation << 32 | (slot as u64) << 8 | buffer as u64
}

fn unpack(wr_id: u64) -> (u64, usize, usize) {
    let (slot, buffer) = (wr_id >> 8 & 0xff_ffff, wr_id & 0xff);
    (wr_id >> 32, slot as usize, buffer as usize)
}
