//! AWS credentials from other services: STS (moto, behind a proxy, with a certificate of its own),
//! single sign-on, instance metadata, programs. Seen in the signatures that a server receives.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use foreread_backend::{Backend, ConnectOptions, Key, connect};
use foreread_testbed::OwnAuthority;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use crate::credentials::{OBJECT, rfc3339, signed_by};
use crate::emulator::{Emulator, installed, with_environment};
use crate::scripted::{Scripted, answer};

const JSON: &str = "200 OK\nContent-Type: application/json";

/// Runs the test again with `variables`; true in that process. Servers of this process go on
/// meanwhile.
async fn inside(name: &'static str, variables: &[(&str, &str)]) -> bool {
    let variables: Vec<(String, String)> = variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let run = move || {
        let variables: Vec<(&str, &str)> = variables.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        with_environment(name, &variables)
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

fn is_inside() -> bool {
    std::env::var_os("FOREREAD_TEST_INSIDE").is_some()
}

/// The key that signs a request of `profile`, and that request's head.
async fn signer(profile: Option<&str>) -> (String, String) {
    let server = Scripted::start(|_, _| OBJECT.into()).await;
    let mut options = ConnectOptions::default().with_endpoint(server.endpoint.clone());
    options.profile = profile.map(str::to_owned);
    let backend = connect("s3://bucket", &options).unwrap().backend;
    backend.stat(&Key::new("a")).await.unwrap_or_else(|e| panic!("{profile:?}: {e}"));
    let head = server.heads()[0].clone();
    (signed_by(&head).0.to_owned(), head)
}

/// A proxy that connects every tunnel to `port` of this machine, whatever host is asked for.
async fn proxy_to(port: u16) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(client.read_u8().await.unwrap());
                }
                assert!(head.starts_with(b"CONNECT sts."), "{}", String::from_utf8_lossy(&head));
                let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                let _ = copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    format!("http://{address}")
}

fn put(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roles_are_assumed_through_sts() {
    if !is_inside() {
        let Some(program) = installed("python/bin/moto_server") else { return };
        let folder = tempfile::tempdir().unwrap();
        let tls = OwnAuthority::issue_for(&["sts.amazonaws.com", "sts.us-east-1.amazonaws.com"]).unwrap();
        let tls = tls.write(folder.path()).unwrap();
        let moto = Emulator::start(|port| {
            let mut command = Command::new(program);
            command.args(["-H", "127.0.0.1", "-p", &port.to_string()]).arg("-c").arg(&tls.cert).arg("-k").arg(&tls.key);
            command
        });
        let proxy = proxy_to(moto.port).await;
        let token = put(folder.path(), "token", "a.web.token");
        let role = "arn:aws:iam::123456789012:role/reader";
        let config = format!(
            "[profile role]\nrole_arn = {role}\nsource_profile = keys\n\
             [profile web]\nrole_arn = {role}\nweb_identity_token_file = {token}\n\
             [profile keys]\naws_access_key_id = KEYS\naws_secret_access_key = s\n"
        );
        let config = put(folder.path(), "config", &config);
        let authority = folder.path().join("authority.pem");
        let variables = [
            ("AWS_CONFIG_FILE", config.as_str()),
            ("AWS_CA_BUNDLE", authority.to_str().unwrap()),
            ("https_proxy", &proxy),
            ("HTTPS_PROXY", &proxy),
            ("no_proxy", "127.0.0.1"),
            ("AWS_ROLE_ARN", role),
            ("AWS_WEB_IDENTITY_TOKEN_FILE", &token),
        ];
        assert!(!inside("identity::roles_are_assumed_through_sts", &variables).await);
        return;
    }
    for profile in [Some("role"), Some("web"), None] {
        let (key, head) = signer(profile).await;
        assert!(key.starts_with("ASIA"), "{profile:?}: a key that STS issued, not {key}");
        assert!(head.to_lowercase().contains("x-amz-security-token"), "{profile:?}: {head}");
    }
    assert_eq!(signer(Some("keys")).await.0, "KEYS");
}

#[tokio::test]
async fn single_sign_on_uses_the_token_of_its_login() {
    if !is_inside() {
        let home = tempfile::tempdir().unwrap();
        let expires = SystemTime::now() + Duration::from_hours(1);
        let millis = expires.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
        let portal = Scripted::start(move |head, _| {
            let request = head.lines().next().unwrap();
            assert!(request.contains("role_name=reader&account_id=123456789012"), "{request}");
            let token = head.lines().find_map(|line| line.strip_prefix("x-amz-sso_bearer_token: ")).unwrap();
            let keys = format!(
                r#"{{"accessKeyId":"KEY-{token}","secretAccessKey":"s","sessionToken":"t","expiration":{millis}}}"#
            );
            answer(JSON, &format!(r#"{{"roleCredentials":{keys}}}"#))
        })
        .await;
        let role = "sso_account_id = 123456789012\nsso_role_name = reader\n";
        let start = "sso_start_url = https://login.invalid/start\nsso_region = us-east-1\n";
        let config = format!(
            "[profile own]\n{role}{start}[profile shared]\n{role}sso_session = team\n[sso-session team]\n{start}"
        );
        let config = put(home.path(), "config", &config);
        for (cached_as, token) in [("https://login.invalid/start", "own"), ("team", "shared")] {
            let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, cached_as.as_bytes());
            let mut name = String::new();
            digest.as_ref().iter().for_each(|byte| write!(name, "{byte:02x}").unwrap());
            let token = format!(r#"{{"accessToken":"{token}","expiresAt":"{}"}}"#, rfc3339(expires));
            put(home.path(), &format!(".aws/sso/cache/{name}.json"), &token);
        }
        let variables = [
            ("HOME", home.path().to_str().unwrap()),
            ("AWS_CONFIG_FILE", &config),
            ("AWS_SSO_ENDPOINT", &portal.endpoint),
        ];
        assert!(!inside("identity::single_sign_on_uses_the_token_of_its_login", &variables).await);
        return;
    }
    assert_eq!(signer(Some("own")).await.0, "KEY-own");
    assert_eq!(signer(Some("shared")).await.0, "KEY-shared");
}

#[tokio::test]
async fn instance_metadata_is_asked_with_a_token_and_again_when_keys_expire() {
    if !is_inside() {
        let metadata = Scripted::start(|head, number| {
            let request = head.lines().next().unwrap();
            if request == "PUT /latest/api/token HTTP/1.1" {
                return answer("200 OK", "secret-token");
            }
            assert!(head.contains("x-aws-ec2-metadata-token: secret-token"), "{head}");
            if request == "GET /latest/meta-data/iam/security-credentials/ HTTP/1.1" {
                return answer("200 OK", "a-role");
            }
            assert_eq!(request, "GET /latest/meta-data/iam/security-credentials/a-role HTTP/1.1");
            let expires = rfc3339(SystemTime::now() + Duration::from_mins(1));
            answer(
                JSON,
                &format!(
                    r#"{{"Code":"Success","AccessKeyId":"KEY{number}","SecretAccessKey":"s","Token":"t","Expiration":"{expires}"}}"#
                ),
            )
        })
        .await;
        let variables =
            [("AWS_EC2_METADATA_DISABLED", "false"), ("AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata.endpoint.as_str())];
        assert!(
            !inside("identity::instance_metadata_is_asked_with_a_token_and_again_when_keys_expire", &variables).await
        );
        return;
    }
    let server = Scripted::start(|_, _| OBJECT.into()).await;
    let options = ConnectOptions::default().with_endpoint(server.endpoint.clone());
    let backend: std::sync::Arc<dyn Backend> = connect("s3://bucket", &options).unwrap().backend;
    for _ in 0..2 {
        backend.stat(&Key::new("a")).await.unwrap();
    }
    let heads = server.heads();
    let keys: Vec<_> = heads.iter().map(|head| signed_by(head).0).collect();
    // A token, a role, its keys; then, with the same token, the role and its keys again.
    assert_eq!(keys, ["KEY3", "KEY5"]);
}

#[tokio::test]
async fn a_program_may_print_credentials() {
    if !is_inside() {
        let folder = tempfile::tempdir().unwrap();
        let printed = r#"{"Version":1,"AccessKeyId":"PRINTED","SecretAccessKey":"s"}"#;
        let program = put(folder.path(), "with a space", &format!("echo '{printed}' \"$1\"\n"));
        let config = format!("[profile lab]\ncredential_process = sh \"{program}\" ''\n");
        let config =
            format!("{config}[profile broken]\ncredential_process = sh -c \"echo no keys here >&2; exit 3\"\n");
        let config = put(folder.path(), "config", &config);
        assert!(!inside("identity::a_program_may_print_credentials", &[("AWS_CONFIG_FILE", &config)]).await);
        return;
    }
    assert_eq!(signer(Some("lab")).await.0, "PRINTED");
    let options = ConnectOptions::default().with_profile("broken");
    let error = connect("s3://bucket", &options).unwrap().backend.stat(&Key::new("a")).await.unwrap_err();
    assert!(error.to_string().contains("no keys here"), "{error}");
}
