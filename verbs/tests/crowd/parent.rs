//! Starts the processes, tells them which QPs to connect to, kills some, and checks the results.

use super::traces::{Traces, assert_keeps_nothing};
use super::{Draw, MARK, Plan, ROLE};
use std::io::{BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// The longest time that a step may take before it counts as stuck.
const PATIENCE: Duration = Duration::from_secs(120);
/// The number of messages that each end of each connection must get once no more processes are
/// killed.
const MESSAGES: u64 = 10;

/// A process, by its number. Processes that were killed keep their numbers.
type Name = usize;
type Ends = (Name, usize);

struct Player {
    child: Child,
    to: Option<ChildStdin>,
    slots: Vec<Slot>,
    /// The number of messages that each slot had received at the last query.
    seen: Option<Vec<u64>>,
}

#[derive(Clone, Default)]
struct Slot {
    /// QPN and PSN, once the player has reported them.
    qp: Option<(u32, u32)>,
    peer: Option<Ends>,
}

struct Parent {
    plan: Plan,
    address: Ipv4Addr,
    traces: Traces,
    draw: Draw,
    players: Vec<Option<Player>>,
    said: Receiver<(Name, String)>,
    ear: Sender<(Name, String)>,
    talks: u64,
    kills: usize,
}

pub(super) fn run(plan: &Plan) {
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let (ear, said) = channel();
    let mut parent = Parent {
        plan: *plan,
        address: Ipv4Addr::new(127, 64 | (high & 63), low, 201),
        traces: Traces::new(),
        draw: Draw(plan.seed),
        players: Vec::new(),
        said,
        ear,
        talks: 0,
        kills: 0,
    };
    for _ in 0..plan.processes {
        parent.start();
    }
    parent.trouble();
    parent.calm();
    parent.end();
}

impl Parent {
    fn start(&mut self) {
        let name = self.players.len();
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
        let ear = self.ear.clone();
        std::thread::spawn(move || {
            let lines = BufReader::new(out).lines().map_while(Result::ok);
            for line in lines {
                if let Some(said) = line.strip_prefix(MARK) {
                    let _ = ear.send((name, said.to_owned()));
                }
            }
        });
        let to = child.stdin.take();
        self.players.push(Some(Player {
            child,
            to,
            slots: vec![Slot::default(); self.plan.qps],
            seen: None,
        }));
    }

    /// Kills processes and starts others, at times from the seed.
    fn trouble(&mut self) {
        let end = Instant::now() + Duration::from_secs(self.plan.seconds);
        let mut next = Instant::now();
        while Instant::now() < end {
            self.listen(Duration::from_millis(2));
            self.connect_free();
            if Instant::now() < next {
                continue;
            }
            next = Instant::now() + Duration::from_millis(20 + self.draw.below(300) as u64);
            // Usually one, now and then several at once.
            for _ in 0..1 + self.draw.below(4) / 3 {
                self.kill_one();
            }
            while self.alive().len() < self.plan.processes {
                self.start();
            }
        }
    }

    /// Checks that every connection makes progress.
    fn calm(&mut self) {
        let start = Instant::now();
        let goal = self.alive().len() * self.plan.qps;
        let goal = goal - goal % 2;
        let mut first: Option<Vec<u64>> = None;
        loop {
            self.listen(Duration::from_millis(5));
            self.connect_free();
            let connected = self.connected();
            if connected.len() == goal {
                let seen = self.ask_all();
                let counts: Vec<u64> = connected
                    .iter()
                    .map(|&(name, slot)| seen[&name][slot])
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
                    start.elapsed() < PATIENCE,
                    "stuck: {slow:?}; {:?}",
                    self.plan
                );
            }
            assert!(
                start.elapsed() < PATIENCE,
                "{} of {goal} ends connected; {:?}",
                connected.len(),
                self.plan
            );
        }
    }

    /// Ends all processes in order, and checks that nothing is left behind.
    fn end(mut self) {
        for player in self.players.iter().flatten() {
            assert_keeps_nothing(player.child.id());
        }
        for player in self.players.iter_mut().flatten() {
            player.to = None;
        }
        for player in self.players.iter_mut().flatten() {
            let status = player.child.wait().expect("a process of ours");
            assert!(status.success(), "{status}; {:?}", self.plan);
        }
        self.traces.assert_none(self.address);
        let said = format!(
            "crowd: {} processes in all, {} killed, {} connections; {:?}",
            self.players.len(),
            self.kills,
            self.talks,
            self.plan
        );
        // Not by a macro: the test harness would capture its output.
        let _ = writeln!(std::io::stderr(), "{said}");
    }

    fn alive(&self) -> Vec<Name> {
        let players = self.players.iter().enumerate();
        players
            .filter_map(|(name, player)| player.as_ref().map(|_| name))
            .collect()
    }

    fn slot(&mut self, (name, slot): Ends) -> Option<&mut Slot> {
        let player = self.players[name].as_mut()?;
        Some(&mut player.slots[slot])
    }

    fn ends_where(&self, is_so: impl Fn(&Slot) -> bool) -> Vec<Ends> {
        let mut found = Vec::new();
        for (name, player) in self.players.iter().enumerate() {
            let slots = player.iter().flat_map(|player| &player.slots).enumerate();
            found.extend(
                slots
                    .filter(|(_, s)| is_so(s))
                    .map(|(slot, _)| (name, slot)),
            );
        }
        found
    }

    fn connected(&self) -> Vec<Ends> {
        self.ends_where(|slot| slot.peer.is_some())
    }

    /// Connects waiting QPs in random pairs.
    fn connect_free(&mut self) {
        let mut free = self.ends_where(|slot| slot.qp.is_some() && slot.peer.is_none());
        while free.len() >= 2 {
            let a = free.swap_remove(self.draw.below(free.len()));
            let b = free.swap_remove(self.draw.below(free.len()));
            self.talks += 1;
            for (side, own, peer) in [(0, a, b), (1, b, a)] {
                let (qpn, psn) = self.slot(peer).and_then(|s| s.qp).expect("it has told");
                self.slot(own).expect("alive").peer = Some(peer);
                let command = format!("connect {} {} {side} {qpn} {psn}", own.1, self.talks);
                self.tell(own.0, &command);
            }
        }
    }

    fn tell(&mut self, name: Name, what: &str) {
        let player = self.players[name].as_mut().expect("alive");
        let to = player.to.as_mut().expect("not told to end");
        writeln!(to, "{what}").expect("it listens");
    }

    /// Kills a process. Its peers get new QPs, as a connection manager would arrange.
    fn kill_one(&mut self) {
        let alive = self.alive();
        let name = alive[self.draw.below(alive.len())];
        let Some(mut player) = self.players[name].take() else {
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
            self.tell(peer.0, &format!("reset {}", peer.1));
        }
    }

    /// Handles the players' output, for at least `span`.
    fn listen(&mut self, span: Duration) {
        let mut wait = span;
        while let Ok((name, said)) = self.said.recv_timeout(wait) {
            self.hear(name, &said);
            wait = Duration::ZERO;
        }
    }

    fn hear(&mut self, name: Name, said: &str) {
        let plan = self.plan;
        let Some(player) = &mut self.players[name] else {
            // The process is dead by now, but its report of wrong bytes still counts.
            assert!(
                !said.starts_with("wrong"),
                "process {name}: {said}; {plan:?}"
            );
            return;
        };
        let words: Vec<&str> = said.split(' ').collect();
        let number = |word: &str| word.parse::<u64>().expect("a number");
        match words[0] {
            "qp" => {
                let slot = &mut player.slots[number(words[1]) as usize];
                let qp = (number(words[2]) as u32, number(words[3]) as u32);
                slot.qp = Some(qp);
                assert_eq!(slot.peer, None);
                self.assert_own_number(name, qp.0);
            }
            "seen" => player.seen = Some(words[1..].iter().copied().map(number).collect()),
            // Its peer may be dead, and this end does not know that yet.
            "failed" if player.slots[number(words[1]) as usize].peer.is_none() => {}
            _ => panic!("process {name}: {said}; {plan:?}"),
        }
    }

    /// Checks that no two QPs of the address have the same number.
    fn assert_own_number(&self, of: Name, qpn: u32) {
        let same = self.ends_where(|slot| slot.qp.is_some_and(|qp| qp.0 == qpn));
        assert_eq!(
            same.len(),
            1,
            "QPN {qpn:#x}, process {of}: {same:?}; {:?}",
            self.plan
        );
    }

    /// Queries the number of messages that each process has received.
    fn ask_all(&mut self) -> std::collections::HashMap<Name, Vec<u64>> {
        let alive = self.alive();
        for &name in &alive {
            self.players[name].as_mut().expect("alive").seen = None;
            self.tell(name, "report");
        }
        let start = Instant::now();
        let has_told = |parent: &Self| {
            let mut players = parent.players.iter().flatten();
            players.all(|player| player.seen.is_some())
        };
        while !has_told(self) {
            self.listen(Duration::from_millis(2));
            assert!(
                start.elapsed() < PATIENCE,
                "a process does not answer; {:?}",
                self.plan
            );
        }
        let seen = |name: &Name| self.players[*name].as_ref()?.seen.clone();
        alive
            .iter()
            .filter_map(|name| Some((*name, seen(name)?)))
            .collect()
    }
}

impl Drop for Parent {
    fn drop(&mut self) {
        for player in self.players.iter_mut().flatten() {
            let _ = player.child.kill();
            let _ = player.child.wait();
        }
    }
}
