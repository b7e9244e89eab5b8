//! The QP of one end, and its exchange of messages.

use std::time::{Duration, Instant};

use roce_verbs::completion::{CompletionChannel, Notify};
use roce_verbs::datagram::{AddressOptions, Destination};
use roce_verbs::observation::Stat;
use roce_verbs::qp::{QKey, RnrTimer};
use roce_verbs::work::Target;
use roce_verbs::{
    Access, Completion, CompletionQueue, ConnectOptions, Context, Endpoint, MemoryRegion,
    ProtectionDomain, QpKind, QpOptions, QueuePair, RecvRequest, SendRequest, WcStatus,
};

use super::PingpongError;
use super::exchange::Address;
use super::pattern::{FILL, POISON, Pattern};
use super::plan::Plan;

const RECV: u64 = 1;
const SEND: u64 = 2;

/// The Q_Key of ibv_ud_pingpong's datagrams.
const QKEY: QKey = QKey(0x1111_1111);

/// Length of the header in front of a received datagram, in bytes.
const GRH: usize = 40;

/// Consecutive empty polls, a microsecond or less each, before the processor is yielded.
const POLLS: u32 = 32;

/// One end.
pub(super) struct Session<'a> {
    plan: &'a Plan,
    /// The index of the GID in the open device's table.
    gid_index: u8,
    context: Context,
    pd: ProtectionDomain,
    channel: Option<CompletionChannel>,
    cq: CompletionQueue,
    qp: QueuePair,
    /// The destination of datagrams, once known.
    destination: Option<Destination>,
    /// The buffer for received messages, after the header if they are datagrams. Without checks,
    /// messages are also sent from it.
    inbox: MemoryRegion,
    /// Length of that header, in bytes.
    header: usize,
    checks: Option<Checks>,
    /// Number of posted receive requests.
    posted: usize,
    received: u64,
    sent: u64,
    peer: String,
}

/// The state for checks, besides the receive buffer.
struct Checks {
    pattern: Pattern,
    outbox: MemoryRegion,
    /// The last received message.
    message: Vec<u8>,
    poison: Vec<u8>,
    /// Whether the client is the original ibv_rc_pingpong, once known.
    peer_is_original: Option<bool>,
}

impl<'a> Session<'a> {
    /// Opens the device and makes a QP that is ready to be connected, with its receives posted.
    pub(super) fn open(plan: &'a Plan) -> Result<Self, PingpongError> {
        let context = plan.device.open()?;
        // The index may have changed if an address was added meanwhile.
        let found = context
            .gids()
            .into_iter()
            .find(|e| (e.gid, e.version) == (plan.gid.gid, plan.gid.version));
        let lost = || PingpongError::new(format!("{} has lost its GID", plan.device.name()));
        let gid_index = found.ok_or_else(lost)?.index;
        let pd = context.alloc_pd();
        let channel = match plan.events {
            true => Some(context.create_channel()?),
            false => None,
        };
        let capacity = plan.rx_depth + 1;
        let cq = match &channel {
            Some(channel) => context.create_cq_with_channel(capacity, channel),
            None => context.create_cq(capacity),
        };
        let options = QpOptions {
            kind: plan.kind,
            send_depth: 1,
            recv_depth: plan.rx_depth,
            max_send_sge: 1,
            max_recv_sge: 1,
            ..QpOptions::default()
        };
        let qp = pd.create_qp(&cq, &cq, &options)?;
        let header = match plan.kind {
            QpKind::Ud => {
                qp.init_datagram(QKEY)?;
                GRH
            }
            _ => {
                qp.to_init(Access::empty())?;
                0
            }
        };
        let room = header + plan.size;
        let inbox = pd.allocate(room.max(1), Access::LOCAL_WRITE)?;
        inbox.write(0, &vec![FILL; room])?;
        let checks = match plan.check {
            true => Some(Checks {
                pattern: Pattern::new(plan.size),
                outbox: pd.allocate(plan.size.max(1), Access::empty())?,
                message: vec![0; plan.size],
                poison: vec![POISON; plan.size],
                peer_is_original: None,
            }),
            false => None,
        };
        let mut session = Self {
            plan,
            gid_index,
            context,
            pd,
            channel,
            cq,
            qp,
            destination: None,
            inbox,
            header,
            checks,
            posted: 0,
            received: 0,
            sent: 0,
            peer: String::new(),
        };
        session.post_receives()?;
        Ok(session)
    }

    /// The address of our QP.
    pub(super) fn endpoint(&self) -> Result<Endpoint, PingpongError> {
        Ok(self.qp.endpoint(self.gid_index)?)
    }

    /// Connects the QP to the peer's.
    pub(super) fn connect(&mut self, remote: &Address) -> Result<(), PingpongError> {
        let plan = self.plan;
        if remote.gid.0 == [0; 16] {
            return Err(PingpongError::new(
                "the peer gave no GID, and RoCE has no other address: start it with -g and the \
                 index of a GID",
            ));
        }
        let (ours, theirs) = (plan.gid.gid.ip(), remote.gid.ip());
        if ours.is_ipv4() != theirs.is_ipv4() {
            return Err(PingpongError::new(format!(
                "our GID is {ours}, the peer's is {theirs}: one is IPv4 and the other IPv6. \
                 Choose another GID on one end, with -g"
            )));
        }
        self.peer = theirs.to_string();
        if plan.kind == QpKind::Ud {
            let index = self.gid_index;
            self.qp.start_datagram(index)?;
            let options = AddressOptions {
                service_level: plan.service_level,
                ..AddressOptions::default()
            };
            let ah = self.pd.create_ah(index, remote.gid, &options)?;
            self.destination = Some(ah.to(remote.qpn, QKEY));
            return Ok(());
        }
        let options = ConnectOptions {
            access: Access::empty(),
            path_mtu: Some(plan.mtu),
            service_level: plan.service_level,
            max_rd_atomic: 1,
            max_dest_rd_atomic: 1,
            min_rnr_timer: RnrTimer::from_code(12).unwrap_or_default(),
            timeout: 14,
            retry_cnt: 7,
            rnr_retry: 7,
            ..ConnectOptions::default()
        };
        let remote = Endpoint::from(*remote);
        self.qp.to_rtr(self.gid_index, &remote, &options)?;
        self.qp.to_rts(&options)?;
        Ok(())
    }

    /// Sends and receives all messages. Returns the time it took.
    pub(super) fn run(&mut self) -> Result<Duration, PingpongError> {
        let iters = self.plan.iters;
        let is_client = self.plan.host.is_some();
        let start = Instant::now();
        // The completions needed before the next message is sent.
        let mut pending = RECV;
        if is_client {
            self.send()?;
            pending |= SEND;
        }
        while self.received < iters || self.sent < iters {
            let completion = self.next_completion()?;
            self.expect_success(&completion)?;
            if completion.wr_id == RECV {
                self.receive_message(&completion)?;
            } else {
                self.sent += 1;
            }
            pending &= !completion.wr_id;
            if pending == 0 && self.sent < iters {
                self.send()?;
                pending = RECV | SEND;
            }
        }
        Ok(start.elapsed())
    }

    fn send(&mut self) -> Result<(), PingpongError> {
        let (outbox, at) = match &mut self.checks {
            None => (&self.inbox, self.header),
            Some(checks) => {
                // A server echoes the message.
                if self.plan.host.is_some() {
                    checks.pattern.fill(self.sent, &mut checks.message);
                }
                checks.outbox.write(0, &checks.message)?;
                (&checks.outbox, 0)
            }
        };
        let send = SendRequest::send(outbox.slice(at, self.plan.size)?).id(SEND);
        let target = self.destination.map_or(Target::Peer, Target::Datagram);
        self.qp.post_send(&send.to(target))?;
        Ok(())
    }

    /// Fills the receive queue.
    fn post_receives(&mut self) -> Result<(), PingpongError> {
        let sges = [self.inbox.slice(0, self.header + self.plan.size)?];
        while self.posted < self.plan.rx_depth {
            self.qp.post_recv(&RecvRequest {
                wr_id: RECV,
                sges: &sges,
            })?;
            self.posted += 1;
        }
        Ok(())
    }

    fn receive_message(&mut self, completion: &Completion) -> Result<(), PingpongError> {
        let size = (completion.byte_len as usize).saturating_sub(self.header);
        if size != self.plan.size {
            return Err(PingpongError::new(format!(
                "the peer sends {size} bytes, -s says {} here: give both ends the same -s",
                self.plan.size
            )));
        }
        self.posted -= 1;
        if let Some(checks) = &mut self.checks {
            let is_client = self.plan.host.is_some();
            checks.check(&self.inbox, self.header, self.received, is_client)?;
        }
        if self.posted <= 1 {
            self.post_receives()?;
        }
        self.received += 1;
        Ok(())
    }

    fn expect_success(&self, completion: &Completion) -> Result<(), PingpongError> {
        if completion.status == WcStatus::Success {
            return Ok(());
        }
        let what = if completion.wr_id == SEND {
            "a SEND to"
        } else {
            "a receive from"
        };
        let advice = match (completion.status, self.plan.kind) {
            (WcStatus::RemoteInvalidRequest | WcStatus::LocalLengthError, QpKind::Ud) => {
                format!(". Is -s ({} here) the same on both ends?", self.plan.size)
            }
            // Neither end learns the other's -s and -m before the first data arrives.
            (WcStatus::RemoteInvalidRequest | WcStatus::LocalLengthError, _) => format!(
                ". Are -s ({} here) and -m ({} here) the same on both ends?",
                self.plan.size, self.plan.mtu
            ),
            _ => String::new(),
        };
        Err(PingpongError::new(format!(
            "{what} {} failed{}: {}{advice}{}",
            self.peer,
            self.progress(),
            completion.status.explain(),
            self.counters()
        )))
    }

    /// Waits for a completion, and gives up if the peer is silent.
    fn next_completion(&self) -> Result<Completion, PingpongError> {
        let packets = || self.context.counters().stat(Stat::RxPackets);
        let mut seen = None;
        loop {
            let found = match &self.channel {
                None => self.spin()?,
                Some(channel) => self.sleep(channel)?,
            };
            if let Some(completion) = found {
                return Ok(completion);
            }
            if let Some(failure) = self.context.failure() {
                return Err(PingpongError::new(failure));
            }
            // The wait goes on as long as packets arrive: a long message may be on a slow link.
            let now = packets();
            if seen.replace(now) == Some(now) || now == 0 {
                return Err(PingpongError::new(format!(
                    "nothing from {} for {:?}{}. Does the peer run, with the same -n, and does \
                     UDP port 4791 pass between the two?{}{}",
                    self.peer,
                    self.plan.peer_timeout,
                    self.progress(),
                    match self.plan.kind {
                        QpKind::Rc => self.psns(),
                        _ => " Or a message was lost: this service does not retransmit.".into(),
                    },
                    self.counters()
                )));
            }
        }
    }

    /// Polls, and occasionally yields the processor, which the peer may need.
    fn spin(&self) -> Result<Option<Completion>, PingpongError> {
        let deadline = Instant::now() + self.plan.peer_timeout;
        while Instant::now() < deadline {
            for _ in 0..POLLS {
                if let Some(completion) = self.cq.poll()? {
                    return Ok(Some(completion));
                }
                std::hint::spin_loop();
            }
            std::thread::yield_now();
        }
        Ok(None)
    }

    /// Sleeps until a completion is announced.
    fn sleep(&self, channel: &CompletionChannel) -> Result<Option<Completion>, PingpongError> {
        let deadline = Instant::now() + self.plan.peer_timeout;
        loop {
            // Request the notification before polling: a completion in between is announced.
            self.cq.request_notify(Notify::Next);
            if let Some(completion) = self.cq.poll()? {
                return Ok(Some(completion));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let announced = channel
                .wait(left)
                .map_err(|error| PingpongError::new(format!("waiting for an event: {error}")))?;
            if announced.is_none() {
                return Ok(self.cq.poll()?);
            }
        }
    }

    fn progress(&self) -> String {
        format!(
            " after {} messages sent and {} received of {}",
            self.sent, self.received, self.plan.iters
        )
    }

    /// The QP's PSNs, to compare with the peer's message about its own.
    fn psns(&self) -> String {
        let (_, config) = self.qp.query();
        format!(
            " Our QP expects PSN {:#08x} and sends {:#08x} next.",
            config.rq_psn.get(),
            config.sq_psn.get()
        )
    }

    /// The device's counters, which often show the reason for a silence or a failure.
    fn counters(&self) -> String {
        let counters = self.context.counters();
        let counted: Vec<String> = counters
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        match counted.is_empty() {
            true => " (no packet was sent or received)".to_owned(),
            false => format!(" (counted here: {})", counted.join(", ")),
        }
    }
}

impl Checks {
    /// Copies message number `number` out of `inbox`, poisons the inbox, and compares the message
    /// with the expected contents.
    fn check(
        &mut self,
        inbox: &MemoryRegion,
        header: usize,
        number: u64,
        is_client: bool,
    ) -> Result<(), PingpongError> {
        inbox.read(header, &mut self.message)?;
        inbox.write(header, &self.poison)?;
        let peer_is_original = !is_client
            && *self
                .peer_is_original
                .get_or_insert_with(|| Pattern::is_fill(&self.message));
        let result = if peer_is_original {
            Pattern::check_fill(&self.message)
        } else {
            self.pattern.check(number, &self.message)
        };
        result.map_err(|mismatch| {
            let hint = if mismatch.offset == 0 && mismatch.found == FILL {
                ". Was -c given to the client, too?"
            } else {
                ""
            };
            PingpongError::new(format!(
                "message {number} (counted from 0) differs: {mismatch}{hint}"
            ))
        })
    }
}
