//! Waiting for the peer: the local ACK timeout, the RNR timer, and the limits of retries (IBTA 1.7,
//! 9.7.6.1.3 and 9.9.2.1).

use super::Requester;
use crate::counters::Stat;
use crate::qp::attr::QpConfig;
use crate::qp::{Core, Cx, QpFailure};
use crate::time::{Duration, Instant};
use crate::wr::{SendOp, WcStatus};
use roce_wire::RnrTimer;

/// The value of `rnr_retry` that means no limit.
const UNLIMITED: u8 = 7;

/// The maximum back-off. Each timeout in a row is twice as long as the one before, so that a
/// stalled sender backs off, but at most this many times the local ACK timeout, so that a dead peer
/// is detected in bounded time.
const MAX_BACKOFF: u32 = 4;

/// The number of pauses of a limited sender in a row, without progress, over which the local ACK
/// timeout is extended. A sender that pauses after each packet would otherwise never notice that its
/// peer is dead.
const MAX_EXTENSIONS: u8 = 8;

/// Timers and counters of retries.
#[derive(Debug, Default)]
pub(super) struct Retry {
    timeout: Option<Duration>,
    retries: u8,
    rnr_retries: u8,
    retries_left: u8,
    rnr_retries_left: u8,
    backoff: u32,
    /// Pauses over which the timeout was extended.
    extensions: u8,
    /// When the oldest outstanding packet counts as lost.
    ack_deadline: Option<Instant>,
    /// The end of the RNR timer.
    receiver_wait: Option<Instant>,
    /// The peer has answered with a NAK.
    got_nak: bool,
}

impl Retry {
    pub(super) fn new(config: &QpConfig) -> Self {
        Self {
            timeout: config.ack_timeout(),
            retries: config.retry_cnt,
            rnr_retries: config.rnr_retry,
            retries_left: config.retry_cnt,
            rnr_retries_left: config.rnr_retry,
            backoff: 1,
            extensions: 0,
            ack_deadline: None,
            receiver_wait: None,
            got_nak: false,
        }
    }

    /// Applies new limits, for attempts from now on.
    pub(super) fn reconfigure(&mut self, config: &QpConfig) {
        self.timeout = config.ack_timeout();
        self.retries = config.retry_cnt;
        self.rnr_retries = config.rnr_retry;
        self.retries_left = config.retry_cnt;
        self.rnr_retries_left = config.rnr_retry;
    }

    /// Notes that the peer has answered with a NAK.
    pub(super) fn note_nak(&mut self) {
        self.got_nak = true;
    }

    pub(super) fn got_nak(&self) -> bool {
        self.got_nak
    }

    /// `retry_cnt`.
    pub(super) fn retries(&self) -> u8 {
        self.retries
    }

    pub(super) fn stop(&mut self) {
        self.ack_deadline = None;
        self.receiver_wait = None;
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.receiver_wait.or(self.ack_deadline)
    }

    pub(super) fn is_waiting_for_receiver(&self) -> bool {
        self.receiver_wait.is_some()
    }

    /// Notes that a packet was sent.
    pub(super) fn on_sent(&mut self, now: Instant) {
        if self.ack_deadline.is_none() {
            self.restart(now);
        }
    }

    /// Notes that the peer acknowledged something new.
    // rule: 9.7.6.1.3-timeout-restarts
    pub(super) fn on_progress(&mut self, now: Instant, outstanding: bool) {
        // rule: 9.7.6.1.3-retries-back
        self.retries_left = self.retries;
        // rule: 9.7.5.2.8-rnr-retries-back
        self.rnr_retries_left = self.rnr_retries;
        self.backoff = 1;
        self.extensions = 0;
        self.receiver_wait = None;
        self.ack_deadline = None;
        if outstanding {
            self.restart(now);
        }
    }

    fn restart(&mut self, now: Instant) {
        self.ack_deadline = self.timeout.map(|timeout| now + timeout * self.backoff);
    }

    /// Takes one more retry; false if none is left.
    pub(super) fn try_again(&mut self, now: Instant) -> bool {
        // rule: 9.7.6.1.3-retry-count
        if self.retries_left == 0 {
            return false;
        }
        self.retries_left -= 1;
        self.extensions = 0;
        self.restart(now);
        true
    }

    /// Extends a timeout that ended during a pause of the sender. Returns false if it was extended
    /// too often.
    fn extend_over_pause(&mut self, now: Instant) -> bool {
        if self.ack_deadline.is_none_or(|at| at > now) {
            return true;
        }
        let may_extend = self.extensions < MAX_EXTENSIONS;
        if may_extend {
            self.extensions += 1;
            self.restart(now);
        }
        may_extend
    }

    /// Ends the wait of the RNR timer.
    pub(super) fn receiver_is_ready(&mut self) {
        self.receiver_wait = None;
    }

    /// Starts the RNR timer. Returns false if no RNR retry is left.
    pub(super) fn receiver_not_ready(&mut self, now: Instant, timer: RnrTimer) -> bool {
        // rule: 9.7.5.2.8-rnr-for-ever
        if self.rnr_retries != UNLIMITED {
            // rule: 9.7.5.2.8-rnr-retries
            if self.rnr_retries_left == 0 {
                return false;
            }
            self.rnr_retries_left -= 1;
        }
        // The peer has responded, so earlier timeouts do not count.
        self.retries_left = self.retries;
        self.backoff = 1;
        self.extensions = 0;
        self.ack_deadline = None;
        // rule: 9.7.5.2.8-rnr-wait
        self.receiver_wait = Some(now + timer.duration());
        true
    }
}

impl Requester {
    /// Restarts the timers after a pause in which nothing could be sent: a response whose timer
    /// expired during the pause is not late, unless that happened [`MAX_EXTENSIONS`] times in a
    /// row. For packets that had been sent before the pause, the timer for late responses restarts
    /// only once until there is progress. Otherwise, a sender that pauses repeatedly would never
    /// retransmit to get the response.
    ///
    /// # Errors
    /// If no retry is left.
    pub(crate) fn after_pause(&mut self, cx: &mut Cx<'_>) -> Result<(), QpFailure> {
        if !self.retry.extend_over_pause(cx.now) {
            return self.no_response(cx);
        }
        let waits = self.recovery.due().is_some() || self.nxt < self.max;
        if self.clock.deferral_ended(cx.now) {
            self.ask_after_deferral(cx);
        } else if !self.clock.restart_after_pause(cx.now, waits) && self.clock.expired(cx.now) {
            self.ask_for_late_response(cx);
        }
        Ok(())
    }

    /// Handles the timers that are due at `cx.now`.
    pub(crate) fn handle_timeout(
        &mut self,
        cx: &mut Cx<'_>,
        _core: &Core,
    ) -> Result<(), QpFailure> {
        if self
            .retry
            .receiver_wait
            .is_some_and(|until| until <= cx.now)
        {
            self.retry.receiver_wait = None;
            cx.observe.rnr_timer_ended();
        }
        if self.clock.deferral_ended(cx.now) {
            self.ask_after_deferral(cx);
        } else if self.clock.expired(cx.now) {
            self.ask_for_late_response(cx);
        }
        if self
            .retry
            .ack_deadline
            .is_none_or(|deadline| deadline > cx.now)
        {
            return Ok(());
        }
        self.no_response(cx)
    }

    /// The peer may be Soft-RoCE, which drops FLUSHes with the ICRC of the specification, if it has
    /// answered neither a FLUSH nor its first retransmission. Each further one has the other ICRC,
    /// until one is answered.
    fn change_flush_icrc(&mut self) {
        let retries = self.retry.retries - self.retry.retries_left;
        let oldest = self.sq.front().map(|wqe| wqe.request.op);
        if retries > 1 && matches!(oldest, Some(SendOp::Flush(_))) {
            self.flush_as_soft_roce = !self.flush_as_soft_roce;
        }
    }

    /// Handles the end of the local ACK timeout.
    fn no_response(&mut self, cx: &mut Cx<'_>) -> Result<(), QpFailure> {
        if self.una == self.max {
            self.retry.ack_deadline = None;
            return Ok(());
        }
        cx.nic.counters.count(Stat::Timeouts);
        cx.observe
            .timed_out(self.una.wire(), self.retry.retries_left);
        self.retry.backoff = (self.retry.backoff * 2).min(MAX_BACKOFF);
        if !self.retry.try_again(cx.now) {
            // rule: 9.9.2-retry-exceeded
            return Err(QpFailure::Send(WcStatus::RetryExceeded));
        }
        self.change_flush_icrc();
        self.out_of_order.forget_asked();
        self.send_window.on_timeout();
        self.feedback.timed_out = true;
        // rule: 9.7.6.1.3-timeout-resends
        self.go_back(self.una);
        self.recovery.timed_out = true;
        self.clock.stop();
        Ok(())
    }
}
