//! The kinds of failure, with what to do about each.

/// A kind of failure.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Kind {
    /// The upper bits of the [code](roce_stack::Cause::code).
    pub number: u32,
    /// The failure, in one sentence.
    pub meaning: &'static str,
    /// The completion statuses or asynchronous events that report it, in C.
    pub event: &'static str,
    /// The ways in which it happens: the lower four bits of the code, and what they mean. Empty if
    /// there is only one, whose bits are 0.
    pub ways: &'static [(u32, &'static str)],
    /// The advice, the most likely help first.
    pub advice: &'static [Advice],
}

/// A piece of advice.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Advice {
    /// The ways in which it helps; empty if it always does.
    pub ways: &'static [u32],
    /// The advice.
    pub text: &'static str,
}

impl Kind {
    /// The meaning of the lower bits of a code of this kind; `None` if they have none.
    pub fn way(&self, code: u32) -> Option<&'static str> {
        let way = code & 0xf;
        let known = self.ways.iter().find(|(number, _)| *number == way);
        known.map(|(_, meaning)| *meaning)
    }

    /// The advice about a failure with this code.
    pub fn advice_for(&self, code: u32) -> impl Iterator<Item = &'static str> {
        let way = code & 0xf;
        let helps = move |advice: &&Advice| advice.ways.is_empty() || advice.ways.contains(&way);
        self.advice.iter().filter(helps).map(|advice| advice.text)
    }
}

/// The kind of failure of a [code](roce_stack::Cause::code); `None` if there is no such code.
pub fn kind_of_code(code: u32) -> Option<&'static Kind> {
    let kind = KINDS.iter().find(|kind| kind.number == code >> 4)?;
    let is_known = match kind.ways {
        [] => code & 0xf == 0,
        _ => kind.way(code).is_some(),
    };
    is_known.then_some(kind)
}

/// The advice, and the ways in which each helps.
macro_rules! advice {
    (@ways always) => { &[] };
    (@ways $($way:literal)|+) => { &[$($way),+] };
    ($($($way:tt)|+ => $text:expr),+ $(,)?) => {
        &[$(Advice { ways: advice!(@ways $($way)|+), text: $text }),+]
    };
}

const NO_KEY: (u32, &str) = (1, "no region or window has the key");
const OTHER_PD: (u32, &str) = (2, "it belongs to another protection domain");
const NO_RIGHT: (u32, &str) = (3, "a right is missing");
const OUTSIDE: (u32, &str) = (4, "the bytes do not lie in the region or window");
const OTHER_QP: (u32, &str) = (5, "another QP has bound the window");
const HAS_WINDOWS: (u32, &str) = (6, "windows are bound to the region");
const MISSING: (u32, &str) = (7, "nothing is mapped there, or it is protected");

/// The ways in which access to the memory of requests is denied.
const LOCAL: &[(u32, &str)] = &[NO_KEY, OTHER_PD, NO_RIGHT, OUTSIDE, MISSING];

/// The ways in which a peer's access to memory is denied.
const REMOTE: &[(u32, &str)] = &[NO_KEY, OTHER_PD, NO_RIGHT, OUTSIDE, OTHER_QP, MISSING];

/// The ways in which a key is not invalidated.
const NOT_INVALIDATED: &[(u32, &str)] = &[NO_KEY, OTHER_PD, NO_RIGHT, OTHER_QP, HAS_WINDOWS];

/// The ways in which a window is not bound.
const NOT_BOUND: &[(u32, &str)] = &[
    (1, "there is no such window"),
    (2, "no region has the key"),
    (3, "QP, window and region are not of one protection domain"),
    (4, "a window of type 2 is bound already"),
    (5, "a window of type 2 can't be bound to 0 bytes"),
    (6, "a window of type 1 can't be zero-based"),
    (7, "a window can have remote rights only"),
    (8, "the region lacks IBV_ACCESS_MW_BIND"),
    (9, "the region lacks IBV_ACCESS_LOCAL_WRITE"),
    (10, "the bytes do not lie in the region"),
    (
        11,
        "the region's memory can't be made durable, and the window has IBV_ACCESS_FLUSH_PERSISTENT",
    ),
];

/// Whether the peer has ever answered.
const ANSWERED: &[(u32, &str)] = &[
    (1, "the peer has never answered this QP"),
    (2, "the peer has answered this QP before"),
];

const PD: &str = "region and QP must be of one protection domain";
const REGION: &str = "compare its addr, length and lkey with what ibv_reg_mr returned";
const REGISTERED: &str = "keep the region registered until the request has completed";
const UNMAPPED: &str =
    "keep the memory mapped, and its file long enough, until the request has completed";
const PEER_KNOWS: &str = "the peer's own report names the reason: run it with ROCE_WHY=stderr, too";
const SAME_TEST: &str = "do both programs belong together? The peer uses an operation that this end does not expect, as when \
     the ends run different tests of one suite";
const CAPTURE: &str =
    "capture the packets (ROCE_PCAP), and report the peer's stack if it breaks the protocol";

/// The advice if the memory of a send or receive request can't be used.
const LOCAL_ADVICE: &[Advice] = advice! {
    1 | 4 => REGION,
    1 => REGISTERED,
    2 => PD,
    3 => "receives, READs and atomics write to local memory: register it with IBV_ACCESS_LOCAL_WRITE",
    7 => UNMAPPED,
};

/// All kinds, by number.
pub const KINDS: &[Kind] = &[
    Kind {
        number: 0x11,
        meaning: "the memory of a send request can't be used",
        event: "IBV_WC_LOC_PROT_ERR",
        ways: LOCAL,
        advice: LOCAL_ADVICE,
    },
    Kind {
        number: 0x12,
        meaning: "the memory of a receive request can't be written",
        event: "IBV_WC_LOC_PROT_ERR",
        ways: LOCAL,
        advice: LOCAL_ADVICE,
    },
    Kind {
        number: 0x13,
        meaning: "a memory window was not bound",
        event: "IBV_WC_MW_BIND_ERR",
        ways: NOT_BOUND,
        advice: advice! {
            3 => "use one protection domain for QP, window and region",
            4 => "invalidate the window before it is bound again",
            8 => "register the region with IBV_ACCESS_MW_BIND",
            9 => "register the region with IBV_ACCESS_LOCAL_WRITE",
            2 | 10 => "compare the range and the key with what ibv_reg_mr returned",
        },
    },
    Kind {
        number: 0x14,
        meaning: "a local key was not invalidated",
        event: "IBV_WC_MW_BIND_ERR",
        ways: NOT_INVALIDATED,
        advice: advice! {
            always => "only windows of type 2 that this QP has bound can be invalidated, and regions whose key allows it; those of ibv_reg_mr do not",
        },
    },
    Kind {
        number: 0x21,
        meaning: "the peer does not answer",
        event: "IBV_WC_RETRY_EXC_ERR",
        ways: ANSWERED,
        advice: advice! {
            1 => "are both QPs in state RTR or RTS, and did the ends exchange QP number, PSN and GID?",
            1 => "does UDP port 4791 pass in both directions? A firewall that drops it gives no other sign",
            2 => "is the peer's program still there? Its own report tells why its QP ended: run it with ROCE_WHY=stderr, too",
            always => "if only large messages fail, the path may not carry packets of the path MTU: choose a smaller path_mtu, or mend the MTU of the links",
            always => "if the peer answers slowly, as under a debugger: raise `timeout` and `retry_cnt`",
        },
    },
    Kind {
        number: 0x22,
        meaning: "packets are lost again and again",
        event: "IBV_WC_RETRY_EXC_ERR",
        ways: &[],
        advice: advice! {
            always => "look for drops on the way: `ethtool -S`, `nstat -az UdpRcvbufErrors`, `roce top`",
            always => "if it is always a large packet, the path may not carry packets of the path MTU",
            always => "raise retry_cnt, to 7 at most",
        },
    },
    Kind {
        number: 0x23,
        meaning: "the peer had no receive posted",
        event: "IBV_WC_RNR_RETRY_EXC_ERR",
        ways: &[],
        advice: advice! {
            always => "at the peer, post receives before this end may send, and a new one as soon as one completes",
            always => "make the peer's receive queue as long as the number of messages that this end sends at a time (fio: iodepth of the server; perftest: -r)",
            always => "set rnr_retry to 7 to wait without limit, or raise the peer's min_rnr_timer",
        },
    },
    Kind {
        number: 0x31,
        meaning: "the peer refused a request as invalid",
        event: "IBV_WC_REM_INV_REQ_ERR",
        ways: &[],
        advice: advice! {
            always => PEER_KNOWS,
            always => "often: the peer's QP lacks the right (qp_access_flags), the message is longer than the receive, the ends have different path_mtu, or max_rd_atomic is more than the peer's max_dest_rd_atomic",
        },
    },
    Kind {
        number: 0x32,
        meaning: "the peer denied access to its memory",
        event: "IBV_WC_REM_ACCESS_ERR",
        ways: &[],
        advice: advice! {
            always => PEER_KNOWS,
            always => "compare remote_addr, the length and rkey with the peer's ibv_mr, and its access flags with the operation",
            always => "the peer may have deregistered the memory, or ended",
        },
    },
    Kind {
        number: 0x33,
        meaning: "the peer could not execute a request",
        event: "IBV_WC_REM_OP_ERR",
        ways: &[],
        advice: advice! {
            always => PEER_KNOWS,
            always => "often: the memory of the peer's receive can't be written",
        },
    },
    Kind {
        number: 0x34,
        meaning: "the peer's response does not fit the request",
        event: "IBV_WC_BAD_RESP_ERR",
        ways: &[],
        advice: advice! {
            always => "both ends must use the same path_mtu",
            always => CAPTURE,
        },
    },
    Kind {
        number: 0x41,
        meaning: "the peer was denied access to memory",
        event: "IBV_EVENT_QP_ACCESS_ERR",
        ways: REMOTE,
        advice: advice! {
            1 => "compare the key that the peer used with that of the region; was the region deregistered, or its key invalidated?",
            2 => PD,
            3 => "register the region with the right that the peer's operation needs",
            3 => SAME_TEST,
            4 => "compare the address and length that the peer used with those of the region",
            5 => "only the QP that has bound a window of type 2 may use it",
            7 => UNMAPPED,
        },
    },
    Kind {
        number: 0x42,
        meaning: "the QP lacks a right that the peer's request needs",
        event: "IBV_EVENT_QP_REQ_ERR",
        ways: &[],
        advice: advice! {
            always => "set the right in qp_access_flags when the QP goes to INIT",
            always => SAME_TEST,
        },
    },
    Kind {
        number: 0x43,
        meaning: "the peer's message is longer than the receive",
        event: "IBV_WC_LOC_LEN_ERR",
        ways: &[],
        advice: advice! {
            always => "post receives as long as the longest message, or send shorter messages",
            always => "receives are used in the order in which they were posted: is the right one next?",
        },
    },
    Kind {
        number: 0x44,
        meaning: "the peer's packets are out of place",
        event: "IBV_EVENT_QP_REQ_ERR",
        ways: &[],
        advice: advice! {
            always => "do two QPs send to this one? Each end must name the other",
            always => CAPTURE,
        },
    },
    Kind {
        number: 0x45,
        meaning: "the length of the peer's packet is wrong",
        event: "IBV_EVENT_QP_REQ_ERR",
        ways: &[],
        advice: advice! { always => "both ends must use the same path_mtu" },
    },
    Kind {
        number: 0x46,
        meaning: "the peer has too many READs and atomics outstanding",
        event: "IBV_EVENT_QP_REQ_ERR",
        ways: &[],
        advice: advice! {
            always => "max_rd_atomic of the peer must not exceed max_dest_rd_atomic of this QP",
        },
    },
    Kind {
        number: 0x47,
        meaning: "the address of an atomic is not aligned",
        event: "IBV_EVENT_QP_REQ_ERR",
        ways: &[],
        advice: advice! { always => "atomics need addresses that are multiples of 8" },
    },
    Kind {
        number: 0x48,
        meaning: "the peer may not invalidate a key",
        event: "IBV_WC_REM_INV_REQ_ERR",
        ways: NOT_INVALIDATED,
        advice: advice! {
            always => "is the key that of a window of type 2, bound by this QP, and not invalidated yet?",
        },
    },
    Kind {
        number: 0x49,
        meaning: "the peer's request is not supported",
        event: "IBV_EVENT_QP_REQ_ERR",
        ways: &[],
        advice: advice! { always => CAPTURE },
    },
    Kind {
        number: 0x4a,
        meaning: "the peer's request names a wrong SRQ",
        event: "IBV_EVENT_QP_REQ_ERR",
        ways: &[],
        advice: advice! { always => "the SRQ must be in the XRC domain of the target QP" },
    },
    Kind {
        number: 0x4b,
        meaning: "the peer's READ or WRITE is too long",
        event: "IBV_EVENT_QP_REQ_ERR",
        ways: &[],
        advice: advice! { always => "a message has at most 2^31 bytes: split it" },
    },
    Kind {
        number: 0x4c,
        meaning: "memory could not be made durable",
        event: "IBV_EVENT_QP_FATAL",
        ways: &[],
        advice: advice! {
            always => "the kernel's log names the device and the error; bytes that were flushed before are durable. \
             Register the file again, and let the peer write the others once more",
        },
    },
    Kind {
        number: 0x51,
        meaning: "a completion queue overran",
        event: "IBV_EVENT_QP_FATAL",
        ways: &[],
        advice: advice! {
            always => "create the CQ with an entry for each request that can be outstanding: all send and receive queues that use it",
            always => "poll it more often",
        },
    },
    Kind {
        number: 0x52,
        meaning: "a call moved the QP to the error state",
        event: "",
        ways: &[],
        advice: &[],
    },
    Kind {
        number: 0x53,
        meaning: "the failure was injected, by ROCE_FAULTS or by the program",
        event: "",
        ways: &[],
        advice: advice! { always => "unset ROCE_FAULTS if you don't want it" },
    },
];
