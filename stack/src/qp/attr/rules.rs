//! The attributes that each transition needs and takes (IBTA 1.7, table 91).

use crate::kind::{QpKind, QpState};

type Names = &'static [&'static str];

/// The attributes that the transition needs, and the others that it takes; `None` if there is no
/// such transition.
pub(super) fn rules(kind: QpKind, from: QpState, to: QpState) -> Option<(Names, Names)> {
    use QpState::{Err, Init, Reset, Rtr, Rts, Sqd, Sqe};
    let names = names(kind);
    Some(match (from, to) {
        // rule: 10.3.1-any-to-reset
        (_, Reset | Err) => (&[], &[]),
        // rule: 11.2.5.2-init-needs
        (Reset, Init) => names.init,
        (Init, Init) => (&[], names.initial),
        // rule: 11.2.5.2-rtr-needs
        (Init, Rtr) => (names.rtr, names.on_the_way),
        // rule: 11.2.5.2-rts-needs
        (Rtr, Rts) => (names.rts, names.running),
        (Rts | Sqd, Rts) => (&[], names.running),
        // RC has no such state: an error in its send queue moves the whole QP to ERR.
        (Sqe, Rts) if kind.survives_send_errors() => (&[], names.running),
        (Rts, Sqd) => (&[], &[]),
        // rule: 11.2.5.2-sqd-changes
        (Sqd, Sqd) => (&[], names.drained),
        // rule: 10.3.1-order
        _ => return None,
    })
}

/// The attributes of one transport service.
struct Attributes {
    /// Needed by Reset to Init, and the others that this transition takes.
    init: (Names, Names),
    /// Taken by Init to Init.
    initial: Names,
    /// Taken by Init to RTR, besides those needed.
    on_the_way: Names,
    /// Needed by Init to RTR.
    rtr: Names,
    /// Needed by RTR to RTS.
    rts: Names,
    /// Taken by every transition to RTS, RTS to RTS included.
    running: Names,
    /// Taken by SQD to SQD.
    drained: Names,
}

const fn names(kind: QpKind) -> Attributes {
    match kind {
        QpKind::Rc => Attributes {
            init: (&["access"], &["pkey"]),
            initial: &["access", "pkey"],
            on_the_way: &["access", "pkey", "static_rate"],
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
            running: &["access", "min_rnr_timer", "rate_limit"],
            drained: &[
                "access",
                "pkey",
                "path",
                "static_rate",
                "max_dest_rd_atomic",
                "min_rnr_timer",
                "timeout",
                "retry_cnt",
                "rnr_retry",
                "max_rd_atomic",
                "rate_limit",
            ],
        },
        // rule: 9.8.2-states
        QpKind::Uc => Attributes {
            init: (&["access"], &["pkey"]),
            initial: &["access", "pkey"],
            on_the_way: &["access", "pkey", "static_rate"],
            rtr: &["dest_qpn", "path", "path_mtu", "rq_psn"],
            rts: &["sq_psn"],
            running: &["access", "rate_limit"],
            drained: &["access", "pkey", "path", "static_rate", "rate_limit"],
        },
        // rule: 9.8.3-states
        QpKind::Ud => Attributes {
            init: (&["qkey"], &["pkey"]),
            initial: &["pkey", "qkey"],
            on_the_way: &["pkey", "qkey"],
            rtr: &[],
            rts: &["sq_psn"],
            running: &["qkey", "rate_limit"],
            drained: &["pkey", "qkey", "rate_limit"],
        },
        QpKind::XrcInitiator => Attributes {
            init: (&["access"], &["pkey"]),
            initial: &["access", "pkey"],
            on_the_way: &["access", "pkey", "static_rate"],
            rtr: &["dest_qpn", "path", "path_mtu", "rq_psn"],
            rts: &[
                "sq_psn",
                "timeout",
                "retry_cnt",
                "rnr_retry",
                "max_rd_atomic",
            ],
            running: &["access", "rate_limit"],
            drained: &[
                "access",
                "pkey",
                "path",
                "static_rate",
                "timeout",
                "retry_cnt",
                "rnr_retry",
                "max_rd_atomic",
                "rate_limit",
            ],
        },
        QpKind::XrcTarget => Attributes {
            init: (&["access"], &["pkey"]),
            initial: &["access", "pkey"],
            on_the_way: &["access", "pkey", "static_rate"],
            rtr: &[
                "dest_qpn",
                "path",
                "path_mtu",
                "rq_psn",
                "max_dest_rd_atomic",
                "min_rnr_timer",
            ],
            rts: &["sq_psn", "timeout"],
            running: &["access", "min_rnr_timer", "rate_limit"],
            drained: &[
                "access",
                "pkey",
                "path",
                "static_rate",
                "timeout",
                "max_dest_rd_atomic",
                "min_rnr_timer",
                "rate_limit",
            ],
        },
    }
}
