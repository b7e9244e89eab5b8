//! Decides which posts wait for those that follow: [ADR 59](../../../docs/adr/0059-posts-that-wait.md).
//!
//! A post that leaves at once costs a system call. If a program posts one request after the other,
//! several of them can leave together: a post then waits until enough others have followed, or until
//! the program makes a call that drives the NIC. No timer ends the wait, since setting one costs as
//! much as sending. So a post waits only if the program has shown that it calls again soon.

use roce_stack::{Duration, Instant};

/// The number of posts at the start of a row that don't wait, unless the program streams. Programs
/// often write data, then a flag, and then watch their memory for the answer.
const PROMPT_POSTS: u32 = 2;

/// The number of posts that make a row long.
const LONG_ROW: u32 = 8;

/// The number of consecutive long rows after which a program streams: it will post more than
/// [`PROMPT_POSTS`] this time, too.
const STREAMING_ROWS: u32 = 16;

/// The longest time from one post of a row to the next.
const MAX_GAP: Duration = Duration::from_micros(10);

/// The number of requests that fill a datagram with a WRITE of 4 KiB each.
const MAX_REQUESTS: usize = 15;

/// The number of bytes that fill a datagram: those of [`MAX_REQUESTS`] such WRITEs.
const MAX_BYTES: u64 = 15 << 12;

/// A program calls again soon if its next call comes within this time. A longer time would delay
/// peers, a shorter one would be exceeded whenever the background thread takes the processor.
const SOON: Duration = Duration::from_micros(100);

/// The number of rows that must each be followed soon by a call that drives the NIC before posts
/// wait.
const FEWEST_GOOD_ROWS: u32 = 4;

/// The same, for a program that has let posts wait before.
const MOST_GOOD_ROWS: u32 = 32;

/// Some requests: those of a post, or those that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) requests: usize,
    /// The bytes of their messages.
    pub(crate) bytes: u64,
}

impl Batch {
    fn and(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    fn is_full(self) -> bool {
        self.requests >= MAX_REQUESTS || self.bytes >= MAX_BYTES
    }
}

/// How a program posts, and its posts that wait.
///
/// A row is a series of posts without another call in between that drives the NIC, and without a
/// packet that the device receives: the program can't be answering one.
#[derive(Debug)]
pub(crate) struct Pacing {
    row: u32,
    /// The number of consecutive rows before this one that were long, at most [`STREAMING_ROWS`].
    long_rows: u32,
    last_post: Instant,
    /// The number of packets received before the last post.
    received: u64,
    /// The first call after the last post that drives the NIC.
    next_drive: Option<Instant>,
    /// The number of consecutive rows that such a call followed soon, at most `needed_rows`.
    good_rows: u32,
    needed_rows: u32,
    /// Whether the last post was left waiting.
    last_waits: bool,
    waiting: Batch,
}

impl Default for Pacing {
    fn default() -> Self {
        Self {
            row: 0,
            long_rows: 0,
            last_post: Instant::ZERO,
            received: 0,
            next_drive: None,
            good_rows: 0,
            needed_rows: FEWEST_GOOD_ROWS,
            last_waits: false,
            waiting: Batch::default(),
        }
    }
}

impl Pacing {
    /// Notes a post, after the device has received `received` packets. Returns whether it may wait.
    pub(super) fn note_post(&mut self, now: Instant, received: u64, post: Batch) -> bool {
        let driven = self.next_drive.take();
        self.judge_last_post(now, driven);
        let gap = now.saturating_duration_since(self.last_post);
        let continues = driven.is_none() && gap <= MAX_GAP && received == self.received;
        if !continues {
            self.long_rows = match self.row {
                LONG_ROW.. => STREAMING_ROWS.min(self.long_rows + 1),
                _ => 0,
            };
            self.row = 0;
        }
        self.row += 1;
        (self.last_post, self.received) = (now, received);
        self.last_waits = false;
        (self.row > PROMPT_POSTS || self.long_rows == STREAMING_ROWS)
            && self.good_rows >= self.needed_rows
            && !self.waiting.and(post).is_full()
    }

    /// Learns from the call that followed the last post, if that post could have waited: a call at
    /// `driven` that drove the NIC, or a post at `now`.
    fn judge_last_post(&mut self, now: Instant, driven: Option<Instant>) {
        if self.row <= PROMPT_POSTS && !self.last_waits {
            return;
        }
        let next_call = driven.unwrap_or(now);
        if next_call.saturating_duration_since(self.last_post) > SOON {
            self.good_rows = 0;
            if self.last_waits {
                self.needed_rows = MOST_GOOD_ROWS.min(self.needed_rows * 2);
            }
        } else if driven.is_some() {
            self.good_rows = self.needed_rows.min(self.good_rows + 1);
        }
    }

    /// Notes that the post of the last [`Pacing::note_post`] is left waiting.
    pub(super) fn wait(&mut self, post: Batch) {
        self.last_waits = true;
        self.waiting = self.waiting.and(post);
    }

    /// Notes a call of the program that drives the NIC.
    #[inline]
    pub(super) fn note_drive(&mut self, now: Instant) {
        self.next_drive.get_or_insert(now);
    }

    /// Notes that all posts that waited have been sent.
    #[inline]
    pub(super) fn note_sent(&mut self) {
        self.waiting = Batch::default();
    }

    #[inline]
    pub(super) fn has_waiting(&self) -> bool {
        self.waiting.requests > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POST: Batch = Batch {
        requests: 1,
        bytes: 64,
    };

    /// A program, and the time at which it makes calls.
    #[derive(Default)]
    struct Program {
        pacing: Pacing,
        at_us: u64,
        received: u64,
    }

    impl Program {
        fn now(&self) -> Instant {
            Instant::from_nanos(1_000_000 + self.at_us * 1000)
        }

        /// Posts after `gap` µs. Returns whether the post waits.
        fn post(&mut self, gap_us: u64, batch: Batch) -> bool {
            self.at_us += gap_us;
            let waits = self.pacing.note_post(self.now(), self.received, batch);
            if waits {
                self.pacing.wait(batch);
            } else {
                self.pacing.note_sent();
            }
            waits
        }

        /// Posts `posts` times. Returns which posts waited.
        fn row(&mut self, posts: usize) -> Vec<bool> {
            (0..posts).map(|_| self.post(1, POST)).collect()
        }

        fn drive(&mut self, gap_us: u64) {
            self.at_us += gap_us;
            self.pacing.note_drive(self.now());
            self.pacing.note_sent();
        }

        /// Posts in rows, and drives the NIC after each, until posts may wait. Returns the number of rows.
        fn earn_trust(&mut self) -> u32 {
            for rows in 1..1000 {
                self.row(3);
                self.drive(1);
                if self.row(3)[2] {
                    self.drive(1);
                    return rows;
                }
                self.drive(1);
            }
            panic!("posts never wait");
        }
    }

    fn waiting(posts: &[bool]) -> usize {
        posts.iter().filter(|waits| **waits).count()
    }

    #[test]
    fn no_post_waits_before_the_program_has_shown_that_it_calls_again_soon() {
        let mut program = Program::default();
        for _ in 0..FEWEST_GOOD_ROWS {
            assert_eq!(waiting(&program.row(20)), 0);
            program.drive(1);
        }
        assert!(waiting(&program.row(20)) > 0);
    }

    #[test]
    fn the_first_posts_of_a_row_and_every_full_batch_leave() {
        let mut program = Program::default();
        program.earn_trust();
        let posts = program.row(2 + 15 + 15 + 1);
        let leaves = |index: &usize| !posts[*index];
        let left: Vec<usize> = (0..posts.len()).filter(leaves).collect();
        assert_eq!(left, [0, 1, 16, 31]);
        assert!(program.pacing.has_waiting());
    }

    #[test]
    fn a_program_that_streams_lets_the_first_posts_of_a_row_wait() {
        let mut program = Program::default();
        program.earn_trust();
        for _ in 0..STREAMING_ROWS {
            assert_eq!(program.row(LONG_ROW as usize)[..2], [false, false]);
            program.drive(1);
        }
        assert_eq!(program.row(2), [true, true]);
        program.drive(1);
        assert_eq!(program.row(2), [false, false], "the row before was short");
    }

    #[test]
    fn a_first_post_that_waited_too_long_is_noticed() {
        let mut program = Program::default();
        let needed = program.earn_trust();
        for _ in 0..STREAMING_ROWS {
            program.row(LONG_ROW as usize);
            program.drive(1);
        }
        assert_eq!(program.row(1), [true]);
        program.drive(101);
        assert_eq!(waiting(&program.row(20)), 0);
        program.drive(1);
        assert!(program.earn_trust() > needed);
    }

    #[test]
    fn a_batch_is_full_when_one_more_would_not_fit_into_its_datagram() {
        let page = Batch {
            requests: 1,
            bytes: 4096,
        };
        let huge = Batch {
            requests: 1,
            bytes: 1 << 20,
        };
        for (batch, most) in [(page, 14), (huge, 0)] {
            let mut program = Program::default();
            program.earn_trust();
            program.row(2);
            let waited = (0..20).take_while(|_| program.post(1, batch)).count();
            assert_eq!(waited, most);
        }
    }

    /// Each of these ends a row: the program may wait for an answer to what it posts next.
    #[test]
    fn a_pause_a_packet_or_a_call_ends_a_row() {
        let ends: [fn(&mut Program); 3] = [
            |program| program.at_us += 10,
            |program| program.received += 1,
            |program| program.drive(1),
        ];
        for end in ends {
            let mut program = Program::default();
            program.earn_trust();
            assert_eq!(program.row(4), [false, false, true, true]);
            end(&mut program);
            assert_eq!(program.row(4), [false, false, true, true]);
        }
    }

    /// A program that posts and then does something else does so again.
    #[test]
    fn a_program_that_let_posts_wait_must_show_more() {
        let mut program = Program::default();
        let mut needed = program.earn_trust();
        for _ in 0..8 {
            assert!(program.row(4)[3]);
            program.at_us += 101;
            assert_eq!(waiting(&program.row(4)), 0);
            program.drive(1);
            let again = program.earn_trust();
            assert!(again >= needed, "{again} rows instead of {needed}");
            needed = again;
        }
        assert_eq!(needed, MOST_GOOD_ROWS / 2, "two rows in each turn");
    }

    /// No post waits for a program that streams, and computes after each row.
    #[test]
    fn a_program_that_never_calls_soon_is_never_kept_waiting() {
        let mut program = Program::default();
        for _ in 0..100 {
            assert_eq!(waiting(&program.row(20)), 0);
            program.drive(101);
        }
        // Three good rows for each that is not.
        for _ in 0..100 {
            for pause in [1, 1, 1, 101] {
                assert_eq!(waiting(&program.row(20)), 0);
                program.drive(pause);
            }
        }
    }
}
