use std::{fs, path::Path};

use crate::{Authority, ServerError, free_port};

/// The settings of a server with TLS: a port of its own for clients; and what servers have to tell each
/// other goes by it as well.
#[derive(Debug)]
pub(super) struct Tls {
    pub(super) port: u16,
    pub(super) settings: Vec<(&'static str, String)>,
}

impl Tls {
    /// Its files are in `directory`.
    pub(super) fn set_up(authority: &Authority, directory: &Path) -> Result<Self, ServerError> {
        let (certificate, key) = authority.certificate()?;
        let file = |name: &str, text: &str| {
            let path = directory.join(name);
            fs::write(&path, text).map_err(ServerError::io("writing a certificate"))?;
            Ok(path.display().to_string())
        };
        let port = free_port();
        let settings = vec![
            ("tls-port", port.to_string()),
            ("tls-cert-file", file("server.pem", &certificate)?),
            ("tls-key-file", file("server.key", &key)?),
            ("tls-ca-cert-file", file("authority.pem", authority.pem())?),
            ("tls-auth-clients", "no".to_owned()),
            ("tls-replication", "yes".to_owned()),
        ];
        Ok(Self { port, settings })
    }
}
