//! A run as one page of HTML that needs no network: the run as JSON, and a script that draws it. Never how
//! a run is measured, or what its page looks like: the script's modules are in `web/`, over the web UI's
//! views, and `page.js` is where they start.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use crate::result::{Metric, Run};

/// The modules of the script, each behind those that it uses. `import` and `export` begin lines, and no two
/// modules have a name in common: without those words they are one script.
const MODULES: [&str; 5] = [
    include_str!("../web/numbers.js"),
    include_str!("../web/figures.js"),
    include_str!("../web/charts.js"),
    include_str!("../web/page.js"),
    include_str!("../web/main.js"),
];
/// The page around them. Nothing is loaded from anywhere, whatever a broker's name or words contain.
const PAGE: &str = include_str!("../web/page.html");

/// The page: one file that needs no network.
pub fn html(run: &Run) -> anyhow::Result<String> {
    let page = PAGE.replace("%STYLE%", include_str!("../web/style.css"));
    Ok(page.replace("%SCRIPT%", &script()).replace("%DATA%", &data(run)?))
}

/// The run with the words of its metrics, and of each cell the sample that is drawn over time. No text in it
/// can end the element that it stands in.
fn data(run: &Run) -> anyhow::Result<String> {
    let mut run = run.clone();
    let cells = run.scenarios.iter_mut().flat_map(|it| &mut it.rows).flat_map(|it| &mut it.cells);
    cells.for_each(|cell| cell.samples.truncate(1));
    let metrics = Metric::ALL.iter().map(|metric| (*metric, words(*metric))).collect();
    Ok(serde_json::to_string(&Data { run, metrics })?.replace('<', "\\u003c"))
}

#[derive(Serialize)]
struct Data {
    #[serde(flatten)]
    run: Run,
    metrics: BTreeMap<Metric, Value>,
}

fn words(metric: Metric) -> Value {
    json!({
        "name": metric,
        "unit": metric.unit(),
        "noun": metric.noun(),
        "button": metric.button(),
        "absent": metric.absent(),
        "is_higher_better": metric.is_higher_better(),
    })
}

fn script() -> String {
    let views = ui::file("dom.js").map(|file| file.bytes).unwrap_or_default();
    let views = String::from_utf8_lossy(&views);
    let lines = [&*views].into_iter().chain(MODULES).flat_map(str::lines);
    let lines = lines.filter(|line| !line.starts_with("import "));
    let lines = std::iter::once("'use strict';").chain(lines);
    lines.flat_map(|line| [line.strip_prefix("export ").unwrap_or(line), "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Machine, SCHEMA};

    fn run(text: &str) -> Run {
        let text = || text.to_owned();
        Run {
            schema: SCHEMA,
            tool_version: text(),
            started_at: text(),
            seconds: f64::NAN,
            command: text(),
            scale: 1.0,
            repeats: 1,
            baseline: text(),
            machine: Machine { cpu: text(), ..Machine::default() },
            warnings: vec![text()],
            targets: Vec::new(),
            scenarios: Vec::new(),
        }
    }

    #[test]
    fn nothing_that_a_broker_or_a_machine_says_becomes_markup() {
        let evil =
            "</title></script><!--<script>alert(1)</script>\"'><img src=x onerror=alert(1)>&\0";
        let page = html(&run(evil)).unwrap();
        assert!(!page.contains("<img") && !page.contains("<!--"));
        assert_eq!((page.matches("<script").count(), page.matches("</script").count()), (2, 2));
        let (_, data) = page.split_once("id=\"run-data\">").unwrap();
        let data: Value = serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap();
        assert_eq!(data["command"], evil);
        assert_eq!(data["metrics"]["per_cpu_second"]["noun"], "messages per CPU-second");
    }

    #[test]
    fn nothing_is_loaded_from_anywhere() {
        let page = html(&run("")).unwrap();
        assert!(
            page.contains("content=\"default-src 'none'; style-src 'unsafe-inline'; "),
            "{page}"
        );
        for loads in
            ["https:", "url(", "@import", "import ", "import(", "fetch(", "XMLHttp", " src="]
        {
            assert!(!page.contains(loads), "{loads}");
        }
    }

    #[test]
    fn modules_have_no_name_in_common_and_are_whole() {
        let script = script();
        let name = |line: &str| {
            let words = ["const ", "let ", "function ", "class "];
            let rest = words.into_iter().find_map(|word| line.strip_prefix(word))?;
            rest.split(|it: char| !it.is_alphanumeric() && it != '_').next().map(str::to_owned)
        };
        let mut names: Vec<String> = script.lines().filter_map(name).collect();
        let n = names.len();
        names.sort();
        names.dedup();
        assert!(n > 80 && names.len() == n, "{n} names, {} different ones", names.len());
        assert!(["h", "page", "text", "axisOf"].iter().all(|it| names.contains(&(*it).to_owned())));
        assert!(!script.contains("export ") && !script.contains("</script"));
    }
}
