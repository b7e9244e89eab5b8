//! The picture as an SVG file.

use super::{Curve, Curves};
use crate::peers::HalfRoundTrips;
use plotters::chart::SeriesLabelStyle;
use plotters::prelude::*;

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

type Drawn = Result<(), Box<dyn std::error::Error>>;

/// The picture: bandwidth above, latency below.
///
/// # Errors
/// If it can't be drawn.
pub fn plot(curves: &Curves) -> Result<String, String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (760, 780)).into_drawing_area();
        draw(curves, &area).map_err(|e| format!("drawing: {e}"))?;
    }
    Ok(svg)
}

fn draw(curves: &Curves, area: &Area<'_>) -> Drawn {
    area.fill(&WHITE)?;
    let (above, below) = area.split_vertically(440);
    bandwidth(curves, &above)?;
    latency(curves, &below)?;
    area.present()?;
    Ok(())
}

fn bandwidth(curves: &Curves, area: &Area<'_>) -> Drawn {
    let points = |curve: &Curve| -> Vec<(f64, f64)> {
        let gigabits = |(size, rate): &(usize, f64)| (*size as f64, rate / 1e9);
        curve.iter().map(gigabits).collect()
    };
    let all = [
        ("WRITE", points(&curves.write), BLUE),
        ("READ", points(&curves.read), GREEN),
        ("iperf3 TCP", points(&curves.tcp), RED),
    ];
    let limits = [
        ("both ends without a protocol", curves.bare_ends / 1e9),
        ("the bare port", curves.bare_port / 1e9),
    ];
    let rates = all.iter().flat_map(|(_, points, _)| points.iter());
    let rates = rates.map(|point| point.1);
    let top = rates.chain(limits.iter().map(|limit| limit.1));
    let top = top.fold(0.0, f64::max) * 1.15;
    let (first, last) = (64.0, f64::from(1 << 20));
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(56)
        .caption("Bandwidth by message size", ("sans-serif", 18))
        .build_cartesian_2d((first..last).log_scale().base(4.0), 0.0..top)?;
    chart
        .configure_mesh()
        .x_desc("bytes of a message, or of a call for TCP")
        .y_desc("Gb/s")
        .x_label_formatter(&|bytes| size_name(*bytes))
        .draw()?;
    for (name, points, color) in all {
        let line = LineSeries::new(points, color.stroke_width(2)).point_size(3);
        chart.draw_series(line)?.label(name).legend(key(color));
    }
    for ((name, rate), color) in limits.into_iter().zip([BLACK, MAGENTA]) {
        let line = DashedLineSeries::new([(first, rate), (last, rate)], 6, 4, color.into());
        chart.draw_series(line)?.label(name).legend(key(color));
    }
    legend(chart.configure_series_labels())
}

fn latency(curves: &Curves, area: &Area<'_>) -> Drawn {
    let points = |times: &HalfRoundTrips| {
        let times = [times.p50_us, times.p99_us, times.p999_us];
        [0.0, 1.0, 2.0].into_iter().zip(times).collect::<Vec<_>>()
    };
    let all = [
        ("8-byte WRITE", points(&curves.write_latency), BLUE),
        ("sockperf UDP", points(&curves.udp_latency), RED),
    ];
    let top = all.iter().flat_map(|(_, points, _)| points);
    let top = top.map(|point| point.1).fold(0.0, f64::max) * 1.15;
    let name = |percentile: &f64| match percentile {
        0.0 => "median".to_owned(),
        1.0 => "99 %".to_owned(),
        2.0 => "99.9 %".to_owned(),
        _ => String::new(),
    };
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(56)
        .caption("Half round trip by percentile", ("sans-serif", 18))
        .build_cartesian_2d(-0.2..2.2, 0.0..top)?;
    chart
        .configure_mesh()
        .x_labels(23)
        .x_desc("this share of the round trips took no longer")
        .y_desc("us")
        .x_label_formatter(&|percentile: &f64| name(&((percentile * 10.0).round() / 10.0)))
        .draw()?;
    for (name, points, color) in all {
        let line = LineSeries::new(points, color.stroke_width(2)).point_size(3);
        chart.draw_series(line)?.label(name).legend(key(color));
    }
    legend(chart.configure_series_labels())
}

/// The sample of a line in the legend.
fn key(color: RGBColor) -> impl Fn((i32, i32)) -> PathElement<(i32, i32)> {
    move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], color.stroke_width(2))
}

fn legend<'a, C: plotters::coord::CoordTranslate>(
    mut labels: SeriesLabelStyle<'a, '_, SVGBackend<'a>, C>,
) -> Drawn {
    labels
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    Ok(())
}

fn size_name(bytes: f64) -> String {
    let bytes = bytes.round() as usize;
    match bytes {
        0..1024 => bytes.to_string(),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}
