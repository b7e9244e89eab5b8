//! Hosts that send any commands to an NVMe target, in any order, on any number of queues.
//!
//! Invariants: nothing panics; what the target would read or write lies in a namespace, in the
//! capsule, and in memory that the host named with the same length; nothing writes to a namespace
//! that is read-only; and when all connections have gone, so have the controllers.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use roce_nvme::target::protocol::{
    Action, Answer, Controllers, Data, Extent, Limits, Offer, Session, Shape, Step,
};
use roce_nvme::wire::admin::{self, Identify};
use roce_nvme::wire::discovery::DISCOVERY_NQN;
use roce_nvme::wire::fabrics::{self, ANY_CONTROLLER, CONNECT_DATA_LEN, Connect, ConnectData};
use roce_nvme::wire::io::{self, Blocks};
use roce_nvme::wire::{
    COMMAND_LEN, Command, Configuration, HostId, KeyedSgl, Property, RequestPrivate, Sgl,
};
use roce_verbs::RemoteAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SUBSYSTEM: &str = "nqn.2014-08.org.nvmexpress:disk1";
const SESSIONS: usize = 8;
/// Which known command connects a queue, and which enables its controller.
const CONNECT: u8 = 0;
const ENABLE: u8 = 2;
/// The opcode of a command that waits for an event.
const ASYNC_EVENT: u8 = 0x0c;
const BLOCKS: [u64; 2] = [64, i64::MAX as u64 / 512];

#[derive(Arbitrary, Debug)]
enum Event {
    Open {
        session: u8,
        queue: u8,
        entries: u16,
        controller: u8,
    },
    /// An honest host connects a queue: an admin queue, or one of a controller.
    Ready {
        session: u8,
        queue: u8,
        controller: u8,
    },
    /// A command as it should be, but for some bytes.
    Known {
        session: u8,
        which: u8,
        number: u16,
        in_capsule: bool,
        data_len: u16,
        patches: [(u8, u8); 2],
        patched: u8,
    },
    Raw {
        session: u8,
        capsule: Vec<u8>,
    },
    Close {
        session: u8,
    },
    Wait {
        ms: u16,
    },
}

fuzz_target!(|events: Vec<Event>| {
    let mut target = Target::new();
    for event in events {
        target.handle(event);
        let (controllers, queues) = target.controllers.count();
        let open = target.sessions.iter().flatten();
        assert!(controllers + queues <= open.filter(|s| s.is_connected()).count());
    }
    target.sessions.clear();
    assert_eq!(target.controllers.count(), (0, 0));
});

struct Target {
    controllers: Arc<Controllers>,
    sessions: Vec<Option<Session>>,
    now: Instant,
}

impl Target {
    fn new() -> Self {
        let shape = |blocks, number, read_only| Shape {
            blocks,
            guid: [number; 16],
            read_only,
        };
        let offer = Offer {
            subsystem: SUBSYSTEM.parse().expect("a name"),
            serial: "1".to_owned(),
            namespaces: vec![shape(BLOCKS[0], 1, false), shape(BLOCKS[1], 2, true)],
            volatile_cache: true,
            address: "10.0.0.1:4420".parse().expect("an address"),
            limits: Limits {
                queues: 4,
                ..Limits::default()
            },
        };
        Self {
            controllers: Arc::new(Controllers::new(offer)),
            sessions: (0..SESSIONS).map(|_| None).collect(),
            now: Instant::now(),
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Open {
                session,
                queue,
                entries,
                controller,
            } => {
                let request = RequestPrivate {
                    queue: u16::from(queue % 6),
                    host_receive_len: entries,
                    host_send_len: entries,
                    controller: controller.into(),
                };
                let opened = Session::new(&self.controllers, &request);
                *self.session(session) = opened.ok();
            }
            Event::Ready {
                session,
                queue,
                controller,
            } => {
                self.handle(Event::Open {
                    session,
                    queue,
                    entries: 31,
                    controller: 0,
                });
                let queue = u16::from(queue % 6);
                for which in [CONNECT, ENABLE] {
                    let (command, data) = known(queue, which, controller.into(), true);
                    self.capsule(session, &[&command.bytes()[..], &data].concat());
                }
            }
            Event::Known {
                session,
                which,
                number,
                in_capsule,
                data_len,
                patches,
                patched,
            } => {
                let Some(queue) = self.session(session).as_ref().map(Session::number) else {
                    return;
                };
                let (command, data) = known(queue, which, number, in_capsule);
                let mut capsule = [&command.bytes()[..], &data].concat();
                capsule.resize(capsule.len().max(data_len.into()), 7);
                for &(at, value) in patches.iter().take(usize::from(patched % 3)) {
                    let at = usize::from(at) % capsule.len();
                    capsule[at] = value;
                }
                self.capsule(session, &capsule);
            }
            Event::Raw { session, capsule } => self.capsule(session, &capsule),
            Event::Close { session } => *self.session(session) = None,
            Event::Wait { ms } => self.now += Duration::from_millis(ms.into()),
        }
    }

    fn session(&mut self, session: u8) -> &mut Option<Session> {
        &mut self.sessions[usize::from(session) % SESSIONS]
    }

    fn capsule(&mut self, number: u8, capsule: &[u8]) {
        let now = self.now;
        let slot = self.session(number);
        let Some(session) = slot else { return };
        let was_connected = session.is_connected();
        let Ok(step) = session.handle(capsule, now) else {
            *slot = None;
            return;
        };
        check(&step, capsule.len().saturating_sub(COMMAND_LEN));
        let moves_data = matches!(
            step.action,
            Action::Read { .. } | Action::Write { .. } | Action::Flush(_) | Action::Return { .. }
        );
        assert!(was_connected || !moves_data, "before connect: {step:?}");
        let answer = match step.action {
            Action::Hold => return,
            Action::Answer(answer) => answer,
            Action::Fetch(_) => {
                let data = connect_data(session.number(), step.command).encode();
                match session.fetched(&data, now) {
                    Action::Answer(answer) => answer,
                    action => panic!("{action:?} follows a fetch"),
                }
            }
            _ => Answer::default(),
        };
        let response = session.respond(step.command, answer);
        assert!(response.sq_head < session.len());
        assert_eq!(response.command_id, step.command);
    }
}

/// Whether a step is one that can be carried out.
fn check(step: &Step, data_len: usize) {
    let max = Limits::default().max_transfer();
    match &step.action {
        Action::Read { extent, to } => {
            check_extent(extent);
            assert_eq!(extent.len, to.len);
        }
        Action::Write { extent, data, .. } => {
            check_extent(extent);
            assert_eq!(extent.namespace, 0, "the other one is read-only");
            match data {
                Data::InCapsule(bytes) => {
                    assert_eq!(bytes.len(), extent.len as usize);
                    assert!(bytes.end <= data_len);
                }
                Data::AtHost(from) => assert_eq!(extent.len, from.len),
            }
        }
        Action::Return { bytes, to } => {
            assert_eq!(bytes.len(), to.len as usize);
            assert!(!bytes.is_empty() && bytes.len() as u64 <= max);
        }
        Action::Fetch(from) => assert_eq!(from.len as usize, CONNECT_DATA_LEN),
        Action::Flush(namespaces) => {
            assert!(namespaces.start < namespaces.end && namespaces.end <= BLOCKS.len());
        }
        Action::Answer(_) | Action::Hold => {}
    }
}

fn check_extent(extent: &Extent) {
    let len = u64::from(extent.len);
    assert!(len > 0 && len <= Limits::default().max_transfer());
    assert!(extent.offset % 512 == 0 && len % 512 == 0);
    let end = extent.offset.checked_add(len).expect("it has an end");
    assert!(end <= BLOCKS[extent.namespace] * 512);
}

/// Honest connect data; `number` chooses the controller and the subsystem.
fn connect_data(queue: u16, number: u16) -> ConnectData {
    let subsystem = match number % 8 {
        7 => DISCOVERY_NQN,
        _ => SUBSYSTEM,
    };
    ConnectData {
        host_id: HostId([1; 16]),
        controller: match queue {
            0 => ANY_CONTROLLER,
            _ => number % 8,
        },
        subsystem: subsystem.parse().expect("a name"),
        host: "nqn.2014-08.org.nvmexpress:host".parse().expect("a name"),
    }
}

/// A good command of a queue, and the data of its capsule.
fn known(queue: u16, which: u8, number: u16, in_capsule: bool) -> (Command, Vec<u8>) {
    let blocks = Blocks {
        namespace: u32::from(number % 4),
        first: (number >> 2).into(),
        count: u32::from(number % 70) + 1,
    };
    let block_bytes = blocks.count * 512;
    let (command, len, data) = match which % 13 {
        CONNECT | 1 => {
            let connect = Connect {
                queue,
                length: 7,
                keep_alive_ms: number.into(),
            };
            let data = connect_data(queue, number).encode().to_vec();
            (connect.command(), CONNECT_DATA_LEN as u32, data)
        }
        ENABLE => {
            let value = Configuration::ENABLED.0.into();
            let command = fabrics::property_set(Property::Configuration, value);
            (command, 0, Vec::new())
        }
        3 => (fabrics::property_get(Property::Status), 0, Vec::new()),
        4 => {
            let structures = [
                Identify::Namespace,
                Identify::Controller,
                Identify::ActiveNamespaces,
                Identify::Descriptors,
            ];
            let structure = structures[usize::from(number) % 4];
            let command = admin::identify(structure, u32::from(number / 4));
            (command, 4096, Vec::new())
        }
        5 => {
            let len = (u32::from(number) + 1) * 4;
            let command = admin::log_page(admin::DISCOVERY_LOG, number.into(), len);
            (command, len, Vec::new())
        }
        6 => {
            let [feature, value] = number.to_be_bytes();
            let command = admin::set_feature(feature % 16, u32::from(value) << 8);
            (command, 0, Vec::new())
        }
        7 => (admin::keep_alive(), 0, Vec::new()),
        8 => (io::flush(number.into()), 0, Vec::new()),
        12 => {
            // The structures have no command that waits for an event.
            let mut bytes = *admin::keep_alive().bytes();
            bytes[0] = ASYNC_EVENT;
            (Command::from_bytes(bytes), 0, Vec::new())
        }
        9 => (io::read(&blocks), block_bytes, Vec::new()),
        _ => {
            let data = vec![3; block_bytes as usize];
            (io::write(&blocks, number % 2 == 0), block_bytes, data)
        }
    };
    match in_capsule {
        true => {
            let sgl = Sgl::InCapsule { offset: 0, len };
            (command.with_id(number).with_sgl(&sgl), data)
        }
        false => {
            let remote = RemoteAddr {
                addr: 0x1000,
                rkey: 9,
            };
            let sgl = Sgl::Keyed(KeyedSgl {
                remote,
                len,
                invalidate: number % 2 == 0,
            });
            (command.with_id(number).with_sgl(&sgl), Vec::new())
        }
    }
}
