//! Servers with as much of AMQP, NATS and Redis as a client needs before it sends a message. A test says how they answer it.

use std::time::Duration;

use test_support::sending::Calls;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What no test may reach: what a client takes at most, and what the sockets on the way hold.
const TOO_MUCH: usize = 128 * 1024 * 1024;

/// An answer: these bytes, and then others again and again for as long as the client reads.
#[derive(Clone, Default)]
pub struct Answer {
    bytes: Vec<u8>,
    for_ever: Vec<u8>,
    /// Between two of those.
    pause: Duration,
    closes: bool,
}

impl Answer {
    /// Answers with these bytes.
    pub fn once(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), ..Self::default() }
    }

    /// Answers with these bytes and closes the connection.
    pub fn last(bytes: impl Into<Vec<u8>>) -> Self {
        Self { closes: true, ..Self::once(bytes) }
    }

    /// Closes the connection.
    pub fn closing() -> Self {
        Self { closes: true, ..Self::default() }
    }

    /// Begins with these bytes and never ends.
    pub fn endless(bytes: impl Into<Vec<u8>>) -> Self {
        Self::repeating(bytes.into(), vec![b'x'; 64 * 1024])
    }

    /// The same with other bytes.
    pub fn repeating(bytes: Vec<u8>, for_ever: Vec<u8>) -> Self {
        Self { bytes, for_ever, ..Self::default() }
    }

    /// Begins with these bytes, and then sends the others as signs of life.
    pub fn alive(bytes: impl Into<Vec<u8>>, sign: Vec<u8>) -> Self {
        Self { pause: Duration::from_millis(100), ..Self::repeating(bytes.into(), sign) }
    }

    /// Writes it. Notes how many bytes the client had taken when it closed the connection.
    async fn write(&self, stream: &mut TcpStream, taken: &Calls<usize>) -> std::io::Result<()> {
        stream.write_all(&self.bytes).await?;
        let mut sent = 0;
        while !self.for_ever.is_empty() {
            if let Err(error) = stream.write_all(&self.for_ever).await {
                taken.note(sent);
                return Err(error);
            }
            sent += self.for_ever.len();
            if !self.pause.is_zero() {
                tokio::time::sleep(self.pause).await;
            }
            if sent >= TOO_MUCH {
                // The test fails by this number.
                taken.note(sent);
                return Err(std::io::ErrorKind::QuotaExceeded.into());
            }
        }
        if self.closes { Err(std::io::ErrorKind::ConnectionAborted.into()) } else { Ok(()) }
    }
}

/// A server. It ends when dropped.
pub struct Fake {
    pub port: u16,
    /// The connections of clients.
    pub accepted: Calls<()>,
    /// How many bytes each endless answer had when the client closed the connection.
    pub taken: Calls<usize>,
    /// The sizes of frames to which clients of AMQP have agreed.
    pub tuned: Calls<u32>,
    task: JoinHandle<()>,
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Fake {
    /// A broker of AMQP that wants frames of this size, and answers this method of a client so.
    pub async fn amqp(frame_max: u32, method: (u16, u16), answer: Answer) -> Self {
        Self::serving(move |stream, taken, tuned| amqp(stream, frame_max, method, answer.clone(), taken, tuned)).await
    }

    /// A server of NATS with this greeting, which then gives this answer to each line that begins so.
    pub async fn nats(greeting: Answer, line: &'static str, answer: Answer) -> Self {
        Self::serving(move |stream, taken, _| nats(stream, greeting.clone(), line, answer.clone(), taken)).await
    }

    /// A Redis that answers commands with these words so, and others as the client wants it.
    pub async fn redis(answers: Vec<(&'static str, Answer)>) -> Self {
        Self::serving(move |stream, taken, _| redis(stream, answers.clone(), taken)).await
    }

    async fn serving<F>(serve: impl Fn(TcpStream, Calls<usize>, Calls<u32>) -> F + Send + 'static) -> Self
    where
        F: Future<Output = std::io::Result<()>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (taken, tuned) = (Calls::default(), Calls::default());
        let (bytes, frames) = (taken.clone(), tuned.clone());
        let accepted = Calls::default();
        let connections = accepted.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                connections.note(());
                // It ends with an error when the client closes the connection.
                tokio::spawn(serve(stream, bytes.clone(), frames.clone()));
            }
        });
        Self { port, accepted, taken, tuned, task }
    }
}

/// What a server of NATS says of itself.
pub const INFO: &str = "INFO {\"server_id\":\"x\",\"server_name\":\"x\",\"version\":\"2.10.0\",\"go\":\"x\",\"host\":\"x\",\"port\":4222,\
                        \"headers\":true,\"max_payload\":1048576,\"proto\":1}\r\n";

async fn nats(
    mut stream: TcpStream,
    greeting: Answer,
    line: &str,
    answer: Answer,
    taken: Calls<usize>,
) -> std::io::Result<()> {
    greeting.write(&mut stream, &taken).await?;
    let mut read = Vec::new();
    loop {
        let Some(end) = read.windows(2).position(|end| end == b"\r\n") else {
            if stream.read_buf(&mut read).await? == 0 {
                return Ok(());
            }
            continue;
        };
        let got = String::from_utf8_lossy(&read[..end]).into_owned();
        read.drain(..end + 2);
        if got.starts_with(line) {
            answer.write(&mut stream, &taken).await?;
        } else if got == "PING" {
            stream.write_all(b"PONG\r\n").await?;
        }
    }
}

async fn redis(
    mut stream: TcpStream,
    answers: Vec<(&'static str, Answer)>,
    taken: Calls<usize>,
) -> std::io::Result<()> {
    let mut read = Vec::new();
    loop {
        let Some(end) = command_end(&read) else {
            if stream.read_buf(&mut read).await? == 0 {
                return Ok(());
            }
            continue;
        };
        let command = String::from_utf8_lossy(&read[..end]).into_owned();
        read.drain(..end);
        if let Some((_, answer)) = answers.iter().find(|(word, _)| command.contains(word)) {
            answer.write(&mut stream, &taken).await?;
        } else if command.contains("INFO") && !command.contains("SETINFO") {
            stream.write_all(b"$17\r\ncluster_enabled:0\r\n").await?;
        } else {
            stream.write_all(b"+OK\r\n").await?;
        }
    }
}

/// Returns where the first command ends; `None`: it is not complete. It is a list of texts, each after its length.
fn command_end(read: &[u8]) -> Option<usize> {
    let line = |from: usize| -> Option<(usize, usize)> {
        let end = from + read.get(from..)?.windows(2).position(|end| end == b"\r\n")?;
        Some((std::str::from_utf8(&read[from + 1..end]).ok()?.parse().ok()?, end + 2))
    };
    let (words, mut at) = line(0)?;
    for _ in 0..words {
        let (length, begin) = line(at)?;
        at = begin + length + 2;
    }
    (at <= read.len()).then_some(at)
}

/// A frame of AMQP: its type, its channel, its content.
pub fn frame(kind: u8, channel: u16, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).unwrap();
    [&[kind][..], &channel.to_be_bytes(), &length.to_be_bytes(), content, &[0xce]].concat()
}

/// A method of AMQP with its arguments.
pub fn method(channel: u16, (class, method): (u16, u16), arguments: &[u8]) -> Vec<u8> {
    frame(1, channel, &[&class.to_be_bytes()[..], &method.to_be_bytes(), arguments].concat())
}

/// A text of up to 255 bytes.
pub fn short(text: &str) -> Vec<u8> {
    [&[u8::try_from(text.len()).unwrap()][..], text.as_bytes()].concat()
}

/// The header of a message with a body of this length.
pub fn header(channel: u16, length: u64) -> Vec<u8> {
    frame(2, channel, &[&60u16.to_be_bytes()[..], &[0; 2], &length.to_be_bytes(), &[0; 2]].concat())
}

async fn amqp(
    mut stream: TcpStream,
    frame_max: u32,
    answered: (u16, u16),
    answer: Answer,
    taken: Calls<usize>,
    tuned: Calls<u32>,
) -> std::io::Result<()> {
    stream.read_exact(&mut [0; 8]).await?;
    let long = |text: &str| [&u32::try_from(text.len()).unwrap().to_be_bytes()[..], text.as_bytes()].concat();
    let start = [&[0, 9, 0, 0, 0, 0][..], &long("PLAIN"), &long("en_US")].concat();
    stream.write_all(&method(0, (10, 10), &start)).await?;
    loop {
        let mut head = [0; 7];
        stream.read_exact(&mut head).await?;
        let [kind, a, b, length @ ..] = head;
        let mut content = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap() + 1];
        stream.read_exact(&mut content).await?;
        if kind != 1 {
            continue;
        }
        let (channel, got) = (
            u16::from_be_bytes([a, b]),
            (u16::from_be_bytes([content[0], content[1]]), u16::from_be_bytes([content[2], content[3]])),
        );
        let reply = match got {
            (10, 11) => {
                let tune = [&[0; 2][..], &frame_max.to_be_bytes(), &[0; 2]].concat();
                method(0, (10, 30), &tune)
            }
            (10, 31) => {
                tuned.note(u32::from_be_bytes(content[6..10].try_into().unwrap()));
                Vec::new()
            }
            (10, 40) => method(0, (10, 41), &[0]),
            (20, 10) => method(channel, (20, 11), &[0; 4]),
            (60, 10) => method(channel, (60, 11), &[]),
            (60, 20) => method(channel, (60, 21), &short("tag")),
            (85, 10) => method(channel, (85, 11), &[]),
            (10, 50) => method(0, (10, 51), &[]),
            _ => Vec::new(),
        };
        if got != answered || got == (60, 20) {
            stream.write_all(&reply).await?;
        }
        if got == answered {
            answer.write(&mut stream, &taken).await?;
        }
    }
}
