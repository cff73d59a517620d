//! A WebSocket to one exec: it sends output as text messages of JSON, and receives standard input, signals and the
//! terminal's size. A binary message is raw standard input. Every end carries a close frame.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{Path, Query, State};
use axum::response::Response;
use coracle::{Error, Kind, Result};
use coracle_engine::text;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::orders::{Order, Orders, Wheel};
use super::{Named, Reader, Reading, StreamItem, items};
use coracle_service::Deadline;
use coracle_service::Service;
use coracle_service::TokenRecheck;
use coracle_service::auth::Identity;
use coracle_service::listen::Busy;
use coracle_service::reply::Refusal;

/// A quarter of a mebibyte of standard input in base64, with some JSON around it. Small, because hundreds of clients
/// may each have sent most of one.
const MESSAGE_MAX: usize = 3 << 17;
/// How often a client whose input has to wait is checked: nothing is read from it meanwhile.
const LOOK: Duration = Duration::from_secs(1);
/// Error messages that a client has not read yet; more would not help a client that reads none.
const COMPLAINTS_MAX: usize = 8;
/// How long the orders of a disconnected client may take.
const LAST_ORDERS: Duration = Duration::from_secs(10);
/// How long a client may take to answer a close frame. Closing with unread data would reset the connection, and the
/// close frame would be lost.
const FAREWELL: Duration = Duration::from_secs(2);

/// The query of a client.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    since_seq: Option<u64>,
    /// The command waits until this client has read its output, and its terminal hangs up when the client
    /// disconnects.
    #[serde(default)]
    attend: bool,
}

pub async fn serve(
    State(service): State<Service>,
    Extension(identity): Extension<Identity>,
    named: Result<Path<Named>, axum::extract::rejection::PathRejection>,
    asked: Result<Query<Asked>, axum::extract::rejection::QueryRejection>,
    Extension(busy): Extension<Arc<Busy>>,
    Extension(deadline): Extension<Deadline>,
    upgrade: Result<WebSocketUpgrade, axum::extract::ws::rejection::WebSocketUpgradeRejection>,
) -> Result<Response, Refusal> {
    identity.may("sandbox_exec_read")?;
    identity.may("sandbox_exec_write")?;
    identity.may("sandbox_exec_stop")?;
    let Path(named) = named.map_err(Refusal::unreadable)?;
    let Query(asked) = asked.map_err(Refusal::unreadable)?;
    let upgrade = upgrade.map_err(Refusal::unreadable)?;
    let wheel = Wheel::of(&service, &identity, &named);
    let reading = Reading { since: asked.since_seq.unwrap_or(0), attend: asked.attend, deadline };
    let reader = Reader::start(&service, &identity, named, reading).await?;
    // The status reports whether the caller may control this exec.
    let control = wheel.take().await?;
    Ok(upgrade.max_message_size(MESSAGE_MAX).max_frame_size(MESSAGE_MAX).on_upgrade(
        move |socket| async move {
            let (complaints, heard) = mpsc::channel(COMPLAINTS_MAX);
            let (orders, steering) = Orders::carried_out_by(control, wheel, complaints);
            converse(socket, reader, TokenRecheck::new(identity, service), orders, heard).await;
            // The last orders are carried out even if the client does not wait, but a command that does not read its
            // input must not hold a thread for hours.
            let _ = timeout(LAST_ORDERS, steering.ended()).await;
            drop(busy);
        },
    ))
}

/// Serves a client, and sends it the reason when that ends.
async fn converse(
    mut socket: WebSocket,
    reader: Reader,
    recheck: TokenRecheck,
    orders: Orders,
    heard: mpsc::Receiver<Error>,
) {
    let Some(code) = talk(&mut socket, reader, recheck, orders, heard).await else { return };
    let frame = CloseFrame { code, reason: Utf8Bytes::from_static("") };
    if socket.send(Message::Close(Some(frame))).await.is_ok() {
        let _ = timeout(FAREWELL, async { while let Some(Ok(_)) = socket.recv().await {} }).await;
    }
}

/// Passes messages in both directions until one side is gone. Returns the code of the close frame; `None` if the
/// client is gone.
async fn talk(
    socket: &mut WebSocket,
    reader: Reader,
    mut recheck: TokenRecheck,
    orders: Orders,
    mut heard: mpsc::Receiver<Error>,
) -> Option<u16> {
    let (identity, closing) = (recheck.identity.clone(), recheck.service.closing().clone());
    let mut reading = Box::pin(reader.next());
    loop {
        tokio::select! {
            (reader, batch) = &mut reading => {
                if let Some(end) = show(socket, &identity, batch).await.ok()? {
                    return Some(end);
                }
                if !recheck.is_valid().await {
                    return Some(close_code::POLICY);
                }
                reading = Box::pin(reader.next());
            }
            message = socket.recv(), if orders.have_room() => match hear(message) {
                Heard::Order(order) => {
                    if let Err(error) = orders.give(order) {
                        tell(socket, &StreamItem::failure(&identity, error)).await.ok()?;
                        return Some(close_code::AGAIN);
                    }
                }
                Heard::Nothing => {}
                Heard::Nonsense(error) => {
                    tell(socket, &StreamItem::failure(&identity, error)).await.ok()?;
                    return Some(close_code::POLICY);
                }
                // Reading on writes the answer to the client's close frame.
                Heard::Goodbye => {
                    let _ = timeout(FAREWELL, async { while let Some(Ok(_)) = socket.recv().await {} }).await;
                    return None;
                }
                Heard::Unreadable => return Some(close_code::PROTOCOL),
                Heard::Gone => return None,
            },
            () = orders.room(), if !orders.have_room() => {}
            () = sleep(LOOK), if !orders.have_room() => {
                socket.send(Message::Ping(bytes::Bytes::new())).await.ok()?;
            }
            Some(error) = heard.recv() => tell(socket, &StreamItem::failure(&identity, error)).await.ok()?,
            // Without an end: the client reconnects and goes on.
            () = closing.cancelled() => return Some(close_code::AWAY),
        }
    }
}

/// Sends a batch; returns the close code, if this was the last one.
async fn show(
    socket: &mut WebSocket,
    identity: &Identity,
    batch: Result<Option<coracle_engine::Batch>>,
) -> Result<Option<u16>, axum::Error> {
    match batch {
        Ok(None) => Ok(Some(close_code::NORMAL)),
        Ok(Some(batch)) => {
            let done = batch.progress.is_done();
            if batch.chunks.is_empty() && !done {
                // Nothing new: the ping shows that the other side is still there.
                socket.send(Message::Ping(bytes::Bytes::new())).await?;
            }
            for item in items(batch) {
                tell(socket, &item).await?;
            }
            Ok(done.then_some(close_code::NORMAL))
        }
        Err(error) => {
            tell(socket, &StreamItem::failure(identity, error)).await?;
            Ok(Some(close_code::ERROR))
        }
    }
}

async fn tell(socket: &mut WebSocket, item: &StreamItem) -> Result<(), axum::Error> {
    socket.send(Message::Text(serde_json::to_string(item).unwrap_or_default().into())).await
}

/// A message from a client.
enum Heard {
    Order(Order),
    Nothing,
    Nonsense(Error),
    /// A close frame.
    Goodbye,
    /// It broke the protocol, or is longer than a message may be.
    Unreadable,
    Gone,
}

fn hear(message: Option<Result<Message, axum::Error>>) -> Heard {
    match message {
        Some(Ok(Message::Text(text))) => match serde_json::from_str(&text) {
            Ok(order) => Heard::Order(order),
            Err(error) => {
                Heard::Nonsense(Error::new(Kind::Invalid, format!("the message is not valid: {error}")))
            }
        },
        Some(Ok(Message::Binary(bytes))) => {
            Heard::Order(Order::Stdin { data: None, data_b64: Some(text::encode(&bytes)), eof: false })
        }
        Some(Ok(Message::Ping(_) | Message::Pong(_))) => Heard::Nothing,
        Some(Ok(Message::Close(_))) => Heard::Goodbye,
        Some(Err(_)) => Heard::Unreadable,
        None => Heard::Gone,
    }
}
