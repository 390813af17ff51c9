//! Deliveries that are sent slowly, or far too much: from anybody, since no signature has been checked.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::support::{PATIENCE, deliver, event, inbox, now, receiver, standard};

/// Of a delivery that looks signed, as far as its head can show.
fn head(id: &str, framing: &str) -> String {
    let at = now();
    format!(
        "POST /webhooks/standard HTTP/1.1\r\nHost: h\r\nConnection: close\r\nwebhook-id: {id}\r\n\
         webhook-timestamp: {at}\r\nwebhook-signature: v1,AAAA\r\n{framing}\r\n\r\n"
    )
}

/// Sends `piece` each second until there is an answer.
async fn send_slowly(to: SocketAddr, head: &str, piece: &[u8]) -> String {
    let mut socket = TcpStream::connect(to).await.unwrap();
    socket.write_all(head.as_bytes()).await.unwrap();
    let (mut reading, mut writing) = socket.split();
    let mut answer = String::new();
    let sending = async {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            writing.write_all(piece).await.unwrap();
        }
    };
    let talk = async {
        tokio::select! {
            biased;
            read = reading.read_to_string(&mut answer) => read.unwrap(),
            () = sending => 0,
        }
    };
    tokio::time::timeout(PATIENCE, talk).await.unwrap();
    answer
}

/// Kind of fault: whoever sends a byte a second holds a connection and its memory for as long as they like
/// (H-42). They are cut off, and the event is as new.
#[tokio::test]
async fn a_delivery_that_takes_too_long_is_cut_off_and_leaves_no_record() {
    let to = receiver(&["--body-timeout", "2s"]).await;
    for framing in ["Content-Length: 100", "Transfer-Encoding: chunked"] {
        let piece: &[u8] = if framing.contains("chunked") { b"1\r\nx\r\n" } else { b"x" };
        let answer = send_slowly(to, &head("msg_1", framing), piece).await;
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
        assert!(answer.contains("too-slow") && answer.contains("within 2s"), "{answer}");
    }
    assert_eq!(inbox(to).await["begun"], 0);
    let paid = event("charge.succeeded", "ch_1");
    assert_eq!(deliver(standard(to, "msg_1", &paid)).await, (204, false));
    assert_eq!(inbox(to).await["begun"], 1);
}

/// The size is found out when the sender does not tell it, before the sender has ended.
#[tokio::test]
async fn a_delivery_without_a_length_is_cut_off_at_the_limit() {
    let to = receiver(&[]).await;
    let mut socket = TcpStream::connect(to).await.unwrap();
    let full = [&b"40000\r\n"[..], &vec![b'x'; 256 << 10], b"\r\n"].concat();
    let head = head("msg_1", "Transfer-Encoding: chunked");
    for part in [head.as_bytes(), &full, b"1\r\nx\r\n"] {
        socket.write_all(part).await.unwrap();
    }
    let mut answer = String::new();
    let read = tokio::time::timeout(PATIENCE, socket.read_to_string(&mut answer));
    read.await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("too-large"), "{answer}");
    assert_eq!(inbox(to).await["begun"], 0);
}

/// Half a delivery is none.
#[tokio::test]
async fn a_delivery_that_breaks_off_leaves_no_record() {
    let to = receiver(&[]).await;
    let mut socket = TcpStream::connect(to).await.unwrap();
    let half = head("msg_1", "Content-Length: 100") + "half";
    socket.write_all(half.as_bytes()).await.unwrap();
    socket.shutdown().await.unwrap();
    let mut answer = String::new();
    let read = tokio::time::timeout(PATIENCE, socket.read_to_string(&mut answer));
    // a reset is an end, too
    _ = read.await.unwrap();
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    let paid = event("charge.succeeded", "ch_1");
    assert_eq!(deliver(standard(to, "msg_1", &paid)).await, (204, false));
    assert_eq!(inbox(to).await["begun"], 1);
}

/// Nothing is read of who signs nothing, or signed it long ago: the answer comes before the body.
#[tokio::test]
async fn what_is_not_signed_is_refused_without_its_body() {
    let to = receiver(&["--body-timeout", "1h"]).await;
    let signed = head("msg_1", "Content-Length: 100");
    let (unsigned, old) = (signed.replace("v1,", "v9,"), signed.replace(&now().to_string(), "7"));
    for (head, status) in [(unsigned, 400), (old, 401)] {
        let mut socket = TcpStream::connect(to).await.unwrap();
        socket.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let read = tokio::time::timeout(PATIENCE, socket.read_to_string(&mut answer));
        read.await.unwrap().unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    }
}
