//! The orders of a WebSocket client, and the tasks that carry them out.
//!
//! Standard input waits until the command has read what came before. `stop`, `signal` and `resize` do not wait behind
//! it: they have a connection of their own to the guest, made for the first of them.

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

/// How much standard input is buffered for a command that does not read it; beyond that the client waits, too.
const AHEAD_MAX: usize = 8 << 20;
/// This much of it is free. The rest is taken from the tenant's memory for bodies.
const FREE: usize = 64 << 10;
/// What a message costs besides its text.
const MESSAGE: usize = 128;
/// How long an urgent order waits for earlier input: as long as a reading command needs.
const COURTESY: Duration = Duration::from_millis(100);

/// An order of a client.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Order {
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

impl Order {
    fn cost(&self) -> usize {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        match self {
            Self::Stdin { data, data_b64, .. } => length(data) + length(data_b64) + MESSAGE,
            Self::Signal { .. } | Self::Resize { .. } | Self::Stop => MESSAGE,
        }
    }
}

/// Where orders are given. Dropping it lets the tasks that carry them out end.
#[derive(Debug)]
pub struct Orders {
    input: mpsc::UnboundedSender<Input>,
    urgent: mpsc::UnboundedSender<(u64, Order)>,
    ahead: Arc<Ahead>,
    /// How many messages of input there were.
    given: AtomicUsize,
    share: Share,
}

/// A message of input, and its part of the tenant's share.
type Input = (Order, Option<Permit>);

/// The orders that are not carried out yet.
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
    /// Starts the tasks that carry orders out: input by this control, the rest by another one, which is taken when it
    /// is needed.
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

    /// Passes an order on, or refuses it where too much input of the tenant waits already. The tasks that carry
    /// orders out live as long as this does.
    pub fn give(&self, order: Order) -> Result<()> {
        let cost = order.cost();
        let held = match self.ahead.cost.load(Ordering::SeqCst) + cost > FREE {
            true => Some(self.share.body(cost).map_err(|refusal| *refusal.error)?),
            false => None,
        };
        self.ahead.cost.fetch_add(cost, Ordering::SeqCst);
        let given = match order {
            Order::Stdin { .. } => {
                self.given.fetch_add(1, Ordering::SeqCst);
                self.input.send((order, held)).map_err(drop)
            }
            Order::Signal { .. } | Order::Resize { .. } | Order::Stop => {
                let before = self.given.load(Ordering::SeqCst) as u64;
                self.urgent.send((before, order)).map_err(drop)
            }
        };
        // The receiving task is gone only if it panicked.
        let _ = given;
        Ok(())
    }

    /// Tells whether the client may give more orders now.
    pub fn have_room(&self) -> bool {
        self.ahead.cost.load(Ordering::SeqCst) < AHEAD_MAX
    }

    /// Waits until the client may give more orders.
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

/// The tasks that carry orders out.
#[derive(Debug)]
pub struct Steering {
    feeding: JoinHandle<()>,
    ringing: JoinHandle<()>,
    /// Ends input that waits for a command that does not read, when this is dropped.
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

/// What is needed to take another control of an exec.
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

    /// Takes a control; an error becomes the status of the request.
    pub async fn take(&self) -> Result<Steered, Refusal> {
        let Self { caller, sandbox, exec, .. } = self.clone();
        let (call, cut) = cancellable(caller);
        let taken = move |engine: &Engine| engine.execs().control(call, &sandbox, &exec);
        Ok((self.service.ask(&self.identity, taken).await?, cut))
    }

    /// Takes another control.
    async fn take_another(&self) -> Result<Steered> {
        let Self { caller, sandbox, exec, .. } = self.clone();
        let (call, cut) = cancellable(caller);
        Ok((self.service.look(move |engine| engine.execs().control(call, &sandbox, &exec)).await?, cut))
    }
}

/// A control, and a guard that cuts off its waits when it is dropped.
pub type Steered = (Control, CancelOnDrop);

fn cancellable(caller: Caller) -> (Call, CancelOnDrop) {
    let cancel = Cancel::default();
    let cut = CancelOnDrop::of(&cancel);
    (Call::by(caller).cancelled_by(cancel), cut)
}

/// Writes input, one message after the other, until the sender is gone.
fn feed(
    mut control: Control,
    mut written: mpsc::UnboundedReceiver<Input>,
    delivered: &watch::Sender<u64>,
    ahead: &Ahead,
    complaints: &mpsc::Sender<Error>,
) {
    while let Some((order, _held)) = written.blocking_recv() {
        let cost = order.cost();
        if let Err(error) = obey(&mut control, order) {
            let _ = complaints.try_send(error);
        }
        delivered.send_modify(|count| *count += 1);
        ahead.settle(cost);
    }
}

/// Carries out orders that do not wait behind input.
async fn press(
    wheel: Wheel,
    mut pressing: mpsc::UnboundedReceiver<(u64, Order)>,
    mut delivered: watch::Receiver<u64>,
    ahead: Arc<Ahead>,
    complaints: mpsc::Sender<Error>,
) {
    let mut ready = None;
    while let Some((before, order)) = pressing.recv().await {
        let cost = order.cost();
        let _ = timeout(COURTESY, delivered.wait_for(|count| *count >= before)).await;
        match press_one(&wheel, ready.take(), order).await {
            Ok(taken) => ready = Some(taken),
            // The next order gets a new connection.
            Err(error) => drop(complaints.try_send(error)),
        }
        ahead.settle(cost);
    }
}

/// Carries one urgent order out. Dropping the future cuts it off.
async fn press_one(wheel: &Wheel, ready: Option<Steered>, order: Order) -> Result<Steered> {
    let (mut control, cut) = match ready {
        Some(ready) => ready,
        None => wheel.take_another().await?,
    };
    let pressed = tokio::task::spawn_blocking(move || obey(&mut control, order).map(|()| control));
    let control = pressed.await.map_err(|error| Error::internal("the order did not finish", error))??;
    Ok((control, cut))
}

fn obey(control: &mut Control, order: Order) -> Result<()> {
    match order {
        Order::Stdin { data, data_b64, eof } => {
            if let Some(bytes) = text::decode("data", data, data_b64)? {
                control.write(&bytes)?;
            }
            if eof { control.close_input() } else { Ok(()) }
        }
        Order::Signal { signal } => control.signal(signal),
        Order::Resize { rows, columns } => control.resize(rows, columns),
        Order::Stop => control.stop(None).map(drop),
    }
}
