//! Completion queues.

use super::CompletionChannel;
use crate::context::Context;
use roce_stack::{Completion, CqId, CqOverrun, CqResizeError, Event, Notify, WcStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A completion queue, where work requests complete. Cheap to clone; any thread may poll it. When
/// the last clone and all QPs that use it are dropped, its events that nobody has taken vanish.
#[derive(Clone, Debug)]
pub struct CompletionQueue {
    inner: Arc<CqInner>,
}

#[derive(Debug)]
struct CqInner {
    context: Context,
    queue: Arc<roce_stack::CompletionQueue>,
    /// Keeps the channel alive as long as the queue raises events on it.
    channel: Option<CompletionChannel>,
}

impl Drop for CqInner {
    fn drop(&mut self) {
        self.end_events();
    }
}

impl CqInner {
    fn end_events(&self) {
        let id = self.queue.id();
        let mut engine = self.context.inner.shared.lock();
        engine.withdraw_events(|event| *event == Event::CqError(id));
        if let Some(channel) = &self.channel {
            engine.channels.remove(&id);
            engine.moderation.remove(id);
            channel.withdraw(id);
        }
    }
}

impl Context {
    /// A completion queue of `capacity` completions that has no channel. The application polls it.
    pub fn create_cq(&self, capacity: usize) -> CompletionQueue {
        CompletionQueue::new(self.clone(), capacity, None)
    }

    /// A completion queue whose events go to `channel`.
    pub fn create_cq_with_channel(
        &self,
        capacity: usize,
        channel: &CompletionChannel,
    ) -> CompletionQueue {
        CompletionQueue::new(self.clone(), capacity, Some(channel))
    }
}

impl CompletionQueue {
    fn new(context: Context, capacity: usize, channel: Option<&CompletionChannel>) -> Self {
        let id = context.inner.shared.next_cq();
        let queue = Arc::new(roce_stack::CompletionQueue::new(id, capacity));
        if let Some(channel) = channel {
            context.inner.shared.lock().set_channel(id, &channel.queue);
        }
        Self {
            inner: Arc::new(CqInner {
                context,
                queue,
                channel: channel.cloned(),
            }),
        }
    }

    /// The ID in the queue's completion events.
    pub fn id(&self) -> CqId {
        self.inner.queue.id()
    }

    /// The maximum number of completions in the queue.
    pub fn capacity(&self) -> usize {
        self.inner.queue.capacity()
    }

    /// Changes the capacity, at least 1, while the queue is in use.
    ///
    /// # Errors
    /// If the queue holds more completions than `capacity`. The capacity is then unchanged.
    pub fn resize(&self, capacity: usize) -> Result<(), CqResizeError> {
        self.inner.queue.resize(capacity)
    }

    /// Ends the queue's events, which dropping its last clone does as well: those that nobody has
    /// taken vanish, and its channel gets no more. For a library whose callers destroy a queue while
    /// it must keep this value.
    pub fn end_events(&self) {
        self.inner.end_events();
    }

    pub(crate) fn queue(&self) -> &Arc<roce_stack::CompletionQueue> {
        &self.inner.queue
    }

    /// Takes the oldest completion. If there is none, drives the NIC once and looks again.
    ///
    /// # Errors
    /// If the queue overran.
    pub fn poll(&self) -> Result<Option<Completion>, CqOverrun> {
        let taken = self.poll_stamped()?;
        Ok(taken.map(|(completion, _)| completion))
    }

    /// Why the QP of a completion failed, if the completion is not a success. For a flushed request,
    /// that is the failure because of which it was flushed. `None` if the QP no longer exists.
    #[cfg(feature = "observe")]
    pub fn why(&self, completion: &Completion) -> Option<crate::why::Explanation> {
        match completion.status {
            WcStatus::Success => None,
            _ => self.inner.context.why(completion.qpn),
        }
    }

    /// The [code](roce_stack::Cause::code) of why the QP of a completion failed.
    pub fn why_code(&self, completion: &Completion) -> Option<u32> {
        match completion.status {
            WcStatus::Success => None,
            _ => self.inner.context.why_code(completion.qpn),
        }
    }

    /// Takes the oldest completion. If there is none, returns `None` without driving the NIC. For a
    /// caller that has just taken a completion and wants those that arrived with it: because the
    /// NIC is not driven, acknowledgements can still leave in the same datagram as the caller's
    /// answer.
    ///
    /// # Errors
    /// If the queue overran.
    pub fn take(&self) -> Result<Option<Completion>, CqOverrun> {
        let taken = self.inner.queue.poll_stamped()?;
        Ok(taken.map(|(completion, _)| completion))
    }

    /// Like [`CompletionQueue::poll`], with the time at which the request completed, in nanoseconds
    /// on the clock of [`Context::clock_ns`]. The thread that drove the NIC when the request
    /// completed had read the clock at the beginning of its call.
    ///
    /// # Errors
    /// If the queue overran.
    pub fn poll_timed(&self) -> Result<Option<(Completion, u64)>, CqOverrun> {
        let taken = self.poll_stamped()?;
        Ok(taken.map(|taken| self.with_ns(taken)))
    }

    /// Like [`CompletionQueue::take`], with the time as by [`CompletionQueue::poll_timed`].
    ///
    /// # Errors
    /// If the queue overran.
    pub fn take_timed(&self) -> Result<Option<(Completion, u64)>, CqOverrun> {
        let taken = self.inner.queue.poll_stamped()?;
        Ok(taken.map(|taken| self.with_ns(taken)))
    }

    fn with_ns(&self, (completion, at): (Completion, roce_stack::Instant)) -> (Completion, u64) {
        (
            completion,
            self.inner.context.inner.shared.clock.host_ns(at),
        )
    }

    fn poll_stamped(&self) -> Result<Option<(Completion, roce_stack::Instant)>, CqOverrun> {
        if let Some(taken) = self.inner.queue.poll_stamped()? {
            return Ok(Some(taken));
        }
        self.inner.context.inner.shared.drive();
        self.inner.queue.poll_stamped()
    }

    /// Polls in a loop until there is a completion.
    ///
    /// # Errors
    /// If the queue overran.
    pub fn wait_polling(&self) -> Result<Completion, CqOverrun> {
        loop {
            if let Some(completion) = self.poll()? {
                return Ok(completion);
            }
            std::hint::spin_loop();
        }
    }

    /// Polls in a loop until there is a completion, for at most `timeout`.
    ///
    /// # Errors
    /// If the queue overran.
    pub fn poll_for(&self, timeout: Duration) -> Result<Option<Completion>, CqOverrun> {
        let end = Instant::now() + timeout;
        loop {
            if let Some(completion) = self.poll()? {
                return Ok(Some(completion));
            }
            if Instant::now() >= end {
                return Ok(None);
            }
            std::hint::spin_loop();
        }
    }

    /// Requests an event on the queue's channel for the next completion. Poll once more afterwards:
    /// completions that are already in the queue raise no event.
    pub fn request_notify(&self, notify: Notify) {
        self.inner.queue.request_notify(notify);
        self.inner.context.inner.shared.send_waiting();
    }

    /// As [`CompletionQueue::request_notify`]. If the queue holds completions, their event can be had by
    /// [`CompletionChannel::take_missed_event`] as long as the request stands.
    pub fn request_notify_or_miss(&self, notify: Notify) {
        self.request_notify(notify);
        if let Some(channel) = &self.inner.channel
            && !self.is_empty()
        {
            channel.event_requested(&self.inner.queue);
        }
    }

    /// Moderates the queue's events. An event is delayed until `completions` completions have
    /// arrived, including the one that raised the event, but at most `period`. If `completions` is
    /// 0 or 1, or `period` is zero, events are not delayed. If an event is already delayed, this
    /// call delivers it at once. [`CompletionQueue::poll`] returns each completion without delay.
    pub fn moderate(&self, completions: u32, period: Duration) {
        let CqInner {
            context,
            queue,
            channel,
        } = &*self.inner;
        if channel.is_some() {
            let shared = &context.inner.shared;
            let now = shared.note_call();
            let mut engine = shared.lock();
            engine.nic_time(now);
            engine.moderation.set(queue, completions, period);
            engine.deliver_events();
        }
    }

    /// Whether the queue holds no completion. Does not drive the NIC.
    pub fn is_empty(&self) -> bool {
        self.inner.queue.is_empty()
    }
}
