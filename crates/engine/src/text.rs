//! Bytes in JSON: text where they are UTF-8, base64 where they are not.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use coracle_core::{Error, Result};

/// Bytes on their way into JSON; exactly one of the two is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextOrBase64 {
    pub text: Option<String>,
    pub base64: Option<String>,
}

impl From<Vec<u8>> for TextOrBase64 {
    fn from(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self { text: Some(text), base64: None },
            Err(error) => Self { text: None, base64: Some(encode(error.as_bytes())) },
        }
    }
}

/// Returns base64, padded.
pub fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Returns the bytes a caller wrote as text in `field` or as base64 in `field_b64`, `None` if as neither.
pub fn decode(field: &str, text: Option<String>, base64: Option<String>) -> Result<Option<Vec<u8>>> {
    match (text, base64) {
        (Some(_), Some(_)) => Err(Error::invalid(field, format!("and `{field}_b64` exclude each other"))),
        (Some(text), None) => Ok(Some(text.into_bytes())),
        (None, Some(base64)) => match STANDARD.decode(base64) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) => Err(Error::invalid(&format!("{field}_b64"), format!("is not base64: {error}"))),
        },
        (None, None) => Ok(None),
    }
}
