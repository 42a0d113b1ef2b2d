//! What changed since an earlier run: figures of two runs' JSON, side by side where they differ.
//!
//! ```text
//!   base.json (an earlier --json)  ┐
//!                                  ├─ by workload, policy and figure ──> the lines that differ
//!   this run's JSON                ┘
//! ```
//!
//! A run is deterministic: any difference comes from the code, the workload or the device. So
//! equal figures are not shown, however close the others are. Nothing is judged here; `--check`
//! does that.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use foreread_workload::Metric;
use serde_json::Value;

use crate::terminal::figures;

/// The figures of a run, by workload, policy and key.
type Figures = BTreeMap<(String, String), BTreeMap<String, f64>>;

/// One line for each figure that differs, and one for each run that only one side has. `None`
/// unless `base` is the JSON of `foreread simulate --json`.
pub(super) fn changes(base: &Value, now: &Value) -> Option<String> {
    // A number that is written and read again can differ in its last bit: both sides are read.
    let now: Value = serde_json::from_str(&now.to_string()).ok()?;
    let (base, now) = (figures_of(base)?, figures_of(&now)?);
    let mut text = String::new();
    for (run @ (workload, policy), figures) in &now {
        let Some(before) = base.get(run) else {
            let _ = writeln!(text, "{workload}, {policy}: not in the base");
            continue;
        };
        for metric in Metric::ALL {
            let (was, is) = (before.get(metric.key()).copied(), figures.get(metric.key()).copied());
            if was != is {
                let change = was.zip(is).filter(|(was, _)| *was != 0.0).map(|(was, is)| (is / was - 1.0) * 100.0);
                let change = change.map_or_else(String::new, |percent| format!("  ({percent:+.1} %)"));
                let (was, is) = (figures::shown(*metric, was), figures::shown(*metric, is));
                let _ = writeln!(text, "{workload}, {policy}: {} {was} -> {is}{change}", figures::name(*metric));
            }
        }
    }
    let _ = writeln!(text, "{} runs compared", now.keys().filter(|run| base.contains_key(run)).count());
    Some(text)
}

fn figures_of(json: &Value) -> Option<Figures> {
    let mut found = Figures::new();
    for row in json.as_array()? {
        let (name, threads) = (row.get("workload")?.get("name")?.as_str()?, row.get("workload")?.get("threads")?);
        let workload = format!("{name} with {threads} threads");
        for column in row.get("policies")?.as_array()? {
            let policy = column.get("policy")?.as_str()?.to_owned();
            let figures = column.get("figures")?.as_object()?;
            let figures = figures.iter().filter_map(|(key, value)| Some((key.clone(), value.as_f64()?))).collect();
            found.insert((workload.clone(), policy), figures);
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(throughput: f64) -> Value {
        json!([{"workload": {"name": "w", "threads": 2}, "policies": [{"policy": "foreread", "figures": {"throughput": throughput, "amp": 1.0}}]}])
    }

    #[test]
    fn only_figures_that_differ_are_shown() {
        assert_eq!(changes(&run(1e8), &run(1e8)).as_deref(), Some("1 runs compared\n"));
        let text = changes(&run(1e8), &run(1.1e8)).expect("figures");
        assert!(text.contains("w with 2 threads, foreread: throughput ") && text.contains("(+10.0 %)"), "{text}");
        assert!(!text.contains("amp"), "{text}");
    }

    #[test]
    fn another_file_is_no_base() {
        assert_eq!(changes(&json!({"figures": 1}), &run(1.0)), None);
        assert!(
            changes(&json!([]), &run(1.0)).expect("figures").contains("w with 2 threads, foreread: not in the base")
        );
    }
}
