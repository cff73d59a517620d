//! A WebSocket to one exec: its output comes as text messages of JSON, and standard input, signals and the terminal's
//! size go the other way. A binary message is standard input as it is.

use std::time::Duration;

use axum::Extension;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{Path, Query, State};
use axum::response::Response;
use coracle::{Control, Error, Kind, Result};
use coracle_engine::text;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::{Named, Reader, Told, told};
use crate::http::Door;
use crate::http::auth::Identity;
use crate::http::reply::Refusal;
use crate::http::vigil::Vigil;

/// What the guest takes of standard input at once, in base64 and with some words around it.
const MESSAGE_MAX: usize = 3 << 19;
/// Messages read ahead of a command that does not take its input; after that the client waits, too.
const WAITING_MAX: usize = 8;
/// How long the orders of a client that is gone may take.
const LAST_ORDERS: Duration = Duration::from_secs(10);

/// What a client may ask for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    since_seq: Option<u64>,
    /// The output is meant for this client: the command waits until it was read, and a terminal is hung up with it.
    #[serde(default)]
    attend: bool,
}

/// What a client says.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Said {
    Stdin {
        #[serde(default)]
        data: Option<String>,
        #[serde(default)]
        data_b64: Option<String>,
        #[serde(default)]
        eof: bool,
    },
    Signal {
        signal: i32,
    },
    Resize {
        rows: u16,
        columns: u16,
    },
    Stop,
}

pub async fn serve(
    State(door): State<Door>,
    Extension(identity): Extension<Identity>,
    named: Result<Path<Named>, axum::extract::rejection::PathRejection>,
    asked: Result<Query<Asked>, axum::extract::rejection::QueryRejection>,
    upgrade: Result<WebSocketUpgrade, axum::extract::ws::rejection::WebSocketUpgradeRejection>,
) -> Result<Response, Refusal> {
    identity.may("sandbox_exec_read")?;
    identity.may("sandbox_exec_write")?;
    identity.may("sandbox_exec_stop")?;
    let Path(named) = named.map_err(Refusal::unreadable)?;
    let Query(asked) = asked.map_err(Refusal::unreadable)?;
    let upgrade = upgrade.map_err(Refusal::unreadable)?;
    let (sandbox, exec, caller) = (named.sandbox_id.clone(), named.exec_id.clone(), identity.caller.clone());
    let reader = Reader::start(&door, &identity, named, asked.since_seq.unwrap_or(0), asked.attend).await?;
    let control = door.ask(&identity, move |engine| engine.control(&caller, &sandbox, &exec)).await?;
    Ok(upgrade
        .max_message_size(MESSAGE_MAX)
        .max_frame_size(MESSAGE_MAX)
        .on_upgrade(move |socket| converse(socket, reader, control, Vigil::new(identity, door))))
}

/// Serves a client. What it ordered last is done even if it does not wait for that, but a command that does not read its
/// input must not hold a thread for hours.
async fn converse(socket: WebSocket, reader: Reader, control: Control, vigil: Vigil) {
    let (orders, taken) = mpsc::channel(WAITING_MAX);
    let (complaints, heard) = mpsc::channel(WAITING_MAX);
    let Ok(cutter) = control.cutter() else { return };
    let steering = tokio::task::spawn_blocking(move || steer(control, taken, complaints));
    talk(socket, reader, vigil, orders, heard).await;
    let _ = timeout(LAST_ORDERS, steering).await;
    drop(cutter);
}

/// Passes on what either side says, until one of them is gone.
async fn talk(
    mut socket: WebSocket,
    reader: Reader,
    mut vigil: Vigil,
    orders: mpsc::Sender<Said>,
    mut heard: mpsc::Receiver<Error>,
) {
    let (identity, closing) = (vigil.identity.clone(), vigil.door.closing().clone());
    let mut reading = Box::pin(reader.next());
    let mut waiting: Option<Said> = None;
    let ended = loop {
        tokio::select! {
            (reader, batch) = &mut reading => {
                let Ok(more) = show(&mut socket, &identity, batch).await else { return };
                if !more {
                    break close_code::NORMAL;
                }
                if !vigil.goes_on().await {
                    break close_code::POLICY;
                }
                reading = Box::pin(reader.next());
            }
            message = socket.recv(), if waiting.is_none() => match hear(message) {
                Heard::Order(said) => waiting = Some(said),
                Heard::Nothing => {}
                Heard::Nonsense(error) => {
                    let _ = tell(&mut socket, &Told::failure(&identity, error)).await;
                    break close_code::POLICY;
                }
                Heard::Gone => return,
            },
            place = orders.reserve(), if waiting.is_some() => match (place, waiting.take()) {
                (Ok(place), Some(said)) => place.send(said),
                _ => break close_code::ERROR,
            },
            Some(error) = heard.recv() => {
                if tell(&mut socket, &Told::failure(&identity, error)).await.is_err() {
                    return;
                }
            }
            // Without an end: whoever was connected comes again and goes on.
            () = closing.cancelled() => break close_code::AWAY,
        }
    };
    let frame = CloseFrame { code: ended, reason: Utf8Bytes::from_static("") };
    let _ = socket.send(Message::Close(Some(frame))).await;
}

/// Passes a batch on; tells whether there may be more.
async fn show(
    socket: &mut WebSocket,
    identity: &Identity,
    batch: Result<Option<coracle_engine::Batch>>,
) -> Result<bool, axum::Error> {
    match batch {
        Ok(None) => Ok(false),
        Ok(Some(batch)) => {
            let done = batch.progress.is_done();
            if batch.chunks.is_empty() && !done {
                // Nothing new: shows the client, and us, that the other one is still there.
                socket.send(Message::Ping(bytes::Bytes::new())).await?;
            }
            for told in told(batch) {
                tell(socket, &told).await?;
            }
            Ok(!done)
        }
        Err(error) => {
            tell(socket, &Told::failure(identity, error)).await?;
            Ok(false)
        }
    }
}

async fn tell(socket: &mut WebSocket, told: &Told) -> Result<(), axum::Error> {
    socket.send(Message::Text(serde_json::to_string(told).unwrap_or_default().into())).await
}

/// What came from a client.
enum Heard {
    Order(Said),
    Nothing,
    Nonsense(Error),
    Gone,
}

fn hear(message: Option<Result<Message, axum::Error>>) -> Heard {
    match message {
        Some(Ok(Message::Text(text))) => match serde_json::from_str(&text) {
            Ok(said) => Heard::Order(said),
            Err(error) => {
                Heard::Nonsense(Error::new(Kind::Invalid, format!("the message is not valid: {error}")))
            }
        },
        Some(Ok(Message::Binary(bytes))) => {
            Heard::Order(Said::Stdin { data: None, data_b64: Some(text::encode(&bytes)), eof: false })
        }
        Some(Ok(Message::Ping(_) | Message::Pong(_))) => Heard::Nothing,
        Some(Ok(Message::Close(_)) | Err(_)) | None => Heard::Gone,
    }
}

/// Does what is said, one thing after the other, until nobody says anything any more.
fn steer(mut control: Control, mut taken: mpsc::Receiver<Said>, complaints: mpsc::Sender<Error>) {
    while let Some(said) = taken.blocking_recv() {
        if let Err(error) = obey(&mut control, said) {
            // A client that reads none of them has more than enough with these.
            let _ = complaints.try_send(error);
        }
    }
}

fn obey(control: &mut Control, said: Said) -> Result<()> {
    match said {
        Said::Stdin { data, data_b64, eof } => {
            if let Some(bytes) = text::decode("data", data, data_b64)? {
                control.write(&bytes)?;
            }
            if eof { control.close_input() } else { Ok(()) }
        }
        Said::Signal { signal } => control.signal(signal),
        Said::Resize { rows, columns } => control.resize(rows, columns),
        Said::Stop => control.stop(None).map(drop),
    }
}
