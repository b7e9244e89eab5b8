//! Two CM agents whose MADs are lost, duplicated, delayed or corrupted, mixed with arbitrary other
//! MADs, while their owners make arbitrary calls.
//!
//! Invariants: nothing panics, every MAD sent can be parsed, every event is about a connection that
//! its owner has not released, and in the end no connection is left.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use roce_cm::{
    Acceptance, Agent, Config, ConnectRequest, ConnectionId, DatagramAcceptance, DatagramRequest,
    Duration, Event, Instant, PKey, Path, PathMtu, PortSpace, Psn, QKey, Qpn, QpnRange,
    RejectReason, ServiceId, ServiceType,
};
use roce_wire::MAD_LEN;
use roce_wire::cm::CmMad;
use std::collections::BTreeSet;
use std::net::IpAddr;

#[derive(Arbitrary, Debug)]
enum Step {
    Connect {
        host: bool,
        service: u8,
        qpn: u8,
        private: u8,
    },
    Lookup {
        host: bool,
        service: u8,
    },
    Accept {
        host: bool,
        which: u8,
        qpn: u8,
    },
    Tell {
        host: bool,
        which: u8,
    },
    Ready {
        host: bool,
        which: u8,
    },
    Reject {
        host: bool,
        which: u8,
        reason: u8,
    },
    Established {
        host: bool,
        which: u8,
    },
    Disconnect {
        host: bool,
        which: u8,
    },
    Forget {
        host: bool,
        which: u8,
    },
    Taken {
        host: bool,
        which: u8,
    },
    Deliver {
        which: u8,
        fate: Fate,
    },
    Raw {
        host: bool,
        from: u8,
        mad: Vec<u8>,
    },
    Wait {
        ms: u16,
    },
    Listen {
        host: bool,
        service: u8,
    },
    LeaveToOthers {
        host: bool,
        service: u8,
    },
}

#[derive(Arbitrary, Debug)]
enum Fate {
    Arrives,
    Copied,
    Lost,
    Damaged { at: u8, bits: u8 },
}

struct Host {
    agent: Agent,
    address: IpAddr,
    ids: Vec<ConnectionId>,
    forgotten: BTreeSet<ConnectionId>,
}

struct World {
    now: Instant,
    hosts: [Host; 2],
    /// The MADs in flight: the recipient, the path as the recipient sees it, and the MAD.
    wire: Vec<(usize, Path, [u8; MAD_LEN])>,
}

fuzz_target!(|steps: Vec<Step>| {
    let mut world = World::new();
    for step in steps.iter().take(300) {
        world.step(step);
        world.settle();
    }
    world.end();
});

fn service(number: u8) -> ServiceId {
    match number % 8 {
        0..=3 => ServiceId::ip(PortSpace::Tcp, 1),
        4 | 5 => ServiceId::ip(PortSpace::Udp, 1),
        6 => ServiceId(7),
        _ => ServiceId::ip(PortSpace::Ib, u16::from(number)),
    }
}

impl World {
    fn new() -> Self {
        let hosts = [1, 2].map(|number| {
            let part = QpnRange::new(number).expect("a part");
            let mut agent = Agent::new(Config::new([number; 32], part, number.into()));
            for number in [0, 4, 6] {
                let listener = agent.listen(Instant::ZERO, service(number), None, 4);
                listener.expect("nobody listens");
            }
            Host {
                agent,
                address: IpAddr::from([10, 0, 0, number]),
                ids: Vec::new(),
                forgotten: BTreeSet::new(),
            }
        });
        Self {
            now: Instant::ZERO,
            hosts,
            wire: Vec::new(),
        }
    }

    fn step(&mut self, step: &Step) {
        let now = self.now;
        match *step {
            Step::Connect {
                host,
                service,
                qpn,
                private,
            } => {
                let path = self.path(host);
                let request = request(self::service(service), qpn, private);
                let host = &mut self.hosts[usize::from(host)];
                host.ids.extend(host.agent.connect(now, path, &request));
            }
            Step::Lookup { host, service } => {
                let path = self.path(host);
                let request = DatagramRequest {
                    service: self::service(service),
                    source_port: 1,
                    pkey: PKey::DEFAULT,
                    private: Vec::new(),
                };
                let host = &mut self.hosts[usize::from(host)];
                host.ids
                    .extend(host.agent.resolve_datagram(now, path, &request));
            }
            Step::Deliver { which, ref fate } => self.deliver(which, fate),
            Step::Raw {
                host,
                from,
                ref mad,
            } => {
                let local = self.path(host).local;
                let remote = IpAddr::from([10, 0, 0, from]);
                let host = &mut self.hosts[usize::from(host)];
                host.agent.receive(now, Path { local, remote }, mad);
            }
            Step::Wait { ms } => {
                self.now = now + Duration::from_millis(ms.into());
                for host in &mut self.hosts {
                    host.agent.handle_timeouts(self.now);
                }
            }
            Step::Listen { host, service } => {
                let host = &mut self.hosts[usize::from(host)];
                // The service may already have a listener.
                let _ = host.agent.listen(now, self::service(service), None, 4);
            }
            Step::LeaveToOthers { host, service } => {
                let host = &mut self.hosts[usize::from(host)];
                let local = host.address;
                host.agent.drop_held(local, self::service(service));
            }
            Step::Accept { host, which, .. }
            | Step::Tell { host, which }
            | Step::Ready { host, which }
            | Step::Reject { host, which, .. }
            | Step::Established { host, which }
            | Step::Disconnect { host, which }
            | Step::Forget { host, which }
            | Step::Taken { host, which } => {
                let host = &mut self.hosts[usize::from(host)];
                if let Some(index) = usize::from(which).checked_rem(host.ids.len()) {
                    let id = host.ids[index];
                    host.call(now, step, id);
                }
            }
        }
    }

    /// The path from a host to the other one.
    fn path(&self, host: bool) -> Path {
        Path {
            local: self.hosts[usize::from(host)].address,
            remote: self.hosts[usize::from(!host)].address,
        }
    }

    fn deliver(&mut self, which: u8, fate: &Fate) {
        let Some(index) = usize::from(which).checked_rem(self.wire.len()) else {
            return;
        };
        let (to, path, mut mad) = match fate {
            Fate::Copied => self.wire[index],
            _ => self.wire.swap_remove(index),
        };
        match *fate {
            Fate::Lost => return,
            Fate::Damaged { at, bits } => mad[usize::from(at)] ^= bits,
            Fate::Arrives | Fate::Copied => {}
        }
        self.hosts[to].agent.receive(self.now, path, &mad);
    }

    /// Sends the agent's messages, and handles its events.
    fn settle(&mut self) {
        for (index, host) in self.hosts.iter_mut().enumerate() {
            while let Some((path, mad)) = host.agent.poll_transmit() {
                CmMad::parse(&mad).expect("agents send what can be read");
                let back = Path {
                    local: path.remote,
                    remote: path.local,
                };
                if self.wire.len() < 1000
                    && path.remote == IpAddr::from([10, 0, 0, 2 - index as u8])
                {
                    self.wire.push((1 - index, back, mad));
                }
            }
            while let Some(event) = host.agent.poll_event() {
                let id = event.connection();
                assert!(
                    !host.forgotten.contains(&id),
                    "{event:?} of a released connection"
                );
                match event {
                    Event::Requested { .. } | Event::DatagramRequested { .. } => host.ids.push(id),
                    _ => assert!(host.ids.contains(&id), "{event:?} of nothing"),
                }
            }
        }
    }

    /// Once all owners have released their connections and the timers have expired, no connection
    /// is left.
    fn end(&mut self) {
        for host in &mut self.hosts {
            for &id in &host.ids {
                host.agent.forget(self.now, id);
            }
            while let Some(due) = host.agent.next_timeout() {
                host.agent.handle_timeouts(due);
                while host.agent.poll_transmit().is_some() {}
            }
            assert_eq!(host.agent.poll_event(), None);
            assert_eq!((host.agent.connections(), host.agent.held()), (0, 0));
        }
    }
}

impl Host {
    fn call(&mut self, now: Instant, step: &Step, id: ConnectionId) {
        // A call that is invalid in the current state returns an error, which is fine, too.
        let _refused = match *step {
            Step::Accept { qpn, .. } => self.agent.accept(now, id, &acceptance(qpn)),
            Step::Tell { .. } => {
                let acceptance = DatagramAcceptance {
                    qpn: Qpn::from_bits(9),
                    qkey: QKey(9),
                    private: Vec::new(),
                };
                self.agent.accept_datagram(now, id, &acceptance)
            }
            Step::Ready { .. } => self.agent.ready(now, id, &[]),
            Step::Reject { reason, .. } => {
                let reason = RejectReason(reason.into());
                self.agent.reject(now, id, reason, &[])
            }
            Step::Disconnect { .. } => self.agent.disconnect(now, id, &[]),
            Step::Established { .. } => {
                self.agent.established(now, id);
                Ok(())
            }
            Step::Taken { .. } => {
                self.agent.leave_backlog(id);
                Ok(())
            }
            _ => {
                self.agent.forget(now, id);
                self.forgotten.insert(id);
                Ok(())
            }
        };
    }
}

fn request(service: ServiceId, qpn: u8, private: u8) -> ConnectRequest {
    ConnectRequest {
        service,
        source_port: 1,
        service_type: ServiceType::Rc,
        qpn: Qpn::from_bits(qpn.into()),
        rq_psn: Psn::new(1),
        responder_resources: 1,
        initiator_depth: 1,
        retry_count: qpn % 9,
        rnr_retry_count: 7,
        flow_control: true,
        srq: false,
        pkey: PKey::DEFAULT,
        path_mtu: PathMtu::Mtu1024,
        traffic_class: 0,
        hop_limit: 64,
        flow_label: 0,
        ack_timeout: 14,
        private: vec![1; private.into()],
    }
}

fn acceptance(qpn: u8) -> Acceptance {
    Acceptance {
        qpn: Qpn::from_bits(qpn.into()),
        rq_psn: Psn::new(2),
        responder_resources: 1,
        initiator_depth: 1,
        target_ack_delay: qpn % 33,
        flow_control: true,
        rnr_retry_count: 7,
        srq: false,
        private: Vec::new(),
    }
}
