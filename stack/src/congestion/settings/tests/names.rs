//! Each name, of any origin, refers to the right parameter.

use super::*;
use crate::time::Duration;

#[test]
fn each_parameter_of_dcqcn_has_its_names() {
    let base = DcqcnParameters::PAPER;
    let all = [
        (
            "dce_tcp_g=7",
            DcqcnParameters {
                dce_tcp_g: 7,
                ..base
            },
        ),
        (
            "g=1/64",
            DcqcnParameters {
                dce_tcp_g: 1008,
                ..base
            },
        ),
        (
            "g=0.25",
            DcqcnParameters {
                dce_tcp_g: 768,
                ..base
            },
        ),
        (
            "dce_tcp_rtt=7",
            DcqcnParameters {
                dce_tcp_rtt: Duration::from_micros(7),
                ..base
            },
        ),
        (
            "initial_alpha_value=7",
            DcqcnParameters {
                initial_alpha_value: 7,
                ..base
            },
        ),
        (
            "alpha_with_cnp=0",
            DcqcnParameters {
                alpha_with_cnp: false,
                ..base
            },
        ),
        ("rpg_gd=10", DcqcnParameters { rpg_gd: 10, ..base }),
        (
            "rpg_min_dec_fac=7",
            DcqcnParameters {
                rpg_min_dec_fac: 7,
                ..base
            },
        ),
        (
            "rate_reduce_monitor_period=7us",
            DcqcnParameters {
                rate_reduce_monitor_period: Duration::from_micros(7),
                ..base
            },
        ),
        (
            "rate_to_set_on_first_cnp=7",
            DcqcnParameters {
                rate_to_set_on_first_cnp: 7,
                ..base
            },
        ),
        (
            "clamp_tgt_rate=0",
            DcqcnParameters {
                clamp_tgt_rate: false,
                ..base
            },
        ),
        (
            "rp_clamp_tgt_rate_ati=0",
            DcqcnParameters {
                clamp_tgt_rate_after_time_inc: false,
                ..base
            },
        ),
        (
            "T=1.5ms",
            DcqcnParameters {
                rpg_time_reset: Duration::from_micros(1500),
                ..base
            },
        ),
        (
            "B=7",
            DcqcnParameters {
                rpg_byte_reset: 7,
                ..base
            },
        ),
        (
            "F=7",
            DcqcnParameters {
                rpg_threshold: 7,
                ..base
            },
        ),
        (
            "R_AI=7",
            DcqcnParameters {
                rpg_ai_rate: 7,
                ..base
            },
        ),
        (
            "rp_ai_rate=7",
            DcqcnParameters {
                rpg_ai_rate: 7,
                ..base
            },
        ),
        (
            "RPG_AI_RATE_P1=7",
            DcqcnParameters {
                rpg_ai_rate: 7,
                ..base
            },
        ),
        (
            "rp_hai_rate=7",
            DcqcnParameters {
                rpg_hai_rate: 7,
                ..base
            },
        ),
        (
            "rpg_min_rate=7",
            DcqcnParameters {
                rpg_min_rate: 7,
                ..base
            },
        ),
        (
            "rp_max_rate=7",
            DcqcnParameters {
                rpg_max_rate: 7,
                ..base
            },
        ),
        (
            "start_rate=7",
            DcqcnParameters {
                start_rate: 7,
                ..base
            },
        ),
    ];
    for (text, parameters) in all {
        assert_eq!(dcqcn(&format!("dcqcn,{text}")), parameters, "{text}");
    }
}

#[test]
fn each_parameter_of_delay_has_its_names() {
    let base = DelayParameters::DEFAULT;
    let time = Duration::from_micros(7);
    let all = [
        (
            "base_target=7",
            DelayParameters {
                base_target: time,
                ..base
            },
        ),
        (
            "queue_target=7us",
            DelayParameters {
                queue_target: time,
                ..base
            },
        ),
        (
            "rest_interval=7",
            DelayParameters {
                rest_interval: 7,
                ..base
            },
        ),
        (
            "base_memory=7",
            DelayParameters {
                base_memory: time,
                ..base
            },
        ),
        (
            "fs_range=7",
            DelayParameters {
                fs_range: time,
                ..base
            },
        ),
        (
            "fs_min_cwnd=7",
            DelayParameters {
                fs_min_window: 7.0,
                ..base
            },
        ),
        (
            "fs_max_cwnd=7",
            DelayParameters {
                fs_max_window: 7.0,
                ..base
            },
        ),
        (
            "ai=0.5",
            DelayParameters {
                additive_increase: 0.5,
                ..base
            },
        ),
        ("beta=0.5", DelayParameters { beta: 0.5, ..base }),
        (
            "max_mdf=0.25",
            DelayParameters {
                max_decrease: 0.25,
                ..base
            },
        ),
        (
            "min_cwnd=0.5",
            DelayParameters {
                min_window: 0.5,
                ..base
            },
        ),
        (
            "max_cwnd=7",
            DelayParameters {
                max_window: 7.0,
                ..base
            },
        ),
        (
            "initial_window=7",
            DelayParameters {
                initial_window: 7,
                ..base
            },
        ),
        (
            "timeouts_to_reset=7",
            DelayParameters {
                timeouts_to_reset: 7,
                ..base
            },
        ),
        (
            "min_rate=7",
            DelayParameters {
                min_rate: 7,
                ..base
            },
        ),
    ];
    for (text, parameters) in all {
        assert_eq!(delay(&format!("delay,{text}")), parameters, "{text}");
    }
}

#[test]
fn each_parameter_of_the_notification_point_has_its_name() {
    for algorithm in ["dcqcn", "delay", "none"] {
        let text = format!("{algorithm},np_cnp_dscp=46,min_time_between_cnps=4");
        let point = read(&text).map(|settings| settings.notification);
        let expected = NotificationPoint {
            cnp_dscp: 46,
            min_time_between_cnps: Duration::from_micros(4),
        };
        assert_eq!(point, Ok(expected));
    }
}
