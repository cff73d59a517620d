//! One JSON message per line, in both directions: bounded, strict, and in order.
//!
//! Reading and writing have a thread each, because a client's streams may be pipes, sockets, terminals or files.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use coracle_engine::ops;
use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::sync::{Mutex, Notify, mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Streams;
use crate::{Calls, ids};

/// The longest message: the largest input of an operation, and some more for the envelope.
const LINE_MAX: usize = ops::INPUT_MAX + (64 << 10);
/// Answers that the client has not read; while there are that many, nothing is read from it.
const UNREAD_MAX: usize = 64;
/// How long running calls may take to answer after the input has ended: a person may have piped it in. Clients give a
/// server about two seconds.
const LAST_ANSWERS: Duration = Duration::from_millis(1500);

/// The lines of one client. All clones share them.
#[derive(Debug, Clone)]
pub struct Lines {
    incoming: Arc<Mutex<mpsc::Receiver<Line>>>,
    outgoing: mpsc::UnboundedSender<Outgoing>,
    unread: Arc<Unread>,
    owed: Arc<Owed>,
    calls: Calls,
    /// Cancelled when the client has stopped reading or there is nothing more to write.
    over: CancellationToken,
    /// Until when to wait for answers, once the input has ended.
    last: Arc<OnceLock<Instant>>,
}

#[derive(Debug)]
enum Line {
    Whole(Vec<u8>),
    TooLong,
}

#[derive(Debug)]
struct Outgoing {
    line: Vec<u8>,
    written: oneshot::Sender<io::Result<()>>,
}

/// How much the client has not read yet.
#[derive(Debug, Default)]
struct Unread {
    count: AtomicUsize,
    fewer: Notify,
}

/// How many answers the client waits for.
#[derive(Debug, Default)]
struct Owed {
    count: AtomicUsize,
    fewer: Notify,
}

impl Owed {
    fn more(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    fn fewer(&self) {
        // An answer to no request, such as to an invalid message, reduces nothing.
        let _ = self.count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1));
        self.fewer.notify_waiters();
    }

    /// Waits until every answer is written.
    async fn nothing(&self) {
        loop {
            let fewer = self.fewer.notified();
            if self.count.load(Ordering::SeqCst) == 0 {
                return;
            }
            fewer.await;
        }
    }
}

impl Lines {
    pub fn over(streams: Streams, calls: Calls) -> Self {
        // One message is read ahead while another is handled.
        let (send_line, incoming) = mpsc::channel(1);
        let (outgoing, to_write) = mpsc::unbounded_channel();
        let (unread, over) = (Arc::<Unread>::default(), CancellationToken::new());
        std::thread::spawn(move || read(streams.input, &send_line));
        {
            let (unread, over) = (Arc::clone(&unread), over.clone());
            std::thread::spawn(move || write(streams.output, to_write, &unread, &over));
        }
        Self {
            incoming: Arc::new(Mutex::new(incoming)),
            outgoing,
            unread,
            owed: Arc::default(),
            calls,
            over,
            last: Arc::default(),
        }
    }

    pub fn are_over(&self) -> bool {
        self.over.is_cancelled()
    }

    /// Queues a message. The receiver gets the result of writing it.
    fn put(&self, message: &ServerJsonRpcMessage) -> io::Result<oneshot::Receiver<io::Result<()>>> {
        let mut line = ids::written(message)?;
        line.push(b'\n');
        let (written, done) = oneshot::channel();
        self.unread.count.fetch_add(1, Ordering::SeqCst);
        self.outgoing.send(Outgoing { line, written }).map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(done)
    }

    /// Returns the next line, or `None` at the end of the input.
    async fn next(&self) -> Option<Line> {
        loop {
            let fewer = self.unread.fewer.notified();
            if self.unread.count.load(Ordering::SeqCst) < UNREAD_MAX {
                break;
            }
            tokio::select! {
                () = fewer => {}
                () = self.over.cancelled() => return None,
            }
        }
        let mut incoming = self.incoming.lock().await;
        tokio::select! {
            line = incoming.recv() => line,
            () = self.over.cancelled() => None,
        }
    }

    /// Answers a line that is no message with an error, without waiting until it is written.
    fn complain(&self, error: ErrorData, id: Option<RequestId>) {
        let _ = self.put(&ServerJsonRpcMessage::error(error, id));
    }
}

impl Transport<RoleServer> for Lines {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let (put, owed) = (self.put(&message), Arc::clone(&self.owed));
        let answers = matches!(message, ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_));
        async move {
            let written = put?.await.map_err(|_| io::ErrorKind::BrokenPipe)?;
            if answers {
                owed.fewer();
            }
            written
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            let line = match self.next().await {
                Some(Line::Whole(line)) => line,
                Some(Line::TooLong) => {
                    let text = format!("the message has more than {LINE_MAX} bytes");
                    self.complain(ErrorData::invalid_request(text, None), None);
                    continue;
                }
                None => break,
            };
            match message(&line) {
                Ok(Some(message)) => {
                    if matches!(message, ClientJsonRpcMessage::Request(_)) {
                        self.owed.more();
                    }
                    return Some(message);
                }
                Ok(None) => {}
                Err((error, id)) => self.complain(error, id),
            }
        }
        // Counted from the end of the input, however often this is called meanwhile; without a reader there is
        // nothing to wait for.
        let last = *self.last.get_or_init(|| Instant::now() + LAST_ANSWERS);
        tokio::select! {
            _ = tokio::time::timeout_at(last, self.owed.nothing()) => {}
            () = self.over.cancelled() => {}
        }
        self.over.cancel();
        self.calls.close();
        None
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Parses a message, or returns `None` for one that needs no answer.
fn message(line: &[u8]) -> Result<Option<ClientJsonRpcMessage>, (ErrorData, Option<RequestId>)> {
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return Ok(None);
    }
    // Duplicate keys are refused here: the parser below would take the last value, and others the first.
    let value =
        ops::parse(&ids::held(line)).map_err(|error| (ErrorData::parse_error(error.chain(), None), None))?;
    let (id, is_call) = (id(&value), value.get("method").is_some());
    match serde_json::from_value(value) {
        Ok(message) => Ok(Some(message)),
        // Notifications have no answer, not even unknown ones.
        Err(_) if is_call && id.is_none() => Ok(None),
        Err(_) => Err((ErrorData::invalid_request("this is not a message of the protocol", None), id)),
    }
}

fn id(value: &Value) -> Option<RequestId> {
    serde_json::from_value(value.get("id")?.clone()).ok()
}

/// Reads lines until the input ends. Skips a line that is too long, without keeping it.
fn read(input: File, lines: &mpsc::Sender<Line>) {
    let mut input = BufReader::new(input);
    while let Ok(Some(line)) = read_line(&mut input) {
        if lines.blocking_send(line).is_err() {
            return;
        }
    }
}

fn read_line(input: &mut impl BufRead) -> io::Result<Option<Line>> {
    let (mut line, mut too_long) = (Vec::new(), false);
    loop {
        let available = match input.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        // A line without a newline at the end is incomplete.
        if available.is_empty() {
            return Ok(None);
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let length = end.unwrap_or(available.len());
        too_long |= line.len() + length > LINE_MAX;
        match too_long {
            true => line = Vec::new(),
            false => line.extend_from_slice(&available[..length]),
        }
        input.consume(end.map_or(length, |end| end + 1));
        match (end, too_long) {
            (None, _) => {}
            (Some(_), true) => return Ok(Some(Line::TooLong)),
            (Some(_), false) => return Ok(Some(Line::Whole(line))),
        }
    }
}

/// Writes lines in the order they were queued, until the reader is gone.
fn write(
    mut output: File,
    mut lines: mpsc::UnboundedReceiver<Outgoing>,
    unread: &Unread,
    over: &CancellationToken,
) {
    while let Some(Outgoing { line, written }) = lines.blocking_recv() {
        let outcome = output.write_all(&line);
        let failed = outcome.is_err();
        unread.count.fetch_sub(1, Ordering::SeqCst);
        unread.fewer.notify_waiters();
        // The sender may be gone.
        let _ = written.send(outcome);
        if failed {
            return over.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_skipped_and_the_next_is_read() {
        let mut text = vec![b'x'; LINE_MAX + 1];
        text.extend_from_slice(b"\n{}\nrest");
        let mut input = BufReader::new(text.as_slice());
        let mut next = || read_line(&mut input).expect("memory can be read");

        assert!(matches!(next(), Some(Line::TooLong)));
        assert!(matches!(next(), Some(Line::Whole(line)) if line == b"{}"));
        assert!(next().is_none(), "the rest has no end");
    }

    #[test]
    fn an_invalid_message_is_answered_with_its_id() {
        let refused = |line: &str| message(line.as_bytes()).expect_err("not a message");

        assert_eq!(refused("{").1, None);
        assert_eq!(refused(r#"{"jsonrpc":"2.0","id":7}"#).1, Some(RequestId::Number(7)));
        assert_eq!(refused(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#).1, None);
        assert_eq!(refused("[]").1, None);
    }

    #[test]
    fn what_waits_for_no_answer_gets_none() {
        for line in ["", " ", r#"{"jsonrpc":"2.0","method":"$/unheard-of","params":3}"#] {
            assert!(matches!(message(line.as_bytes()), Ok(None)), "{line}");
        }
    }
}
