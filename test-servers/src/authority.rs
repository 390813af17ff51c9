use std::{fmt, io, sync::Arc};

use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::ServerError;

/// Signs the certificates of servers. Nobody knows it but who is told. Clones are the same one.
#[derive(Clone)]
pub struct Authority(Arc<Signer>);

struct Signer {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    /// A new one.
    ///
    /// # Errors
    /// No key or certificate can be made.
    pub fn generate() -> Result<Self, ServerError> {
        let mut own = named("the tests' authority", CertificateParams::default());
        own.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().map_err(failed)?;
        let pem = own.self_signed(&key).map_err(failed)?.pem();
        Ok(Self(Arc::new(Signer { issuer: Issuer::new(own, key), pem })))
    }

    /// Its certificate, in PEM.
    pub fn pem(&self) -> &str {
        &self.0.pem
    }

    /// A certificate for somebody on loopback and its key, both in PEM.
    ///
    /// # Errors
    /// No key or certificate can be made.
    pub fn certificate(&self) -> Result<(String, String), ServerError> {
        let (certificate, key) = self.certify()?;
        Ok((certificate.pem(), key.serialize_pem()))
    }

    /// A certificate for a server on loopback, and its key.
    pub(crate) fn certify(&self) -> Result<(Certificate, KeyPair), ServerError> {
        let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        // of another name than the authority: OpenSSL would take it for self-signed
        let server = named("a server of the tests", CertificateParams::new(names).map_err(failed)?);
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = server.signed_by(&key, &self.0.issuer).map_err(failed)?;
        Ok((certificate, key))
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authority")
    }
}

fn named(name: &str, mut certificate: CertificateParams) -> CertificateParams {
    certificate.distinguished_name.push(DnType::CommonName, name);
    certificate
}

fn failed(error: rcgen::Error) -> ServerError {
    ServerError::io("making a certificate")(io::Error::other(error))
}
