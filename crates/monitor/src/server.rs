//! Connections and routes.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::Bytes;
use foreread_engine::{Engine, Observer};
use futures::stream;
use http::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, REFERRER_POLICY};
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use thiserror::Error as ThisError;
use tokio::net::TcpListener;

use crate::access::Access;
use crate::exposition::{self, Scrape};
use crate::snapshot::{self, Numbers};

/// What is served, and which requests are answered.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Where it listens. Port 0: a free one.
    pub address: SocketAddr,
    /// Requests have to give it. Without, only the loopback is listened on.
    pub token: Option<String>,
    /// Whether the page has the names of objects; otherwise they have numbers.
    pub names: bool,
    /// What the page is about, for its head.
    pub title: String,
}

impl Options {
    /// At `address`, without a token and without names.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, token: None, names: false, title: String::new() }
    }
}

/// Why nothing is served.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// Other machines can reach the address, and nothing is asked of them.
    #[error("{address} can be reached from other machines, and no token is asked for")]
    NeedsToken {
        /// The address.
        address: SocketAddr,
    },
    /// A token that is easily guessed.
    #[error("the token has less than 16 letters, or some that a URL cannot have")]
    WeakToken,
    /// The address cannot be listened on.
    #[error("{address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
}

/// A server that has its address and answers nothing yet.
#[derive(Debug)]
pub struct Monitor {
    listener: std::net::TcpListener,
    address: SocketAddr,
    options: Options,
}

impl Monitor {
    /// Takes the address.
    pub fn bind(options: Options) -> Result<Self, Error> {
        let address = options.address;
        let is_written = |letter: u8| letter.is_ascii_alphanumeric() || b"-._~".contains(&letter);
        match &options.token {
            None if !address.ip().is_loopback() => return Err(Error::NeedsToken { address }),
            Some(token) if token.len() < TOKEN_MIN || !token.bytes().all(is_written) => return Err(Error::WeakToken),
            _ => {}
        }
        let listen = |address| {
            let listener = std::net::TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok((listener.local_addr()?, listener))
        };
        let (address, listener) = listen(address).map_err(|source| Error::Listen { address, source })?;
        Ok(Self { listener, address, options })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers from now on, on the runtime of `engine`, until that is gone. Does not keep it.
    pub fn serve(self, engine: &Engine) -> io::Result<()> {
        let Options { token, names, title, .. } = self.options;
        let state = Arc::new(State {
            observer: engine.observer(),
            access: Access::new(self.address, token),
            numbers: (!names).then(Numbers::default),
            title,
            watchers: AtomicUsize::new(0),
        });
        let entered = engine.runtime().enter();
        let listener = TcpListener::from_std(self.listener)?;
        drop(entered);
        engine.survive_later("the metrics", accept(listener, state));
        Ok(())
    }
}

struct State {
    observer: Observer,
    access: Access,
    numbers: Option<Numbers>,
    title: String,
    /// Pages that are open.
    watchers: AtomicUsize,
}

type Body = BoxBody<Bytes, Infallible>;

async fn accept(listener: TcpListener, state: Arc<State>) {
    loop {
        match listener.accept().await {
            Ok((socket, _)) => {
                let state = Arc::clone(&state);
                let service = service_fn(move |request| {
                    let answer = answer(&state, &request);
                    async { Ok::<_, Infallible>(answer) }
                });
                let mut server = http1::Builder::new();
                server.timer(TokioTimer::new()).header_read_timeout(Some(HEAD_MAX));
                tokio::spawn(async move {
                    if let Err(error) = server.serve_connection(TokioIo::new(socket), service).await {
                        tracing::debug!(%error, "a connection for metrics ended badly");
                    }
                });
            }
            Err(error) => {
                // Most likely out of descriptors: others may be closed meanwhile.
                tracing::warn!(%error, "no connection for metrics");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

fn answer(state: &Arc<State>, request: &Request<Incoming>) -> Response<Body> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    // Whether the process lives is no secret, and probes have no token.
    if request.uri().path() == "/healthz" {
        return plain(StatusCode::OK, "ok\n");
    }
    match state.access.refuses(request.uri(), request.headers()) {
        Some(StatusCode::UNAUTHORIZED) => {
            return plain(
                StatusCode::UNAUTHORIZED,
                "a token is needed: `Authorization: Bearer TOKEN`, or ?token=TOKEN\n",
            );
        }
        Some(status) => return plain(status, "ask by the address, or as localhost\n"),
        None => {}
    }
    match request.uri().path() {
        "/" => page(state),
        "/page.css" => full(StatusCode::OK, "text/css; charset=utf-8", STYLE),
        "/page.js" => full(StatusCode::OK, "text/javascript; charset=utf-8", SCRIPT),
        "/metrics" => metrics(state, request),
        "/snapshot" => match told(state, 0) {
            Some((text, _)) => full(StatusCode::OK, "application/json", text),
            None => gone(),
        },
        "/events" => events(state),
        _ => plain(StatusCode::NOT_FOUND, "there are /, /metrics, /snapshot, /events and /healthz\n"),
    }
}

fn page(state: &State) -> Response<Body> {
    let title = state.title.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    full(StatusCode::OK, "text/html; charset=utf-8", PAGE.replace("{title}", &title))
}

fn metrics(state: &State, request: &Request<Incoming>) -> Response<Body> {
    let accepted = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let observer = &state.observer;
    let (Some(counted), Some(latencies), Some(link), Some(streams)) =
        (observer.stats(), observer.latencies(), observer.link(), observer.streams())
    else {
        return gone();
    };
    match exposition::text(Scrape { stats: counted, latencies, link, streams: streams as u64 }) {
        Ok(text) if accepted.contains("application/openmetrics-text") => {
            full(StatusCode::OK, exposition::OPEN_METRICS, text)
        }
        Ok(text) => full(StatusCode::OK, exposition::PLAIN, exposition::plain(&text)),
        Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "the metrics have no text\n"),
    }
}

/// A snapshot, with what was wasted since then; and when it was taken, by the same clock.
fn told(state: &State, since_us: u64) -> Option<(String, u64)> {
    let snapshot = snapshot::take(&state.observer, state.numbers.as_ref(), since_us)?;
    Some((serde_json::to_string(&snapshot).ok()?, snapshot.detail.now_us))
}

/// A snapshot a second, for as long as the page is open and the engine is there.
fn events(state: &Arc<State>) -> Response<Body> {
    let Some(watcher) = Watcher::new(state) else {
        return plain(StatusCode::TOO_MANY_REQUESTS, "too many pages are open\n");
    };
    let events = stream::unfold((watcher, None), |(watcher, before)| async move {
        if before.is_some() {
            tokio::time::sleep(INTERVAL).await;
        }
        let (text, now_us) = told(&watcher.0, before.unwrap_or(0))?;
        let event = Bytes::from(format!("data: {text}\n\n"));
        Some((Ok::<_, Infallible>(Frame::data(event)), (watcher, Some(now_us))))
    });
    respond(StatusCode::OK, "text/event-stream", BodyExt::boxed(StreamBody::new(events)))
}

/// An open page, counted.
struct Watcher(Arc<State>);

impl Watcher {
    fn new(state: &Arc<State>) -> Option<Self> {
        let watcher = Self(Arc::clone(state));
        (state.watchers.fetch_add(1, Relaxed) < WATCHERS_MAX).then_some(watcher)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.0.watchers.fetch_sub(1, Relaxed);
    }
}

fn gone() -> Response<Body> {
    plain(StatusCode::SERVICE_UNAVAILABLE, "the engine has ended\n")
}

fn plain(status: StatusCode, text: &'static str) -> Response<Body> {
    full(status, "text/plain; charset=utf-8", text)
}

fn full(status: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> Response<Body> {
    respond(status, kind, Full::new(text.into()).boxed())
}

fn respond(status: StatusCode, kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}

const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

/// What the page may do: load its own parts, and ask this server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Time between two events of a page. Lower: more work while it is open. Higher: it shows less.
/// Source: a guess: what eyes follow.
const INTERVAL: Duration = Duration::from_secs(1);

/// How long a client may take for the head of a request. Source: a guess.
const HEAD_MAX: Duration = Duration::from_secs(10);

/// How long no connection is taken after one could not be. Source: a guess.
const PAUSE: Duration = Duration::from_millis(100);

/// Pages that may be open at a time. Lower: colleagues do not see it. Higher: each costs a look a
/// second. Source: a guess: a hundredth of a core for all of them.
const WATCHERS_MAX: usize = 8;

/// Letters of a token at least. Source: 16 of 64 letters are 96 bits.
const TOKEN_MIN: usize = 16;
