//! Prints what opening, reading and writing cost, in microseconds: `cargo run --release --example timing [HOME]`.

use std::path::PathBuf;
use std::time::Instant;

use coracle_core::event::{self, End, Filter, Log};
use coracle_core::lifecycle::State;
use coracle_core::record::Record;
use coracle_core::store::{Durability, Opened, Which};
use coracle_core::{Cancel, Result, Store};
use coracle_stores::SqliteStore;
use coracle_testing::sample;

const ROUNDS: usize = 300;

#[allow(clippy::print_stdout)]
fn main() -> Result<()> {
    let home =
        std::env::args().nth(1).map_or_else(|| std::env::temp_dir().join("coracle-timing"), PathBuf::from);
    let started = Instant::now();
    drop(SqliteStore::open(&home)?);
    println!("{:<44} {:>8.0}", "first open", started.elapsed().as_secs_f64() * 1e6);
    measure("open, find", || SqliteStore::open(&home)?.find(&sample::sandbox()).map(drop));
    measure("open, insert, ready, destroying, destroyed", || live(&SqliteStore::open(&home)?));

    let store = SqliteStore::open(&home)?;
    measure("find", || store.find(&sample::sandbox()).map(drop));
    measure("list live", || store.list(Which::Live).map(drop));
    measure("insert, ready, destroying, destroyed", || live(&store));
    let Opened::Created(record) = store.open(sample::record())? else { return Ok(()) };
    measure("update, process", || store.update(&record.id, Durability::Process, &mut Ok).map(drop));
    measure("update, power", || store.update(&record.id, Durability::Power, &mut Ok).map(drop));
    let mut count = 0;
    measure("start and end of an exec", || {
        count += 1;
        let exec = format!("exec_{count}").parse()?;
        store.tell(&[event::exec_started(&record, &exec, record.updated_at)])?;
        store.tell(&[event::exec_ended(&record, &exec, record.updated_at, &End::UNSEEN)])
    });
    measure("an end that was told", || {
        let exec = "exec_1".parse()?;
        store.tell(&[event::exec_ended(&record, &exec, record.updated_at, &End::UNSEEN)])
    });
    measure("newest event", || store.newest_event().map(drop));
    measure("100 events", || store.events(0, &Filter::default(), 100).map(drop));
    measure("work lock", || store.work_on(&record.id, &Cancel::default()).map(drop));
    Ok(())
}

fn live(store: &SqliteStore) -> Result<()> {
    let record = sample::record();
    store.open(record.clone())?;
    for state in [State::Ready, State::Destroying, State::Destroyed] {
        store.update(&record.id, Durability::Process, &mut |record| Ok(Record { state, ..record }))?;
    }
    Ok(())
}

#[allow(clippy::print_stdout)]
fn measure(what: &str, mut deed: impl FnMut() -> Result<()>) {
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let started = Instant::now();
            deed().expect("what is measured works");
            started.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("{what:<44} {:>8.0} median {:>8.0} p99", times[ROUNDS / 2], times[ROUNDS * 99 / 100]);
}
