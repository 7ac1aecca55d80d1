//! The exporter's answers over HTTP: what was seen last, and nothing that changes anything.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::sync::Mutex as Queue;

use super::{Exporter, page};
use crate::clock;

/// How long an answer about a job stands. Asking costs slurmctld a few questions.
const STANDS: Duration = Duration::from_secs(10);
/// Answers about jobs that are kept.
const MOST_ANSWERS: usize = 1000;

/// What handlers share.
#[derive(Clone)]
struct Served {
    exporter: Arc<Exporter>,
    /// By job, when it was told. Its lock is held while Slurm is asked: one question at a time.
    told: Arc<Queue<HashMap<u32, (Instant, String)>>>,
}

/// The routes.
pub(super) fn router(exporter: Arc<Exporter>) -> Router {
    let page = exporter.page;
    let served = Served { exporter, told: Arc::default() };
    let mut router = Router::new().route("/metrics", get(metrics));
    if page {
        router = router
            .route("/", get(whole))
            .route("/cluster", get(cluster))
            .route("/jobs/{id}", get(job))
            .route("/page.css", get(async || typed("text/css; charset=utf-8", include_str!("page.css"))))
            .route(
                "/page.js",
                get(async || typed("text/javascript; charset=utf-8", include_str!("page.js"))),
            );
    }
    router.with_state(served)
}

/// No script but ours runs on the page, it loads nothing from elsewhere, and nobody keeps it.
fn typed(mime: &'static str, text: impl Into<String>) -> Response {
    const HEADERS: [(HeaderName, &str); 4] = [
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; frame-ancestors 'none'",
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (HEADERS, [(header::CONTENT_TYPE, mime)], text.into()).into_response()
}

async fn metrics(State(served): State<Served>) -> Response {
    typed("application/openmetrics-text; version=1.0.0; charset=utf-8", served.exporter.metrics())
}

async fn whole(State(served): State<Served>) -> Response {
    let every = served.exporter.every.as_secs();
    typed("text/html; charset=utf-8", page::whole(&served.exporter.cluster(), every))
}

async fn cluster(State(served): State<Served>) -> Response {
    typed("text/html; charset=utf-8", served.exporter.cluster())
}

async fn job(State(served): State<Served>, Path(id): Path<u32>) -> Response {
    let mut told = served.told.lock().await;
    let fresh = told.get(&id).filter(|(at, _)| at.elapsed() < STANDS).map(|(_, text)| text.clone());
    let text = match fresh {
        Some(text) => text,
        None => {
            let exporter = Arc::clone(&served.exporter);
            let asked = tokio::task::spawn_blocking(move || exporter.job(id)).await;
            let Ok(text) = asked else { return StatusCode::INTERNAL_SERVER_ERROR.into_response() };
            told.retain(|_, (at, _)| at.elapsed() < STANDS);
            if told.len() < MOST_ANSWERS {
                told.insert(id, (Instant::now(), text.clone()));
            }
            text
        }
    };
    typed("text/plain; charset=utf-8", text)
}

impl Exporter {
    fn metrics(&self) -> String {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = (state.failures, state.trouble.is_some());
        super::metrics::text(
            state.seen.as_ref(),
            &state.changes,
            &state.waits,
            failed,
            clock::epoch_seconds(),
        )
    }

    fn cluster(&self) -> String {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = clock::epoch_seconds();
        page::cluster(state.seen.as_ref(), &state.changes, state.trouble.as_deref(), self.users, now)
    }
}

/// Shared by the thread that asks Slurm and those that answer.
pub(super) type Shared = Mutex<super::Now>;
