//! `foreread simulate --grid`: links, readers and budgets, and which part of the feasible
//! throughput policy reaches.

use std::fmt::Write as _;
use std::process::ExitCode;

use foreread_sim::grid::{Axes, Cell, Length, Order, Outcome};
use foreread_testbed::quantity;

use crate::failure::Failure;
use crate::parallel::on_all_cores;
use crate::terminal::output;
use crate::terminal::progress::Progress;

/// `AXIS=VALUE`, with commas: the values of these axes; the others keep all of theirs.
pub(super) fn axes(text: &str) -> Result<Axes, String> {
    let mut given = Axes {
        first_byte_ns: Vec::new(),
        connection_rate: Vec::new(),
        total_rate: Vec::new(),
        readers: Vec::new(),
        budget_bytes: Vec::new(),
        order: Vec::new(),
    };
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (axis, value) = part.split_once('=').ok_or_else(|| format!("{part:?} is not AXIS=VALUE; {KNOWN}"))?;
        let told = |error: quantity::QuantityError| error.to_string();
        match axis {
            "first-byte" => given.first_byte_ns.push(quantity::duration(value).map_err(told)?.as_nanos() as u64),
            "connection" => given.connection_rate.push(positive(quantity::rate(value).map_err(told)?, value)?),
            "total" => given.total_rate.push(positive(quantity::rate(value).map_err(told)?, value)?),
            "readers" => given.readers.push(
                value
                    .parse()
                    .ok()
                    .filter(|readers| (1..=READERS_MAX).contains(readers))
                    .ok_or_else(|| format!("{value:?} is no number of readers from 1 to {READERS_MAX}"))?,
            ),
            "budget" => given.budget_bytes.push(
                quantity::size(value)
                    .ok()
                    .filter(|bytes| *bytes >= BUDGET_MIN)
                    .ok_or_else(|| format!("{value:?} is no size of 1 MiB or more, such as 64MiB"))?,
            ),
            "order" => {
                given.order.push(Order::ALL.into_iter().find(|order| order.as_str() == value).ok_or_else(|| {
                    let known = Order::ALL.map(Order::as_str).join(", ");
                    format!("{value:?} is no order of reads; known: {known}")
                })?);
            }
            _ => return Err(format!("{axis:?} is no axis; {KNOWN}")),
        }
    }
    Ok(merged(given))
}

fn positive(rate: u64, text: &str) -> Result<u64, String> {
    if rate == 0 { Err(format!("{text:?} is no rate above 0")) } else { Ok(rate) }
}

/// The values that were given, and those of the whole grid for the other axes.
fn merged(given: Axes) -> Axes {
    fn or<T>(given: Vec<T>, all: Vec<T>) -> Vec<T> {
        if given.is_empty() { all } else { given }
    }
    let all = Axes::default();
    Axes {
        first_byte_ns: or(given.first_byte_ns, all.first_byte_ns),
        connection_rate: or(given.connection_rate, all.connection_rate),
        total_rate: or(given.total_rate, all.total_rate),
        readers: or(given.readers, all.readers),
        budget_bytes: or(given.budget_bytes, all.budget_bytes),
        order: or(given.order, all.order),
    }
}

/// Runs every cell, and reports those that miss what is wanted.
pub(super) fn run(axes: &Axes, json: bool, check: bool) -> Result<ExitCode, Failure> {
    let cells = axes.cells();
    let progress = Progress::spinner("simulating the grid");
    let outcomes = on_all_cores(&cells, |cell: &Cell| cell.run(Length::Full));
    drop(progress);
    let mut misses = Vec::new();
    for (cell, outcome) in cells.iter().zip(&outcomes) {
        match outcome {
            Ok(outcome) => misses.extend(outcome.misses().into_iter().map(|(what, is)| format!("{cell}: {what} {is}"))),
            Err(error) => misses.push(format!("{cell}: {}", told(error))),
        }
    }
    let outcomes: Vec<Outcome> = outcomes.into_iter().flatten().collect();
    if json {
        output::line(format_args!("{:#}", serde_json::json!({ "cells": outcomes, "misses": misses })))?;
    } else {
        output::print(format_args!("{}", table(&outcomes)))?;
    }
    Ok(if check && output::has_misses(&misses) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// An error with its causes.
fn told(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// A line a cell, and a summary.
fn table(outcomes: &[Outcome]) -> String {
    let mut text = String::from(HEAD);
    for outcome in outcomes {
        let Cell { first_byte_ns, connection_rate, total_rate, readers, budget_bytes, order } = outcome.cell;
        let ramp = |ramp: Option<f64>| ramp.map_or_else(|| "never".to_owned(), |ramp| format!("{ramp:.1}"));
        let none = outcome.of_none.map_or_else(String::new, |(rate, p99)| format!("{rate:.2} {p99:.2}"));
        let misses = outcome.misses().into_iter().map(|(what, _)| what).collect::<Vec<_>>().join(" ");
        let _ = writeln!(
            text,
            "{:>7.1} {:>6.0} {:>6.0} {readers:>7} {:>6} {:11} {:>8.0} {:7} {:>5.2} {none:>9} {:>6.3} {:>5.3} {:>4.0}% {:>5} {:>5} {:>8.1} {:>8}  {misses}",
            first_byte_ns as f64 / 1e6,
            connection_rate as f64 / 1e6,
            total_rate as f64 / 1e6,
            budget_bytes >> 20,
            order.as_str(),
            outcome.feasible.rate() / 1e6,
            outcome.feasible.limit(),
            outcome.of_feasible,
            outcome.amp,
            outcome.fairness,
            outcome.of_budget * 100.0,
            ramp(outcome.ramp),
            ramp(outcome.ramp_again),
            outcome.read_p99_ms,
            outcome.requests,
        );
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    let mut of_feasible: Vec<f64> = outcomes.iter().map(|outcome| outcome.of_feasible).collect();
    of_feasible.sort_unstable_by(f64::total_cmp);
    if let (Some(least), Some(median)) = (of_feasible.first(), of_feasible.get(of_feasible.len() / 2)) {
        let missed = outcomes.iter().filter(|outcome| !outcome.misses().is_empty()).count();
        let _ = writeln!(
            text,
            "{} cells, {missed} of them not as wanted; of feasible: least {least:.2}, median {median:.2}",
            outcomes.len()
        );
    }
    text
}

/// The head of the table: rates in MB/s, the first byte and p99 in ms, the budget in MiB, ramps in
/// round trips; `of none`: throughput and p99 over those without policy.
const HEAD: &str = "  first   conn  total readers budget order       feasible limit      of   of none    amp  fair  mem  ramp again      p99 requests  not as wanted\n";

/// The axes, for an error.
const KNOWN: &str = "axes: first-byte, connection, total, readers, budget, order";

/// The most readers of a cell. More take more memory than a simulation should.
const READERS_MAX: u32 = 65_536;

/// The smallest budget of a cell, in bytes.
const BUDGET_MIN: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_that_are_not_given_keep_all_their_values() {
        let all = Axes::default();
        assert_eq!(axes(""), Ok(all.clone()));
        let given = axes("first-byte=30ms,readers=16,readers=256,total=1GB/s,budget=64MiB,order=backward").unwrap();
        assert_eq!((given.first_byte_ns, given.readers), (vec![30_000_000], vec![16, 256]));
        assert_eq!((given.total_rate, given.budget_bytes), (vec![1_000_000_000], vec![64 << 20]));
        assert_eq!((given.order, given.connection_rate), (vec![Order::Backward], all.connection_rate));
    }

    #[test]
    fn what_is_no_axis_is_told() {
        for wrong in ["latency=1ms", "readers", "readers=0", "order=zigzag", "budget=1", "total=0", "first-byte=soon"] {
            assert!(axes(wrong).is_err(), "{wrong}");
        }
    }
}
