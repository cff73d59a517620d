//! Metrics as Prometheus reads them.

use std::collections::BTreeMap;
use std::fmt::Write;

use coracle_engine::inventory::Inventory;

use super::metrics::{BOUNDS, Counts, Histogram, Labels, Metrics};

/// The content type of this format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

impl Metrics {
    /// Returns all counts and the current inventory.
    pub fn text(&self) -> String {
        let inventory = self.inventory();
        render(&self.counted(), inventory.as_ref())
    }
}

fn render(counts: &Counts, inventory: Option<&Inventory>) -> String {
    let mut page = Page::default();
    page.family("coracle_build_info", "gauge", "The version that runs");
    page.sample("coracle_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    let operation = ["operation", "outcome"];
    let backend = ["backend", "outcome"];
    page.latencies(
        "coracle_operation_duration_seconds",
        "Operations, by name and outcome",
        operation,
        &counts.operations,
    );
    page.latencies(
        "coracle_sandbox_create_duration_seconds",
        "From the row of a sandbox to its readiness",
        backend,
        &counts.creations,
    );
    page.latencies("coracle_exec_duration_seconds", "How long commands ran", backend, &counts.execs);
    page.latencies(
        "coracle_sandbox_destroy_duration_seconds",
        "Removals of sandboxes",
        backend,
        &counts.removals,
    );
    page.total(
        "coracle_exec_output_bytes_total",
        "Output of commands handed to callers",
        counts.output_bytes,
    );
    page.total("coracle_file_read_bytes_total", "Bytes of files carried out of sandboxes", counts.read_bytes);
    page.total(
        "coracle_file_written_bytes_total",
        "Bytes of files carried into sandboxes",
        counts.written_bytes,
    );
    page.total("coracle_egress_denied_total", "Refused connections of sandboxes", counts.denied);
    page.family("coracle_reconcile_actions_total", "counter", "What the janitor did");
    for ([action, outcome], count) in &counts.repairs {
        page.sample("coracle_reconcile_actions_total", &[("action", action), ("outcome", outcome)], *count);
    }
    page.family("coracle_limits_hit_total", "counter", "Commands that ran into a limit");
    for (limit, count) in &counts.limits {
        page.sample("coracle_limits_hit_total", &[("limit", limit)], *count);
    }
    if let Some(inventory) = inventory {
        page.inventory(inventory);
    }
    page.0
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn inventory(&mut self, inventory: &Inventory) {
        self.family("coracle_sandboxes", "gauge", "Sandboxes that have not ended, by state");
        for (state, count) in &inventory.states {
            self.sample("coracle_sandboxes", &[("state", state.as_str())], *count);
        }
        self.family("coracle_spares", "gauge", "Sandboxes made ahead that wait to be taken");
        self.sample("coracle_spares", &[], inventory.spares);
        let Some(level) = &inventory.level else { return };
        self.gauge("coracle_storage_free_bytes", "Free on the disk of the home", level.free_bytes);
        self.gauge(
            "coracle_storage_reserve_bytes",
            "With less free nothing new is made (`storage.reserve`)",
            level.reserve_bytes,
        );
        self.gauge("coracle_storage_low", "1 while less is free than the reserve", u64::from(level.low));
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}"));
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "gauge", help);
        self.sample(name, &[], value);
    }

    fn total(&mut self, name: &str, help: &str, count: u64) {
        self.family(name, "counter", help);
        self.sample(name, &[], count);
    }

    fn latencies(&mut self, name: &str, help: &str, names: [&str; 2], family: &BTreeMap<Labels, Histogram>) {
        self.family(name, "histogram", help);
        for ([first, second], histogram) in family {
            let labels = [(names[0], first.as_str()), (names[1], second.as_str())];
            for (bound, count) in BOUNDS.iter().zip(histogram.buckets) {
                self.bucket(name, labels, &bound.to_string(), count);
            }
            self.bucket(name, labels, "+Inf", histogram.count);
            self.sample(&format!("{name}_sum"), &labels, histogram.sum);
            self.sample(&format!("{name}_count"), &labels, histogram.count);
        }
    }

    fn bucket(&mut self, name: &str, [first, second]: [(&str, &str); 2], bound: &str, count: u64) {
        self.sample(&format!("{name}_bucket"), &[first, second, ("le", bound)], count);
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let pairs: Vec<_> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        match pairs.is_empty() {
            true => self.line(format_args!("{name} {value}")),
            false => self.line(format_args!("{name}{{{}}} {value}", pairs.join(","))),
        }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{line}");
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_cannot_leave_its_quotes() {
        let counts = Counts { limits: BTreeMap::from([("a\"} 1\n\\".to_owned(), 2)]), ..Counts::default() };

        let text = render(&counts, None);

        assert!(text.ends_with("coracle_limits_hit_total{limit=\"a\\\"} 1\\n\\\\\"} 2\n"), "{text}");
    }
}
