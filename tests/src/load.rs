//! Many clients at once, each with one request after the other: commands, files, reads, and now and then a sandbox that
//! is opened and closed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http::{DaemonAddress, Line, Request};

/// What was found.
#[derive(Debug, Default)]
pub struct Load {
    /// How long each command took, shortest first.
    pub execs: Vec<Duration>,
    pub requests: usize,
    /// How often each answer came that was not a success.
    pub failures: BTreeMap<String, usize>,
}

impl Load {
    /// Returns the time within which this share of the commands had come back.
    pub fn quantile(&self, share: f64) -> Duration {
        let address = ((self.execs.len() as f64 * share) as usize).min(self.execs.len().saturating_sub(1));
        self.execs.get(address).copied().unwrap_or_default()
    }

    fn add(&mut self, other: Self) {
        self.execs.extend(other.execs);
        self.requests += other.requests;
        for (failure, count) in other.failures {
            *self.failures.entry(failure).or_default() += count;
        }
    }
}

/// Has `clients` work for a while in sandboxes that are open already, each of them shared by several.
pub fn put_on(address: &DaemonAddress, sandboxes: &[String], clients: usize, time: Duration) -> Load {
    let over = AtomicBool::new(false);
    let mut all = Load::default();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..clients)
            .map(|number| {
                let (over, sandbox) = (&over, &sandboxes[number % sandboxes.len()]);
                scope.spawn(move || Client::new(address, sandbox, number).work(over))
            })
            .collect();
        std::thread::sleep(time);
        over.store(true, Ordering::Relaxed);
        for worker in workers {
            all.add(worker.join().expect("a client does not panic"));
        }
    });
    all.execs.sort_unstable();
    all
}

struct Client<'a> {
    address: &'a DaemonAddress,
    line: Option<Line>,
    sandbox: String,
    number: usize,
    load: Load,
}

impl<'a> Client<'a> {
    fn new(address: &'a DaemonAddress, sandbox: &str, number: usize) -> Self {
        let sandbox = format!("/v1/sandboxes/{sandbox}");
        Self { address, line: None, sandbox, number, load: Load::default() }
    }

    fn work(mut self, over: &AtomicBool) -> Load {
        let mut turn = self.number;
        while !over.load(Ordering::Relaxed) {
            self.take_turn(turn);
            turn += 1;
        }
        self.load
    }

    fn take_turn(&mut self, turn: usize) {
        let path = format!("file-{}", self.number);
        match turn % 20 {
            0 => self.come_and_go(),
            1..=3 => {
                let write = json!({"path": path, "contents": "some words"});
                self.ask(&Request::post(&format!("{}/fs/write", self.sandbox), &write));
            }
            4..=5 => drop(self.ask(&Request::get(&format!("{}/fs/list?path=.", self.sandbox)))),
            6 => drop(self.ask(&Request::get("/v1/sandboxes"))),
            7 => drop(self.ask(&Request::get(&self.sandbox.clone()))),
            _ => {
                let began = Instant::now();
                let ran =
                    self.ask(&Request::post(&format!("{}/execs", self.sandbox), &json!({"cmd": ["true"]})));
                if ran.is_some_and(|ran| ran["exit_code"] == 0) {
                    self.load.execs.push(began.elapsed());
                }
            }
        }
    }

    fn come_and_go(&mut self) {
        let opened = self.ask(&Request::post("/v1/sandboxes", &json!({"storage": "memory"})));
        if let Some(id) = opened.as_ref().and_then(|opened| opened["sandbox_id"].as_str()) {
            self.ask(&Request::delete(&format!("/v1/sandboxes/{id}")));
        }
    }

    fn ask(&mut self, request: &Request) -> Option<Value> {
        self.load.requests += 1;
        let answered = self.line().and_then(|line| line.send(request));
        let failure = match answered {
            Ok(answer) if answer.status == 200 => return serde_json::from_slice(&answer.body).ok(),
            Ok(answer) => answer.to_string(),
            Err(error) => {
                self.line = None;
                format!("connection: {error}")
            }
        };
        *self.load.failures.entry(failure).or_default() += 1;
        None
    }

    fn line(&mut self) -> std::io::Result<&mut Line> {
        if self.line.is_none() {
            self.line = Some(Line::open(self.address)?);
        }
        self.line.as_mut().ok_or_else(|| std::io::ErrorKind::NotConnected.into())
    }
}
