//! TLS for the testbed, and a certificate authority of its own for tests.

use std::path::Path;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::{Error, TlsFiles};

/// A server's side of TLS 1.2 and 1.3, for HTTP/1.1 only.
pub(crate) fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, Error> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::TlsFile { path, source }
    };
    let chain = CertificateDer::pem_file_iter(&files.cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(unreadable(&files.cert))?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(unreadable(&files.key))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|source| Error::Tls { source })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// A certificate authority that no client trusts yet, and a certificate that it issued, in PEM.
#[derive(Debug, Clone)]
pub struct OwnAuthority {
    /// The certificate of the authority, which a client must trust.
    pub authority_pem: String,
    /// The certificate of the server.
    pub certificate_pem: String,
    /// The private key of the server.
    pub key_pem: String,
}

impl OwnAuthority {
    /// Makes an authority, and has it issue a certificate for `localhost` and 127.0.0.1.
    pub fn issue() -> Result<Self, Error> {
        Self::issue_for(&["localhost", "127.0.0.1"])
    }

    /// The same for other names, to impersonate their servers.
    pub fn issue_for(names: &[&str]) -> Result<Self, Error> {
        Self::try_issue(names).map_err(|source| Error::Issue { source })
    }

    fn try_issue(names: &[&str]) -> Result<Self, rcgen::Error> {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        authority.distinguished_name.push(DnType::CommonName, "foreread testbed authority");
        let authority_key = KeyPair::generate()?;
        let authority_pem = authority.self_signed(&authority_key)?.pem();

        let mut server = CertificateParams::new(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())?;
        server.distinguished_name.push(DnType::CommonName, "foreread testbed");
        server.use_authority_key_identifier_extension = true;
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = server.signed_by(&key, &Issuer::new(authority, authority_key))?;
        Ok(Self { authority_pem, certificate_pem: certificate.pem(), key_pem: key.serialize_pem() })
    }

    /// Writes the three as `authority.pem`, `certificate.pem` and `key.pem` into a directory, and
    /// names the files that a [`crate::Config`] needs.
    pub fn write(&self, dir: &Path) -> std::io::Result<TlsFiles> {
        let files = TlsFiles { cert: dir.join("certificate.pem"), key: dir.join("key.pem") };
        std::fs::write(dir.join("authority.pem"), &self.authority_pem)?;
        std::fs::write(&files.cert, &self.certificate_pem)?;
        std::fs::write(&files.key, &self.key_pem)?;
        Ok(files)
    }
}
