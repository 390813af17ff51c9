use std::{borrow::Cow, fmt, sync::Arc};

use bytes::Bytes;
use http::{HeaderName, request::Parts};

use super::{JsonPointer, KeyFault, body};
use crate::KeyRule;

/// Where a request carries its key.
///
/// A key in the body can only be found when all of the body is there: with such a source every body
/// of the profile's methods is held, also of requests without a key, and the limits of size and time
/// hold for them all.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum KeySource {
    /// A header, as a bare text or as a structured-field string.
    Header(HeaderName),
    /// A place in a JSON body: a text, or a whole number. A body that is not JSON is refused; an empty
    /// one has no key.
    JsonPointer(JsonPointer),
    /// A parameter of this name: a field of a form (`application/x-www-form-urlencoded`), a member of
    /// the object in any other body, which has to be JSON.
    BodyParameter(Cow<'static, str>),
    /// A function of the application.
    Custom(CustomKey),
}

type Find = dyn Fn(&Parts, &Bytes) -> Option<String> + Send + Sync;

/// A key that a function of the application finds.
#[derive(Clone)]
pub struct CustomKey {
    name: Cow<'static, str>,
    find: Arc<Find>,
}

impl KeySource {
    /// A function of the application, which is given the head and all of the body. `name` is what
    /// refusals call the place, for example `resource and version`. None: the request has no key.
    ///
    /// ```
    /// use idempotency_tower::{KeySource, Profile};
    ///
    /// // one delivery a version of a resource, whatever it was triggered by
    /// let mut profile = Profile::standard_webhooks();
    /// profile.key_source = KeySource::custom("resource and version", |head, _| {
    ///     let of = |name| head.headers.get(name)?.to_str().ok();
    ///     Some(format!("{}:{}", of("x-resource")?, of("x-version")?))
    /// });
    /// ```
    pub fn custom<F>(name: impl Into<Cow<'static, str>>, find: F) -> Self
    where
        F: Fn(&Parts, &Bytes) -> Option<String> + Send + Sync + 'static,
    {
        Self::Custom(CustomKey { name: name.into(), find: Arc::new(find) })
    }

    /// The key outside of headers; none when there is none.
    pub(crate) fn find_in_body(
        &self,
        rule: KeyRule,
        head: &Parts,
        body: &Bytes,
    ) -> Result<Option<String>, KeyFault> {
        let found = match self {
            Self::Header(_) => None,
            Self::JsonPointer(pointer) => pointer.find(body)?,
            Self::BodyParameter(name) => body::parameter(name, &head.headers, body)?,
            Self::Custom(custom) => (custom.find)(head, body),
        };
        if let Some(key) = &found {
            rule.check(key)?;
        }
        Ok(found)
    }

    /// The place, as refusals name it.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Header(name) => format!("`{name}`"),
            Self::JsonPointer(pointer) => format!("`{pointer}` of the body"),
            Self::BodyParameter(name) => format!("`{name}` of the body"),
            Self::Custom(custom) => custom.name.clone().into_owned(),
        }
    }
}

impl fmt::Debug for CustomKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CustomKey({})", self.name)
    }
}
