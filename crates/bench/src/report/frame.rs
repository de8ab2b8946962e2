//! The frame of a chart with two axes. Lengths across are shares of the width and lengths upward are
//! pixels, so that a chart fits any width without its text becoming small.

use crate::report::axis::Axis;
use crate::report::bars::upright;
use crate::report::markup::Markup;
use crate::report::number::{percent, tick_text};
use crate::result::Unit;

/// Height of the area between the axes.
const HEIGHT_PX: f64 = 230.0;
/// Between two names at the ends of lines.
const NAME_PX: f64 = 17.0;
/// Share of the width that each value at the lower axis needs, on a wide and a narrow screen.
const TICK_SHARE: f64 = 0.06;
const TICK_SHARE_NARROW: f64 = 0.13;

/// The frame around a drawing: heading and axes.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) heading: Option<String>,
    pub(crate) y: &'a Axis,
    pub(crate) y_unit: Unit,
    /// The ticks of the lower axis: shares of the width, and texts.
    pub(crate) x_ticks: &'a [(f64, String)],
    pub(crate) x_name: &'a str,
    /// The labels at the right end of lines.
    pub(crate) ends: Vec<End<'a>>,
}

/// A name at the end of a line.
#[derive(Clone, Debug)]
pub(crate) struct End<'a> {
    pub(crate) text: &'a str,
    pub(crate) class: &'a str,
    /// The end of the line.
    pub(crate) y_px: f64,
}

/// The distance of a value from the upper edge.
pub(crate) fn y_px(axis: &Axis, value: f64) -> f64 {
    ((1.0 - axis.at(value)) * HEIGHT_PX * 10.0).round() / 10.0
}

/// Several charts beside each other with one name of their upright axis.
pub(crate) fn draw_panels(
    out: &mut Markup,
    n: usize,
    y_name: &str,
    inside: impl FnOnce(&mut Markup),
) {
    let class = match n {
        0 | 1 => "panels one",
        2 | 4 => "panels two",
        _ => "panels",
    };
    out.element("div").class("y-name").text(y_name);
    out.element("div").class(class).with(inside);
}

impl Frame<'_> {
    /// The frame with what `draw` puts into it: first in coordinates of 0 to 100 across (for lines
    /// and areas only, as this stretches), then in percent of the width.
    pub(crate) fn draw(
        self,
        out: &mut Markup,
        stretched: impl FnOnce(&mut Markup),
        placed: impl FnOnce(&mut Markup),
    ) {
        let class = if self.ends.is_empty() { "frame" } else { "frame with-ends" };
        let group = out.element("div").class(class).attr("data-stops", "").attr("role", "group");
        let label = self.heading.as_deref().unwrap_or("chart").to_owned();
        group.attr("aria-label", label).with(|out| {
            if let Some(heading) = &self.heading {
                out.element("div").class("frame-heading").text(heading);
            }
            self.y_labels(out);
            let svg = out.element("svg").class("plot").attr("height", HEIGHT_PX);
            svg.with(|out| {
                self.grid(out);
                let inner = out.element("svg").class("stretch").attr("preserveAspectRatio", "none");
                let inner = inner.attr("viewBox", format_args!("0 0 100 {HEIGHT_PX}"));
                inner.attr("width", "100%").attr("height", HEIGHT_PX).with(stretched);
                placed(out);
            });
            self.end_names(out);
            self.x_labels(out);
            out.element("div").class("x-name").text(self.x_name);
        });
    }

    fn y_labels(&self, out: &mut Markup) {
        let svg = out.element("svg").class("y-labels").attr("height", HEIGHT_PX);
        svg.attr("aria-hidden", "true").with(|out| {
            for tick in &self.y.ticks {
                let label = out.element("text").attr("x", "100%").attr("dx", -7);
                label.attr("y", y_px(self.y, *tick) + 4.0).text(tick_text(*tick, self.y_unit));
            }
        });
    }

    fn grid(&self, out: &mut Markup) {
        for tick in &self.y.ticks {
            let y = y_px(self.y, *tick);
            let line = out.element("line").class("grid").attr("x2", "100%");
            line.attr("y1", y).attr("y2", y).void();
        }
        for (share, _) in self.x_ticks {
            upright(out, "grid", *share, HEIGHT_PX, HEIGHT_PX + 4.0);
        }
    }

    fn x_labels(&self, out: &mut Markup) {
        let svg = out.element("svg").class("x-labels").attr("height", 22);
        svg.attr("aria-hidden", "true").with(|out| {
            let wide = if self.ends.is_empty() { TICK_SHARE_NARROW } else { TICK_SHARE };
            let narrow = thinned(self.x_ticks, TICK_SHARE_NARROW);
            for (share, label) in thinned(self.x_ticks, wide) {
                let is_narrow = narrow.iter().any(|(other, _)| *other == share);
                let class = if is_narrow { "tick" } else { "tick if-wide" };
                let text = out.element("text").class(class).attr("x", percent(share));
                text.attr("y", 16).text(label);
            }
        });
    }

    fn end_names(&self, out: &mut Markup) {
        let mut ends = self.ends.clone();
        ends.sort_by(|a, b| a.y_px.total_cmp(&b.y_px));
        let mut above = f64::NEG_INFINITY;
        for end in &mut ends {
            end.y_px = end.y_px.max(above + NAME_PX);
            above = end.y_px;
        }
        let mut below = HEIGHT_PX + NAME_PX;
        for end in ends.iter_mut().rev() {
            end.y_px = end.y_px.min(below - NAME_PX);
            below = end.y_px;
        }
        out.element("div").class("ends").with(|out| {
            for End { text, class, y_px } in &ends {
                let name = out.element("div").class(class);
                name.attr("style", format_args!("top:{y_px:.1}px")).text(text);
            }
        });
    }
}

/// The ticks that leave each other a share of the width.
fn thinned(ticks: &[(f64, String)], room: f64) -> Vec<(f64, &str)> {
    let mut kept: Vec<(f64, &str)> = Vec::new();
    for (share, label) in ticks.iter().rev() {
        if kept.last().is_none_or(|(last, _)| last - share >= room) {
            kept.push((*share, label));
        }
    }
    kept.reverse();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_at_line_ends_do_not_cover_each_other() {
        let axis = Axis::of([1.0], Unit::PerSecond, false);
        let end = |text, y_px| End { text, class: "c0", y_px };
        let ends = vec![end("low", 229.0), end("lower", 230.0), end("high", 3.0)];
        let x_ticks = [(0.0, "1".to_owned()), (0.01, "2".to_owned()), (0.5, "50".to_owned())];
        let frame = Frame {
            heading: None,
            y: &axis,
            y_unit: Unit::PerSecond,
            x_ticks: &x_ticks,
            x_name: "queues",
            ends,
        };
        let mut out = Markup::default();
        frame.draw(&mut out, |_| {}, |_| {});
        let html = out.finish();
        for expected in [
            r#"<div class="c0" style="top:3.0px">high</div>"#,
            r#"<div class="c0" style="top:213.0px">low</div>"#,
            r#"<div class="c0" style="top:230.0px">lower</div>"#,
            r#"aria-hidden="true"><text class="tick" x="1%" y="16">2</text><text class="tick" x="50%""#,
        ] {
            assert!(html.contains(expected), "{expected} in {html}");
        }
    }
}
