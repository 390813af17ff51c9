//! Reads the key out of a parameter of the body.

use http::{HeaderMap, header};

use super::{KeyFault, pointer};

/// The field `name` of a form; of any other body the member `name` of its object.
pub(super) fn parameter(
    name: &str,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Option<String>, KeyFault> {
    if !is_form(headers) {
        return pointer::find(&[name], body);
    }
    let mut values = form_urlencoded::parse(body).filter(|(field, _)| field == name);
    match (values.next(), values.next()) {
        (_, Some(_)) => Err(KeyFault::Repeated),
        (first, None) => Ok(first.map(|(_, value)| value.into_owned())),
    }
}

fn is_form(headers: &HeaderMap) -> bool {
    const FORM: &[u8] = b"application/x-www-form-urlencoded";
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.as_bytes().get(..FORM.len()))
        .is_some_and(|essence| essence.eq_ignore_ascii_case(FORM))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn read(content_type: &'static str, body: &str) -> Result<Option<String>, KeyFault> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        parameter("ClientToken", &headers, body.as_bytes())
    }

    #[test]
    fn a_parameter_is_a_field_of_a_form_or_a_member_of_an_object() {
        let form = "application/x-www-form-urlencoded; charset=utf-8";
        let found = Ok(Some("a b".to_owned()));
        assert_eq!(read(form, "Action=Run&ClientToken=a+b"), found);
        assert_eq!(read(form, "Action=Run"), Ok(None));
        assert_eq!(read(form, "ClientToken=a&ClientToken=a"), Err(KeyFault::Repeated));
        assert_eq!(read("application/json", "{\"ClientToken\":\"a b\"}"), found);
        assert_eq!(read("text/plain", "ClientToken=a"), Err(KeyFault::BodyNotJson));
    }
}
