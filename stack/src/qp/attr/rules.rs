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
        (Init, Init) => (&[], names.init_again),
        // rule: 11.2.5.2-rtr-needs
        (Init, Rtr) => (names.rtr_required, names.rtr_optional),
        // rule: 11.2.5.2-rts-needs
        (Rtr, Rts) => (names.rts_required, names.rts_optional),
        (Rts | Sqd, Rts) => (&[], names.rts_optional),
        // RC has no such state: an error in its send queue moves the whole QP to ERR.
        (Sqe, Rts) if kind.survives_send_errors() => (&[], names.rts_optional),
        (Rts, Sqd) => (&[], &[]),
        // rule: 11.2.5.2-sqd-changes
        (Sqd, Sqd) => (&[], names.sqd_optional),
        // rule: 10.3.1-order
        _ => return None,
    })
}

/// The attributes of one transport service.
struct Attributes {
    /// Needed by Reset to Init, and the others that this transition takes.
    init: (Names, Names),
    /// Taken by Init to Init.
    init_again: Names,
    /// Taken by Init to RTR, besides those needed.
    rtr_optional: Names,
    /// Needed by Init to RTR.
    rtr_required: Names,
    /// Needed by RTR to RTS.
    rts_required: Names,
    /// Taken by every transition to RTS, RTS to RTS included.
    rts_optional: Names,
    /// Taken by SQD to SQD.
    sqd_optional: Names,
}

const fn names(kind: QpKind) -> Attributes {
    match kind {
        QpKind::Rc => Attributes {
            init: (&["access"], &["pkey"]),
            init_again: &["access", "pkey"],
            rtr_optional: &["access", "pkey", "static_rate"],
            rtr_required: &[
                "dest_qpn",
                "path",
                "path_mtu",
                "rq_psn",
                "max_dest_rd_atomic",
                "min_rnr_timer",
            ],
            rts_required: &[
                "sq_psn",
                "timeout",
                "retry_cnt",
                "rnr_retry",
                "max_rd_atomic",
            ],
            rts_optional: &["access", "min_rnr_timer", "rate_limit"],
            sqd_optional: &[
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
            init_again: &["access", "pkey"],
            rtr_optional: &["access", "pkey", "static_rate"],
            rtr_required: &["dest_qpn", "path", "path_mtu", "rq_psn"],
            rts_required: &["sq_psn"],
            rts_optional: &["access", "rate_limit"],
            sqd_optional: &["access", "pkey", "path", "static_rate", "rate_limit"],
        },
        // rule: 9.8.3-states
        QpKind::Ud => Attributes {
            init: (&["qkey"], &["pkey"]),
            init_again: &["pkey", "qkey"],
            rtr_optional: &["pkey", "qkey"],
            rtr_required: &[],
            rts_required: &["sq_psn"],
            rts_optional: &["qkey", "rate_limit"],
            sqd_optional: &["pkey", "qkey", "rate_limit"],
        },
        QpKind::XrcInitiator => Attributes {
            init: (&["access"], &["pkey"]),
            init_again: &["access", "pkey"],
            rtr_optional: &["access", "pkey", "static_rate"],
            rtr_required: &["dest_qpn", "path", "path_mtu", "rq_psn"],
            rts_required: &[
                "sq_psn",
                "timeout",
                "retry_cnt",
                "rnr_retry",
                "max_rd_atomic",
            ],
            rts_optional: &["access", "rate_limit"],
            sqd_optional: &[
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
            init_again: &["access", "pkey"],
            rtr_optional: &["access", "pkey", "static_rate"],
            rtr_required: &[
                "dest_qpn",
                "path",
                "path_mtu",
                "rq_psn",
                "max_dest_rd_atomic",
                "min_rnr_timer",
            ],
            rts_required: &["sq_psn", "timeout"],
            rts_optional: &["access", "min_rnr_timer", "rate_limit"],
            sqd_optional: &[
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
