//! Mismatches in words.

use crate::causes::c_name;
use crate::{Bytes, InWords};
use core::fmt::{Display, Formatter, Result};
use roce_stack::{Difference, Mismatch, QpKind, QpState};

impl Display for InWords<'_, Mismatch> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Mismatch {
            qpn, from, opcode, ..
        } = self.0;
        match &self.0.difference {
            Difference::NoQp => write!(
                f,
                "{opcode} packets from {from} are for QP number {qpn}, which no QP of this process has"
            ),
            Difference::State(state) => write!(
                f,
                "{opcode} packets come from {from}, but the QP is in state {}, in which it takes none",
                state.name()
            ),
            Difference::Service(kind) => {
                write!(
                    f,
                    "{opcode} packets come from {from}, but the service of this QP is {kind}"
                )
            }
            Difference::Peer { to, connected } => write!(
                f,
                "{opcode} packets come from {from} to {to}, but the QP, at {}, is connected to {}",
                connected.0, connected.1
            ),
            Difference::Version => write!(
                f,
                "{opcode} packets come from {from} in another version of RoCE than that of the QP's GID"
            ),
            Difference::Partition => {
                write!(f, "{opcode} packets come from {from} in another partition")
            }
            Difference::QKey { src_qpn, sent, own } => write!(
                f,
                "a datagram of QP {src_qpn} at {from} has the Q_Key {:#010x}, but this QP has {:#010x}",
                sent.0, own.0
            ),
            Difference::FirstPsn { sent, expected } => write!(
                f,
                "{opcode} packets come from {from} with PSN {sent}, but the QP expects its peer to begin \
                 with PSN {expected} (rq_psn)"
            ),
            Difference::Length { len, mtu } if len > mtu => write!(
                f,
                "the {opcode} from {from} has {}, more than this QP's path MTU of {mtu}",
                Bytes(*len as u64)
            ),
            Difference::Length { len, mtu } => write!(
                f,
                "the {opcode} from {from} has {}, which does not fit its message or the path MTU of {mtu}",
                Bytes(*len as u64)
            ),
            Difference::NoReceive => write!(
                f,
                "the {opcode} from {from} found no receive posted, and its message is lost"
            ),
            Difference::ReceiveTooShort {
                message,
                header,
                receive,
            } => {
                write!(
                    f,
                    "the message from {from} has at least {}",
                    Bytes(*message)
                )?;
                if *header > 0 {
                    write!(f, ", {header} of them for its GRH")?;
                }
                write!(f, ", but the receive request has {}", Bytes(*receive))
            }
            Difference::Memory(denied) => write!(f, "the peer's {opcode}, {}", InWords(denied)),
            Difference::Right(right) => write!(
                f,
                "the peer's {opcode} needs {}, which this QP does not have",
                c_name(*right)
            ),
            other => write!(f, "{opcode} packets from {from} do not fit: {other:?}"),
        }
    }
}

/// The advice about a mismatch, the most likely help first.
pub fn advice_on(mismatch: &Mismatch) -> &'static [&'static str] {
    const NUMBERS: &str =
        "compare the QP number and the GID that the peer connects to with those of this QP";
    const OWN_STATE: &str = "take the QP to RTR before the peer may send";
    match &mismatch.difference {
        Difference::NoQp => &[
            "compare dest_qp_num of the peer with qp_num of this process, in the same byte order",
            "was the QP destroyed while the peer still used it?",
        ],
        Difference::State(QpState::Reset | QpState::Init | QpState::Rtr) => &[OWN_STATE],
        Difference::State(_) => &[
            "the QP failed before, or the program moved it to the error state: look for its report",
        ],
        Difference::Service(QpKind::Rc | QpKind::Uc | QpKind::Ud) => {
            &["both ends need QPs of the same qp_type", NUMBERS]
        }
        Difference::Service(_) => &[
            "an IBV_QPT_XRC_SEND QP needs an IBV_QPT_XRC_RECV QP as its peer",
            NUMBERS,
        ],
        Difference::Peer { .. } => &[NUMBERS],
        Difference::Version => &["choose GIDs of the same type at both ends: RoCE v2"],
        Difference::Partition => &["use pkey_index 0 at both ends"],
        Difference::QKey { .. } => &[
            "send with the Q_Key that the receiver has set: remote_qkey of the request, or IBV_QP_QKEY of the sender if the highest bit of remote_qkey is set",
        ],
        Difference::FirstPsn { .. } => {
            &["rq_psn of each end must be sq_psn of the other, in the same byte order"]
        }
        Difference::Length { .. } => &["both ends must use the same path_mtu"],
        Difference::NoReceive => {
            &["post receives before the peer may send, and post a new one as soon as one completes"]
        }
        Difference::ReceiveTooShort { header: 0, .. } => {
            &["post receives as long as the longest message"]
        }
        Difference::ReceiveTooShort { .. } => {
            &["a datagram's receive needs 40 bytes more than the message, for the GRH"]
        }
        Difference::Memory(_) => &[
            "compare the peer's address, length and key with the region's, and the region's access rights with the operation",
        ],
        Difference::Right(_) => &["set the right in qp_access_flags when the QP goes to INIT"],
        _ => &[],
    }
}
