//! Starts the processes, tells them which QPs to connect to, kills some, and checks the results.

use super::traces::{Traces, assert_holds_nothing_persistent, lanes_of};
use super::{OUTPUT_PREFIX, Plan, ROLE};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use testkit::Dice;

/// The longest time that a step may take before it counts as stuck.
const TIMEOUT: Duration = Duration::from_secs(120);
/// The number of messages that each end of each connection must get once no more processes are
/// killed.
const MESSAGES: u64 = 10;

/// A process, by its number. Processes that were killed keep their numbers.
type Index = usize;
type Endpoint = (Index, usize);

struct Player {
    child: Child,
    stdin: Option<ChildStdin>,
    slots: Vec<Slot>,
    /// The number of messages that each slot had received at the last query.
    received: Option<Vec<u64>>,
    /// Counters of the port, as of then.
    counters: HashMap<String, u64>,
}

#[derive(Clone, Default)]
struct Slot {
    /// QPN and PSN, once the player has reported them.
    qp: Option<(u32, u32)>,
    peer: Option<Endpoint>,
}

struct Parent {
    plan: Plan,
    address: Ipv4Addr,
    traces: Traces,
    dice: Dice,
    players: Vec<Option<Player>>,
    output: Receiver<(Index, String)>,
    output_sender: Sender<(Index, String)>,
    connections: u64,
    kills: usize,
    /// The process that is stopped. It answers nothing, and its connections may fail.
    stopped: Option<Index>,
    /// Children of players. They outlive the players.
    children: Vec<Pid>,
}

pub(super) fn run(plan: &Plan) {
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let (output_sender, output) = channel();
    let mut parent = Parent {
        plan: *plan,
        address: Ipv4Addr::new(127, 64 | (high & 63), low, 201),
        traces: Traces::new(),
        dice: Dice::new(plan.seed),
        players: Vec::new(),
        output,
        output_sender,
        connections: 0,
        kills: 0,
        stopped: None,
        children: Vec::new(),
    };
    for _ in 0..plan.processes {
        parent.start();
    }
    parent.kill_and_replace();
    parent.check_progress();
    parent.check_lanes();
    parent.stop_one();
    parent.check_progress();
    parent.kill_stopped();
    parent.check_progress();
    parent.end();
}

impl Parent {
    fn start(&mut self) {
        let index = self.players.len();
        let mut child = Command::new(std::env::current_exe().expect("a path"))
            .args(["--exact", "is_a_player", "--nocapture"])
            .current_dir(self.traces.folder())
            .env("TMPDIR", self.traces.folder())
            .env(ROLE, format!("{} {}", self.address, self.plan.qps))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let out = child.stdout.take().expect("piped");
        let output_sender = self.output_sender.clone();
        std::thread::spawn(move || {
            let lines = BufReader::new(out).lines().map_while(Result::ok);
            for line in lines {
                if let Some(output) = line.strip_prefix(OUTPUT_PREFIX) {
                    let _ = output_sender.send((index, output.to_owned()));
                }
            }
        });
        let stdin = child.stdin.take();
        self.players.push(Some(Player {
            child,
            stdin,
            slots: vec![Slot::default(); self.plan.qps],
            received: None,
            counters: HashMap::new(),
        }));
    }

    /// Kills processes and starts others, at times from the seed.
    fn kill_and_replace(&mut self) {
        let end = Instant::now() + Duration::from_secs(self.plan.seconds);
        let mut next = Instant::now();
        while Instant::now() < end {
            self.handle_output_for(Duration::from_millis(2));
            self.connect_free();
            if Instant::now() < next {
                continue;
            }
            next = Instant::now() + Duration::from_millis(20 + self.dice.below(300) as u64);
            // Usually one, now and then several at once.
            for _ in 0..1 + self.dice.below(4) / 3 {
                self.kill_one();
            }
            while self.alive().len() < self.plan.processes {
                self.start();
            }
        }
    }

    /// Checks that every connection makes progress, except for those of a process that is stopped.
    fn check_progress(&mut self) {
        let start = Instant::now();
        let goal = self.alive().len() * self.plan.qps;
        let goal = match self.stopped {
            None => goal - goal % 2,
            Some(_) => self.connected().len(),
        };
        let mut first: Option<Vec<u64>> = None;
        loop {
            self.handle_output_for(Duration::from_millis(5));
            self.connect_free();
            let connected = self.connected();
            if connected.len() == goal {
                let received = self.query_all();
                let counts: Vec<u64> = connected
                    .iter()
                    .map(|&(index, slot)| received[&index][slot])
                    .collect();
                let first = first.get_or_insert_with(|| counts.clone());
                let done = counts.iter().zip(first.iter());
                if done.clone().all(|(now, then)| *now >= then + MESSAGES) {
                    return;
                }
                let slow: Vec<_> = connected
                    .iter()
                    .zip(done)
                    .filter(|(_, (now, then))| **now < **then + MESSAGES)
                    .collect();
                assert!(
                    start.elapsed() < TIMEOUT,
                    "stuck: {slow:?}; {:?}",
                    self.plan
                );
            }
            assert!(
                start.elapsed() < TIMEOUT,
                "{} of {goal} ends connected; {:?}",
                connected.len(),
                self.plan
            );
        }
    }

    /// Checks that all processes have used lanes in both directions.
    fn check_lanes(&self) {
        if std::env::var_os("ROCE_LOCAL").is_some_and(|value| value == "off") {
            return;
        }
        for player in self.players.iter().flatten() {
            let count = |name| player.counters[name];
            let lanes = [count("tx_lane_packets"), count("rx_lane_packets")];
            let datagrams = count("tx_datagrams");
            let pid = player.child.id();
            assert!(!lanes.contains(&0), "{lanes:?} packets; {:?}", self.plan);
            assert!(
                lanes[0] > datagrams,
                "{lanes:?}, {datagrams} datagrams; {:?}",
                self.plan
            );
            assert!(lanes_of(pid) > 0);
        }
    }

    /// Stops a process.
    fn stop_one(&mut self) {
        let alive = self.alive();
        let index = alive[self.dice.below(alive.len())];
        if let Some(player) = &self.players[index] {
            kill(pid_of(&player.child), Signal::SIGSTOP).expect("a process of ours");
            self.stopped = Some(index);
        }
    }

    /// Kills the process that is stopped, and starts another one.
    fn kill_stopped(&mut self) {
        if let Some(index) = self.stopped.take() {
            self.kill(index);
            self.start();
        }
    }

    /// Makes a process fork. The child has none of its lanes.
    fn fork(&mut self, index: Index) {
        let before = self.children.len();
        self.send_command(index, "fork");
        let start = Instant::now();
        while self.children.len() == before {
            self.handle_output_for(Duration::from_millis(1));
            assert!(start.elapsed() < TIMEOUT, "no child; {:?}", self.plan);
        }
        let child = self.children[before].as_raw().cast_unsigned();
        assert_eq!(lanes_of(child), 0, "lanes of a child; {:?}", self.plan);
    }

    /// Ends all processes in order, and checks that nothing is left behind.
    fn end(mut self) {
        for player in self.players.iter().flatten() {
            assert_holds_nothing_persistent(player.child.id());
        }
        for player in self.players.iter_mut().flatten() {
            player.stdin = None;
        }
        for player in self.players.iter_mut().flatten() {
            let status = player.child.wait().expect("a process of ours");
            assert!(status.success(), "{status}; {:?}", self.plan);
        }
        // Their children are still there.
        self.traces.assert_none(self.address);
        let output = format!(
            "crowd: {} processes in all, {} killed, {} children, {} connections; {:?}",
            self.players.len(),
            self.kills,
            self.children.len(),
            self.connections,
            self.plan
        );
        // Not by a macro: the test harness would capture its output.
        let _ = writeln!(std::io::stderr(), "{output}");
    }

    fn alive(&self) -> Vec<Index> {
        let players = self.players.iter().enumerate();
        players
            .filter_map(|(index, player)| player.as_ref().map(|_| index))
            .collect()
    }

    fn slot(&mut self, (index, slot): Endpoint) -> Option<&mut Slot> {
        let player = self.players[index].as_mut()?;
        Some(&mut player.slots[slot])
    }

    fn endpoints_where(&self, is_so: impl Fn(&Slot) -> bool) -> Vec<Endpoint> {
        let mut found = Vec::new();
        for (index, player) in self.players.iter().enumerate() {
            let slots = player.iter().flat_map(|player| &player.slots).enumerate();
            found.extend(
                slots
                    .filter(|(_, s)| is_so(s))
                    .map(|(slot, _)| (index, slot)),
            );
        }
        found
    }

    /// The ends of connections between processes that run.
    fn connected(&self) -> Vec<Endpoint> {
        let mut ends =
            self.endpoints_where(|slot| slot.peer.is_some_and(|peer| Some(peer.0) != self.stopped));
        ends.retain(|end| Some(end.0) != self.stopped);
        ends
    }

    /// Connects waiting QPs in random pairs.
    fn connect_free(&mut self) {
        let mut free = self.endpoints_where(|slot| slot.qp.is_some() && slot.peer.is_none());
        while free.len() >= 2 {
            let a = free.swap_remove(self.dice.below(free.len()));
            let b = free.swap_remove(self.dice.below(free.len()));
            self.connections += 1;
            for (side, own, peer) in [(0, a, b), (1, b, a)] {
                let (qpn, psn) = self.slot(peer).and_then(|s| s.qp).expect("it has told");
                self.slot(own).expect("alive").peer = Some(peer);
                let command = format!("connect {} {} {side} {qpn} {psn}", own.1, self.connections);
                self.send_command(own.0, &command);
            }
        }
    }

    fn send_command(&mut self, index: Index, what: &str) {
        let player = self.players[index].as_mut().expect("alive");
        let stdin = player.stdin.as_mut().expect("not told to end");
        writeln!(stdin, "{what}").expect("it listens");
    }

    /// Kills a process, which may have forked.
    fn kill_one(&mut self) {
        let alive = self.alive();
        let index = alive[self.dice.below(alive.len())];
        if self.dice.one_in(4) {
            self.fork(index);
        }
        self.kill(index);
    }

    /// Kills a process. Its peers get new QPs, as a connection manager would arrange.
    fn kill(&mut self, index: Index) {
        let Some(mut player) = self.players[index].take() else {
            return;
        };
        // Signal 9.
        player.child.kill().expect("a process of ours");
        player.child.wait().expect("a process of ours");
        self.kills += 1;
        for peer in player.slots.iter().filter_map(|slot| slot.peer) {
            let Some(slot) = self.slot(peer) else {
                continue;
            };
            *slot = Slot::default();
            self.send_command(peer.0, &format!("reset {}", peer.1));
        }
    }

    /// Handles the players' output, for at least `span`.
    fn handle_output_for(&mut self, span: Duration) {
        let mut wait = span;
        while let Ok((index, output)) = self.output.recv_timeout(wait) {
            self.handle_output(index, &output);
            wait = Duration::ZERO;
        }
    }

    fn handle_output(&mut self, index: Index, output: &str) {
        let plan = self.plan;
        let Some(player) = &mut self.players[index] else {
            // The process is dead by now, but its report of wrong bytes still counts.
            assert!(
                !output.starts_with("wrong"),
                "process {index}: {output}; {plan:?}"
            );
            return;
        };
        let words: Vec<&str> = output.split(' ').collect();
        let number = |word: &str| word.parse::<u64>().expect("a number");
        match words[0] {
            "qp" => {
                let slot = &mut player.slots[number(words[1]) as usize];
                let qp = (number(words[2]) as u32, number(words[3]) as u32);
                slot.qp = Some(qp);
                assert_eq!(slot.peer, None);
                self.assert_own_number(index, qp.0);
            }
            "child" => self.children.push(Pid::from_raw(number(words[1]) as i32)),
            "tx_lane_packets" | "rx_lane_packets" | "tx_datagrams" => {
                player
                    .counters
                    .insert(words[0].to_owned(), number(words[1]));
            }
            "seen" => player.received = Some(words[1..].iter().copied().map(number).collect()),
            // Its peer may be dead, and this end does not know that yet.
            "failed" if player.slots[number(words[1]) as usize].peer.is_none() => {}
            "failed"
                if self.stopped.is_some() && {
                    let peer = player.slots[number(words[1]) as usize].peer;
                    peer.is_some_and(|peer| Some(peer.0) == self.stopped)
                } => {}
            _ => panic!("process {index}: {output}; {plan:?}"),
        }
    }

    /// Checks that no two QPs of the address have the same number.
    fn assert_own_number(&self, of: Index, qpn: u32) {
        let same = self.endpoints_where(|slot| slot.qp.is_some_and(|qp| qp.0 == qpn));
        assert_eq!(
            same.len(),
            1,
            "QPN {qpn:#x}, process {of}: {same:?}; {:?}",
            self.plan
        );
    }

    /// Queries the number of messages that each process has received.
    fn query_all(&mut self) -> HashMap<Index, Vec<u64>> {
        let mut alive = self.alive();
        alive.retain(|index| Some(*index) != self.stopped);
        for &index in &alive {
            self.players[index].as_mut().expect("alive").received = None;
            self.send_command(index, "report");
        }
        let start = Instant::now();
        let has_reported = |parent: &Self| {
            let has_reported = |index: &Index| {
                let player = parent.players[*index].as_ref();
                player.is_some_and(|player| player.received.is_some())
            };
            alive.iter().all(has_reported)
        };
        while !has_reported(self) {
            self.handle_output_for(Duration::from_millis(2));
            assert!(
                start.elapsed() < TIMEOUT,
                "a process does not answer; {:?}",
                self.plan
            );
        }
        let received = |index: &Index| self.players[*index].as_ref()?.received.clone();
        alive
            .iter()
            .filter_map(|index| Some((*index, received(index)?)))
            .collect()
    }
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}

impl Drop for Parent {
    fn drop(&mut self) {
        for child in &self.children {
            // It may have ended by itself meanwhile.
            let _ = kill(*child, Signal::SIGKILL);
        }
        for player in self.players.iter_mut().flatten() {
            let _ = player.child.kill();
            let _ = player.child.wait();
        }
    }
}
