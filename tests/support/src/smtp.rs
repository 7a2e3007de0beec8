//! A mail server that answers as a test sets it, and records the mails that it takes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::sending::Calls;

/// A mail as it came.
#[derive(Clone, Debug)]
pub struct Taken {
    /// The address in `MAIL FROM`.
    pub from: String,
    /// The addresses in `RCPT TO` that were accepted.
    pub to: Vec<String>,
    /// The name in `EHLO`.
    pub hello: String,
    /// The headers and the body.
    pub text: String,
}

impl Taken {
    /// The value of a header that is in one line.
    pub fn header(&self, name: &str) -> &str {
        let begin = format!("{name}: ");
        self.text.lines().find_map(|line| line.strip_prefix(&begin)).unwrap_or_default()
    }
}

type Replies = Arc<Mutex<HashMap<String, &'static str>>>;

/// The server. It ends when dropped.
pub struct SmtpServer {
    /// The mails so far.
    pub taken: Calls<Taken>,
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
    replies: Replies,
    task: JoinHandle<()>,
}

impl SmtpServer {
    /// Takes every mail.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (taken, replies) = (Calls::default(), Replies::default());
        let (calls, answers) = (taken.clone(), Arc::clone(&replies));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, calls.clone(), Arc::clone(&answers)));
            }
        });
        Self { taken, port, replies, task }
    }

    /// The reply to this address, to the end of a mail (`.`), or to `EHLO`.
    pub fn reply(&self, to: &str, reply: &'static str) {
        self.replies.lock().unwrap().insert(to.to_owned(), reply);
    }

    /// The URL of the server.
    pub fn url(&self) -> String {
        format!("smtp://127.0.0.1:{}?tls=none", self.port)
    }
}

impl Drop for SmtpServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(stream: TcpStream, taken: Calls<Taken>, replies: Replies) -> Option<()> {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    write.write_all(b"220 here\r\n").await.ok()?;
    let (mut hello, mut from, mut to) = (String::new(), String::new(), Vec::new());
    while let Some(line) = lines.next_line().await.ok()? {
        let address =
            || line.split_once('<').and_then(|(_, rest)| rest.split_once('>')).map_or("", |(address, _)| address);
        let reply = |key: &str| replies.lock().unwrap().get(key).copied().unwrap_or("250 fine");
        let answer = match line.get(..4).unwrap_or_default() {
            "EHLO" => {
                hello = line.get(5..).unwrap_or_default().to_owned();
                reply("EHLO")
            }
            "MAIL" => {
                from = address().to_owned();
                "250 fine"
            }
            "RCPT" => {
                let answer = reply(address());
                if answer.starts_with('2') {
                    to.push(address().to_owned());
                }
                answer
            }
            "DATA" => {
                write.write_all(b"354 go on\r\n").await.ok()?;
                let mut text = String::new();
                while let Some(line) = lines.next_line().await.ok()?.filter(|line| line != ".") {
                    text.push_str(&line);
                    text.push('\n');
                }
                let answer = reply(".");
                if answer.starts_with('2') {
                    taken.note(Taken { hello: hello.clone(), from: from.clone(), to: std::mem::take(&mut to), text });
                }
                answer
            }
            _ => "250 fine",
        };
        write.write_all(format!("{answer}\r\n").as_bytes()).await.ok()?;
    }
    Some(())
}
