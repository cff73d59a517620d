//! Records in one SQLite database in the home, shared by every process that works there.
//!
//! Every CLI call opens the store, so opening only opens the file and reads its version; whatever only a new home or
//! a writer needs waits until then.

mod answers;
mod connection;
mod error;
mod events;
mod holder;
mod home;
mod instance;
mod location;
mod making;
mod mark;
mod migrations;
mod observed;
mod records;
mod tokens;
mod work;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use coracle_core::answer::{Answer, Answers, Asked, Bounds, Fingerprint, Recalled};
use coracle_core::cancel::Cancel;
use coracle_core::clock::Timestamp;
use coracle_core::error::Result;
use coracle_core::event::{self, Event, Filter, Log, Page};
use coracle_core::home::Home;
use coracle_core::ids::{InstanceId, SandboxId, SessionKey, TenantId, TokenId};
use coracle_core::observed::{Anchor, Reading};
use coracle_core::record::Record;
use coracle_core::store::{self, Durability, Opened, Population, Quota, Store, Which, Work};
use coracle_core::token::{Token, Tokens};

use connection::Connection;
pub use error::is_lost;
pub use instance::Recall;
pub use migrations::is_current;

/// The default store.
#[derive(Debug)]
pub struct SqliteStore {
    home: Home,
    connection: Mutex<Connection>,
    instance: InstanceId,
}

impl SqliteStore {
    /// Opens the store of a home; makes both if they do not exist.
    ///
    /// A database that a newer coracle has migrated is refused with `unsupported`.
    pub fn open(home: &Path) -> Result<Self> {
        Self::open_recalling(&Home::at(home), &|| Ok(None))
    }

    /// Opens it. Where a home has lost its database and the file with its id, `recall` finds the id in what is left.
    ///
    /// A database that has lost records ([`is_lost`]), or is another home's, is refused.
    pub fn open_recalling(home: &Home, recall: Recall<'_>) -> Result<Self> {
        let (connection, instance) = Connection::open(home, recall)?;
        Ok(Self { home: home.clone(), connection: Mutex::new(connection), instance })
    }

    /// Opens an empty store for a home whose records are lost, so that the janitor can look for what it has on the
    /// machine. Nothing in it is kept, and the database stays as it is.
    pub fn without_records(home: &Home, recall: Recall<'_>) -> Result<Self> {
        let instance = match instance::read(home)? {
            Some(instance) => instance,
            None => recall()?.map_or_else(instance::draw, Ok)?,
        };
        let connection = Connection::open_in_memory(&instance)?;
        Ok(Self { home: home.clone(), connection: Mutex::new(connection), instance })
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        // A panic in `decide` has rolled its transaction back; the connection is still good.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for SqliteStore {
    fn instance(&self) -> Result<InstanceId> {
        Ok(self.instance.clone())
    }

    fn observe(&self, reading: &Reading) -> Result<Anchor> {
        let mut connection = self.connection();
        let known = connection.read("read the observed time", observed::read)?;
        if let Some(anchor) = known.as_ref().filter(|anchor| !anchor.is_due(reading)) {
            return Ok(anchor.clone());
        }
        let counted = connection.write(Durability::Process, "count the observed time", |transaction| {
            observed::advance(transaction, reading)
        });
        // On a full disk this process counts by itself: freeing space must not need any.
        Ok(counted
            .unwrap_or_else(|_| known.map_or_else(|| Anchor::first(reading), |anchor| anchor.moved(reading))))
    }

    fn open_within(&self, record: Record, quota: Option<Quota>) -> Result<Opened> {
        let mut connection = self.connection();
        connection.write(Durability::Process, "open a sandbox", |transaction| {
            if let Some(key) = &record.key
                && let Some(existing) = records::find_key(transaction, record.tenant.as_ref(), key)?
            {
                return Ok(Opened::Existing(existing));
            }
            records::check_quota(transaction, quota, store::begins_to_take(None, &record))?;
            records::insert(transaction, &record)?;
            events::append(transaction, &event::between(None, &record))?;
            Ok(Opened::Created(record))
        })
    }

    fn find(&self, id: &SandboxId) -> Result<Option<Record>> {
        self.connection().read("read a sandbox", |connection| records::find(connection, id))
    }

    fn find_key(&self, tenant: Option<&TenantId>, key: &SessionKey) -> Result<Option<Record>> {
        self.connection()
            .read("look for a session key", |connection| records::find_key(connection, tenant, key))
    }

    fn list(&self, which: Which) -> Result<Vec<Record>> {
        self.connection().read("list sandboxes", |connection| records::list(connection, which))
    }

    fn newest(&self, tenant: Option<&TenantId>, which: Which, max: usize) -> Result<Vec<Record>> {
        self.connection().read("list sandboxes", |connection| records::newest(connection, tenant, which, max))
    }

    fn count(&self, tenant: &TenantId) -> Result<Population> {
        self.connection().read("count sandboxes", |connection| records::count(connection, tenant))
    }

    fn ended_on(&self, since: Timestamp) -> Result<BTreeSet<String>> {
        self.connection().read("list backends", |connection| records::ended_on(connection, since))
    }

    fn update_within(
        &self,
        id: &SandboxId,
        durability: Durability,
        quota: Option<Quota>,
        decide: &mut dyn FnMut(Record) -> Result<Record>,
    ) -> Result<Record> {
        self.connection().write(durability, "change a sandbox", |transaction| {
            let before = records::find(transaction, id)?.ok_or_else(|| error::unknown(id))?;
            let after = store::as_kept(decide(before.clone())?);
            records::check_quota(transaction, quota, store::begins_to_take(Some(&before), &after))?;
            records::replace(transaction, id, &after)?;
            if event::ends_execs(&before, &after) {
                events::end_execs(transaction, &after)?;
            }
            events::append(transaction, &event::between(Some(&before), &after))?;
            Ok(after)
        })
    }

    fn forget(&self, before: Timestamp, keep: usize) -> Result<usize> {
        work::sweep(&self.home);
        self.connection().write(Durability::Process, "forget sandboxes", |transaction| {
            records::forget(transaction, before, keep)
        })
    }

    fn work_on(&self, id: &SandboxId, cancel: &Cancel) -> Result<Box<dyn Work>> {
        Ok(Box::new(work::Lock::wait(&self.home, id, cancel)?))
    }

    fn try_work_on(&self, id: &SandboxId) -> Result<Option<Box<dyn Work>>> {
        Ok(work::Lock::attempt(&self.home, id)?.map(|lock| Box::new(lock) as Box<dyn Work>))
    }
}

impl Log for SqliteStore {
    fn tell(&self, reported: &[Event]) -> Result<()> {
        let mut connection = self.connection();
        // Every process that sees an end reports it. Most are not the first, and need not make writers wait.
        if connection.read("look for events", |connection| events::are_known(connection, reported))? {
            return Ok(());
        }
        connection.write(Durability::Process, "write down events", |transaction| {
            events::append(transaction, reported)
        })
    }

    fn events(&self, since: u64, filter: &Filter, max: usize) -> Result<Page> {
        self.connection().read("read events", |connection| events::page(connection, since, filter, max))
    }

    fn newest_event(&self) -> Result<u64> {
        self.connection().read("look for events", events::newest)
    }

    fn forget_events(&self, before: Timestamp, keep: u64) -> Result<u64> {
        self.connection().write(Durability::Process, "forget events", |transaction| {
            events::forget(transaction, before, keep)
        })
    }
}

impl Tokens for SqliteStore {
    fn add(&self, token: &Token) -> Result<()> {
        self.connection()
            .write(Durability::Power, "keep a token", |transaction| tokens::add(transaction, token))
    }

    fn find(&self, id: &TokenId) -> Result<Option<Token>> {
        self.connection().read("look for a token", |connection| tokens::find(connection, id))
    }

    fn list(&self) -> Result<Vec<Token>> {
        self.connection().read("list tokens", tokens::list)
    }

    fn revoke(&self, id: &TokenId, now: Timestamp) -> Result<Token> {
        self.connection()
            .write(Durability::Power, "revoke a token", |transaction| tokens::revoke(transaction, id, now))
    }
}

impl Answers for SqliteStore {
    fn ask(&self, asked: &Asked, question: &Fingerprint, now: Timestamp, bounds: Bounds) -> Result<Recalled> {
        self.connection().write(Durability::Process, "look for an answer", |transaction| {
            let recalled = answers::ask(transaction, asked, question, now)?;
            if recalled == Recalled::New {
                answers::shed_unanswered(transaction, asked, bounds)?;
            }
            Ok(recalled)
        })
    }

    fn answer(&self, asked: &Asked, answer: &Answer, bounds: Bounds) -> Result<()> {
        self.connection().write(Durability::Process, "keep an answer", |transaction| {
            answers::answer(transaction, asked, answer, bounds)
        })
    }

    fn withdraw(&self, asked: &Asked) -> Result<()> {
        self.connection()
            .write(Durability::Process, "forget a key", |transaction| answers::withdraw(transaction, asked))
    }

    fn forget_asked(&self, before: Timestamp) -> Result<usize> {
        self.connection()
            .write(Durability::Process, "forget answers", |transaction| answers::forget(transaction, before))
    }
}
