//! Which transition needs and takes which attributes (IBTA 1.7, table 91).

use super::QpState;
use crate::qp::kind::QpKind;

type Names = &'static [&'static str];

/// Attributes that the transition needs, and those that it takes besides; `None` if
/// there is no such transition.
pub(super) fn rules(kind: QpKind, from: QpState, to: QpState) -> Option<(Names, Names)> {
    use QpState::{Err, Init, Reset, Rtr, Rts, Sqd, Sqe};
    let names = names(kind);
    Some(match (from, to) {
        (_, Reset | Err) => (&[], &[]),
        (Reset, Init) => names.init,
        (Init, Init) => (&[], names.initial),
        (Init, Rtr) => (names.rtr, names.initial),
        (Rtr, Rts) => (names.rts, names.running),
        (Rts | Sqd, Rts) => (&[], names.running),
        // RC has no such state: an error in its send queue is the whole QP's.
        (Sqe, Rts) if kind.survives_send_errors() => (&[], names.running),
        (Rts, Sqd) => (&[], &[]),
        (Sqd, Sqd) => (&[], names.drained),
        _ => return None,
    })
}

/// The attributes of one transport service.
struct Attributes {
    /// Reset to Init: needed, and taken besides.
    init: (Names, Names),
    /// Taken in Init, and on the way to RTR.
    initial: Names,
    /// Needed by RTR.
    rtr: Names,
    /// Needed by RTS.
    rts: Names,
    /// Taken in RTS, and on the way to it.
    running: Names,
    /// Taken in SQD.
    drained: Names,
}

const fn names(kind: QpKind) -> Attributes {
    match kind {
        QpKind::Rc => Attributes {
            init: (&["access"], &["pkey"]),
            initial: &["access", "pkey"],
            rtr: &[
                "dest_qpn",
                "path",
                "path_mtu",
                "rq_psn",
                "max_dest_rd_atomic",
                "min_rnr_timer",
            ],
            rts: &[
                "sq_psn",
                "timeout",
                "retry_cnt",
                "rnr_retry",
                "max_rd_atomic",
            ],
            running: &["access", "min_rnr_timer"],
            drained: &[
                "access",
                "pkey",
                "path",
                "max_dest_rd_atomic",
                "min_rnr_timer",
                "timeout",
                "retry_cnt",
                "rnr_retry",
                "max_rd_atomic",
            ],
        },
        QpKind::Uc => Attributes {
            init: (&["access"], &["pkey"]),
            initial: &["access", "pkey"],
            rtr: &["dest_qpn", "path", "path_mtu", "rq_psn"],
            rts: &["sq_psn"],
            running: &["access"],
            drained: &["access", "pkey", "path"],
        },
        QpKind::Ud => Attributes {
            init: (&["qkey"], &["pkey"]),
            initial: &["pkey", "qkey"],
            rtr: &[],
            rts: &["sq_psn"],
            running: &["qkey"],
            drained: &["pkey", "qkey"],
        },
        QpKind::XrcInitiator => Attributes {
            init: (&["access"], &["pkey"]),
            initial: &["access", "pkey"],
            rtr: &["dest_qpn", "path", "path_mtu", "rq_psn"],
            rts: &[
                "sq_psn",
                "timeout",
                "retry_cnt",
                "rnr_retry",
                "max_rd_atomic",
            ],
            running: &["access"],
            drained: &[
                "access",
                "pkey",
                "path",
                "timeout",
                "retry_cnt",
                "rnr_retry",
                "max_rd_atomic",
            ],
        },
        QpKind::XrcTarget => Attributes {
            init: (&["access"], &["pkey"]),
            initial: &["access", "pkey"],
            rtr: &[
                "dest_qpn",
                "path",
                "path_mtu",
                "rq_psn",
                "max_dest_rd_atomic",
                "min_rnr_timer",
            ],
            rts: &["sq_psn", "timeout"],
            running: &["access", "min_rnr_timer"],
            drained: &[
                "access",
                "pkey",
                "path",
                "timeout",
                "max_dest_rd_atomic",
                "min_rnr_timer",
            ],
        },
    }
}
