//! A running testbed: accepts connections, and passes each request through fault, answer, device
//! and wire.

mod body;
mod control;
mod pacer;
mod state;
pub(crate) mod tls;
mod topic;
mod upstream;
mod wire;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use s3s::service::S3Service;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

use crate::answer::conditions::ByteRange;
use crate::answer::payload::Payload;
use crate::answer::{self, Answer, Chosen};
use crate::answer::{plain, s3};
use crate::counters::{Accounts, Entry, Kind};
use crate::fault::plan::FaultPlan;
use crate::objects::Objects;
use crate::{Config, Counters, Effect, Error, Fault, LoggedRequest, ObjectSpec};
use body::{Body, Course, Twist};
use pacer::{Pacer, Pass};
use state::State;
use topic::Topic;
use upstream::Upstream;
use wire::{Cut, Wire};

/// A testbed that is serving. It has its own threads and stops when it is dropped.
#[derive(Debug)]
pub struct Testbed {
    address: SocketAddr,
    secure: bool,
    state: Arc<State>,
    runtime: Option<Runtime>,
}

impl Testbed {
    /// Starts serving. When this returns, clients can connect. May be called on a task of another
    /// runtime.
    pub fn start(config: Config) -> Result<Self, Error> {
        let threads = |source| Error::Threads { source };
        let acceptor = config.tls.as_ref().map(tls::acceptor).transpose()?;
        let upstream = config.upstream.as_deref().map(Upstream::at).transpose()?;
        if upstream.is_some() && (config.dir.is_some() || !config.objects.is_empty()) {
            return Err(Error::Both);
        }
        let objects = Objects::new(&config.objects, config.dir.clone())
            .map_err(|source| Error::Directory { path: config.dir.clone().unwrap_or_default(), source })?;
        let objects = Arc::new(objects);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .thread_name("testbed")
            .enable_all()
            .build()
            .map_err(threads)?;
        let (listener, address) =
            listen(config.listen, &runtime).map_err(|source| Error::Listen { address: config.listen, source })?;
        let secure = acceptor.is_some();
        let state = Arc::new(State {
            s3: s3::service(&config, Arc::clone(&objects)),
            upstream,
            pacer: Pacer::start(config.device()).map_err(threads)?,
            accounts: Arc::new(Accounts::new(config.request_log)),
            faults: FaultPlan::new(config.faults.clone()),
            bucket: config.bucket,
            objects,
        });
        if let Some(fault) = state.impossible(&config.faults) {
            return Err(Error::NotUpstream { fault: fault.to_string() });
        }
        runtime.spawn(accept(listener, acceptor, Arc::clone(&state)));
        Ok(Self { address, secure, state, runtime: Some(runtime) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of its root: `http://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        format!("{}://{}", if self.secure { "https" } else { "http" }, self.address)
    }

    /// The counters so far.
    pub fn counters(&self) -> Counters {
        self.state.accounts.counters()
    }

    /// The last requests, oldest first.
    pub fn requests(&self) -> Vec<LoggedRequest> {
        self.state.accounts.log()
    }

    /// Starts counters and log from zero.
    pub fn reset_counters(&self) {
        self.state.accounts.reset();
    }

    /// Adds a synthetic object, or replaces what is under its key.
    pub fn set_object(&self, spec: &ObjectSpec) {
        self.state.objects.set(spec);
    }

    /// Removes an object; whether there was one.
    pub fn remove_object(&self, key: &str) -> bool {
        self.state.objects.remove(key)
    }

    /// Replaces the faults in force.
    pub fn set_faults(&self, faults: Vec<Fault>) {
        self.state.faults.set(faults);
    }

    /// Stops, and breaks every connection; when this returns, the port is free. Not for a task of
    /// some runtime, since it waits: there, drop the testbed.
    pub fn stop(mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(STOP_WAIT);
        }
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Waiting would be wrong where the owner is itself a task of some runtime.
            runtime.shutdown_background();
        }
    }
}

/// Listens from now on; the runtime will accept.
fn listen(address: SocketAddr, runtime: &Runtime) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let _context = runtime.enter();
    Ok((TcpListener::from_std(listener)?, address))
}

async fn accept(listener: TcpListener, acceptor: Option<TlsAcceptor>, state: Arc<State>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(converse(stream, acceptor.clone(), Arc::clone(&state)));
            }
            Err(error) => {
                // Most likely out of descriptors: others may be closed meanwhile.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves one connection until it ends.
async fn converse(stream: TcpStream, acceptor: Option<TlsAcceptor>, state: Arc<State>) {
    state.accounts.connected();
    // Heads must not wait for the acknowledgement of what was sent before.
    let _ = stream.set_nodelay(true);
    let cut = Cut::default();
    let wire = match acceptor {
        None => Wire::plain(stream, cut.clone()),
        Some(acceptor) => match acceptor.accept(stream).await {
            Ok(stream) => Wire::tls(stream, cut.clone()),
            Err(error) => {
                tracing::debug!(%error, "no TLS with this client");
                return;
            }
        },
    };
    let service = service_fn(|request| serve(Arc::clone(&state), cut.clone(), request));
    let connection = http1::Builder::new().header_read_timeout(None).serve_connection(TokioIo::new(wire), service);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection ended badly");
    }
}

/// Serves one request; an error breaks the connection.
async fn serve(state: Arc<State>, cut: Cut, request: Request<Incoming>) -> io::Result<Response<Body>> {
    let path = request.uri().path();
    if let Some(name) = path.strip_prefix(control::ROOT) {
        let name = name.to_owned();
        let (parts, body) = request.into_parts();
        let body = Limited::new(body, CONTROL_BYTES_MAX).collect().await.map_err(io::Error::other)?.to_bytes();
        return Ok(control::answer(&state, &parts.method, &name, &body));
    }

    let (parts, body) = request.into_parts();
    let topic = Topic::of(&parts, state.upstream.is_none().then_some(state.bucket.as_str()));
    let decision = state.faults.decide(topic.kind, &topic.key, state.accounts.in_flight());
    if decision.replace {
        state.objects.replace(&topic.key);
    }
    let effect = decision.effect;
    let asked = match ByteRange::of(&parts.headers) {
        Some(ByteRange::Between(first, last)) => Some((first, last.saturating_add(1))),
        _ => None,
    };
    let happens = decision.replace || effect.is_some();
    let entry = state.accounts.enter(topic.kind, &topic.key, asked, happens);
    let head_only = parts.method == Method::HEAD;

    let mut slowdown = 1;
    let mut size = None;
    let mut answer = match effect {
        Some(Effect::Reset) => {
            cut.reset();
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        Some(Effect::Status { status, retry_after }) => answer::status_error(topic.s3, status, retry_after),
        Some(Effect::Throttle { retry_after, .. } | Effect::Crowd { retry_after, .. }) => {
            answer::status_error(topic.s3, 503, retry_after)
        }
        Some(Effect::Redirect) => answer::redirect(&parts.uri),
        Some(Effect::Empty) => answer::empty(),
        Some(Effect::Archived) => {
            let message = "The operation is not valid for the object's storage class";
            answer::error(topic.s3, StatusCode::FORBIDDEN, "InvalidObjectState", message, None)
        }
        Some(Effect::Garbage) => answer::garbage(),
        _ if let Some(upstream) = &state.upstream => {
            upstream.answer(parts, body, topic.kind == Kind::Get, &mut size).await
        }
        _ if topic.s3 => s3_answer(&state.s3, parts, body, effect, &mut size).await?,
        _ => {
            size = state.objects.get(&topic.key).map(|object| object.size);
            plain::answer(&state.objects, &parts, &topic.key, effect)?
        }
    };
    if effect == Some(Effect::ForbidMissing) && answer.status() == StatusCode::NOT_FOUND {
        answer = answer::status_error(topic.s3, 403, None);
    }
    if head_only && answer.status().is_client_error() | answer.status().is_server_error() {
        *answer.body_mut() = Payload::Bytes(bytes::Bytes::new());
    }
    match effect {
        Some(Effect::Slow { factor }) => slowdown = factor,
        Some(effect) => answer::falsify(&mut answer, effect, size),
        None => {}
    }

    let pass = state.pacer.request(answer.body().device_bytes(), slowdown);
    if let Err(refused) = pass.head().await {
        let seconds = refused.retry_after.as_secs() + u64::from(refused.retry_after.subsec_nanos() > 0);
        let (parts, payload) = answer::status_error(topic.s3, 503, Some(seconds)).into_parts();
        entry.answered(parts.status.as_u16(), None);
        let Payload::Bytes(bytes) = payload else { return Err(io::ErrorKind::InvalidData.into()) };
        return Ok(Response::from_parts(parts, Body::unpaced(if head_only { bytes::Bytes::new() } else { bytes })));
    }
    match effect {
        Some(Effect::Stall { time: None }) => std::future::pending().await,
        Some(Effect::Stall { time: Some(time) }) => tokio::time::sleep(time).await,
        _ => {}
    }
    let twist = match effect {
        Some(Effect::ResetBody { after }) => Some((after, Twist::Reset)),
        Some(Effect::Truncate { after }) => Some((after, Twist::Close)),
        Some(Effect::StallBody { after, time }) => Some((after, Twist::Stall(time))),
        _ => None,
    };
    let (parts, payload) = answer.into_parts();
    let sent = payload.part().map(|part| (part.start, part.end));
    entry.answered(parts.status.as_u16(), sent.filter(|_| parts.status == StatusCode::PARTIAL_CONTENT));
    let course = course(&state, pass, entry, cut, twist);
    Ok(Response::from_parts(parts, Body::paced(payload, course)))
}

fn course(state: &State, pass: Pass, entry: Entry, cut: Cut, twist: Option<(u64, Twist)>) -> Course {
    let accounts = Arc::clone(&state.accounts);
    Course { pass, accounts, _entry: entry, cut, twist, granted: 0, sent: 0, stalled: None }
}

/// Has the S3 library answer; `size` becomes the size of the object that the answer is about.
async fn s3_answer(
    service: &S3Service,
    parts: Parts,
    body: Incoming,
    effect: Option<Effect>,
    size: &mut Option<u64>,
) -> io::Result<Answer> {
    let mut request = Request::from_parts(parts, s3s::Body::from(body));
    request.extensions_mut().insert(s3::Wanted(effect));
    let response = service.call(request).await.map_err(|error| io::Error::other(format!("{error:?}")))?;
    let (mut parts, body) = response.into_parts();
    let payload = if let Some(chosen) = parts.extensions.remove::<Chosen>() {
        *size = Some(chosen.object.size);
        parts.status = chosen.status;
        chosen.payload()?
    } else {
        Payload::Bytes(body.collect().await.map_err(io::Error::other)?.to_bytes())
    };
    Ok(Response::from_parts(parts, payload))
}

/// Threads that serve. Two fill a link of a few GB/s; more only take the processors from the
/// clients on the same machine.
const WORKERS: usize = 2;

/// How long accepting rests after an error.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long stopping waits for what cannot be interrupted, such as reading a file.
const STOP_WAIT: Duration = Duration::from_secs(5);

/// The largest body of a control request.
const CONTROL_BYTES_MAX: usize = 16 << 20;
