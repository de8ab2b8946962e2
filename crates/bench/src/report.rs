//! A run as one page of HTML that needs no network and no script to be read. Knows results. Never
//! how they are measured.
//!
//! [`html`] puts the page together from `summary`, a `scenario` each, and `details`. A scenario's
//! charts are `figure`s (one metric over rows), drawn by `bars`, `lines`, `heat`, `timeline`
//! and `table`; whatever they write goes through `markup`, which escapes it. The script only adds
//! values at the pointer and a switch of all charts at once.

mod axis;
mod bars;
mod captions;
mod details;
mod figure;
mod frame;
mod heat;
mod lines;
mod markup;
mod names;
mod number;
mod published;
mod scenario;
mod summary;
mod sweep;
mod table;
mod timeline;

#[cfg(test)]
mod tests;

use crate::result::Run;
use markup::Markup;

const STYLE: &str = include_str!("report/style.css");
const SCRIPT: &str = include_str!("report/script.js");
/// Nothing is loaded from anywhere, whatever a broker's name or words contain.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

/// The page: one file that needs no network.
pub fn html(run: &Run) -> String {
    let mut out = Markup::default();
    out.verbatim("<!doctype html>\n");
    out.element("html").attr("lang", "en").with(|out| {
        out.element("head").with(|out| draw_head(out, run));
        out.element("body").with(|out| {
            out.element("main").with(|out| {
                draw_title(out, run);
                summary::draw(out, run);
                for (at, scenario) in run.scenarios.iter().enumerate() {
                    scenario::draw(out, run, at, scenario);
                }
                details::draw_run(out, run);
            });
            out.element("script").with(|out| out.verbatim(SCRIPT));
        });
    });
    out.verbatim("\n");
    out.finish()
}

fn draw_head(out: &mut Markup, run: &Run) {
    out.element("meta").attr("charset", "utf-8").void();
    let policy = out.element("meta").attr("http-equiv", "Content-Security-Policy");
    policy.attr("content", POLICY).void();
    let viewport = out.element("meta").attr("name", "viewport");
    viewport.attr("content", "width=device-width, initial-scale=1").void();
    out.element("meta").attr("name", "color-scheme").attr("content", "light dark").void();
    out.element("title").text(format_args!("{}, {}", title(run), run.started_at));
    out.element("style").with(|out| out.verbatim(STYLE));
}

fn title(run: &Run) -> String {
    let names: Vec<String> = run.targets.iter().map(names::target).collect();
    match names.is_empty() {
        true => "leveret bench".to_owned(),
        false => names.join(", "),
    }
}

fn draw_title(out: &mut Markup, run: &Run) {
    out.element("header").with(|out| {
        out.element("p").class("kicker").text("leveret bench");
        out.element("h1").text(title(run));
        out.element("ul").class("legend").with(|out| {
            for (at, target) in run.targets.iter().enumerate() {
                let name = names::target(target);
                let item = out.element("li").class(format_args!("{} variant-0", names::colour(at)));
                item.with(|out| {
                    out.text(name);
                    out.element("small").text(format_args!(" {}", names::told(target)));
                });
            }
        });
        let machine = &run.machine;
        out.element("p").class("source").text(format_args!(
            "{} · {} cores of {} · {} · {} repeat{} at scale {}",
            run.started_at,
            machine.n_cores,
            machine.cpu,
            machine.kernel,
            run.repeats,
            if run.repeats == 1 { "" } else { "s" },
            number::short(run.scale)
        ));
        for warning in &run.warnings {
            out.element("p").class("warning").attr("role", "note").text(warning);
        }
        out.element("div").class("all-tabs").attr("hidden", "hidden").text("");
    });
}
