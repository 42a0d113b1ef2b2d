//! A server whose answers the test writes.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Answers until it is dropped.
pub(crate) struct Scripted {
    pub(crate) endpoint: String,
    heads: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Scripted {
    /// Starts a server. `answer` gets the head of each request (no request here has a body) and
    /// its number, from 1, and returns the whole response.
    pub(crate) async fn start(answer: impl Fn(&str, usize) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let (heads, answer) = (Arc::new(Mutex::new(Vec::new())), Arc::new(answer));
        let log = heads.clone();
        let task = tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                let (log, answer) = (log.clone(), answer.clone());
                tokio::spawn(async move {
                    let mut received = Vec::new();
                    while connection.read_buf(&mut received).await.is_ok_and(|n| n > 0) {
                        while let Some(end) = received.windows(4).position(|w| w == b"\r\n\r\n") {
                            let head = String::from_utf8(received.drain(..end + 4).collect()).unwrap();
                            let number = {
                                let mut log = log.lock().unwrap();
                                log.push(head.clone());
                                log.len()
                            };
                            if connection.write_all(answer(&head, number).as_bytes()).await.is_err() {
                                return;
                            }
                        }
                    }
                });
            }
        });
        Self { endpoint, heads, task }
    }

    /// The heads of the requests so far.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A response with a body and its length. `head`: the status, and any headers, each after a line
/// break.
pub(crate) fn answer(head: &str, body: &str) -> String {
    format!("HTTP/1.1 {}\r\nContent-Length: {}\r\n\r\n{body}", head.replace('\n', "\r\n"), body.len())
}
