//! gRPC-Web: pieces with a head of five bytes, flags and length; the last one holds the trailers as lines.

use std::borrow::Cow;

use base64::{Engine, prelude::BASE64_STANDARD};

use super::{Dialect, STATUS, number};

/// Of the flags: this piece holds the trailers.
const TRAILERS: u8 = 0x80;

/// The code in the trailers. None: they are not there, or cannot be read.
pub(super) fn status(body: &[u8], dialect: Dialect) -> Option<u16> {
    let body = match dialect {
        Dialect::WebText => Cow::Owned(decoded(body)?),
        _ => Cow::Borrowed(body),
    };
    trailers(&body)?.split(|byte| *byte == b'\n').find_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = line.split_at_checked(colon)?;
        let is_status = name.trim_ascii().eq_ignore_ascii_case(STATUS.as_str().as_bytes());
        if is_status { number(value.get(1..)?) } else { None }
    })
}

fn trailers(mut pieces: &[u8]) -> Option<&[u8]> {
    loop {
        let (&[flags, a, b, c, d], rest) = pieces.split_first_chunk()?;
        let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).ok()?;
        let (piece, rest) = rest.split_at_checked(length)?;
        if flags == TRAILERS {
            return Some(piece);
        }
        pieces = rest;
    }
}

/// Each piece may have been encoded by itself, with padding in the middle of the text.
fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for group in text.chunks(4) {
        BASE64_STANDARD.decode_vec(group, &mut bytes).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(flags: u8, bytes: &[u8]) -> Vec<u8> {
        let length = u32::try_from(bytes.len()).unwrap().to_be_bytes();
        [&[flags], &length[..], bytes].concat()
    }

    /// Lines as tonic, Envoy and grpcwebproxy write them.
    #[test]
    fn the_status_is_found_behind_the_messages() {
        let message = piece(0, b"\x80grpc-status:0");
        for (trailers, code) in [
            (&b"grpc-status:14\r\n"[..], 14),
            (b"grpc-status: 0\r\ngrpc-message: ok\r\n", 0),
            (b"Grpc-Message: x\r\nGrpc-Status: 5", 5),
            (b"a:b\ngrpc-status:7\n", 7),
        ] {
            let trailers = piece(TRAILERS, trailers);
            for body in [trailers.clone(), [&message[..], &message, &trailers].concat()] {
                assert_eq!(status(&body, Dialect::Web), Some(code));
                let whole = BASE64_STANDARD.encode(&body);
                assert_eq!(status(whole.as_bytes(), Dialect::WebText), Some(code));
            }
            let in_pieces = BASE64_STANDARD.encode(&message) + &BASE64_STANDARD.encode(&trailers);
            assert_eq!(status(in_pieces.as_bytes(), Dialect::WebText), Some(code));
        }
    }

    #[test]
    fn what_is_no_whole_answer_has_no_status() {
        let trailers = piece(TRAILERS, b"grpc-status:0\r\n");
        for body in [
            &b""[..],
            b"{}",
            &piece(0, b"grpc-status:0"),
            &piece(TRAILERS, b"grpc-message:x"),
            &piece(TRAILERS, b"grpc-status:many"),
            &piece(TRAILERS, b"no colon"),
            // compressed, which nobody does with them
            &piece(TRAILERS | 1, b"grpc-status:0"),
            &trailers[..trailers.len() - 1],
            &trailers[..4],
            &[0, 255, 255, 255, 255, 1],
        ] {
            assert_eq!(status(body, Dialect::Web), None, "{body:?}");
        }
        assert_eq!(status(b"@@@@", Dialect::WebText), None);
        assert_eq!(status(&trailers, Dialect::WebText), None);
    }
}
