//! Shows objects of any kind, in the columns that the CRD of their kind defines.

use apiclient::WatchBackoff;
use futures::{AsyncBufReadExt, StreamExt};
use http::header::ACCEPT;
use kube::api::{GetParams, ListParams, Request, WatchParams};
use kube::{Client, Resource};
use serde_json::Value;
use tokio::time::sleep;

use crate::args::{Format, Get};
use crate::client::ServerArgs;
use crate::failure::{self, Failure};
use crate::kinds::{Kind, Kinds};
use cli::Exit;
use cli::Output;

mod columns;
use columns::Columns;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

pub(crate) async fn run(server: &ServerArgs, args: &Get, output: Output) -> Result<Exit, Failure> {
    let client = server.client(output).await?;
    let kinds = Kinds::discover(&client).await?;
    let kind = kinds.find_by_name(&args.kind)?;
    let query = Query { client: &client, kind, args, output, format: format(args, output) };
    let answer = query.list().await?;
    let columns = query.show(&answer)?;
    if args.watch {
        query.watch(&answer, columns).await?;
    }
    Ok(Exit::Done)
}

fn format(args: &Get, output: Output) -> Format {
    if output.is_json() { Format::Json } else { args.output }
}

struct Query<'a> {
    client: &'a Client,
    kind: &'a Kind,
    args: &'a Get,
    output: Output,
    format: Format,
}

impl Query<'_> {
    async fn list(&self) -> Result<Value, Failure> {
        let what = || match &self.args.name {
            Some(name) => format!("get {}", self.kind.label(name)),
            None => format!("list {}", self.kind.resource.plural),
        };
        let request = match &self.args.name {
            Some(name) => self.request().get(name, &GetParams::default()),
            None => self.request().list(&ListParams {
                label_selector: self.args.selector.clone(),
                ..ListParams::default()
            }),
        };
        let request = request.map_err(|error| Failure::new(Exit::Usage, what()).because(&error))?;
        let text = self
            .client
            .request_text(self.accepting(request))
            .await
            .map_err(|error| failure::api(what(), &error))?;
        serde_json::from_str(&text)
            .map_err(|error| Failure::new(Exit::Failed, what()).because(&error))
    }

    /// Prints an answer; returns the columns that were printed.
    fn show(&self, answer: &Value) -> Result<Columns, Failure> {
        let mut columns = Columns::new(
            self.format == Format::Wide,
            self.args.scope.all_namespaces && self.kind.namespaced,
        );
        match self.format {
            Format::Json => self.output.json(answer)?,
            Format::Yaml => self.output.text(&yaml(answer)?)?,
            Format::Name => {
                for name in columns::names(answer) {
                    self.output.line(&self.kind.label(&name))?;
                }
            }
            Format::Table | Format::Wide => {
                columns.learn(answer);
                let rows = columns.rows(answer);
                if rows.is_empty() && !self.args.watch {
                    self.output.note(&format!("no {} found", self.kind.resource.plural));
                } else if !rows.is_empty() {
                    self.output.table(&columns.header(), &rows)?;
                }
            }
        }
        Ok(columns)
    }

    async fn watch(&self, answer: &Value, mut columns: Columns) -> Result<(), Failure> {
        let failed = |error: &kube::Error| {
            failure::api(format!("watch {}", self.kind.resource.plural), error)
        };
        let mut version = resource_version(answer);
        let mut backoff = WatchBackoff::default();
        loop {
            let mut parameters = WatchParams {
                label_selector: self.args.selector.clone(),
                ..WatchParams::default()
            };
            parameters.field_selector =
                self.args.name.as_ref().map(|name| format!("metadata.name={name}"));
            let request = self
                .request()
                .watch(&parameters, &version)
                .map_err(|error| Failure::new(Exit::Usage, "watch").because(&error))?;
            let stream = self
                .client
                .request_stream(self.accepting(request))
                .await
                .map_err(|error| failed(&error))?;
            let mut lines = std::pin::pin!(stream.lines());
            // The server ends every watch after some time. After a pause, the next watch begins at the last version
            // seen.
            while let Some(line) = lines.next().await {
                let Ok(line) = line else { break };
                let event: Value = serde_json::from_str(&line).map_err(|error| {
                    Failure::new(Exit::Failed, "read a watch event").because(&error)
                })?;
                version = self.event(&event, &mut columns, version)?;
            }
            sleep(backoff.next().unwrap_or_default()).await;
        }
    }

    fn event(
        &self,
        event: &Value,
        columns: &mut Columns,
        version: String,
    ) -> Result<String, Failure> {
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
        let object = event.get("object").unwrap_or(&Value::Null);
        match kind {
            "ERROR" => {
                let message =
                    object.get("message").and_then(Value::as_str).unwrap_or("the watch failed");
                return Err(Failure::new(Exit::Retryable, message).remedy("start the watch again"));
            }
            "BOOKMARK" => {}
            _ => match self.format {
                Format::Json => self.output.json(event)?,
                Format::Yaml => self.output.text(&format!("---\n{}", yaml(object)?))?,
                Format::Name => self.show(object).map(drop)?,
                Format::Table | Format::Wide => {
                    columns.learn(object);
                    let mut rows = columns.rows(object);
                    if kind == "DELETED" {
                        rows.iter_mut().for_each(|row| row.push("(deleted)".to_owned()));
                    }
                    self.output.rows(&rows)?;
                }
            },
        }
        let newest = resource_version(columns::first_object(object));
        Ok(if newest == "0" { version } else { newest })
    }

    fn request(&self) -> Request {
        let namespace = (self.kind.namespaced && !self.args.scope.all_namespaces)
            .then_some(self.args.scope.namespace.as_str());
        Request::new(kube::api::DynamicObject::url_path(&self.kind.resource, namespace))
    }

    fn accepting(&self, mut request: http::Request<Vec<u8>>) -> http::Request<Vec<u8>> {
        if matches!(self.format, Format::Table | Format::Wide | Format::Name) {
            request.headers_mut().insert(ACCEPT, http::HeaderValue::from_static(TABLE));
        }
        request
    }
}

fn resource_version(object: &Value) -> String {
    object.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or("0").to_owned()
}

fn yaml(value: &Value) -> Result<String, Failure> {
    serde_saphyr::to_string(value)
        .map_err(|error| Failure::new(Exit::Failed, "print YAML").because(&error))
}
