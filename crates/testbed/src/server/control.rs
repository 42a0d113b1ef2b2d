//! The control API under `/-/`: tests and users inspect and change a running testbed with it. See
//! the crate's page.

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Response, StatusCode};
use serde::{Deserialize, Serialize};

use super::body::Body;
use super::state::State;
use crate::{Error, Fault, ObjectSpec};

/// Where the control API begins in the URL.
pub(crate) const ROOT: &str = "/-/";

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany<T> {
    Many(Vec<T>),
    One(T),
}

impl<T> OneOrMany<T> {
    fn into_vec(self) -> Vec<T> {
        match self {
            Self::Many(many) => many,
            Self::One(one) => vec![one],
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ObjectName {
    key: String,
}

/// Answers a request to `name`, the part after [`ROOT`].
pub(crate) fn answer(state: &State, method: &Method, name: &str, body: &[u8]) -> Response<Body> {
    match (method, name) {
        (&Method::GET, "counters") => json(&state.accounts.counters()),
        (&Method::POST, "counters/reset") => {
            state.accounts.reset();
            done()
        }
        (&Method::GET, "requests") => json(&state.accounts.log()),
        (&Method::POST, "objects") if state.upstream.is_some() => wrong(&Error::Both.to_string()),
        (&Method::POST, "objects") => match serde_json::from_slice::<OneOrMany<ObjectSpec>>(body) {
            Ok(specs) => {
                for spec in specs.into_vec() {
                    state.objects.set(&spec);
                }
                done()
            }
            Err(error) => wrong(&format!("expected {{\"key\": ..., \"size\": ..., \"generation\": ...}}: {error}")),
        },
        (&Method::DELETE, "objects") => match serde_json::from_slice::<ObjectName>(body) {
            Ok(name) if state.objects.remove(&name.key) => done(),
            Ok(name) => text(StatusCode::NOT_FOUND, format!("there is no object {:?}\n", name.key)),
            Err(error) => wrong(&format!("expected {{\"key\": ...}}: {error}")),
        },
        (&Method::GET, "faults") => json(&state.faults.report()),
        (&Method::POST, "faults") => match read_faults(body) {
            Ok(faults) => {
                if let Some(fault) = state.impossible(&faults) {
                    return wrong(&Error::NotUpstream { fault: fault.to_string() }.to_string());
                }
                state.faults.set(faults);
                done()
            }
            Err(message) => wrong(&message),
        },
        (_, "counters" | "counters/reset" | "requests" | "objects" | "faults") => {
            text(StatusCode::METHOD_NOT_ALLOWED, format!("{method} is not for /-/{name}\n"))
        }
        _ => text(StatusCode::NOT_FOUND, format!("there is no /-/{name}\n")),
    }
}

fn read_faults(body: &[u8]) -> Result<Vec<Fault>, String> {
    let specs: OneOrMany<String> =
        serde_json::from_slice(body).map_err(|error| format!("expected a list of specs: {error}"))?;
    specs.into_vec().iter().map(|spec| spec.parse().map_err(|error| format!("{spec:?}: {error}"))).collect()
}

fn json(value: &impl Serialize) -> Response<Body> {
    match serde_json::to_vec(value) {
        Ok(bytes) => {
            let mut response = Response::new(Body::unpaced(bytes));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            response
        }
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

fn done() -> Response<Body> {
    text(StatusCode::NO_CONTENT, String::new())
}

fn wrong(message: &str) -> Response<Body> {
    text(StatusCode::BAD_REQUEST, format!("{message}\n"))
}

fn text(status: StatusCode, text: String) -> Response<Body> {
    let mut response = Response::new(Body::unpaced(text));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fuzz_control_input() {
        let seeds: [&[u8]; 4] = [
            br#"["status=503,every=10","reset"]"#,
            br#"[{"key":"a","size":"2GiB","generation":3},{"key":"b","size":5}]"#,
            br#"{"key":"a"}"#,
            br#"{"key":"a","size":18446744073709551615}"#,
        ];
        let words =
            ["\"key\":", "\"size\":", "\"generation\":", "{", "[", "]", "}", ",", "null", "\"1EiB\"", "\\u0000"];
        foreread_fuzz::fuzz("control input", &seeds, &words, |body| {
            let _ = read_faults(body);
            let _ = serde_json::from_slice::<ObjectName>(body);
            if let Ok(specs) = serde_json::from_slice::<OneOrMany<ObjectSpec>>(body) {
                let objects = crate::objects::Objects::new(&[], None).expect("no objects");
                for spec in specs.into_vec() {
                    objects.set(&spec);
                    assert!(objects.get(&spec.key).is_some(), "{:?}", spec.key);
                }
            }
        });
    }
}
