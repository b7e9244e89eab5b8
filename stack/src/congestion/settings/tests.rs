use super::*;
use crate::time::Duration;

fn read(text: &str) -> Result<CongestionSettings, String> {
    text.parse()
        .map_err(|error: CongestionSettingsError| error.to_string())
}

fn dcqcn(text: &str) -> DcqcnParameters {
    match read(text).map(|settings| settings.control) {
        Ok(CongestionControl::Dcqcn(parameters)) => parameters,
        other => panic!("{text}: {other:?}"),
    }
}

fn delay(text: &str) -> DelayParameters {
    match read(text).map(|settings| settings.control) {
        Ok(CongestionControl::Delay(parameters)) => parameters,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn algorithms_and_sets_have_names() {
    assert_eq!(read("dcqcn"), Ok(CongestionSettings::default()));
    assert_eq!(dcqcn("DCQCN, paper"), DcqcnParameters::PAPER);
    assert_eq!(dcqcn("dcqcn,connectx"), DcqcnParameters::CONNECT_X);
    assert_eq!(delay("delay"), DelayParameters::DEFAULT);
    let none = read("none").map(|settings| settings.control);
    assert_eq!(none, Ok(CongestionControl::None));
}

/// Each name, whoever's it is, is of the right parameter.
#[test]
fn each_parameter_has_its_names() {
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

/// As in a file.
#[test]
fn lines_are_as_good_as_commas() {
    let text = "# for the 25G machines\nalgorithm = dcqcn\nparameters = connectx\n\n\
                rpg_max_rate = 25000 # Mbit/s\nrpg_min_rate=5\n";
    let expected = DcqcnParameters {
        rpg_max_rate: 25_000,
        rpg_min_rate: 5,
        ..DcqcnParameters::CONNECT_X
    };
    assert_eq!(dcqcn(text), expected);
}

#[test]
fn what_is_written_is_read_again() {
    for (text, written) in [
        ("dcqcn,paper", "dcqcn"),
        ("delay", "delay"),
        ("none,cnp_dscp=46", "none,cnp_dscp=46"),
        ("dcqcn,connectx", "dcqcn,connectx"),
        (
            "dcqcn,g=1/64,T=300",
            "dcqcn,dce_tcp_g=1008,rpg_time_reset=300us",
        ),
        (
            "dcqcn,connectx,rp_ai_rate=7",
            "dcqcn,connectx,rpg_ai_rate=7",
        ),
        (
            "delay,ai=0.5,base_target=25",
            "delay,base_target=25us,additive_increase=0.5",
        ),
    ] {
        let settings = read(text).expect("well-formed");
        assert_eq!(settings.to_string(), written);
        assert_eq!(read(written), Ok(settings));
    }
}

#[test]
fn what_is_wrong_is_named_with_what_would_be_right() {
    for (text, given, valid) in [
        ("", "\"\"", "dcqcn, delay or none"),
        ("cubic", "\"cubic\"", "dcqcn, delay or none"),
        ("rpg_ai_rate=5", "\"rpg_ai_rate=5\"", "dcqcn, delay or none"),
        (
            "dcqcn,rpg_ai=5",
            "\"rpg_ai=5\"",
            "rpg_ai_rate, rpg_hai_rate",
        ),
        (
            "dcqcn,rpg_gd=11,connectx",
            "\"connectx\"",
            "paper or connectx, comes first",
        ),
        (
            "delay,rpg_gd=11",
            "\"rpg_gd=11\"",
            "with delay one of base_target",
        ),
        (
            "none,rpg_gd=11",
            "\"rpg_gd=11\"",
            "with none one of cnp_dscp",
        ),
        (
            "dcqcn,rpg_gd=9",
            "\"rpg_gd=9\"",
            "10, for all of alpha, or 11",
        ),
        (
            "dcqcn,rpg_min_rate=0",
            "\"rpg_min_rate=0\"",
            "Mbit/s, 1 to 10000000",
        ),
        (
            "dcqcn,rpg_ai_rate=-1",
            "\"rpg_ai_rate=-1\"",
            "Mbit/s, 0 to 10000000",
        ),
        (
            "dcqcn,rpg_time_reset=0",
            "\"rpg_time_reset=0\"",
            "a time from 1us to 3600s",
        ),
        ("dcqcn,T=soon", "\"T=soon\"", "a time from 1us"),
        ("dcqcn,T=inf", "\"T=inf\"", "a time from 1us"),
        ("dcqcn,dce_tcp_g=1025", "\"dce_tcp_g=1025\"", "0 to 1024"),
        ("dcqcn,g=2", "\"g=2\"", "such as 1/256"),
        ("dcqcn,g=0/0", "\"g=0/0\"", "such as 1/256"),
        (
            "dcqcn,clamp_tgt_rate=yes",
            "\"clamp_tgt_rate=yes\"",
            "0 or 1",
        ),
        ("dcqcn,cnp_dscp=64", "\"cnp_dscp=64\"", "a DSCP, 0 to 63"),
        (
            "dcqcn,rpg_min_dec_fac=50%",
            "\"rpg_min_dec_fac=50%\"",
            "0 to 100, without a sign",
        ),
        ("delay,beta=nan", "\"beta=nan\"", "a number from 0 to 1"),
        (
            "dcqcn,T=1,rpg_time_reset=2",
            "\"rpg_time_reset=2\"",
            "there once",
        ),
    ] {
        let error = read(text).expect_err(text);
        assert!(error.starts_with(&format!("{given} should be ")), "{error}");
        assert!(error.contains(valid), "{error}");
    }
}
