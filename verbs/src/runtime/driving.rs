//! An application thread that waits in the kernel and drives the NIC meanwhile:
//! [ADR 61](../../../docs/adr/0061-one-wake-up-for-a-wait.md).

use super::device_state::WakeUpCounts;
use super::wait::{PacketFds, poll_packets};
use super::{DeviceState, EventQueue};
use libc::pollfd;
use nix::errno::Errno;
use roce_stack::CqId;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest time for which a thread drives the NIC in one wait. Then it leaves the NIC to the
/// background thread. What another thread changes meanwhile, such as a timer that falls due earlier or
/// a socket that is added, is noticed at the end of this time at the latest.
pub(crate) const LONGEST: Duration = Duration::from_millis(2);

/// The time that a thread has to end its turn. If it does not, for instance because a signal handler
/// of the program runs, the background thread drives the NIC.
const GRACE: Duration = Duration::from_millis(2);

/// The most turns in which a thread sends and receives what is ready before it waits.
const TURNS: usize = 4;

/// An application thread's turn to drive the NIC while it waits in the kernel for a descriptor. A device
/// gives the turn to one thread at a time. The packet that the thread waits for wakes it up directly,
/// and the background thread sleeps on.
///
/// The caller looks whether it has what it waits for, calls [`Driving::prepare`], polls the
/// descriptors that this returns, and calls [`Driving::drive`]. Then it begins again. The turn ends
/// when the value is dropped.
///
/// The thread waits at a completion channel. Events that it finds for the channel while it drives do
/// not make the channel's descriptor readable, since it takes them itself. Those that it has not taken
/// when its turn ends do.
pub struct Driving {
    shared: Arc<DeviceState>,
    /// The number of the wait.
    number: u64,
    /// The events that the thread takes.
    events: Arc<EventQueue<CqId>>,
    until: Instant,
    polled: Vec<pollfd>,
    /// The number of the caller's descriptors, which are the first ones.
    own: usize,
}

impl Driving {
    /// The turn of a thread that takes `events`, unless another thread has it or the device is being
    /// closed.
    pub(crate) fn begin(shared: &Arc<DeviceState>, events: &Arc<EventQueue<CqId>>) -> Option<Self> {
        let number = shared.begin_wait(LONGEST + GRACE)?;
        events.begin_taking(number);
        Some(Self {
            shared: Arc::clone(shared),
            number,
            events: Arc::clone(events),
            until: Instant::now() + LONGEST,
            polled: Vec::new(),
            own: 0,
        })
    }

    /// Sends what is due. Returns what to poll, and for how long: the caller's descriptors first, each
    /// with the events of `poll` that it waits for. `None` if the turn is over. Then the caller hands
    /// over ([`Driving::hand_over`]), and waits for its own descriptors only.
    ///
    /// The caller polls numbers: another thread may close a descriptor meanwhile, and then the next
    /// turn finds the new ones. Polling takes nothing from a file, whosever it is.
    pub fn prepare(
        &mut self,
        own: impl IntoIterator<Item = (RawFd, i16)>,
    ) -> Option<(&mut [pollfd], Duration)> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() || self.shared.is_stopping() {
            return None;
        }
        let mut engine = self.shared.lock();
        engine.driving_wait = self.number;
        for _ in 0..TURNS {
            engine.send(self.shared.now());
            if !engine.has_work() {
                break;
            }
            engine.progress(self.shared.now());
        }
        engine.driving_wait = 0;
        let (packets, timeout) = PacketFds::of(&engine, self.shared.now());
        // No descriptor tells of what looped back, or of an event that the thread has just found.
        let timeout = match engine.has_work() || !self.events.is_empty() {
            true => Duration::ZERO,
            false => timeout.map_or(left, |timeout| timeout.min(left)),
        };
        drop(engine);
        self.polled.clear();
        let own = own.into_iter().map(|(fd, events)| pollfd {
            fd,
            events,
            revents: 0,
        });
        self.polled.extend(own);
        self.own = self.polled.len();
        self.polled.extend(packets.0);
        Some((&mut self.polled, timeout))
    }

    /// Receives what has arrived, handles the timeouts that are due, and sends acknowledgements. Does
    /// nothing if only the caller's own descriptors are ready.
    ///
    /// The acknowledgements leave before the caller looks at its completions, and so before its answer.
    /// Some programs that wait for events (`ib_send_lat -e`, for one) expect that, as with an RNIC.
    pub fn drive(&mut self) {
        self.work(true);
    }

    /// As [`Driving::drive`], but acknowledgements leave with the caller's answer, in one datagram, or
    /// before it waits again.
    pub fn receive(&mut self) {
        self.work(false);
    }

    fn work(&self, sends: bool) {
        let (own, packets) = self.polled.split_at(self.own);
        let is_ready = |fd: &pollfd| fd.revents != 0;
        if own.iter().any(is_ready) && !packets.iter().any(is_ready) {
            return;
        }
        WakeUpCounts::add(&self.shared.wake_ups.waiting);
        let now = self.shared.note_call();
        let mut engine = self.shared.lock();
        engine.driving_wait = self.number;
        engine.progress(now);
        if sends {
            engine.send(now);
        }
        engine.driving_wait = 0;
    }

    /// Drops the events that the thread has found for its channel. For a thread that has polled the
    /// completion queues since, and woken up those that wait for the same completions.
    pub fn drop_events(&self) {
        self.events.drop_hidden();
    }

    /// As [`Driving::prepare`], then polls, and drives if there is anything to do. Returns whether the
    /// turn goes on.
    ///
    /// # Errors
    /// `EINTR` after a signal.
    pub fn sleep(
        &mut self,
        own: impl IntoIterator<Item = (RawFd, i16)>,
        most: Option<Duration>,
    ) -> nix::Result<bool> {
        let Some((polled, timeout)) = self.prepare(own) else {
            return Ok(false);
        };
        let timeout = most.map_or(timeout, |most| timeout.min(most));
        poll_packets(polled, Some(timeout))?;
        self.drive();
        Ok(true)
    }

    /// Ends the turn, and leaves the NIC to the background thread.
    pub fn hand_over(self) {
        let shared = Arc::clone(&self.shared);
        drop(self);
        shared.hand_over();
    }
}

/// Takes the queue's next event. If there is none, waits at most `timeout` for one, without using the
/// CPU, and drives the NIC meanwhile if no other thread does.
pub(crate) fn wait_for(
    shared: &Arc<DeviceState>,
    queue: &Arc<EventQueue<CqId>>,
    timeout: Duration,
) -> io::Result<Option<CqId>> {
    let end = Instant::now() + timeout;
    let left = || end.saturating_duration_since(Instant::now());
    if let Some(mut driving) = Driving::begin(shared, queue) {
        let mut goes_on = true;
        while goes_on && !left().is_zero() {
            if let Some(item) = queue.poll() {
                return Ok(Some(item));
            }
            let own = [(queue.as_fd().as_raw_fd(), libc::POLLIN)];
            goes_on = match driving.sleep(own, Some(left())) {
                Err(Errno::EINTR) => true,
                slept => slept?,
            };
        }
    }
    queue.wait(left(), || shared.hand_over())
}

impl Drop for Driving {
    fn drop(&mut self) {
        self.events.end_taking(self.number);
        self.shared.end_wait(self.number);
    }
}

debug_fields!(Driving);

#[cfg(test)]
mod tests {
    use super::Driving;
    use crate::completion::{CompletionChannel, Notify};
    use crate::device::{Context, Device};
    use crate::{
        Access, CompletionQueue, ConnectOptions, MemoryRegion, QpOptions, QueuePair, RecvRequest,
        SendRequest, WcStatus,
    };
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::net::Ipv4Addr;
    use std::os::fd::AsFd as _;
    use std::sync::atomic::Ordering;
    use std::thread;
    use std::time::{Duration, Instant};

    const PATIENCE: Duration = Duration::from_secs(60);

    /// A program that waits for events.
    struct End {
        context: Context,
        channel: CompletionChannel,
        received: CompletionQueue,
        sent: CompletionQueue,
        qp: QueuePair,
        memory: MemoryRegion,
    }

    impl End {
        fn open() -> Self {
            let device = Device::with_address(Ipv4Addr::LOCALHOST.into()).expect("loopback");
            let context = device.open().expect("opened");
            let channel = context.create_channel().expect("a descriptor");
            let (pd, sent) = (context.alloc_pd(), context.create_cq(64));
            let received = context.create_cq_with_channel(64, &channel);
            let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
            Self {
                memory: pd.allocate(64, access).expect("memory"),
                qp: pd
                    .create_qp(&sent, &received, &QpOptions::default())
                    .expect("a QP"),
                context,
                channel,
                received,
                sent,
            }
        }

        fn pair() -> (Self, Self) {
            let (one, other) = (Self::open(), Self::open());
            for (one, other) in [(&one, &other), (&other, &one)] {
                let peer = other.qp.endpoint(0).expect("a GID");
                let connected = one.qp.connect(0, &peer, &ConnectOptions::default());
                connected.expect("connected");
                one.post_receive();
            }
            (one, other)
        }

        fn post_receive(&self) {
            self.received.request_notify(Notify::Next);
            let room = self.memory.slice(0, 8).expect("in range");
            let receive = RecvRequest {
                wr_id: 0,
                sges: &[room],
            };
            self.qp.post_recv(&receive).expect("posted");
        }

        fn send(&self) {
            let bytes = self.memory.slice(8, 8).expect("in range");
            let send = SendRequest::send(bytes);
            self.qp.post_send(&send).expect("posted");
        }

        /// Sleeps until a message arrives.
        fn receive(&self) {
            let event = self.channel.wait(PATIENCE).expect("waited");
            assert_eq!(event, Some(self.received.id()));
            let done = self.received.take().expect("no overrun");
            assert_eq!(done.map(|done| done.status), Some(WcStatus::Success));
            while self.sent.take().expect("no overrun").is_some() {}
            self.post_receive();
        }

        /// How often the background thread and the waiting thread have driven the NIC.
        fn wake_ups(&self) -> [u64; 2] {
            let counts = &self.context.inner.shared.wake_ups;
            [&counts.background, &counts.waiting].map(|count| count.load(Ordering::Relaxed))
        }
    }

    /// As `ib_send_lat -e` and rping wait. On a busy machine, a thread may not get a processor for
    /// longer than its turn, and then the background thread helps. So the best of many batches counts.
    #[test]
    fn a_message_wakes_up_only_the_thread_that_waits_for_it() {
        const ROUNDS: u64 = 50;
        const BATCHES: usize = 400;
        let (one, other) = End::pair();
        let mut counts = Vec::new();
        for _ in 0..BATCHES {
            let before = one.wake_ups();
            thread::scope(|scope| {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        other.receive();
                        other.send();
                    }
                });
                for _ in 0..ROUNDS {
                    one.send();
                    one.receive();
                }
            });
            let after = one.wake_ups();
            let [background, waiting] = [0, 1].map(|which| after[which] - before[which]);
            // An acknowledgement arrives for each message, and a message.
            if background <= ROUNDS / 5 && waiting <= 3 * ROUNDS {
                return;
            }
            counts.push((background, waiting));
        }
        panic!(
            "for each {ROUNDS} messages, the background thread and the waiting thread woke up this \
             often: {counts:?}"
        );
    }

    fn is_readable(channel: &CompletionChannel) -> bool {
        let mut fds = [PollFd::new(channel.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::ZERO).expect("polled") > 0
    }

    /// Lets the thread that waits at `end` find the event of a message from `peer`, and returns its turn.
    /// If the background thread finds it first, on a busy machine, tries again.
    fn turn_with_an_event(end: &End, peer: &End) -> Driving {
        let began = Instant::now();
        loop {
            let mut turn = end.channel.drive_while_waiting().expect("a turn");
            let [background, _] = end.wake_ups();
            peer.send();
            while turn.sleep([], None).expect("no signal") && end.channel.queue.is_empty() {}
            if !end.channel.queue.is_empty() && end.wake_ups()[0] == background {
                return turn;
            }
            assert!(
                began.elapsed() < PATIENCE,
                "the other thread is always first"
            );
            drop(turn);
            end.receive();
        }
    }

    /// The two system calls would cost as much as the message.
    #[test]
    fn an_event_makes_the_channel_readable_unless_the_waiting_thread_takes_it() {
        let (end, peer) = End::pair();
        for takes in [true, false] {
            let turn = turn_with_an_event(&end, &peer);
            assert!(!is_readable(&end.channel), "the thread is about to take it");
            if takes {
                assert_eq!(end.channel.poll(), Some(end.received.id()));
            }
            drop(turn);
            assert_eq!(is_readable(&end.channel), !takes);
            while end.received.take().expect("no overrun").is_some() {}
            end.post_receive();
        }
    }

    #[test]
    fn one_thread_drives_at_a_time() {
        let (end, _peer) = End::pair();
        let first = end.channel.drive_while_waiting();
        assert!(first.is_some() && end.context.inner.shared.application_waits());
        assert!(end.channel.drive_while_waiting().is_none());
        drop(first);
        assert!(!end.context.inner.shared.application_waits());
        assert!(end.channel.drive_while_waiting().is_some());
    }

    /// A signal handler of the program may leave the call by `longjmp`.
    #[test]
    fn a_thread_that_does_not_come_back_keeps_no_turn() {
        let (end, peer) = End::pair();
        let lost = end.channel.drive_while_waiting().expect("a turn");
        let to = end.memory.remote(0);
        for _ in 0..3 {
            let bytes = peer.memory.slice(8, 8).expect("in range");
            let write = SendRequest::write(bytes, to);
            peer.qp.post_send(&write).expect("posted");
            let done = peer.sent.poll_for(PATIENCE).expect("no overrun");
            assert_eq!(done.map(|done| done.status), Some(WcStatus::Success));
        }
        while end.context.inner.shared.application_waits() {
            thread::yield_now();
        }
        let next = end.channel.drive_while_waiting().expect("a turn");
        drop(lost);
        assert!(
            end.context.inner.shared.application_waits(),
            "the next one's"
        );
        drop(next);
        assert!(!end.context.inner.shared.application_waits());
    }
}
