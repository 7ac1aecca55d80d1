//! The exporter's answers over HTTP: what was seen last, and nothing that changes anything.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::sync::Mutex as Queue;

use super::told::Told;
use super::{Exporter, page};
use crate::clock;
use crate::filter::Filter;
use crate::job_use::JobUse;

const HTML: &str = "text/html; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// State that all handlers share.
#[derive(Clone)]
struct Served {
    exporter: Arc<Exporter>,
    /// Answers about jobs. The lock is held while Slurm is asked, so that requests that come meanwhile wait for the same answer.
    told: Arc<Queue<Told>>,
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
            .route("/nodes/{name}", get(node))
            .route("/page.css", get(async || typed("text/css; charset=utf-8", page::style_sheet())))
            .route(
                "/page.js",
                get(async || typed("text/javascript; charset=utf-8", include_str!("page/page.js"))),
            );
    }
    router.with_state(served)
}

/// No script but ours runs on the page, it loads nothing from elsewhere, and nobody keeps it.
fn typed(mime: &'static str, text: impl Into<String>) -> Response {
    const HEADERS: [(HeaderName, &str); 4] = [
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; \
             frame-ancestors 'none'",
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

/// Fields of a request for the page, by name.
type Said = HashMap<String, String>;

fn field<'s>(said: &'s Said, name: &str) -> &'s str {
    said.get(name).map_or("", String::as_str)
}

/// Reads the filter. If users are not named, it ignores a user's name, so that nobody can be found out by asking for one.
fn filter(said: &Said, names: bool) -> Result<Filter, String> {
    let user = if names { field(said, "user") } else { "" };
    Filter::new(field(said, "node"), field(said, "partition"), user, field(said, "state"))
}

async fn whole(State(served): State<Served>, Query(said): Query<Said>) -> Response {
    let exporter = &served.exporter;
    let page = exporter.view(|view| {
        let form = page::form(view.seen, view.names, &|name| field(&said, name).to_owned());
        page::whole("", &page::cluster(view, &filter(&said, view.names)), &form, exporter.every.as_secs())
    });
    typed(HTML, page)
}

async fn cluster(State(served): State<Served>, Query(said): Query<Said>) -> Response {
    typed(HTML, served.exporter.view(|view| page::cluster(view, &filter(&said, view.names))))
}

/// With `?part` what goes into a page, else a page.
async fn node(State(served): State<Served>, Path(name): Path<String>, Query(said): Query<Said>) -> Response {
    let exporter = &served.exporter;
    match exporter.view(|view| page::node(view, &name)) {
        Some(part) if said.contains_key("part") => typed(HTML, part),
        Some(part) => typed(HTML, page::whole(&name, &part, "", exporter.every.as_secs())),
        None => (StatusCode::NOT_FOUND, typed(TEXT, "tessera.toml has no such node\n")).into_response(),
    }
}

/// As a node.
async fn job(State(served): State<Served>, Path(id): Path<u32>, Query(said): Query<Said>) -> Response {
    let exporter = Arc::clone(&served.exporter);
    let mut told = Arc::clone(&served.told).lock_owned().await;
    let asked = tokio::task::spawn_blocking(move || {
        let ask_use: Option<&dyn Fn(u32) -> JobUse> = if exporter.users { Some(&JobUse::ask) } else { None };
        told.of(id, exporter.looks(), || exporter.facts(), ask_use)
    })
    .await;
    let exporter = &served.exporter;
    asked.map_or_else(
        |_| StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        |(text, known)| {
            let (title, part) = exporter.view(|view| page::job(view, id, &text, &known));
            let part_alone = said.contains_key("part");
            typed(
                HTML,
                if part_alone { part } else { page::whole(&title, &part, "", exporter.every.as_secs()) },
            )
        },
    )
}

impl Exporter {
    fn metrics(&self) -> String {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = super::metrics::LookState {
            failures: state.failures,
            last_failed: state.trouble.is_some(),
            every: self.every,
            file_is_good: state.file_is_good,
        };
        super::metrics::text(
            state.seen.as_ref(),
            &state.changes,
            &state.waits,
            &state.counted,
            &asked,
            clock::epoch_seconds(),
        )
    }

    /// How often Slurm has been looked at.
    fn looks(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).looks
    }

    /// Applies `tell` to the last sample.
    fn view<T>(&self, tell: impl FnOnce(page::View<'_>) -> T) -> T {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        tell(page::View {
            seen: state.seen.as_ref(),
            changes: &state.changes,
            trouble: state.trouble.as_deref(),
            names: self.users,
            now: clock::epoch_seconds(),
            every_s: self.every.as_secs(),
        })
    }
}

/// Shared by the thread that asks Slurm and those that answer.
pub(super) type Shared = Mutex<super::Now>;
