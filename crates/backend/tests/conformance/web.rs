//! Web servers: nginx (strong tags, conditions), and Python's with ranges (times only, ignores
//! conditions).

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use foreread_backend::{ConnectOptions, ErrorKind, Key, conformance, connect};

use crate::emulator::{Emulator, installed, of_system};
use crate::seed::Folder;

/// The package's own main function serves one request at a time and refuses further connections.
const RANGE_SERVER: &str = "
import sys, http.server, RangeHTTPServer
http.server.ThreadingHTTPServer.request_queue_size = 128
http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), RangeHTTPServer.RangeRequestHandler).serve_forever()
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nginx_conforms() {
    let Some(nginx) = of_system("nginx") else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = start_nginx(&nginx, folder.path());
    let backend = connect(&server.endpoint(), &ConnectOptions::default()).unwrap().backend;
    let hides = |key: &str| key.contains("/.");
    conformance::check(&*backend, &Folder::served(&folder.path().join("files"), hides)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_tags_conforms() {
    let Some(python) = installed("python/bin/python") else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = Emulator::start(|port| {
        let mut command = Command::new(python);
        command.args(["-c", RANGE_SERVER, &port.to_string()]).current_dir(folder.path());
        command
    });
    let backend = connect(&server.endpoint(), &ConnectOptions::default()).unwrap().backend;
    conformance::check(&*backend, &Folder::served(folder.path(), |_| false)).await;
}

#[tokio::test]
async fn a_url_names_an_object_or_a_directory() {
    let Some(python) = installed("python/bin/python") else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("a b")).unwrap();
    std::fs::write(folder.path().join("a b/file"), "0123456789").unwrap();
    // Without ranges: the server sends the whole file, and the backend cuts it.
    let server = Emulator::start(|port| {
        let mut command = Command::new(python);
        command.args(["-m", "http.server", "--bind", "127.0.0.1", &port.to_string()]).current_dir(folder.path());
        command
    });
    let options = ConnectOptions::default();
    let file = connect(&format!("{}/a%20b/file?token=secret#x", server.endpoint()), &options).unwrap();
    assert_eq!(file.path, "a b/file");
    assert!(!file.backend.describe().contains("secret"), "{}", file.backend.describe());
    let object = file.backend.stat(&Key::new("a b/file")).await.unwrap();
    assert_eq!(object.version.size, 10);
    assert!(file.backend.capabilities().range);
    let mut body = file.backend.read(&object.key, &object.version, 3..7).await.unwrap();
    let mut bytes = Vec::new();
    while let Some(piece) = futures::StreamExt::next(&mut body).await {
        bytes.extend_from_slice(&piece.unwrap());
    }
    assert_eq!(bytes, b"3456");
    assert!(!file.backend.capabilities().range);
    let error = file.backend.stat(&Key::new("a b")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let directory = connect(&format!("{}/a%20b/", server.endpoint()), &options).unwrap();
    assert_eq!(directory.path, "a b");
    assert_eq!(directory.backend.list("a b/", None).await.unwrap().entries.len(), 1);
}

/// nginx as a single process of this user. It writes only into `folder`, and serves
/// `folder/files`.
fn start_nginx(nginx: &Path, folder: &Path) -> Emulator {
    std::fs::create_dir(folder.join("files")).unwrap();
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    Emulator::start(|port| {
        let configuration = format!(
            "daemon off; master_process off; pid nginx.pid; error_log stderr; events {{}}
             http {{
                 access_log off;
                 client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;
                 server {{ listen 127.0.0.1:{port}; root files; autoindex on; large_client_header_buffers 4 32k; }}
             }}"
        );
        std::fs::write(folder.join("nginx.conf"), configuration).unwrap();
        let mut command = Command::new(nginx);
        command.arg("-p").arg(folder).args(["-c", "nginx.conf", "-e", "stderr"]);
        command
    })
}
