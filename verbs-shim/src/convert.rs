//! Conversions between C's numbers and the stack's types.

use crate::abi::*;
use crate::log::with_reason;
use nix::errno::Errno;
use roce_verbs::completion::WcOpcode;
use roce_verbs::device::Gid;
use roce_verbs::qp::QpState;
use roce_verbs::work::SendFlags;
use roce_verbs::{Access, QpKind, WcStatus};

/// Checks that a field has no bits but these.
///
/// # Errors
/// `refused` if it has.
pub(crate) fn check_bits(
    field: &str,
    given: impl Into<u64>,
    known: impl Into<u64>,
    refused: Errno,
) -> Result<(), Errno> {
    let (given, known) = (given.into(), known.into());
    match given & !known {
        0 => Ok(()),
        _ if known == 0 => Err(with_reason(refused, || {
            format!("{field} is {given:#x}, and must be 0")
        })),
        _ => Err(with_reason(refused, || {
            format!("{field} is {given:#x}, of which only the bits {known:#x} are supported")
        })),
    }
}

const ACCESS: [(u32, Access); 7] = [
    (ACCESS_LOCAL_WRITE, Access::LOCAL_WRITE),
    (ACCESS_REMOTE_WRITE, Access::REMOTE_WRITE),
    (ACCESS_REMOTE_READ, Access::REMOTE_READ),
    (ACCESS_REMOTE_ATOMIC, Access::REMOTE_ATOMIC),
    (ACCESS_MW_BIND, Access::MW_BIND),
    (ACCESS_FLUSH_GLOBAL, Access::FLUSH_GLOBAL),
    (ACCESS_FLUSH_PERSISTENT, Access::FLUSH_PERSISTENT),
];

/// Converts the access flags of a region, window or QP.
///
/// # Errors
/// `EINVAL` for undefined bits.
pub(crate) fn access(flags: u32) -> Result<Access, Errno> {
    let all = ACCESS.iter().fold(0, |all, (bit, _)| all | bit);
    if flags & !all != 0 {
        return Err(with_reason(Errno::EINVAL, || {
            format!("the access flags are {flags:#x}, of which only the bits {all:#x} are rights")
        }));
    }
    let given = ACCESS.iter().filter(|(bit, _)| flags & bit != 0);
    Ok(given.map(|(_, right)| *right).collect())
}

/// The access flags for these rights.
pub(crate) fn c_access(rights: Access) -> u32 {
    let given = ACCESS.iter().filter(|(_, right)| rights.contains(*right));
    given.fold(0, |flags, (bit, _)| flags | bit)
}

// rule: CA17-28-no-raw, CA17-30-verbs
pub(crate) fn qp_kind(qp_type: u32) -> Result<QpKind, Errno> {
    match qp_type {
        QPT_RC => Ok(QpKind::Rc),
        QPT_UC => Ok(QpKind::Uc),
        QPT_UD => Ok(QpKind::Ud),
        QPT_XRC_SEND => Ok(QpKind::XrcInitiator),
        QPT_XRC_RECV => Ok(QpKind::XrcTarget),
        _ => Err(with_reason(Errno::EOPNOTSUPP, || {
            format!("qp_type is {qp_type}, and this device has only RC, UC, UD and XRC QPs")
        })),
    }
}

const QP_STATES: [(u32, QpState); 7] = [
    (QPS_RESET, QpState::Reset),
    (QPS_INIT, QpState::Init),
    (QPS_RTR, QpState::Rtr),
    (QPS_RTS, QpState::Rts),
    (QPS_SQD, QpState::Sqd),
    (QPS_SQE, QpState::Sqe),
    (QPS_ERR, QpState::Err),
];

pub(crate) fn qp_state(state: u32) -> Result<QpState, Errno> {
    let found = QP_STATES.iter().find(|(number, _)| *number == state);
    found.map(|(_, state)| *state).ok_or_else(|| {
        with_reason(Errno::EINVAL, || {
            format!("the state is {state}, but must be IBV_QPS_RESET to IBV_QPS_ERR, 0 to 6")
        })
    })
}

pub(crate) fn c_qp_state(state: QpState) -> u32 {
    let found = QP_STATES.iter().find(|(_, known)| *known == state);
    found.map_or(QPS_ERR, |(number, _)| *number)
}

pub(crate) fn send_flags(flags: u32) -> Result<SendFlags, Errno> {
    let known = [
        (SEND_FENCE, SendFlags::FENCE),
        (SEND_SIGNALED, SendFlags::SIGNALED),
        (SEND_SOLICITED, SendFlags::SOLICITED),
        (SEND_INLINE, SendFlags::INLINE),
    ];
    let all = known.iter().fold(0, |all, (bit, _)| all | bit);
    // Others are `IBV_SEND_IP_CSUM`, which is for raw packets, or undefined.
    check_bits("send_flags", flags, all, Errno::EOPNOTSUPP)?;
    let given = known.iter().filter(|(bit, _)| flags & bit != 0);
    Ok(given.map(|(_, flag)| *flag).collect())
}

/// Converts a completion status. A status missing from this table becomes `WC_GENERAL_ERR`; a test
/// checks that none is missing.
pub(crate) fn c_status(status: WcStatus) -> u32 {
    match status {
        WcStatus::Success => WC_SUCCESS,
        WcStatus::LocalLengthError => WC_LOC_LEN_ERR,
        WcStatus::LocalQpOperationError => WC_LOC_QP_OP_ERR,
        WcStatus::LocalProtectionError => WC_LOC_PROT_ERR,
        WcStatus::LocalAccessError => WC_LOC_ACCESS_ERR,
        WcStatus::WorkRequestFlushed => WC_WR_FLUSH_ERR,
        WcStatus::MemoryWindowBindError => WC_MW_BIND_ERR,
        WcStatus::BadResponse => WC_BAD_RESP_ERR,
        WcStatus::RemoteInvalidRequest => WC_REM_INV_REQ_ERR,
        WcStatus::RemoteAccessError => WC_REM_ACCESS_ERR,
        WcStatus::RemoteOperationError => WC_REM_OP_ERR,
        WcStatus::RetryExceeded => WC_RETRY_EXC_ERR,
        WcStatus::RnrRetryExceeded => WC_RNR_RETRY_EXC_ERR,
        _ => WC_GENERAL_ERR,
    }
}

/// A number that is no `IBV_WC_…` opcode.
const UNKNOWN_OPCODE: u32 = u32::MAX;

/// Converts a completion opcode. An opcode missing from this table becomes [`UNKNOWN_OPCODE`]; a
/// test checks that none is missing.
pub(crate) fn c_opcode(opcode: WcOpcode) -> u32 {
    match opcode {
        WcOpcode::Send => WC_SEND,
        WcOpcode::RdmaWrite => WC_RDMA_WRITE,
        WcOpcode::RdmaRead => WC_RDMA_READ,
        WcOpcode::CompareSwap => WC_COMP_SWAP,
        WcOpcode::FetchAdd => WC_FETCH_ADD,
        WcOpcode::Flush => WC_FLUSH,
        WcOpcode::AtomicWrite => WC_ATOMIC_WRITE,
        WcOpcode::BindMw => WC_BIND_MW,
        WcOpcode::LocalInv => WC_LOCAL_INV,
        WcOpcode::Recv => WC_RECV,
        WcOpcode::RecvRdmaWithImm => WC_RECV_RDMA_WITH_IMM,
        _ => UNKNOWN_OPCODE,
    }
}

/// A GID in C's form: two numbers in network byte order.
pub(crate) fn c_gid(gid: Gid) -> [u64; 2] {
    let (upper, lower) = gid.0.split_at(8);
    [upper, lower].map(|half| u64::from_ne_bytes(half.try_into().unwrap_or_default()))
}

pub(crate) fn gid(halves: [u64; 2]) -> Gid {
    let mut bytes = [0; 16];
    for (to, from) in bytes.chunks_exact_mut(8).zip(halves) {
        to.copy_from_slice(&from.to_ne_bytes());
    }
    Gid(bytes)
}

/// Converts a number to C's `int`; one that is out of range becomes `INT_MAX`.
pub(crate) fn int<T>(value: T) -> std::ffi::c_int
where
    std::ffi::c_int: TryFrom<T>,
{
    value.try_into().unwrap_or(std::ffi::c_int::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_status_has_a_number_of_its_own() {
        let numbers: BTreeSet<u32> = WcStatus::ALL.iter().map(|s| c_status(*s)).collect();
        assert!(!numbers.contains(&WC_GENERAL_ERR), "{numbers:?}");
        assert_eq!(numbers.len(), WcStatus::ALL.len());
    }

    #[test]
    fn states_have_the_numbers_of_c() {
        let states = [
            (0, QpState::Reset),
            (1, QpState::Init),
            (2, QpState::Rtr),
            (3, QpState::Rts),
            (4, QpState::Sqd),
            (5, QpState::Sqe),
            (6, QpState::Err),
        ];
        for (number, state) in states {
            assert_eq!(qp_state(number), Ok(state));
            assert_eq!(c_qp_state(state), number);
        }
        assert_eq!(qp_state(QPS_ERR + 1), Err(Errno::EINVAL));
    }

    /// Neither raw packets (8), nor a driver's own QPs (0xff), nor InfiniBand's raw datagrams.
    // shows: CA17-28-no-raw, CA17-30-verbs
    #[test]
    fn there_are_qps_of_five_types() {
        let accepted: Vec<u32> = (0..=0xff).filter(|of| qp_kind(*of).is_ok()).collect();
        let expected = [QPT_RC, QPT_UC, QPT_UD, QPT_XRC_SEND, QPT_XRC_RECV];
        assert_eq!(accepted, expected);
    }

    #[test]
    fn undefined_bits_are_refused() {
        let both = Access::LOCAL_WRITE | Access::REMOTE_READ;
        assert_eq!(access(ACCESS_LOCAL_WRITE | ACCESS_REMOTE_READ), Ok(both));
        assert_eq!(access(ACCESS_LOCAL_WRITE | 1 << 19), Err(Errno::EINVAL));
        let persistent = access(ACCESS_FLUSH_PERSISTENT);
        assert_eq!(persistent, Ok(Access::FLUSH_PERSISTENT));
        let both = SendFlags::FENCE | SendFlags::SIGNALED;
        assert_eq!(send_flags(SEND_FENCE | SEND_SIGNALED), Ok(both));
        assert_eq!(send_flags(SEND_FENCE | 1 << 4), Err(Errno::EOPNOTSUPP));
    }

    #[test]
    fn a_gid_has_the_order_of_the_network() {
        let bytes = std::array::from_fn(|index| index as u8);
        let halves = c_gid(Gid(bytes));
        assert_eq!(halves[0].to_ne_bytes(), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(gid(halves), Gid(bytes));
    }

    #[test]
    fn every_operation_has_a_number_of_its_own() {
        let numbers: BTreeSet<u32> = WcOpcode::ALL.iter().map(|o| c_opcode(*o)).collect();
        assert!(!numbers.contains(&UNKNOWN_OPCODE), "{numbers:?}");
        assert_eq!(numbers.len(), WcOpcode::ALL.len());
    }
}
