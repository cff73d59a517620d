//! What a sandbox may reach now, and the connections it has because of that.
//!
//! One lock guards both: a connection is admitted under the network in force when it is entered, and narrowing the
//! network finds every connection admitted before.

use std::collections::BTreeMap;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};

use coracle_core::Network;
use coracle_core::network::{Caps, Denial, Reason, Speech};

use crate::denials::Denials;
use crate::head::Authority;
use crate::own;
use crate::pace::{Names, Pace};
use crate::weak::{self, Wall};

/// The network of one sandbox.
#[derive(Debug)]
pub struct Scope {
    pub caps: Caps,
    pub pace: Pace,
    pub names: Names,
    denials: Denials,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    network: Network,
    entered: usize,
    flows: BTreeMap<u64, Flow>,
    last: u64,
}

/// One connection to the outside.
#[derive(Debug)]
struct Flow {
    authority: Authority,
    /// The protocol it was admitted for. A network that admits less ends it.
    speech: Speech,
    address: IpAddr,
    client: UnixStream,
    upstream: TcpStream,
}

impl Flow {
    fn is_admitted(&self, network: &Network) -> bool {
        network.admits(&self.authority.host, self.authority.port) >= Some(self.speech)
            && network.admits_address(self.address, self.authority.port)
    }

    fn cut(&self) {
        // The thread that carries it sees both ends close.
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.upstream.shutdown(Shutdown::Both);
    }
}

impl Scope {
    pub fn new(network: Network, caps: Caps, denials: Denials) -> Self {
        let state = State { network, entered: 0, flows: BTreeMap::new(), last: 0 };
        Self {
            pace: Pace::new(caps.bandwidth_mbit),
            names: Names::new(caps.names_per_second),
            caps,
            denials,
            state: Mutex::new(state),
        }
    }

    pub fn is_open(&self) -> bool {
        self.state().network == Network::Open
    }

    /// Tells whether the network already is no larger than this.
    pub fn is_within(&self, network: &Network) -> bool {
        self.state().network.is_within(network)
    }

    /// Takes one of the connection slots, until the value is dropped.
    pub fn enter(&self) -> Option<ClientSlot<'_>> {
        let mut state = self.state();
        if state.entered >= self.caps.connections && !weak::off(Wall::EgressCaps) {
            return None;
        }
        state.entered += 1;
        Some(ClientSlot(self))
    }

    /// Returns which protocol a host may be spoken to in, or why it may not be reached.
    pub fn admit(&self, authority: &Authority) -> Result<Speech, Reason> {
        match self.state().network.admits(&authority.host, authority.port) {
            None if weak::off(Wall::EgressRules) => Ok(Speech::Anything),
            speech => speech.ok_or(Reason::NotAllowed),
        }
    }

    /// Tells whether an address may be dialled. An address of the machine itself needs a rule that lists it, even
    /// if it is public: services listen there that trust every process on the machine.
    pub fn admits_address(&self, address: IpAddr, port: u16) -> bool {
        let network = self.state().network.clone();
        let elsewhere = || network.lists_address(address, port) || !own::is_own(address);
        network.admits_address(address, port) && elsewhere() || weak::off(Wall::EgressAddress)
    }

    /// Registers a new connection, if the network still admits it.
    pub fn flow(
        &self,
        authority: &Authority,
        speech: Speech,
        client: &UnixStream,
        upstream: &TcpStream,
    ) -> std::io::Result<Result<Passage<'_>, Reason>> {
        let flow = Flow {
            authority: authority.clone(),
            speech,
            address: upstream.peer_addr()?.ip(),
            client: client.try_clone()?,
            upstream: upstream.try_clone()?,
        };
        let mut state = self.state();
        if !flow.is_admitted(&state.network) && !weak::any() {
            return Ok(Err(Reason::NotAllowed));
        }
        state.last += 1;
        let number = state.last;
        state.flows.insert(number, flow);
        Ok(Ok(Passage { scope: self, number }))
    }

    /// Makes the network smaller and ends the connections it no longer admits. A network that is not smaller
    /// changes nothing: a caller can only ever take from a sandbox's network.
    pub fn narrow(&self, network: Network) -> bool {
        let mut state = self.state();
        if !network.is_within(&state.network) {
            return false;
        }
        state.network = network;
        let State { network, flows, .. } = &mut *state;
        if !weak::off(Wall::EgressNarrowing) {
            flows.values().filter(|flow| !flow.is_admitted(network)).for_each(Flow::cut);
        }
        true
    }

    /// Records a denial. Does so before the client hears of it, so that a caller who sees the client end finds it
    /// in the log.
    pub fn deny(&self, host: &str, port: u16, reason: Reason) -> Denial {
        let denial = Denial::new(host, port, reason);
        self.denials.add(&denial);
        denial
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection slot. Dropping it gives it back.
#[derive(Debug)]
pub struct ClientSlot<'a>(&'a Scope);

impl Drop for ClientSlot<'_> {
    fn drop(&mut self) {
        self.0.state().entered -= 1;
    }
}

/// A connection that narrowing will find.
#[derive(Debug)]
pub struct Passage<'a> {
    scope: &'a Scope,
    number: u64,
}

impl Drop for Passage<'_> {
    fn drop(&mut self) {
        self.scope.state().flows.remove(&self.number);
    }
}
