use std::{fs, path::Path};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::{ServerError, free_port};

/// A server's TLS: a port of its own, and an authority that nobody knows yet.
#[derive(Debug)]
pub(super) struct Tls {
    pub(super) port: u16,
    pub(super) authority: String,
}

impl Tls {
    /// Makes keys and certificates for loopback, in files of `directory`.
    pub(super) fn set_up(directory: &Path) -> Result<Self, ServerError> {
        let failed = |error| ServerError::io("making a certificate")(std::io::Error::other(error));
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key: KeyPair = KeyPair::generate().map_err(failed)?;
        let authority_pem = authority.self_signed(&key).map_err(failed)?.pem();
        let issuer = Issuer::new(authority, key);
        let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        let server = CertificateParams::new(names).map_err(failed)?;
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = server.signed_by(&key, &issuer).map_err(failed)?.pem();
        for (name, text) in
            [(CERTIFICATE, certificate), (KEY, key.serialize_pem()), (CA, authority_pem.clone())]
        {
            fs::write(directory.join(name), text).map_err(ServerError::io("writing a key"))?;
        }
        Ok(Self { port: free_port(), authority: authority_pem })
    }

    pub(super) fn arguments(&self, directory: &Path) -> Vec<String> {
        let file = |name| directory.join(name).display().to_string();
        let settings = [
            ("--tls-port", self.port.to_string()),
            ("--tls-cert-file", file(CERTIFICATE)),
            ("--tls-key-file", file(KEY)),
            ("--tls-ca-cert-file", file(CA)),
            ("--tls-auth-clients", "no".to_owned()),
        ];
        settings.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
    }
}

const CERTIFICATE: &str = "server.pem";
const KEY: &str = "server.key";
const CA: &str = "authority.pem";
