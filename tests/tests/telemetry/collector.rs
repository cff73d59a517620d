//! A collector: receives OTLP, keeps every byte, and misbehaves in the way a test chooses.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coracle_tests::eventually;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{NumberDataPoint, number_data_point};
use opentelemetry_proto::tonic::trace::v1 as proto;
use prost::Message;

/// How late a span or metric may arrive: exporters send every few hundred milliseconds here.
const ARRIVAL: Duration = Duration::from_secs(15);

/// How a collector treats its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    Honest,
    /// Takes everything and never answers.
    Silent,
    /// Takes everything and wants it again, later.
    Busy,
    /// Answers without an end.
    Endless,
    /// Redirects clients to another collector.
    Elsewhere(SocketAddr),
    /// Answers with what is no HTTP.
    Babbling,
}

/// Listens until the test ends.
#[derive(Debug)]
pub struct Collector {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
}

/// One request, as it came.
#[derive(Debug, Clone)]
pub struct Received {
    pub path: String,
    pub head: String,
    pub body: Vec<u8>,
}

/// A span, as far as tests look at it.
#[derive(Debug, Clone)]
pub struct Span {
    pub trace: String,
    pub id: String,
    pub parent: String,
    pub name: String,
    pub attributes: BTreeMap<String, String>,
    pub events: Vec<String>,
    pub failed: bool,
    pub service: String,
}

/// Every number by its name and attributes; of a histogram, how many there were.
pub type Numbers = BTreeMap<(String, BTreeMap<String, String>), f64>;

impl Collector {
    pub fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port can be had");
        let address = listener.local_addr().expect("it listens");
        let received: Arc<Mutex<Vec<Received>>> = Arc::default();
        let kept = Arc::clone(&received);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || serve(&stream, manner, &kept));
            }
        });
        Self { address, received }
    }

    pub fn honest() -> Self {
        Self::start(Manner::Honest)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns what `OTEL_EXPORTER_OTLP_ENDPOINT` has to be.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns every span that has come.
    pub fn spans(&self) -> Vec<Span> {
        let traces = self.received().into_iter().filter(|request| request.path == "/v1/traces");
        traces.flat_map(|request| spans_of(&request.body)).collect()
    }

    /// Returns the spans of a trace, once one of this name is among them and their parents have come, too.
    #[track_caller]
    pub fn trace_with(&self, name: &str) -> Vec<Span> {
        let whole = eventually(ARRIVAL, || self.spans().iter().any(|span| span.name == name));
        assert!(whole.is_some(), "no span `{name}` came; these did: {:?}", names(&self.spans()));
        let spans = self.spans();
        let trace = &spans.iter().find(|span| span.name == name).expect("it has come").trace;
        spans.iter().filter(|span| span.trace == *trace).cloned().collect()
    }

    /// Returns the metrics that came last.
    pub fn metrics(&self) -> Numbers {
        let mut exports = self.received().into_iter().filter(|request| request.path == "/v1/metrics");
        exports.next_back().map(|request| numbers_of(&request.body)).unwrap_or_default()
    }
}

pub fn names(spans: &[Span]) -> Vec<&str> {
    spans.iter().map(|span| span.name.as_str()).collect()
}

fn serve(stream: &TcpStream, manner: Manner, kept: &Mutex<Vec<Received>>) {
    let mut reader = BufReader::new(stream);
    while let Some(request) = read(&mut reader) {
        kept.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        if answer(stream, manner).is_err() {
            return;
        }
    }
}

fn answer(mut stream: &TcpStream, manner: Manner) -> std::io::Result<()> {
    match manner {
        Manner::Honest => stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        // The client hangs up first, or the test ends.
        Manner::Silent => Ok(()),
        Manner::Busy => {
            stream.write_all(b"HTTP/1.1 503 Busy\r\nRetry-After: 30\r\nContent-Length: 0\r\n\r\n")
        }
        Manner::Endless => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
            loop {
                stream.write_all(&[b'x'; 1 << 16])?;
            }
        }
        Manner::Elsewhere(other) => write!(
            stream,
            "HTTP/1.1 307 Elsewhere\r\nLocation: http://{other}/v1/traces\r\nContent-Length: 0\r\n\r\n"
        ),
        Manner::Babbling => stream.write_all(&[0xff; 4096]),
    }
}

fn read(reader: &mut BufReader<&TcpStream>) -> Option<Received> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let path = head.split(' ').nth(1)?.to_owned();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    Some(Received { path, head, body })
}

fn spans_of(body: &[u8]) -> Vec<Span> {
    let sent = ExportTraceServiceRequest::decode(body).expect("protobuf");
    let mut spans = Vec::new();
    for resource in sent.resource_spans {
        let about = attributes(resource.resource.map(|resource| resource.attributes).unwrap_or_default());
        let service = about.get("service.name").cloned().unwrap_or_default();
        for span in resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            spans.push(shown(span, &service));
        }
    }
    spans
}

fn numbers_of(body: &[u8]) -> Numbers {
    let sent = ExportMetricsServiceRequest::decode(body).expect("protobuf");
    let scopes = sent.resource_metrics.into_iter().flat_map(|resource| resource.scope_metrics);
    let mut numbers = Numbers::new();
    for metric in scopes.flat_map(|scope| scope.metrics) {
        for (pairs, value) in points(metric.data.expect("a metric has numbers")) {
            let twice = numbers.insert((metric.name.clone(), attributes(pairs)), value);
            assert!(twice.is_none(), "`{}` is there twice", metric.name);
        }
    }
    numbers
}

fn points(data: Data) -> Vec<(Vec<KeyValue>, f64)> {
    let number = |point: NumberDataPoint| {
        let value = match point.value.expect("a point has a value") {
            number_data_point::Value::AsInt(value) => value as f64,
            number_data_point::Value::AsDouble(value) => value,
        };
        (point.attributes, value)
    };
    match data {
        Data::Gauge(gauge) => gauge.data_points.into_iter().map(number).collect(),
        Data::Sum(sum) => sum.data_points.into_iter().map(number).collect(),
        Data::Histogram(histogram) => {
            histogram.data_points.into_iter().map(|point| (point.attributes, point.count as f64)).collect()
        }
        other @ (Data::ExponentialHistogram(_) | Data::Summary(_)) => panic!("not ours: {other:?}"),
    }
}

fn shown(span: proto::Span, service: &str) -> Span {
    Span {
        trace: hex(&span.trace_id),
        id: hex(&span.span_id),
        parent: hex(&span.parent_span_id),
        name: span.name,
        attributes: attributes(span.attributes),
        events: span.events.into_iter().map(|event| event.name).collect(),
        failed: span.status.is_some_and(|status| status.code == proto::status::StatusCode::Error as i32),
        service: service.to_owned(),
    }
}

/// Nothing may be said twice: the standard leaves open which counts.
fn attributes(pairs: Vec<KeyValue>) -> BTreeMap<String, String> {
    let mut attributes = BTreeMap::new();
    for pair in pairs {
        let twice = attributes.insert(pair.key.clone(), text(pair.value));
        assert!(twice.is_none(), "`{}` is there twice", pair.key);
    }
    attributes
}

fn text(value: Option<AnyValue>) -> String {
    match value.and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::BoolValue(truth)) => truth.to_string(),
        other => format!("{other:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
