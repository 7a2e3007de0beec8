//! Draws a [`Report`]: attempts a second above, notices below, outages shaded, a mark for each alert.

use std::time::Duration;

use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use super::report::{Bucket, Report};

/// In pixels.
const SIZE: (u32, u32) = (1000, 700);
const FONT: &str = "sans-serif";
/// The line whose area is filled.
const RETRIES: &str = "retries";
/// Colours that people with red-green colour blindness can distinguish (Okabe and Ito).
const BLUE: RGBColor = RGBColor(0, 114, 178);
const ORANGE: RGBColor = RGBColor(213, 94, 0);
const GREEN: RGBColor = RGBColor(0, 158, 115);
const PURPLE: RGBColor = RGBColor(170, 80, 140);
const YELLOW: RGBColor = RGBColor(240, 228, 66);
const GREY: RGBColor = RGBColor(120, 120, 120);

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Chart<'c, 'a> = ChartContext<'c, SVGBackend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type Drawn<T = ()> = Result<T, DrawingAreaErrorKind<std::io::Error>>;

/// A line of a picture: its name, its colour, its values.
type Line<'n> = (&'n str, RGBColor, Vec<f64>);

impl Report {
    /// Returns a standalone SVG document of 1000 by 700 pixels. It shows the attempts per second, and the notices that are
    /// live, waiting or dead letters so far, over time. Outages are shaded, alerts marked. The same report makes the same
    /// bytes.
    pub fn to_svg(&self) -> String {
        let mut svg = String::new();
        if self.draw(&mut svg).is_err() {
            // Drawing into a string cannot fail; if it did, the picture would be incomplete.
            svg.push_str("</svg>\n");
        }
        svg
    }

    fn draw(&self, svg: &mut String) -> Drawn {
        let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        // A name may contain characters that XML does not allow.
        let name: String = self.definition.chars().filter(|c| !c.is_control()).take(60).collect();
        let totals = &self.totals;
        let title = format!(
            "{name}: {} notices, {} attempts, {} dead letters, {} alerts",
            totals.added,
            totals.attempts(),
            totals.dead_letters,
            totals.alerts
        );
        let root = root.titled(&title, (FONT, 22))?;
        let (above, below) = root.split_vertically(330);
        let seconds = self.bucket.as_secs_f64();
        let per_second = |count: fn(&Bucket) -> u64| {
            self.series.iter().map(move |bucket| count(bucket) as f64 / seconds).collect::<Vec<f64>>()
        };
        let level = |count: fn(&Bucket) -> u64| self.series.iter().map(|bucket| count(bucket) as f64).collect();
        let mut dead = 0;
        let dead_so_far = self.series.iter().map(|bucket| {
            dead += bucket.dead_letters;
            dead as f64
        });
        let attempts = [
            (RETRIES, ORANGE, per_second(|bucket| bucket.retries)),
            ("first sends", BLUE, per_second(|bucket| bucket.first_sends)),
            ("failures", PURPLE, per_second(|bucket| bucket.failures)),
        ];
        let notices = [
            ("live", BLUE, level(|bucket| bucket.live)),
            ("due, without a slot", GREEN, level(|bucket| bucket.waiting)),
            ("dead letters so far", BLACK, dead_so_far.collect()),
        ];
        self.chart(&above, "attempts per second", &attempts, true)?;
        self.chart(&below, "notices", &notices, false)?;
        root.present()
    }

    fn chart(&self, area: &Area<'_>, what: &str, lines: &[Line<'_>], with_alerts: bool) -> Drawn {
        let (unit, name) = unit(self.span());
        let right = self.span().as_secs_f64() / unit;
        let highest = lines.iter().flat_map(|(_, _, values)| values).copied().fold(0.0, f64::max);
        let top = if highest > 0.0 { highest * 1.1 } else { 1.0 };
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .margin_right(24)
            .x_label_area_size(42)
            .y_label_area_size(72)
            .build_cartesian_2d(0.0..right, 0.0..top)?;
        self.shade(&mut chart, unit, right, top)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.12))
            .x_labels(12)
            .y_labels(8)
            .x_desc(format!("time since the beginning, in {name}"))
            .y_desc(what)
            .label_style((FONT, 15))
            .axis_desc_style((FONT, 16))
            .x_label_formatter(&|x| number(*x))
            .y_label_formatter(&|y| number(*y))
            .draw()?;
        let length = self.bucket.as_secs_f64() / unit;
        for (name, color, values) in lines {
            let color = *color;
            let steps = steps(values, length, right);
            if *name == RETRIES {
                chart.draw_series(AreaSeries::new(steps.iter().copied(), 0.0, color.mix(0.35)))?;
            }
            chart
                .draw_series(LineSeries::new(steps, color.stroke_width(2)))?
                .label(*name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
        }
        if with_alerts && !self.alerts.is_empty() {
            let marks = self.alerts.iter().map(|sent| (sent.at.as_secs_f64() / unit, top * 0.97));
            let marks = marks.filter(|(x, _)| *x <= right).map(|at| TriangleMarker::new(at, 5, GREY.filled()));
            chart.draw_series(marks)?.label("alert").legend(|(x, y)| TriangleMarker::new((x + 9, y), 5, GREY.filled()));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK.mix(0.3))
            .label_font((FONT, 15))
            .draw()
    }

    /// Draws the outages, behind everything else.
    fn shade(&self, chart: &mut Chart<'_, '_>, unit: f64, right: f64, top: f64) -> Drawn {
        let style = YELLOW.mix(0.3).filled();
        let edge = |time: Duration| (time.as_secs_f64() / unit).min(right);
        let shown = self.outages.iter().filter(|outage| edge(outage.from) < right);
        let shades = shown.map(|outage| Rectangle::new([(edge(outage.from), 0.0), (edge(outage.end()), top)], style));
        let shades: Vec<_> = shades.collect();
        if !shades.is_empty() {
            chart
                .draw_series(shades)?
                .label("outage")
                .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 18, y + 5)], style));
        }
        Ok(())
    }

    /// Returns the time that is shown: all of the series.
    fn span(&self) -> Duration {
        self.bucket * u32::try_from(self.series.len().max(1)).unwrap_or(u32::MAX)
    }
}

/// Returns a line of steps, because a count applies to its whole piece.
fn steps(values: &[f64], length: f64, right: f64) -> Vec<(f64, f64)> {
    let corners = values.iter().enumerate().flat_map(|(index, value)| {
        let from = index as f64 * length;
        [(from, *value), ((from + length).min(right), *value)]
    });
    corners.collect()
}

/// Returns the unit for a time of this length: its seconds, and its name.
fn unit(span: Duration) -> (f64, &'static str) {
    match span.as_secs() {
        0..300 => (1.0, "seconds"),
        300..10_800 => (60.0, "minutes"),
        10_800..259_200 => (3600.0, "hours"),
        _ => (86_400.0, "days"),
    }
}

/// Formats a number of an axis, without trailing zeros.
fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
