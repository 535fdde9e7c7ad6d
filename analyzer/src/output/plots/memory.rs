//! Memory by kind over time, with steps: "When did it grow, and what grew?"
//!
//! Uses `analysis::memory_series`. Invariants: bytes are shown in one unit, which the axis names; a limit of the control
//! group is a line only where one was recorded; a thinned curve keeps the largest value of each piece.

use super::{FONT, Picture, SIZE, failed, font, png};
use crate::analysis::memory;
use crate::analysis::memory_series::{Series, beside, series};
use crate::error::Error;
use crate::limits::{MAX_PLOT_MARKS, MAX_PLOT_POINTS};
use crate::run::Run;
use ddo_schemas::unit::GIB;
use plotters::prelude::*;

/// Colours that stay apart for colour-blind readers (Okabe and Ito).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(90, 90, 90),
];
const STEP: RGBColor = RGBColor(200, 200, 200);
const LIMIT: RGBColor = RGBColor(160, 0, 0);
const MIB: u64 = 1 << 20;

/// What a picture shows.
struct Scene {
    title: String,
    curves: Vec<Series>,
    steps: Vec<f64>,
    limit: Option<u64>,
    seconds: f64,
    bytes: u64,
}

/// The picture of a run; `None` without samples.
///
/// # Errors
/// When it cannot be drawn.
pub fn draw(run: &Run) -> Result<Option<Picture>, Error> {
    let Some(scene) = scene(run) else { return Ok(None) };
    font()?;
    let mut svg = String::new();
    paint(&scene, SVGBackend::with_string(&mut svg, SIZE))?;
    let mut pixels = vec![255; SIZE.0 as usize * SIZE.1 as usize * 3];
    paint(&scene, BitMapBackend::with_buffer(&mut pixels, SIZE))?;
    let png = png::encode(&pixels, SIZE.0, SIZE.1).map_err(failed)?;
    Ok(Some(Picture { svg, png }))
}

fn scene(run: &Run) -> Option<Scene> {
    let curves = series(&run.memory);
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let seconds = points()
        .map(|(at, _)| *at)
        .filter(|at| at.is_finite())
        .fold(None, |most: Option<f64>, at| Some(most.map_or(at, |most| most.max(at))))?;
    let most = points().map(|(_, bytes)| *bytes).max()?;
    // A limit far above everything would flatten the curves.
    let limit = memory::group_limit(run).filter(|limit| *limit <= most.saturating_mul(4));
    let steps = run.components.iter().flat_map(|component| beside(run, component));
    let mut steps: Vec<f64> = steps.filter(|beside| beside.step.is_some()).map(|beside| beside.at_seconds).collect();
    // Too many lines would hide the curves.
    let every = steps.len().div_ceil(MAX_PLOT_MARKS).max(1);
    steps = steps.into_iter().step_by(every).collect();
    let title = format!("Memory by kind: {}", crate::run::shorten(&run.name));
    Some(Scene {
        title,
        curves,
        steps,
        limit,
        seconds: seconds.max(0.001),
        bytes: limit.map_or(most, |limit| limit.max(most)).max(1),
    })
}

/// At most the allowed number of points: the largest of each piece, where it was.
fn thinned(points: &[(f64, u64)]) -> Vec<(f64, u64)> {
    let piece = points.len().div_ceil(MAX_PLOT_POINTS).max(1);
    let largest = |piece: &[(f64, u64)]| piece.iter().copied().reduce(|best, next| if next.1 > best.1 { next } else { best });
    points.chunks(piece).filter_map(largest).collect()
}

fn paint<B: DrawingBackend>(scene: &Scene, backend: B) -> Result<(), Error>
where
    B::ErrorType: 'static,
{
    let (unit, scale) = if scene.bytes >= GIB { ("GiB", GIB) } else { ("MiB", MIB) };
    let scaled = |bytes: u64| bytes as f64 / scale as f64;
    let root = backend.into_drawing_area();
    root.fill(&WHITE).map_err(failed)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(&scene.title, (FONT, 24))
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(84)
        .build_cartesian_2d(0.0..scene.seconds * 1.02, 0.0..scaled(scene.bytes) * 1.08)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc("seconds since the recorder's start; grey lines: journal records of steps")
        .y_desc(format!("{unit}, sampled"))
        .label_style((FONT, 15))
        .axis_desc_style((FONT, 15))
        .draw()
        .map_err(failed)?;
    let top = scaled(scene.bytes) * 1.08;
    for at in &scene.steps {
        let line = PathElement::new(vec![(*at, 0.0), (*at, top)], STEP);
        chart.draw_series(std::iter::once(line)).map_err(failed)?;
    }
    for (curve, colour) in scene.curves.iter().zip(COLOURS.iter().cycle()) {
        let points = thinned(&curve.points).into_iter().map(|(at, bytes)| (at, scaled(bytes)));
        let drawn = chart.draw_series(LineSeries::new(points, colour.stroke_width(2))).map_err(failed)?;
        let swatch = *colour;
        drawn.label(&curve.name).legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], swatch.stroke_width(3)));
    }
    if let Some(limit) = scene.limit {
        let line = [(0.0, scaled(limit)), (scene.seconds * 1.02, scaled(limit))];
        let drawn = chart.draw_series(LineSeries::new(line, LIMIT.stroke_width(1))).map_err(failed)?;
        drawn
            .label("limit of the control group")
            .legend(|(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], LIMIT.stroke_width(1)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.85))
        .border_style(STEP)
        .label_font((FONT, 15))
        .draw()
        .map_err(failed)?;
    root.present().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::memory_series::tests::sample;

    fn run() -> Run {
        let samples = (0..50_u64).map(|at| sample(at as f64 * 0.1, Some((at + 1) << 20), "rss_process_tree"));
        Run { name: "runs/<a>".into(), memory: samples.collect(), ..Run::default() }
    }

    #[test]
    fn a_picture_names_its_curves_and_is_the_same_each_time() {
        let first = draw(&run()).expect("drawn").expect("samples");
        assert!(first.svg.contains("processes (rss_process_tree)") && first.svg.contains("MiB, sampled"), "{}", first.svg);
        assert!(first.svg.contains("&lt;a&gt;") && !first.svg.contains("<a>"), "names are escaped");
        assert!(first.png.starts_with(b"\x89PNG") && first.png.len() > 5_000);
        assert_eq!(draw(&run()).expect("drawn"), Some(first));
        assert_eq!(draw(&Run::default()).expect("nothing to draw"), None);
    }

    #[test]
    fn thinning_keeps_the_peak() {
        let mut points: Vec<(f64, u64)> = (0..MAX_PLOT_POINTS * 3 + 1).map(|at| (at as f64, 5)).collect();
        points[777].1 = 99;
        let thin = thinned(&points);
        assert!(thin.len() <= MAX_PLOT_POINTS && thin.contains(&(777.0, 99)));
        assert_eq!(thinned(&points[..3]), points[..3]);
    }
}
