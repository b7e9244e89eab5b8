//! One run of one of perftest's programs, and its expected output.

use crate::programs::place::{CommandLine, Place};

/// The TCP port at which perftest's servers listen.
pub(super) const PORT: u16 = 18515;

/// Messages of a QP. They are few, because the performance is not tested.
const MESSAGES: u64 = 20;

/// Messages of a QP at each size, up to 8 MiB: the fewest that perftest accepts.
const MESSAGES_OF_EACH_SIZE: u64 = 5;

/// A vendor part ID that makes perftest send inline and use the extended API, `ibv_wr_*`. It does
/// so only with the IDs in its own list.
const KNOWN_PART: (&str, &str) = ("ROCE_VENDOR_PART_ID", "4119");

/// A UDP receive buffer into which all messages in flight fit, 40 MiB in the worst case. UC and UD
/// do not retransmit, and the server waits for every SEND.
const ROOM: (&str, &str) = ("ROCE_UDP_BUFFER_MIB", "64");

/// An option of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// `-q 16`: 16 QPs.
    ManyQps,
    /// `-b`: both ends send.
    Bidirectional,
    /// `-I 64`: data of up to 64 bytes is inline. Requests are built with the extended API.
    Inline,
    /// As `Inline`, with `ibv_post_send` instead of the extended API.
    InlineByStructures,
    /// `-e`: waits for completions on a completion channel.
    Events,
    /// `--use-srq`: a shared receive queue.
    Srq,
    /// `-A CMP_AND_SWAP`, where FETCH_AND_ADD is the default.
    CompareAndSwap,
}

/// A run.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) program: &'static str,
    /// RC, UC, UD or XRC.
    pub(super) service: &'static str,
    pub(super) choices: Vec<Choice>,
    /// `-a`: all message sizes.
    pub(super) all_sizes: bool,
}

impl Run {
    pub(super) fn has(&self, choice: Choice) -> bool {
        self.choices.contains(&choice)
    }

    fn is_inline(&self) -> bool {
        self.has(Choice::Inline) || self.has(Choice::InlineByStructures)
    }

    /// The number of messages that a QP sends. perftest posts this many receives to a shared queue,
    /// divided among the QPs and rounded down; with XRC, it has a QP for each direction. If that
    /// gives none, it waits for ever.
    fn messages(&self) -> u64 {
        let usual = match self.all_sizes {
            true => MESSAGES_OF_EACH_SIZE,
            false => MESSAGES,
        };
        let qps = if self.has(Choice::ManyQps) { 16 } else { 1 };
        let directions = 1 + u64::from(self.has(Choice::Bidirectional));
        match self.service {
            "XRC" => usual.max(qps * directions),
            _ => usual,
        }
    }

    pub(super) fn words(&self) -> CommandLine {
        let messages = self.messages();
        let mut words = format!(
            "{} -c {} -n {messages} -d DEVICE -x GID -F",
            self.program, self.service
        );
        for choice in &self.choices {
            words += match choice {
                Choice::ManyQps => " -q 16",
                Choice::Bidirectional => " -b",
                Choice::Inline => " -I 64",
                Choice::InlineByStructures => " -I 64 --use_old_post_send",
                Choice::Events => " -e",
                Choice::Srq => " --use-srq",
                Choice::CompareAndSwap => " -A CMP_AND_SWAP",
            };
        }
        if self.all_sizes {
            words += " -a";
        } else if self.is_inline() {
            // Longer messages are not sent inline.
            words += " -s 64";
        }
        CommandLine {
            words,
            variables: self.variables().collect(),
            ..CommandLine::default()
        }
    }

    fn variables(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let unreliable = ["UC", "UD"].contains(&self.service);
        let part = self.is_inline().then_some(KNOWN_PART);
        part.into_iter().chain(unreliable.then_some(ROOM))
    }

    /// The message sizes in a table of results, in bytes, where a packet holds `mtu` bytes.
    fn sizes(&self, mtu: u64) -> Vec<u64> {
        let largest = match self.service {
            "UD" => mtu,
            _ => 1 << 23,
        };
        let size = if self.all_sizes {
            let sizes = (1..=23).map(|power| 1 << power);
            return sizes.take_while(|size| *size <= largest).collect();
        } else if self.is_inline() {
            64
        } else if self.program.starts_with("ib_atomic") {
            8
        } else if self.program.ends_with("_lat") {
            2
        } else {
            1 << 16
        };
        vec![size.min(largest)]
    }

    /// Runs it, and checks that the client's table has a line for each size, that all messages were
    /// counted, and that the requested operation was used.
    pub(super) fn check(&self, place: &Place<'_>) {
        let words = self.words();
        let output = place.run_command_line(&words, PORT);
        let qps = if self.has(Choice::ManyQps) { 16 } else { 1 };
        let messages = self.messages();
        let expected: Vec<_> = self
            .sizes(place.mtu)
            .into_iter()
            .map(|size| (size, messages * qps))
            .collect();
        assert_eq!(table(&output), expected, "{words:?}: {output}");
        for line in self.lines() {
            assert!(output.contains(line), "no {line:?}: {words:?}: {output}");
        }
    }

    /// Lines that its output must contain.
    fn lines(&self) -> impl Iterator<Item = &'static str> {
        let inline = self.is_inline().then_some("Max inline data : 64[B]");
        let by_calls = self.has(Choice::Inline).then_some("ibv_wr* API     : ON");
        let events = self.has(Choice::Events).then_some("Test with events");
        let srq = self.has(Choice::Srq).then_some("Using SRQ      : ON");
        [inline, by_calls, events, srq].into_iter().flatten()
    }
}

/// Size and number of messages of each line of the table of results.
pub(super) fn table(output: &str) -> Vec<(u64, u64)> {
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [size, messages, _, _, _, ..] = words.as_slice() else {
            return None;
        };
        Some((size.parse().ok()?, messages.parse().ok()?))
    };
    output.lines().filter_map(row).collect()
}
