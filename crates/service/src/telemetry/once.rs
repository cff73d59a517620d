//! Keeps each attribute once: the bridge sends an attribute twice if a span records it twice, and a collector may
//! drop both.

use std::collections::BTreeSet;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};

/// Passes spans on, with the last value of each attribute.
#[derive(Debug)]
pub struct Once<E>(pub E);

impl<E: SpanExporter> SpanExporter for Once<E> {
    async fn export(&self, mut batch: Vec<SpanData>) -> OTelSdkResult {
        batch.iter_mut().for_each(|span| keep_last(&mut span.attributes));
        self.0.export(batch).await
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.0.set_resource(resource);
    }
}

fn keep_last(attributes: &mut Vec<KeyValue>) {
    let mut seen = BTreeSet::new();
    attributes.reverse();
    attributes.retain(|attribute| seen.insert(attribute.key.clone()));
    attributes.reverse();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_on_an_attribute_is_kept() {
        let mut attributes = vec![KeyValue::new("a", 1), KeyValue::new("b", 2), KeyValue::new("a", 3)];

        keep_last(&mut attributes);

        assert_eq!(attributes, [KeyValue::new("b", 2), KeyValue::new("a", 3)]);
    }
}
