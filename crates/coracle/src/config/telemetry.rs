//! Settings about telemetry: whether it is sent, and where.
//!
//! The standard variables are meant for many programs at once. If one asks for something we cannot do, coracle must
//! still work: it notes that and sends nothing. A mistake in our own file is refused like any other. This code does
//! not read the values of headers: they are secrets, and only the exporter needs them.

use std::ffi::OsString;

use coracle_core::{Error, Result};
use ureq::http::Uri;

use super::layers::{Environment, Found, Layers};
use super::{Setting, Source, setting};

const NAME: &str = "telemetry.otlp_endpoint";
const BASE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// The standard's default address of a collector.
const COLLECTOR: &str = "http://localhost:4318";
const PROTOCOL: &str = "http/protobuf";
/// Longer than any address of a collector.
const ENDPOINT_MAX: usize = 2048;

/// Where telemetry is sent. Nowhere by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Telemetry {
    /// Where spans are sent.
    pub traces: Option<String>,
    /// Where metrics are sent, by processes that live long enough to have any.
    pub metrics: Option<String>,
    /// The service name; absent where the resource attributes contain it.
    pub service_name: Option<String>,
    /// The caller's span, as in `traceparent`.
    pub parent: Option<String>,
}

/// All settings about telemetry, resolved.
#[derive(Debug)]
pub struct TelemetrySettings {
    endpoint: Found<Option<String>>,
    service_name: Found<String>,
    pub telemetry: Telemetry,
    pub notes: Vec<String>,
}

/// One kind of telemetry.
struct Signal {
    name: &'static str,
    path: &'static str,
    exporter: &'static str,
    endpoint: &'static str,
    protocol: &'static str,
}

const TRACES: Signal = Signal {
    name: "spans",
    path: "v1/traces",
    exporter: "OTEL_TRACES_EXPORTER",
    endpoint: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    protocol: "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
};
const METRICS: Signal = Signal {
    name: "metrics",
    path: "v1/metrics",
    exporter: "OTEL_METRICS_EXPORTER",
    endpoint: "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    protocol: "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
};

impl TelemetrySettings {
    /// Resolves every setting and refuses mistakes in the file.
    pub(super) fn from(layers: &Layers<'_>) -> Result<Self> {
        let environment = layers.environment;
        let written = layers
            .of_file(|file| file.telemetry.otlp_endpoint.clone().map(Some), None)
            .checked(|endpoint| endpoint.as_deref().map_or(Ok(()), |text| check_endpoint(NAME, text)))?;
        let (base, source) = match word(environment, BASE) {
            Some(text) => (usable(BASE, text).map(Some), Source::Environment(BASE)),
            None => (Ok(written.value), written.source),
        };
        let service_name = match word(environment, "OTEL_SERVICE_NAME") {
            Some(value) => Found { value, source: Source::Environment("OTEL_SERVICE_NAME") },
            None => layers.of_file(|file| file.telemetry.service_name.clone(), "coracle".to_owned()),
        };
        let (traces, metrics) = (TRACES.decide(environment, &base), METRICS.decide(environment, &base));
        let mut notes = unsent(traces.as_ref().err(), metrics.as_ref().err());
        let mut telemetry = Telemetry {
            traces: traces.unwrap_or_default(),
            metrics: metrics.unwrap_or_default(),
            service_name: Some(service_name.value.clone()),
            parent: word(environment, "TRACEPARENT"),
        };
        let named =
            word(environment, "OTEL_RESOURCE_ATTRIBUTES").is_some_and(|text| text.contains("service.name="));
        if named && service_name.source == Source::Default {
            telemetry.service_name = None;
        }
        if is_disabled(environment) {
            telemetry = Telemetry::default();
            notes.clear();
        }
        let endpoint = Found { value: base.unwrap_or_default(), source };
        Ok(Self { endpoint, service_name, telemetry, notes })
    }

    /// Returns every setting for display.
    pub fn settings(&self) -> Vec<Setting> {
        let endpoint = self.endpoint.value.clone().unwrap_or_else(|| "none".to_owned());
        vec![
            setting(NAME, endpoint, &self.endpoint.source),
            setting("telemetry.service_name", self.service_name.value.clone(), &self.service_name.source),
        ]
    }
}

/// Why nothing is sent although it is configured.
type Unusable = String;

impl Signal {
    /// Returns where this signal is sent, if anywhere. A collector that cannot be used is not replaced by another:
    /// the user did not name that one.
    fn decide(
        &self,
        environment: Environment<'_>,
        base: &Result<Option<String>, Unusable>,
    ) -> Result<Option<String>, Unusable> {
        let exporters = word(environment, self.exporter);
        let asked = exporters.as_deref().map(|list| list.split(',').any(|word| word.trim() == "otlp"));
        if asked == Some(false) {
            return Ok(None);
        }
        let by_default = || asked.map(|_| COLLECTOR.to_owned());
        let below = |base: String| format!("{}/{}", base.trim_end_matches('/'), self.path);
        let endpoint = match word(environment, self.endpoint) {
            Some(text) => Some(usable(self.endpoint, text)?),
            None => base.clone()?.or_else(by_default).map(below),
        };
        endpoint.map(|endpoint| self.spoken(environment).map(|()| endpoint)).transpose()
    }

    /// Refuses a protocol that coracle does not support.
    fn spoken(&self, environment: Environment<'_>) -> Result<(), Unusable> {
        let protocol = [self.protocol, "OTEL_EXPORTER_OTLP_PROTOCOL"].into_iter();
        match protocol.filter_map(|name| word(environment, name)).next() {
            Some(protocol) if protocol != PROTOCOL => {
                Err(format!("protocol `{}` is not supported, only `{PROTOCOL}`", shown(&protocol)))
            }
            _ => Ok(()),
        }
    }
}

/// Returns notes for people on what is not sent.
fn unsent(traces: Option<&Unusable>, metrics: Option<&Unusable>) -> Vec<String> {
    if let (Some(reason), true) = (traces, traces == metrics) {
        return vec![format!("nothing is sent by OTLP: {reason}")];
    }
    let signals = [(TRACES, traces), (METRICS, metrics)].into_iter();
    signals
        .filter_map(|(signal, reason)| Some(format!("no {} are sent by OTLP: {}", signal.name, reason?)))
        .collect()
}

fn is_disabled(environment: Environment<'_>) -> bool {
    word(environment, "OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// Returns the value of a variable; ignores one that is not UTF-8, which is not meant for us.
fn word(environment: Environment<'_>, name: &str) -> Option<String> {
    environment(name).map(OsString::into_string).and_then(Result::ok).map(|text| text.trim().to_owned())
}

/// Returns the address in a standard variable, if it is valid.
fn usable(variable: &str, text: String) -> Result<String, Unusable> {
    check_endpoint(variable, &text).map(|()| text).map_err(|error| error.to_string())
}

/// Checks an address. The error does not repeat it, because it may contain a password or a key.
fn check_endpoint(name: &str, text: &str) -> Result<()> {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    // The exporter reads it by the same rules, and could not report an error.
    let printable = text.bytes().all(|byte| byte.is_ascii_graphic());
    let readable = printable && text.len() <= ENDPOINT_MAX && text.parse::<Uri>().is_ok();
    match rest {
        Some(rest) if readable && !rest.starts_with('/') && !rest.contains(['@', '?', '#']) => Ok(()),
        _ => Err(Error::invalid(name, "is not an address like `http://localhost:4318`")
            .hint("headers go into `OTEL_EXPORTER_OTLP_HEADERS`, not into the address")),
    }
}

fn shown(text: &str) -> String {
    text.escape_debug().take(32).collect()
}

#[cfg(test)]
mod tests {
    use super::super::file::File;
    use super::*;

    fn decide(variables: &[(&str, &str)], file: &str) -> Result<TelemetrySettings> {
        let environment = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        };
        let file: File = toml::from_str(file).expect("valid");
        TelemetrySettings::from(&Layers {
            environment: &environment,
            file: Some(("config.toml".into(), file)),
        })
    }

    fn telemetry(variables: &[(&str, &str)]) -> Telemetry {
        decide(variables, "").expect("never refused").telemetry
    }

    #[test]
    fn nothing_is_sent_unless_configured() {
        let off = telemetry(&[]);

        assert_eq!((off.traces, off.metrics), (None, None));
    }

    #[test]
    fn one_address_is_the_base_of_both_and_an_own_one_is_taken_as_it_is() {
        let both = telemetry(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/")]);
        let own = telemetry(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://other/spans"),
        ]);

        assert_eq!(both.traces.as_deref(), Some("http://collector:4318/v1/traces"));
        assert_eq!(both.metrics.as_deref(), Some("http://collector:4318/v1/metrics"));
        assert_eq!(own.traces.as_deref(), Some("https://other/spans"));
        assert_eq!(own.metrics.as_deref(), Some("http://collector:4318/v1/metrics"));
    }

    #[test]
    fn the_file_says_it_too_and_the_environment_wins() {
        let file = "[telemetry]\notlp_endpoint = \"http://file:4318\"\nservice_name = \"agents\"";

        let by_file = decide(&[], file).expect("valid").telemetry;
        let by_both =
            decide(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://env:1")], file).expect("valid").telemetry;

        assert_eq!(by_file.traces.as_deref(), Some("http://file:4318/v1/traces"));
        assert_eq!(by_file.service_name.as_deref(), Some("agents"));
        assert_eq!(by_both.traces.as_deref(), Some("http://env:1/v1/traces"));
    }

    #[test]
    fn it_can_be_switched_off_altogether_or_one_by_one() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318");

        assert_eq!(telemetry(&[endpoint, ("OTEL_SDK_DISABLED", "TRUE")]), Telemetry::default());
        let spans = telemetry(&[endpoint, ("OTEL_METRICS_EXPORTER", "none")]);
        assert!(spans.traces.is_some() && spans.metrics.is_none());
        let asked = telemetry(&[("OTEL_TRACES_EXPORTER", "otlp")]);
        assert_eq!(asked.traces.as_deref(), Some("http://localhost:4318/v1/traces"));
    }

    #[test]
    fn variables_for_other_programs_are_noted_and_never_an_error() {
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://user:hunter2@collector"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector|4318"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "collector:4317"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ] {
            let set = [(name, value), ("OTEL_TRACES_EXPORTER", "otlp"), ("OTEL_METRICS_EXPORTER", "none")];
            let decided = decide(&set, "").expect("never refused");

            assert_eq!(decided.notes.len(), 1, "{name}={value}: {:?}", decided.notes);
            assert!(!decided.notes[0].contains("hunter2"));
            assert_eq!(decided.telemetry.traces, None, "{name}={value} leads nowhere else");
        }
    }

    #[test]
    fn an_unusable_address_of_its_own_does_not_lead_to_the_common_one() {
        let file = "[telemetry]\notlp_endpoint = \"http://file:4318\"";
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "collector:4317");

        let decided = decide(&[own], file).expect("never refused");
        let neither =
            decide(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317")], file).expect("never refused");

        assert_eq!(decided.telemetry.traces, None);
        assert_eq!(decided.telemetry.metrics.as_deref(), Some("http://file:4318/v1/metrics"));
        assert!(decided.notes[0].starts_with("no spans are sent by OTLP: "), "{:?}", decided.notes);
        assert_eq!((neither.telemetry.traces, neither.telemetry.metrics), (None, None));
        assert!(neither.notes[0].starts_with("nothing is sent by OTLP: "), "{:?}", neither.notes);
        assert_eq!(neither.notes.len(), 1);
    }

    #[test]
    fn what_is_wrong_in_the_file_is_refused_without_repeating_it() {
        for address in [
            "localhost:4318",
            "ftp://x",
            "http://",
            "http://a|b",
            "http://user:hunter2@x",
            "http://x/?key=hunter2",
        ] {
            let file = format!("[telemetry]\notlp_endpoint = \"{address}\"");

            let refused = decide(&[], &file).expect_err(address);

            assert!(!refused.chain().contains("hunter2"), "{address}");
        }
    }

    #[test]
    fn a_name_among_the_resource_attributes_is_not_overruled_by_the_default() {
        let named = ("OTEL_RESOURCE_ATTRIBUTES", "a=b,service.name=mine");

        assert_eq!(telemetry(&[named]).service_name, None);
        assert_eq!(telemetry(&[named, ("OTEL_SERVICE_NAME", "x")]).service_name.as_deref(), Some("x"));
    }
}
