//! What a client of a WebSocket orders, and who carries it out.
//!
//! Standard input waits until the command has read what came before. `stop`, `signal` and `resize` do not wait behind it:
//! they have a connection of their own to the guest, made when the first of them comes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use coracle::{Control, Error, ExecId, Result, SandboxId};
use coracle_core::cancel::{Cancel, CancelOnDrop};
use coracle_engine::{Call, Caller, Engine, text};
use serde::Deserialize;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::Named;
use coracle_service::Service;
use coracle_service::auth::Identity;
use coracle_service::reply::Refusal;
use coracle_service::shares::{Permit, Share};

/// How much standard input is read ahead of a command that does not take it; after that the client waits, too.
const AHEAD_MAX: usize = 8 << 20;
/// This much of it costs nothing. The rest takes from what the bodies of the tenant may take together.
const FREE: usize = 64 << 10;
/// What a message costs beside its text.
const MESSAGE: usize = 128;
/// How long an urgent order lets input go first that came before it: as long as a command takes that does read.
const COURTESY: Duration = Duration::from_millis(100);

/// What a client says.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Said {
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

impl Said {
    fn cost(&self) -> usize {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        match self {
            Self::Stdin { data, data_b64, .. } => length(data) + length(data_b64) + MESSAGE,
            Self::Signal { .. } | Self::Resize { .. } | Self::Stop => MESSAGE,
        }
    }
}

/// Where orders are given. Dropping it lets those who carry them out come to their end.
#[derive(Debug)]
pub struct Orders {
    input: mpsc::UnboundedSender<Input>,
    urgent: mpsc::UnboundedSender<(u64, Said)>,
    ahead: Arc<Ahead>,
    /// How many messages of input there were.
    given: AtomicUsize,
    share: Share,
}

/// A message of input and what it takes of the tenant's share.
type Input = (Said, Option<Permit>);

/// What was ordered and not carried out yet.
#[derive(Debug, Default)]
struct Ahead {
    cost: AtomicUsize,
    less: Notify,
}

impl Ahead {
    fn settle(&self, cost: usize) {
        self.cost.fetch_sub(cost, Ordering::SeqCst);
        self.less.notify_waiters();
    }
}

impl Orders {
    /// Has orders carried out: input by one control, the rest by another one, which is taken when it is needed.
    pub fn carried_out_by(
        (control, cut): Steered,
        wheel: Wheel,
        complaints: mpsc::Sender<Error>,
    ) -> (Self, Steering) {
        let (input, written) = mpsc::unbounded_channel();
        let (urgent, pressing) = mpsc::unbounded_channel();
        let (delivered, seen) = watch::channel(0);
        let (ahead, share) = (Arc::<Ahead>::default(), wheel.share());
        let feeding = {
            let (ahead, complaints) = (ahead.clone(), complaints.clone());
            tokio::task::spawn_blocking(move || feed(control, written, &delivered, &ahead, &complaints))
        };
        let ringing = tokio::spawn(press(wheel, pressing, seen, ahead.clone(), complaints));
        let orders = Self { input, urgent, ahead, given: AtomicUsize::new(0), share };
        (orders, Steering { feeding, ringing, _cut: cut })
    }

    /// Passes an order on, or refuses it where too much input of the tenant waits already. Those who carry orders out are
    /// there for as long as this is.
    pub fn give(&self, said: Said) -> Result<()> {
        let cost = said.cost();
        let held = match self.ahead.cost.load(Ordering::SeqCst) + cost > FREE {
            true => Some(self.share.body(cost).map_err(|refusal| *refusal.error)?),
            false => None,
        };
        self.ahead.cost.fetch_add(cost, Ordering::SeqCst);
        let given = match said {
            Said::Stdin { .. } => {
                self.given.fetch_add(1, Ordering::SeqCst);
                self.input.send((said, held)).map_err(drop)
            }
            Said::Signal { .. } | Said::Resize { .. } | Said::Stop => {
                let before = self.given.load(Ordering::SeqCst) as u64;
                self.urgent.send((before, said)).map_err(drop)
            }
        };
        // Whoever carries them out is gone only if it panicked.
        let _ = given;
        Ok(())
    }

    /// Tells whether more may be ordered before something is done.
    pub fn have_room(&self) -> bool {
        self.ahead.cost.load(Ordering::SeqCst) < AHEAD_MAX
    }

    /// Waits until more may be ordered.
    pub async fn room(&self) {
        loop {
            let less = self.ahead.less.notified();
            if self.have_room() {
                return;
            }
            less.await;
        }
    }
}

/// Those who carry orders out.
#[derive(Debug)]
pub struct Steering {
    feeding: JoinHandle<()>,
    ringing: JoinHandle<()>,
    /// Ends input that waits for a command that does not read, when nobody waits for that any more.
    _cut: CancelOnDrop,
}

impl Steering {
    /// Waits until every order was carried out. Dropping the future cuts off what still waits.
    pub async fn ended(mut self) {
        let _ = (&mut self.feeding).await;
        let _ = (&mut self.ringing).await;
    }
}

impl Drop for Steering {
    fn drop(&mut self) {
        self.ringing.abort();
    }
}

/// How an exec is steered: what another control is taken with.
#[derive(Debug, Clone)]
pub struct Wheel {
    service: Service,
    identity: Identity,
    caller: Caller,
    sandbox: SandboxId,
    exec: ExecId,
}

impl Wheel {
    pub fn of(service: &Service, identity: &Identity, named: &Named) -> Self {
        Self {
            service: service.clone(),
            caller: identity.caller.clone(),
            identity: identity.clone(),
            sandbox: named.sandbox_id.clone(),
            exec: named.exec_id.clone(),
        }
    }

    fn share(&self) -> Share {
        self.service.share_of_tenant(self.caller.tenant.as_ref())
    }

    /// Takes a control, for whoever asks and is to be told with a status.
    pub async fn take(&self) -> Result<Steered, Refusal> {
        let Self { caller, sandbox, exec, .. } = self.clone();
        let (call, cut) = cancellable(caller);
        let taken = move |engine: &Engine| engine.control(call, &sandbox, &exec);
        Ok((self.service.ask(&self.identity, taken).await?, cut))
    }

    /// Takes another one.
    async fn take_another(&self) -> Result<Steered> {
        let Self { caller, sandbox, exec, .. } = self.clone();
        let (call, cut) = cancellable(caller);
        Ok((self.service.look(move |engine| engine.control(call, &sandbox, &exec)).await?, cut))
    }
}

/// A control, and what cuts off whatever waits there when it is dropped.
pub type Steered = (Control, CancelOnDrop);

fn cancellable(caller: Caller) -> (Call, CancelOnDrop) {
    let cancel = Cancel::default();
    let cut = CancelOnDrop::of(&cancel);
    (Call::by(caller).cancelled_by(cancel), cut)
}

/// Writes input, one message after the other, until nobody sends any more.
fn feed(
    mut control: Control,
    mut written: mpsc::UnboundedReceiver<Input>,
    delivered: &watch::Sender<u64>,
    ahead: &Ahead,
    complaints: &mpsc::Sender<Error>,
) {
    while let Some((said, _held)) = written.blocking_recv() {
        let cost = said.cost();
        if let Err(error) = obey(&mut control, said) {
            let _ = complaints.try_send(error);
        }
        delivered.send_modify(|count| *count += 1);
        ahead.settle(cost);
    }
}

/// Does what does not wait behind input.
async fn press(
    wheel: Wheel,
    mut pressing: mpsc::UnboundedReceiver<(u64, Said)>,
    mut delivered: watch::Receiver<u64>,
    ahead: Arc<Ahead>,
    complaints: mpsc::Sender<Error>,
) {
    let mut ready = None;
    while let Some((before, said)) = pressing.recv().await {
        let cost = said.cost();
        let _ = timeout(COURTESY, delivered.wait_for(|count| *count >= before)).await;
        match press_one(&wheel, ready.take(), said).await {
            Ok(taken) => ready = Some(taken),
            // The next order has a new connection.
            Err(error) => drop(complaints.try_send(error)),
        }
        ahead.settle(cost);
    }
}

/// Carries one urgent order out. Dropping the future cuts it off.
async fn press_one(wheel: &Wheel, ready: Option<Steered>, said: Said) -> Result<Steered> {
    let (mut control, cut) = match ready {
        Some(ready) => ready,
        None => wheel.take_another().await?,
    };
    let pressed = tokio::task::spawn_blocking(move || obey(&mut control, said).map(|()| control));
    let control = pressed.await.map_err(|error| Error::internal("the order came to no end", error))??;
    Ok((control, cut))
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
