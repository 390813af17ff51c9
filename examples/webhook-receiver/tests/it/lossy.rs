//! A network that loses answers.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
};

/// A way to `target` on which the answers of the first `lost` connections get lost.
pub(crate) async fn way_to(target: SocketAddr, lost: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        for number in 0.. {
            let (mut from, _) = listener.accept().await.unwrap();
            let mut to = TcpStream::connect(target).await.unwrap();
            tokio::spawn(async move {
                if number >= lost {
                    return copy_bidirectional(&mut from, &mut to).await.map(drop);
                }
                let (mut request, _) = from.split();
                let (mut answer, mut on) = to.split();
                let mut byte = [0];
                tokio::select! {
                    copied = tokio::io::copy(&mut request, &mut on) => copied.map(drop),
                    // it was answered: the connection breaks
                    read = answer.read(&mut byte) => read.map(drop),
                }
            });
        }
    });
    address
}
