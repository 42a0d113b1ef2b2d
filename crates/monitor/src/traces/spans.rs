//! A slow read as spans: one of the read, and below it one of each request with its parts.

use std::time::SystemTime;

use foreread_engine::{SlowCause, SlowRead, SlowRequest};
use opentelemetry::trace::{Span, SpanBuilder, SpanKind, Status, TraceContextExt, Tracer};
use opentelemetry::{Context, KeyValue};

/// Hands the spans of `read` to `tracer`.
pub(super) fn of<T: Tracer>(tracer: &T, read: &SlowRead)
where
    T::Span: Send + Sync + 'static,
{
    let end = read.began + read.waited;
    let mut attributes = vec![
        KeyValue::new("foreread.file", read.key.clone()),
        KeyValue::new("foreread.offset", number(read.offset)),
        KeyValue::new("foreread.length", number(read.len as u64)),
        KeyValue::new("foreread.cause", read.cause.to_string()),
    ];
    if read.left_out > 0 {
        attributes.push(KeyValue::new("foreread.left_out", number(read.left_out)));
    }
    let mut span = started(tracer, &Context::new(), "read", read.began, attributes);
    if let SlowCause::Failed(error) = &read.cause {
        span.set_status(Status::error(error.clone()));
    }
    let context = Context::new().with_span(span);
    for request in &read.requests {
        requested(tracer, &context, request, end);
    }
    context.span().end_with_timestamp(end);
}

fn requested<T: Tracer>(tracer: &T, read: &Context, request: &SlowRequest, end: SystemTime)
where
    T::Span: Send + Sync + 'static,
{
    let SlowRequest { bytes, made, asked, answered, attempts, is_of_cache, is_hedged, .. } = request;
    let attributes = vec![
        KeyValue::new("foreread.source", if *is_of_cache { "cache" } else { "storage" }),
        KeyValue::new("foreread.offset", number(bytes.start)),
        KeyValue::new("foreread.length", number(bytes.end - bytes.start)),
        KeyValue::new("foreread.attempts", i64::from(*attempts)),
        KeyValue::new("foreread.hedged", *is_hedged),
    ];
    let context = read.with_span(started(tracer, read, "request", *made, attributes));
    for (name, from, to) in [("turn", *made, *asked), ("first byte", *asked, *answered), ("bytes", *answered, end)] {
        if to > from {
            started(tracer, &context, name, from, Vec::new()).end_with_timestamp(to);
        }
    }
    context.span().end_with_timestamp(end);
}

fn started<T: Tracer>(
    tracer: &T,
    parent: &Context,
    name: &'static str,
    at: SystemTime,
    attributes: Vec<KeyValue>,
) -> T::Span {
    let span = SpanBuilder::from_name(name).with_kind(SpanKind::Internal).with_start_time(at);
    tracer.build_with_context(span.with_attributes(attributes), parent)
}

fn number(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
