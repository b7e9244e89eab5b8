//! QP states and attributes (IBTA 1.7, 10.3.1 and 11.2.5.2).

mod rules;

use crate::congestion::RateLimit;
use crate::encapsulation::TxMeta;
use crate::kind::QpKind;
use crate::kind::QpState;
use crate::memory::Access;
use core::time::Duration;
use roce_wire::{PKey, PathMtu, Psn, QKey, Qpn, RnrTimer};
use rules::rules;

/// Attributes for [`Nic::modify_qp`](crate::Nic::modify_qp). An attribute that is `None` stays
/// unchanged. The description of each attribute ends with the transition that sets it first; most
/// can be changed later in some states (IBTA 1.7, table 91).
#[derive(Clone, Debug, Default)]
pub struct QpAttributes {
    /// The state to go to; `None` stays in the present state.
    pub state: Option<QpState>,
    /// The remote operations that the QP allows: `REMOTE_WRITE`, `REMOTE_READ`, `REMOTE_ATOMIC`,
    /// `FLUSH_GLOBAL` and `FLUSH_PERSISTENT`. Other rights have no effect. Reset to Init.
    pub access: Option<Access>,
    /// The key that datagrams for this QP must carry. UD only, Reset to Init.
    pub qkey: Option<QKey>,
    /// The partition key. Reset to Init; the default partition if never set.
    pub pkey: Option<PKey>,
    /// The peer's QP. Init to RTR.
    pub dest_qpn: Option<Qpn>,
    /// The path to the peer: local and remote IP address, traffic class, hop limit. Init to RTR.
    pub path: Option<TxMeta>,
    /// The highest rate of the path, in units of 1,000 bits a second; 0, the default, means no
    /// limit. Init to RTR, and in SQD. (IBTA 1.7, 9.11.)
    pub static_rate: Option<u32>,
    /// The path MTU: the maximum payload of a packet. Init to RTR.
    pub path_mtu: Option<PathMtu>,
    /// The first PSN expected from the peer. Init to RTR.
    pub rq_psn: Option<Psn>,
    /// The number of READs and atomics of the peer that may be outstanding here. Init to RTR.
    pub max_dest_rd_atomic: Option<u8>,
    /// The RNR timer: how long the peer waits before it retries a request for which no receive is
    /// posted here. Init to RTR.
    pub min_rnr_timer: Option<RnrTimer>,
    /// The first PSN that the QP sends. RTR to RTS.
    pub sq_psn: Option<Psn>,
    /// Local ACK timeout: 4.096 us x 2^timeout, 0 for no timeout, at most 31. RTR to RTS.
    pub timeout: Option<u8>,
    /// Transport retries, at most 7. RTR to RTS.
    pub retry_cnt: Option<u8>,
    /// Retries after RNR NAK, at most 7; 7 means no limit. RTR to RTS.
    pub rnr_retry: Option<u8>,
    /// The number of READs and atomics of this QP that may be outstanding. RTR to RTS.
    pub max_rd_atomic: Option<u8>,
    /// The QP's highest send rate. To RTS, in RTS and in SQD; no limit if never set.
    pub rate_limit: Option<RateLimit>,
}

/// Why a QP was not modified. The QP is unchanged.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModifyError {
    /// No QP has this number.
    UnknownQp(Qpn),
    /// No such transition exists.
    InvalidTransition {
        /// The present state.
        from: QpState,
        /// The state asked for.
        to: QpState,
    },
    /// The transition needs an attribute that was not given.
    Missing {
        /// The present state.
        from: QpState,
        /// The state asked for.
        to: QpState,
        /// The attribute.
        attribute: &'static str,
    },
    /// The transition does not take an attribute that was given.
    NotAllowed {
        /// The present state.
        from: QpState,
        /// The state asked for.
        to: QpState,
        /// The attribute.
        attribute: &'static str,
    },
    /// A value is out of range.
    BadValue {
        /// The attribute.
        attribute: &'static str,
        /// The given value.
        given: String,
        /// The valid values.
        valid: String,
    },
}

impl core::fmt::Display for ModifyError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::UnknownQp(qpn) => write!(f, "no QP has number {qpn}"),
            Self::InvalidTransition { from, to } => {
                write!(f, "a QP can't go from {} to {}", from.name(), to.name())
            }
            Self::Missing {
                from,
                to,
                attribute,
            } => {
                write!(
                    f,
                    "the transition from {} to {} needs {attribute} ({})",
                    from.name(),
                    to.name(),
                    c_mask(attribute)
                )
            }
            Self::NotAllowed {
                from,
                to,
                attribute,
            } => {
                write!(
                    f,
                    "{attribute} ({}) can't be set in the transition from {} to {}",
                    c_mask(attribute),
                    from.name(),
                    to.name()
                )
            }
            Self::BadValue {
                attribute,
                given,
                valid,
            } => {
                write!(f, "{attribute} is {given}, but must be {valid}")
            }
        }
    }
}

impl core::fmt::Debug for ModifyError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ModifyError {}

/// The bit of `attr_mask` by which C programs set an attribute.
fn c_mask(attribute: &str) -> &'static str {
    match attribute {
        "access" => "IBV_QP_ACCESS_FLAGS",
        "qkey" => "IBV_QP_QKEY",
        "pkey" => "IBV_QP_PKEY_INDEX",
        "dest_qpn" => "IBV_QP_DEST_QPN",
        "path" | "static_rate" => "IBV_QP_AV",
        "path_mtu" => "IBV_QP_PATH_MTU",
        "rq_psn" => "IBV_QP_RQ_PSN",
        "max_dest_rd_atomic" => "IBV_QP_MAX_DEST_RD_ATOMIC",
        "min_rnr_timer" => "IBV_QP_MIN_RNR_TIMER",
        "sq_psn" => "IBV_QP_SQ_PSN",
        "timeout" => "IBV_QP_TIMEOUT",
        "retry_cnt" => "IBV_QP_RETRY_CNT",
        "rnr_retry" => "IBV_QP_RNR_RETRY",
        "max_rd_atomic" => "IBV_QP_MAX_QP_RD_ATOMIC",
        _ => "IBV_QP_RATE_LIMIT",
    }
}

/// The attributes of a QP, with the default values of those that are not set.
#[derive(Clone, Debug)]
pub struct QpConfig {
    /// See [`QpAttributes::access`].
    pub access: Access,
    /// See [`QpAttributes::qkey`].
    pub qkey: QKey,
    /// See [`QpAttributes::pkey`].
    pub pkey: PKey,
    /// See [`QpAttributes::dest_qpn`].
    pub dest_qpn: Qpn,
    /// See [`QpAttributes::path`]; `None` before RTR.
    pub path: Option<TxMeta>,
    /// See [`QpAttributes::static_rate`].
    pub static_rate: u32,
    /// See [`QpAttributes::path_mtu`].
    pub path_mtu: PathMtu,
    /// The PSN that is expected next from the peer; before RTR see [`QpAttributes::rq_psn`].
    pub rq_psn: Psn,
    /// See [`QpAttributes::max_dest_rd_atomic`].
    pub max_dest_rd_atomic: u8,
    /// See [`QpAttributes::min_rnr_timer`].
    pub min_rnr_timer: RnrTimer,
    /// The PSN of the next new packet that is sent; before RTS see [`QpAttributes::sq_psn`].
    pub sq_psn: Psn,
    /// See [`QpAttributes::timeout`].
    pub timeout: u8,
    /// See [`QpAttributes::retry_cnt`].
    pub retry_cnt: u8,
    /// See [`QpAttributes::rnr_retry`].
    pub rnr_retry: u8,
    /// See [`QpAttributes::max_rd_atomic`].
    pub max_rd_atomic: u8,
    /// See [`QpAttributes::rate_limit`].
    pub rate_limit: RateLimit,
}

impl Default for QpConfig {
    fn default() -> Self {
        Self {
            access: Access::empty(),
            qkey: QKey(0),
            pkey: PKey(0xffff),
            dest_qpn: Qpn::from_bits(0),
            path: None,
            static_rate: 0,
            path_mtu: PathMtu::Mtu256,
            rq_psn: Psn::new(0),
            max_dest_rd_atomic: 0,
            min_rnr_timer: RnrTimer::default(),
            sq_psn: Psn::new(0),
            timeout: 0,
            retry_cnt: 0,
            rnr_retry: 0,
            max_rd_atomic: 0,
            rate_limit: RateLimit::NONE,
        }
    }
}

impl QpConfig {
    // rule: 9.7.6.1.3-timeout-zero
    /// The local ACK timeout; `None` if there is none (IBTA 1.7, 9.7.6.1.3).
    pub(crate) fn ack_timeout(&self) -> Option<Duration> {
        // rule: 9.7.6.1.3-timeout
        (self.timeout != 0).then(|| Duration::from_nanos(4096 << u32::from(self.timeout.min(31))))
    }

    /// The lower of `rate_limit` and `static_rate`.
    // rule: 9.11-static-rate
    pub(crate) fn limit(&self) -> RateLimit {
        let rates = [self.rate_limit.kilobits_per_second, self.static_rate];
        let lower = rates.into_iter().filter(|rate| *rate != 0).min();
        RateLimit {
            kilobits_per_second: lower.unwrap_or(0),
            ..self.rate_limit
        }
    }

    /// The path MTU in bytes.
    pub(crate) fn mtu(&self) -> usize {
        self.path_mtu.bytes()
    }

    /// Sets the attributes that are `Some`.
    pub(crate) fn apply(&mut self, attributes: &QpAttributes) {
        fn set<T: Clone>(field: &mut T, value: Option<&T>) {
            if let Some(value) = value {
                field.clone_from(value);
            }
        }
        set(&mut self.access, attributes.access.as_ref());
        set(&mut self.qkey, attributes.qkey.as_ref());
        set(&mut self.pkey, attributes.pkey.as_ref());
        set(&mut self.dest_qpn, attributes.dest_qpn.as_ref());
        self.path = attributes.path.or(self.path);
        set(&mut self.static_rate, attributes.static_rate.as_ref());
        set(&mut self.path_mtu, attributes.path_mtu.as_ref());
        set(&mut self.rq_psn, attributes.rq_psn.as_ref());
        set(
            &mut self.max_dest_rd_atomic,
            attributes.max_dest_rd_atomic.as_ref(),
        );
        set(&mut self.min_rnr_timer, attributes.min_rnr_timer.as_ref());
        set(&mut self.sq_psn, attributes.sq_psn.as_ref());
        set(&mut self.timeout, attributes.timeout.as_ref());
        set(&mut self.retry_cnt, attributes.retry_cnt.as_ref());
        set(&mut self.rnr_retry, attributes.rnr_retry.as_ref());
        set(&mut self.max_rd_atomic, attributes.max_rd_atomic.as_ref());
        set(&mut self.rate_limit, attributes.rate_limit.as_ref());
    }
}

/// The most READs and atomics that may be outstanding in one direction.
pub const MAX_RD_ATOMIC: u8 = 128;

impl QpAttributes {
    /// Checks that the transition exists, that it has all attributes that it needs and no attribute
    /// that it does not take, and that all values are in range.
    pub(crate) fn check(
        &self,
        kind: QpKind,
        from: QpState,
        max_packet_bytes: usize,
    ) -> Result<(), ModifyError> {
        let to = self.state.unwrap_or(from);
        let (needs, takes) =
            rules(kind, from, to).ok_or(ModifyError::InvalidTransition { from, to })?;
        for (attribute, given) in self.given() {
            if needs.contains(&attribute) && !given {
                return Err(ModifyError::Missing {
                    from,
                    to,
                    attribute,
                });
            }
            // rule: 11.2.5.2-not-allowed
            if given && !needs.contains(&attribute) && !takes.contains(&attribute) {
                return Err(ModifyError::NotAllowed {
                    from,
                    to,
                    attribute,
                });
            }
        }
        self.check_ranges(max_packet_bytes)
    }

    fn given(&self) -> [(&'static str, bool); 16] {
        [
            ("access", self.access.is_some()),
            ("qkey", self.qkey.is_some()),
            ("pkey", self.pkey.is_some()),
            ("dest_qpn", self.dest_qpn.is_some()),
            ("path", self.path.is_some()),
            ("static_rate", self.static_rate.is_some()),
            ("path_mtu", self.path_mtu.is_some()),
            ("rq_psn", self.rq_psn.is_some()),
            ("max_dest_rd_atomic", self.max_dest_rd_atomic.is_some()),
            ("min_rnr_timer", self.min_rnr_timer.is_some()),
            ("sq_psn", self.sq_psn.is_some()),
            ("timeout", self.timeout.is_some()),
            ("retry_cnt", self.retry_cnt.is_some()),
            ("rnr_retry", self.rnr_retry.is_some()),
            ("max_rd_atomic", self.max_rd_atomic.is_some()),
            ("rate_limit", self.rate_limit.is_some()),
        ]
    }

    // rule: 11.2.5.2-ranges
    fn check_ranges(&self, max_packet_bytes: usize) -> Result<(), ModifyError> {
        let at_most = |attribute, value: Option<u8>, max: u8| match value {
            Some(v) if v > max => Err(ModifyError::BadValue {
                attribute,
                given: v.to_string(),
                valid: format!("at most {max}"),
            }),
            _ => Ok(()),
        };
        at_most("timeout", self.timeout, 31)?;
        at_most("retry_cnt", self.retry_cnt, 7)?;
        at_most("rnr_retry", self.rnr_retry, 7)?;
        at_most("max_rd_atomic", self.max_rd_atomic, MAX_RD_ATOMIC)?;
        at_most("max_dest_rd_atomic", self.max_dest_rd_atomic, MAX_RD_ATOMIC)?;
        if let Some(mtu) = self.path_mtu {
            check_path_mtu(mtu, max_packet_bytes)?;
        }
        match self.path {
            // rule: A17.4.2-one-family
            Some(path) if path.src.is_ipv4() != path.dst.is_ipv4() => Err(ModifyError::BadValue {
                attribute: "path",
                given: format!("from {} to {}", path.src, path.dst),
                valid: "two addresses of one family: choose the GID index of the peer's family"
                    .to_owned(),
            }),
            _ => Ok(()),
        }
    }
}

/// The maximum length of headers and ICRC of an RC packet: BTH, AtomicETH, ICRC.
const MAX_OVERHEAD: usize = 12 + 28 + 4;

/// The largest path MTU whose packets fit in `max_packet_bytes`.
// rule: A17.3.1-mtu
pub fn largest_path_mtu(max_packet_bytes: usize) -> PathMtu {
    let payload = max_packet_bytes.saturating_sub(MAX_OVERHEAD);
    PathMtu::largest_fitting(payload).unwrap_or(PathMtu::Mtu256)
}

// rule: 11.2.5.2-path-mtu
fn check_path_mtu(mtu: PathMtu, max_packet_bytes: usize) -> Result<(), ModifyError> {
    let largest = largest_path_mtu(max_packet_bytes);
    if mtu <= largest {
        return Ok(());
    }
    Err(ModifyError::BadValue {
        attribute: "path_mtu",
        given: mtu.bytes().to_string(),
        valid: format!(
            "256 to {} on this link, whose packets carry {max_packet_bytes} bytes: lower it on \
             both ends, or raise the link's MTU",
            largest.bytes()
        ),
    })
}

impl RateLimit {
    /// Checks that the sizes of bursts and packets are given only together with a rate, and that a
    /// burst has room for a packet.
    pub(crate) fn check(self, path_mtu: PathMtu) -> Result<(), ModifyError> {
        let (rate, burst) = (self.kilobits_per_second, self.max_burst_bytes);
        let packet = match self.typical_packet_bytes {
            0 => path_mtu.bytes(),
            bytes => bytes as usize,
        };
        let valid = match (rate, burst) {
            (0, 0) if self.typical_packet_bytes == 0 => return Ok(()),
            (0, _) => "a rate with or without sizes, or neither",
            (_, 1..) if (burst as usize) < packet => "a burst of a packet or more, or 0",
            _ => return Ok(()),
        };
        Err(ModifyError::BadValue {
            attribute: "rate_limit",
            given: format!(
                "{rate} kbit/s in bursts of {burst} bytes with packets of {packet} bytes"
            ),
            valid: valid.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests;
