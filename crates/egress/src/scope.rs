//! What a sandbox may reach now, and the connections it has because of that.
//!
//! One lock over both: a connection is admitted under the network it is entered under, and narrowing the network finds
//! every connection that was admitted before.

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
    /// What it was let in to speak. A network that lets it speak less does not let it stay.
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
        // Whoever carries it sees the end of both.
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

    /// Tells whether it is no larger than this already.
    pub fn is_within(&self, network: &Network) -> bool {
        self.state().network.is_within(network)
    }

    /// Takes one of the slots there are for connections, until the value is dropped.
    pub fn enter(&self) -> Option<ClientSlot<'_>> {
        let mut state = self.state();
        if state.entered >= self.caps.connections && !weak::off(Wall::EgressCaps) {
            return None;
        }
        state.entered += 1;
        Some(ClientSlot(self))
    }

    /// Returns what may be spoken with a host, or why nothing may.
    pub fn admit(&self, authority: &Authority) -> Result<Speech, Reason> {
        match self.state().network.admits(&authority.host, authority.port) {
            None if weak::off(Wall::EgressRules) => Ok(Speech::Anything),
            speech => speech.ok_or(Reason::NotAllowed),
        }
    }

    /// Tells whether an address may be dialled. One of the machine's own only if a rule lists it: services that trust
    /// whoever is on the machine listen there, also where the address is public.
    pub fn admits_address(&self, address: IpAddr, port: u16) -> bool {
        let network = self.state().network.clone();
        let elsewhere = || network.lists_address(address, port) || !own::is_own(address);
        network.admits_address(address, port) && elsewhere() || weak::off(Wall::EgressAddress)
    }

    /// Enters a connection that was made, if it may still be.
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

    /// Makes the network smaller and ends what it does not admit any more. A network that is not smaller changes
    /// nothing: whoever holds a sandbox's network can only ever take from it.
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

    /// Writes a refusal down. Before the client hears of it, so that whoever sees the client end finds it there.
    pub fn deny(&self, host: &str, port: u16, reason: Reason) -> Denial {
        let denial = Denial::new(host, port, reason);
        self.denials.add(&denial);
        denial
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A slot among the connections. Dropping it gives it back.
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
