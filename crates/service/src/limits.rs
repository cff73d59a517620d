//! How often each tenant may send requests.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderValue, StatusCode, header};
use coracle::{Error, Kind};
use coracle_core::TenantId;
use coracle_core::tenant::Rate;

use super::reply::Refusal;

/// What each tenant has left. It has at most as many entries as there are tenants with a token.
#[derive(Debug, Default)]
pub struct Allowances(Mutex<HashMap<TenantId, Allowance>>);

/// How many requests are left, and since when.
#[derive(Debug, Clone, Copy)]
struct Allowance {
    left: f64,
    at: Instant,
}

impl Allowances {
    /// Takes one request off a tenant's allowance, or says when to try again.
    pub fn take(&self, tenant: &TenantId, rate: Rate, now: Instant) -> Result<(), Refusal> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let full = Allowance { left: f64::from(rate.burst), at: now };
        let allowance = all.entry(tenant.clone()).or_insert(full);
        allowance.take(rate, now).map_err(too_often)
    }
}

impl Allowance {
    fn take(&mut self, rate: Rate, now: Instant) -> Result<(), Duration> {
        let gained = now.saturating_duration_since(self.at).as_secs_f64() * f64::from(rate.per_second);
        self.left = (self.left + gained).min(f64::from(rate.burst));
        self.at = now;
        if self.left >= 1.0 {
            self.left -= 1.0;
            return Ok(());
        }
        Err(Duration::from_secs_f64((1.0 - self.left) / f64::from(rate.per_second)))
    }
}

fn too_often(wait: Duration) -> Refusal {
    // The header holds whole seconds only.
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    let error = Error::new(Kind::LimitExceeded, "too many requests at once")
        .hint("try again after the time in the header `Retry-After`")
        .detail("limit", "rate");
    Refusal::new(StatusCode::TOO_MANY_REQUESTS, error)
        .header(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { per_second: 10, burst: 3 };

    fn tenant(name: &str) -> TenantId {
        name.parse().expect("an id")
    }

    #[test]
    fn a_burst_is_let_through_and_then_the_rate() {
        let (all, start) = (Allowances::default(), Instant::now());
        let take = |millis| all.take(&tenant("a"), RATE, start + Duration::from_millis(millis)).is_ok();

        let burst: Vec<_> = (0..4).map(|_| take(0)).collect();
        let later = [take(50), take(100), take(150), take(200)];

        assert_eq!(burst, [true, true, true, false]);
        assert_eq!(later, [false, true, false, true]);
    }

    #[test]
    fn a_pause_saves_up_no_more_than_a_burst() {
        let (all, start) = (Allowances::default(), Instant::now());
        let take = |seconds| all.take(&tenant("a"), RATE, start + Duration::from_secs(seconds)).is_ok();
        take(0);

        let after_an_hour = (0..10).filter(|_| take(3600)).count();

        assert_eq!(after_an_hour, 3);
    }

    #[test]
    fn one_tenant_takes_nothing_from_another() {
        let (all, now) = (Allowances::default(), Instant::now());

        let (mine, theirs): (Vec<_>, Vec<_>) = (
            (0..5).map(|_| all.take(&tenant("a"), RATE, now).is_ok()).collect(),
            (0..3).map(|_| all.take(&tenant("b"), RATE, now).is_ok()).collect(),
        );

        assert_eq!(mine.iter().filter(|ok| **ok).count(), 3);
        assert_eq!(theirs, [true; 3]);
    }

    #[test]
    fn a_tenant_over_its_rate_learns_when_to_try_again() {
        let (all, now) = (Allowances::default(), Instant::now());
        let slow = Rate { per_second: 1, burst: 1 };
        all.take(&tenant("a"), slow, now).expect("the first is let through");

        let refusal = all.take(&tenant("a"), slow, now).expect_err("the second is not");

        assert_eq!(refusal.status, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(refusal.headers, [(header::RETRY_AFTER, HeaderValue::from(1))]);
    }
}
