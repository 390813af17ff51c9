use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    time::Duration,
};

/// Just enough of a client to ask a server how it is. Longer answers come line by line.
pub(super) fn ask(port: u16, command: &[&str]) -> io::Result<String> {
    const PATIENCE: Duration = Duration::from_secs(2);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let parts = command.iter().map(|part| format!("${}\r\n{part}\r\n", part.len()));
    let request = format!("*{}\r\n{}", command.len(), parts.collect::<String>());
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    read(&mut BufReader::new(stream), &mut answer)?;
    Ok(answer.trim_end().to_owned())
}

fn read(from: &mut BufReader<TcpStream>, answer: &mut String) -> io::Result<()> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    let (kind, rest) = line.trim_end().split_at_checked(1).ok_or(io::ErrorKind::UnexpectedEof)?;
    let length = || rest.parse::<i64>().map_err(io::Error::other);
    match kind {
        "$" => {
            if let Ok(length) = usize::try_from(length()?) {
                let mut bytes = vec![0; length + 2];
                from.read_exact(&mut bytes)?;
                answer.push_str(String::from_utf8_lossy(&bytes).trim_end());
            }
            answer.push('\n');
        }
        "*" => {
            for _ in 0..length()? {
                read(from, answer)?;
            }
        }
        _ => {
            answer.push_str(rest);
            answer.push('\n');
        }
    }
    Ok(())
}
