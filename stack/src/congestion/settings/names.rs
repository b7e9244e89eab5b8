//! The names of parameters.

use super::super::{DcqcnParameters, DelayParameters, NotificationPoint};
use super::value::Slot;
use crate::time::Duration;

/// A parameter of the set `P`.
pub(super) struct Name<P> {
    pub(super) name: &'static str,
    /// Other names, which [`find`] does not derive from `name`.
    aliases: &'static [&'static str],
    /// The canonical name, if this is another form of the same parameter.
    pub(super) same_as: Option<&'static str>,
    pub(super) slot: fn(&mut P) -> Slot<'_>,
}

const fn name<P>(
    name: &'static str,
    aliases: &'static [&'static str],
    slot: fn(&mut P) -> Slot<'_>,
) -> Name<P> {
    Name {
        name,
        aliases,
        same_as: None,
        slot,
    }
}

/// Another form of a parameter.
const fn alternate_form<P>(
    name: &'static str,
    same_as: &'static str,
    slot: fn(&mut P) -> Slot<'_>,
) -> Name<P> {
    Name {
        name,
        aliases: &[],
        same_as: Some(same_as),
        slot,
    }
}

impl<P> Name<P> {
    /// The canonical name of the parameter.
    pub(super) fn parameter(&self) -> &'static str {
        self.same_as.unwrap_or(self.name)
    }
}

/// Finds a parameter by name; case does not matter. Ignores the suffix `_p1`, with which the
/// firmware of adapters marks their first port, and the prefixes `rp_` and `np_` of Linux's driver.
pub(super) fn find<P>(names: &'static [Name<P>], given: &str) -> Option<&'static Name<P>> {
    let given = given.to_ascii_lowercase();
    let given = given.strip_suffix("_p1").unwrap_or(&given);
    let side = given
        .strip_prefix("rp_")
        .or_else(|| given.strip_prefix("np_"));
    let plain = side.unwrap_or(given);
    names.iter().find(|known| {
        let short = known.name.strip_prefix("rpg_").unwrap_or(known.name);
        known.name == plain || known.aliases.contains(&plain) || (side.is_some() && short == plain)
    })
}

const MICROSECOND: Duration = Duration::from_micros(1);

/// The parameters of the reaction point.
pub(super) const DCQCN: &[Name<DcqcnParameters>] = &[
    name("dce_tcp_g", &[], |p| Slot::Of1024(&mut p.dce_tcp_g)),
    alternate_form("g", "dce_tcp_g", |p| {
        Slot::ComplementOf1024(&mut p.dce_tcp_g)
    }),
    name("dce_tcp_rtt", &["alpha_timer"], |p| {
        Slot::Time(&mut p.dce_tcp_rtt, MICROSECOND)
    }),
    name("initial_alpha_value", &[], |p| {
        Slot::Of1024(&mut p.initial_alpha_value)
    }),
    name("alpha_with_cnp", &[], |p| Slot::Flag(&mut p.alpha_with_cnp)),
    name("rpg_gd", &[], |p| Slot::AlphaShift(&mut p.rpg_gd)),
    name("rpg_min_dec_fac", &[], |p| {
        Slot::Percent(&mut p.rpg_min_dec_fac)
    }),
    name("rate_reduce_monitor_period", &[], |p| {
        Slot::Time(&mut p.rate_reduce_monitor_period, Duration::ZERO)
    }),
    name("rate_to_set_on_first_cnp", &[], |p| {
        Slot::Rate(&mut p.rate_to_set_on_first_cnp)
    }),
    name("clamp_tgt_rate", &[], |p| Slot::Flag(&mut p.clamp_tgt_rate)),
    name(
        "clamp_tgt_rate_after_time_inc",
        &["clamp_tgt_rate_ati"],
        |p| Slot::Flag(&mut p.clamp_tgt_rate_after_time_inc),
    ),
    name("rpg_time_reset", &["t"], |p| {
        Slot::Time(&mut p.rpg_time_reset, MICROSECOND)
    }),
    name("rpg_byte_reset", &["b"], |p| {
        Slot::Bytes(&mut p.rpg_byte_reset)
    }),
    name("rpg_threshold", &["f"], |p| {
        Slot::Count(&mut p.rpg_threshold, 0)
    }),
    name("rpg_ai_rate", &["r_ai"], |p| Slot::Rate(&mut p.rpg_ai_rate)),
    name("rpg_hai_rate", &["r_hai"], |p| {
        Slot::Rate(&mut p.rpg_hai_rate)
    }),
    name("rpg_min_rate", &[], |p| {
        Slot::NonZeroRate(&mut p.rpg_min_rate)
    }),
    name("rpg_max_rate", &[], |p| {
        Slot::NonZeroRate(&mut p.rpg_max_rate)
    }),
    name("start_rate", &[], |p| Slot::Rate(&mut p.start_rate)),
];

/// The parameters of the delay algorithm.
pub(super) const DELAY: &[Name<DelayParameters>] = &[
    name("base_target", &[], |p| {
        Slot::Time(&mut p.base_target, Duration::ZERO)
    }),
    name("queue_target", &[], |p| {
        Slot::Time(&mut p.queue_target, Duration::ZERO)
    }),
    name("rest_interval", &[], |p| {
        Slot::Count(&mut p.rest_interval, 1)
    }),
    name("base_memory", &[], |p| {
        Slot::Time(&mut p.base_memory, Duration::ZERO)
    }),
    name("fs_range", &[], |p| {
        Slot::Time(&mut p.fs_range, Duration::ZERO)
    }),
    name("fs_min_window", &["fs_min_cwnd"], |p| {
        Slot::Number(&mut p.fs_min_window, 0.001, 1e6)
    }),
    name("fs_max_window", &["fs_max_cwnd"], |p| {
        Slot::Number(&mut p.fs_max_window, 0.001, 1e6)
    }),
    name("additive_increase", &["ai"], |p| {
        Slot::Number(&mut p.additive_increase, 0.0, 1e6)
    }),
    name("beta", &[], |p| Slot::Number(&mut p.beta, 0.0, 1.0)),
    name("max_decrease", &["max_mdf"], |p| {
        Slot::Number(&mut p.max_decrease, 0.0, 1.0)
    }),
    name("min_window", &["min_cwnd"], |p| {
        Slot::Number(&mut p.min_window, 0.001, 1e6)
    }),
    name("max_window", &["max_cwnd"], |p| {
        Slot::Number(&mut p.max_window, 1.0, 1e6)
    }),
    name("initial_window", &[], |p| {
        Slot::Count(&mut p.initial_window, 1)
    }),
    name("timeouts_to_reset", &["retx_reset_threshold"], |p| {
        Slot::Count(&mut p.timeouts_to_reset, 1)
    }),
    name("min_rate", &[], |p| Slot::NonZeroRate(&mut p.min_rate)),
];

/// The parameters of the notification point.
pub(super) const NOTIFICATION: &[Name<NotificationPoint>] = &[
    name("cnp_dscp", &[], |p| Slot::Dscp(&mut p.cnp_dscp)),
    name("min_time_between_cnps", &[], |p| {
        Slot::Time(&mut p.min_time_between_cnps, Duration::ZERO)
    }),
];
