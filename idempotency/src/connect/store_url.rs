use std::{borrow::Cow, str::FromStr};

use url::Url;

use super::ConnectError;

/// A store URL whose parameters are taken out one by one: what nobody takes is an error.
pub(super) struct StoreUrl {
    url: Url,
    parameters: Vec<(String, String)>,
}

impl StoreUrl {
    pub(super) fn parse(url: &str) -> Result<Self, ConnectError> {
        let url = Url::parse(url).map_err(|reason| ConnectError::NotAUrl { reason })?;
        let parameters: Vec<_> = url.query_pairs().into_owned().collect();
        for (index, (name, _)) in parameters.iter().enumerate() {
            if parameters.iter().skip(index + 1).any(|(n, _)| n == name) {
                let problem = "it is given twice";
                return Err(refused(parameter(name), problem, "each parameter once"));
            }
        }
        Ok(Self { url, parameters })
    }

    pub(super) fn scheme(&self) -> &str {
        self.url.scheme()
    }

    /// Refuses whatever stands between the scheme and the parameters, and a fragment.
    pub(super) fn has_only_parameters(&self) -> Result<(), ConnectError> {
        const ALLOWED: &str = "only parameters after the scheme, as in `memory:?capacity=50000`";
        let parts = [
            ("user or password", has_credentials(&self.url)),
            ("host", self.url.has_host()),
            ("path", !matches!(self.url.path(), "" | "/")),
            ("fragment", self.url.fragment().is_some()),
        ];
        match parts.iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((part, _)) => Err(refused(*part, "this store has none", ALLOWED)),
        }
    }

    /// Takes a parameter out.
    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        let at = self.parameters.iter().position(|(n, _)| n == name)?;
        Some(self.parameters.swap_remove(at).1)
    }

    /// Takes a whole number out.
    pub(super) fn take_number<N: FromStr>(
        &mut self,
        name: &str,
        allowed: &'static str,
        is_allowed: impl FnOnce(&N) -> bool,
    ) -> Result<Option<N>, ConnectError> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        let number = value.parse().ok().filter(is_allowed);
        let refused = || refused(parameter(name), "its value is not one", allowed);
        number.map(Some).ok_or_else(refused)
    }

    /// Refuses the parameters that nobody took.
    pub(super) fn nothing_left(&self, allowed: &'static str) -> Result<(), ConnectError> {
        match self.parameters.first() {
            None => Ok(()),
            Some((name, _)) => Err(refused(parameter(name), "it is not known", allowed)),
        }
    }
}

pub(super) fn refused(
    part: impl Into<Cow<'static, str>>,
    problem: &'static str,
    allowed: &'static str,
) -> ConnectError {
    ConnectError::Part { part: part.into(), problem, allowed }
}

pub(super) fn parameter(name: &str) -> String {
    format!("parameter `{}`", name.escape_debug())
}

fn has_credentials(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}
