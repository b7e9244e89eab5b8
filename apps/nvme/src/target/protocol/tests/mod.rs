//! Hosts that keep to the protocol, and hosts that do not, against sessions without I/O.

use super::{Action, Answer, Controllers, Data, Extent, Limits, Offer, Over, Session, Shape};
use crate::wire::admin::{self, Identify};
use crate::wire::discovery::{self, DISCOVERY_NQN, DiscoveryEntry};
use crate::wire::fabrics::{self, ANY_CONTROLLER, CONNECT_DATA_LEN, Connect, ConnectData};
use crate::wire::identify::{self, IDENTIFY_LEN, parse_list};
use crate::wire::io::{self, Blocks};
use crate::wire::{
    Capabilities, Command, Configuration, ControllerStatus, HostId, KeyedSgl, Nqn, Property,
    Refusal, RequestPrivate, Sgl, Status,
};
use roce_verbs::RemoteAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

mod commands;
mod connecting;
mod lives;

const SUBSYSTEM: &str = "nqn.2014-08.org.nvmexpress:disk1";
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// Blocks of namespace 1. Namespace 2 is read-only and has the most that there can be.
const BLOCKS: u64 = 4096;

/// The hosts' side of a few sessions.
struct Rig {
    controllers: Arc<Controllers>,
    now: Instant,
}

impl Rig {
    fn new() -> Self {
        let shape = |blocks, number, read_only| Shape {
            blocks,
            guid: [number; 16],
            read_only,
        };
        let offer = Offer {
            subsystem: name(SUBSYSTEM),
            serial: "S1".to_owned(),
            namespaces: vec![
                shape(BLOCKS, 1, false),
                shape(i64::MAX as u64 / 512, 2, true),
            ],
            volatile_cache: true,
            address: "10.0.0.1:4420".parse().expect("an address"),
            limits: Limits {
                queues: 4,
                ..Limits::default()
            },
        };
        Self {
            controllers: Arc::new(Controllers::new(offer)),
            now: Instant::now(),
        }
    }

    fn session(&self, queue: u16) -> Session {
        let request = RequestPrivate {
            queue,
            host_receive_len: 32,
            host_send_len: 31,
            controller: 0,
        };
        Session::new(&self.controllers, &request).expect("a good request")
    }

    /// A session with an enabled controller of `subsystem`.
    fn admin(&self, subsystem: &str) -> (Session, u16) {
        let mut session = self.session(0);
        let controller = self.connect(&mut session, &data(subsystem, ANY_CONTROLLER));
        let controller = succeeded(controller) as u16;
        let enable = Configuration::ENABLED.0.into();
        let enable = fabrics::property_set(Property::Configuration, enable);
        succeeded(self.answer(&mut session, enable, &[]));
        (session, controller)
    }

    /// A session that is queue 1 of a new controller, and the controller's.
    fn io(&self) -> (Session, Session) {
        let (admin, controller) = self.admin(SUBSYSTEM);
        let mut session = self.session(1);
        succeeded(self.connect(&mut session, &data(SUBSYSTEM, controller)));
        (session, admin)
    }

    /// Connects with the data in the capsule.
    fn connect(&self, session: &mut Session, data: &ConnectData) -> Answer {
        self.connect_bytes(session, connect(session.number()), &data.encode())
    }

    fn connect_bytes(&self, session: &mut Session, connect: Connect, data: &[u8]) -> Answer {
        let len = data.len() as u32;
        let command = connect
            .command()
            .with_sgl(&Sgl::InCapsule { offset: 0, len });
        self.answer(session, command, data)
    }

    fn act(&self, session: &mut Session, command: Command, data: &[u8]) -> Action {
        let capsule = [command.with_id(7).bytes(), data].concat();
        let step = session.handle(&capsule, self.now).expect("it goes on");
        assert_eq!(step.command, 7);
        step.action
    }

    fn answer(&self, session: &mut Session, command: Command, data: &[u8]) -> Answer {
        match self.act(session, command, data) {
            Action::Answer(answer) => answer,
            action => panic!("{action:?} is no answer"),
        }
    }

    fn refuses(&self, session: &mut Session, command: Command, status: Status) {
        let answer = self.answer(session, command, &[]);
        assert_eq!(answer.status, status.do_not_retry(), "{}", answer.status);
    }
}

fn name(text: &str) -> Nqn {
    text.parse().expect("a name")
}

fn connect(queue: u16) -> Connect {
    Connect {
        queue,
        length: 31,
        keep_alive_ms: KEEP_ALIVE.as_millis() as u32,
    }
}

fn data(subsystem: &str, controller: u16) -> ConnectData {
    ConnectData {
        host_id: HostId([1; 16]),
        controller,
        subsystem: name(subsystem),
        host: name("nqn.2014-08.org.nvmexpress:uuid:host"),
    }
}

fn keyed(len: u32) -> KeyedSgl {
    KeyedSgl {
        remote: RemoteAddr {
            addr: 0x1000,
            rkey: 9,
        },
        len,
        invalidate: true,
    }
}

fn at_host(command: Command, len: u32) -> Command {
    command.with_sgl(&Sgl::Keyed(keyed(len)))
}

fn blocks(namespace: u32, first: u64, count: u32) -> Blocks {
    Blocks {
        namespace,
        first,
        count,
    }
}

fn succeeded(answer: Answer) -> u64 {
    assert_eq!(answer.status, Status::SUCCESS, "{}", answer.status);
    answer.result
}

/// The bytes that a command puts into the host's memory.
fn returned(action: Action) -> Vec<u8> {
    match action {
        Action::Return { bytes, to } => {
            assert_eq!(bytes.len(), to.len as usize);
            bytes
        }
        action => panic!("{action:?} returns nothing"),
    }
}

fn structure(action: Action) -> [u8; IDENTIFY_LEN] {
    returned(action).try_into().expect("4096 bytes")
}
