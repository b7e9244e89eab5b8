//! The slack, and what it is learned from: retransmissions for late responses that prove spurious
//! or needed.

use super::Clock;
use crate::qp::Slack;
use crate::time::Instant;

/// The least slack: the delay, in nanoseconds, that the hosts may add to a round trip before a
/// response counts as late. The slack doubles with each retransmission that proves spurious, up to
/// [`MAX_SLACK`], and shrinks by a quarter with each one that proves needed, and by an eighth with
/// each loss that the peer reports. A new QP starts with the slack that another QP of the NIC has
/// learned last from late responses, since their delay is the hosts'.
///
/// The maximum is the longest silence of a peer of this kind that is not busy: its background
/// thread takes over 2.5 ms after its application has stopped polling.
pub(super) const MIN_SLACK: u64 = 10_000;
const MAX_SLACK: u64 = 256 * MIN_SLACK;

/// After this many retransmissions in a row that may have been needed or not, the requester waits
/// for the next late response twice as long before it retransmits. A response that comes meanwhile
/// shows that the peer is slow. Without this, a peer that is often interrupted for as long as a
/// round trip would look like a network that loses packets.
pub(super) const MAX_UNSURE: u8 = 2;

impl Clock {
    /// The slack, if a late response has changed it since the last call.
    #[inline]
    pub(in crate::qp::requester) fn take_learned_slack(&mut self) -> Option<Slack> {
        core::mem::take(&mut self.learned).then(|| Slack(self.slack()))
    }

    /// See [`MIN_SLACK`].
    pub(super) fn slack(&self) -> u64 {
        MIN_SLACK + self.more_slack
    }

    /// Judges the last retransmission for a late response when there is progress. It was spurious
    /// if the response came too soon to belong to it. If the response came too late even for a
    /// response to the copy, the peer or the network is slow, and the wait was too short as well.
    /// In between, it may have been needed. It was needed if a longer wait had brought no response.
    pub(super) fn judge_late_copy(&mut self, now: Instant) {
        let waited = core::mem::take(&mut self.waits_longer);
        if waited && self.late_retransmissions == 0 {
            self.late_was_spurious();
            return;
        }
        let Some(copied) = self.late_copy_sent_at else {
            return;
        };
        if self.is_too_soon(now, copied) {
            self.late_was_spurious();
        } else if core::mem::take(&mut self.late_copy_is_newest) {
            if self
                .wait()
                .is_some_and(|wait| now.nanos_since(copied) > wait)
            {
                self.late_was_spurious();
            } else if waited {
                self.unsure = 0;
                self.more_slack = self.more_slack.saturating_sub(self.slack() / 4);
                self.learned = true;
            } else {
                self.unsure = self.unsure.saturating_add(1);
            }
        }
    }

    /// Notes that `copies` packets are retransmitted because a response is late, and that the peer
    /// acknowledges each of them that is a duplicate.
    pub(in crate::qp::requester) fn note_late_copies(&mut self, copies: u32) {
        self.late_copies = self.late_copies.saturating_add(copies);
    }

    /// Notes an acknowledgement without progress. If the peer has acknowledged each copy as a
    /// duplicate, none of them caused the progress, and they were spurious.
    pub(in crate::qp::requester) fn on_duplicate_ack(&mut self) {
        let judged = self.late_copy_sent_at.is_some() && !self.late_copy_is_newest;
        if judged && self.late_copies > 0 {
            self.late_copies -= 1;
            if self.late_copies == 0 {
                self.late_was_spurious();
            }
        }
    }

    /// Notes that a response to an acknowledged READ or atomic arrived. If it was requested again
    /// because it was late, that was spurious.
    pub(in crate::qp::requester) fn on_duplicate_response(&mut self) {
        if self.late_copy_sent_at.is_some() {
            self.late_was_spurious();
        }
    }

    fn late_was_spurious(&mut self) {
        self.late_copy_sent_at = None;
        self.unsure = 0;
        self.more_slack = (self.slack() * 2).min(MAX_SLACK) - MIN_SLACK;
        self.learned = true;
    }
}
