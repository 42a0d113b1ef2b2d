//! Which requests are answered.
//!
//! ```text
//!   request ── Host names the loopback or the address, or a token is wanted ── no ──> 421
//!      └────── the token, in a header or in the query ── another, or none ─────────> 401
//! ```
//!
//! The first keeps pages of other sites out, whose script has a browser of this machine ask under
//! a name that leads here.

use std::net::{IpAddr, SocketAddr};

use http::header::{AUTHORIZATION, HOST};
use http::{HeaderMap, StatusCode, Uri};
use ring::digest::{Digest, SHA256, digest};

/// What is asked of a request.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    address: SocketAddr,
    /// Digests are compared: how long that takes tells nothing of the token.
    token: Option<Digest>,
}

impl Access {
    pub(crate) fn new(address: SocketAddr, token: Option<String>) -> Self {
        Self { address, token: token.map(|token| digest(&SHA256, token.as_bytes())) }
    }

    /// The status of the refusal, if it is one.
    pub(crate) fn refuses(&self, uri: &Uri, headers: &HeaderMap) -> Option<StatusCode> {
        let Some(token) = &self.token else {
            return (!self.is_named(headers)).then_some(StatusCode::MISDIRECTED_REQUEST);
        };
        let header = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let bearer = header.and_then(|value| value.strip_prefix("Bearer "));
        let query = uri.query().into_iter().flat_map(|query| query.split('&'));
        let given = bearer.into_iter().chain(query.filter_map(|pair| pair.strip_prefix("token=")));
        let mut given = given.map(|given| digest(&SHA256, given.as_bytes()));
        (!given.any(|given| given.as_ref() == token.as_ref())).then_some(StatusCode::UNAUTHORIZED)
    }

    /// Whether the client calls this server by its address, or by a name of the loopback.
    fn is_named(&self, headers: &HeaderMap) -> bool {
        let Some(host) = headers.get(HOST).and_then(|host| host.to_str().ok()) else { return false };
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
            _ => host,
        };
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let address = name.parse::<IpAddr>();
        name.eq_ignore_ascii_case("localhost")
            || address.is_ok_and(|address| address.is_loopback() || address == self.address.ip())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(token: Option<&str>, uri: &str, headers: &[(&'static str, &'static str)]) -> Option<u16> {
        let access = Access::new(SocketAddr::from(([127, 0, 0, 1], 9464)), token.map(str::to_owned));
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().expect("a value"));
        }
        access.refuses(&uri.parse().expect("a URI"), &map).map(|status| status.as_u16())
    }

    #[test]
    fn other_names_for_this_address_are_refused() {
        for host in ["127.0.0.1:9464", "localhost:9464", "LOCALHOST", "[::1]:9464", "127.0.0.2"] {
            assert_eq!(asked(None, "/", &[("host", host)]), None, "{host}");
        }
        for host in ["evil.example:9464", "localhost.evil.example", "10.0.0.7:9464", ""] {
            assert_eq!(asked(None, "/", &[("host", host)]), Some(421), "{host}");
        }
        assert_eq!(asked(None, "/", &[]), Some(421));
    }

    #[test]
    fn a_token_is_wanted_wherever_there_is_one() {
        let token = Some("0123456789abcdef");
        assert_eq!(asked(token, "/metrics", &[("host", "x")]), Some(401));
        assert_eq!(asked(token, "/metrics?token=0123456789abcdeX", &[]), Some(401));
        assert_eq!(asked(token, "/metrics?token=", &[]), Some(401));
        assert_eq!(asked(token, "/metrics?a=b&token=0123456789abcdef", &[]), None);
        assert_eq!(asked(token, "/metrics", &[("authorization", "Bearer 0123456789abcdef")]), None);
        assert_eq!(asked(token, "/metrics", &[("authorization", "Basic 0123456789abcdef")]), Some(401));
    }
}
