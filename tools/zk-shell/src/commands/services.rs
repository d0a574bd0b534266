//! Prints the services that are registered below a node, and their instances.

use clap::Args;
use serde_json::{Value, json};
use zk_core::{NodePath, Session};
use zk_discovery::{
    Curator, Dubbo, DubboProvider, Instance, InstanceList, Layout, ReadFormat, Registry, Serverset,
    ServersetMember,
};

use super::queue::missing;
use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, chain};
use crate::table::columns;

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Services {
    /// Print only this service
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// The base path, whose children are the services
    path: String,
}

/// A service with its instances.
struct Service {
    name: String,
    format: &'static str,
    instances: Vec<Shown>,
    /// Nodes that are not instances, each with the reason.
    others: Vec<(String, String)>,
}

/// What is printed of an instance.
struct Shown {
    id: String,
    address: String,
    is_enabled: bool,
    /// In short: JSON, or the parameters of a URL.
    payload: String,
}

impl Services {
    /// Prints the services; it registers and follows nothing.
    pub(crate) async fn run(self, context: &mut Context) -> Result<(), Failure> {
        let path = context.path(&self.path)?;
        let session = context.session().await?;
        let services = context
            .within(services(&session, &path, self.service.as_deref()))
            .await?;
        context
            .output()
            .result(|| text(&path, &services), || document(&path, &services))
            .await
    }
}

async fn services(
    session: &Session,
    base: &NodePath,
    only: Option<&str>,
) -> Result<Vec<Service>, Failure> {
    session.sync(base).await?;
    if session.exists(base).await?.is_none() {
        return Err(missing(base));
    }
    let registry = Registry::new(session, base)?;
    let names = match only {
        Some(name) => vec![name.to_owned()],
        None => registry.services().await?,
    };
    let mut paths = Vec::new();
    for name in &names {
        paths.push(base.join(name)?);
    }
    let mut services = Vec::new();
    for (name, children) in names.into_iter().zip(session.list_many(paths).await?) {
        let children = match children {
            Ok(children) => children,
            Err(error) if error.is_no_node() => continue,
            Err(error) => return Err(error.into()),
        };
        services.push(match format_of(&children) {
            Kind::Dubbo => {
                let registry = registry.clone().with_layout(Dubbo);
                read(&registry, name, "dubbo", |provider: &DubboProvider| {
                    let parameters = provider
                        .parameters()
                        .map(|(key, value)| format!("{key}={value}"));
                    format!(
                        "{} {}",
                        provider.protocol(),
                        parameters.collect::<Vec<_>>().join(" ")
                    )
                })
                .await?
            }
            Kind::Serverset => {
                let registry = registry.clone().with_layout(Serverset);
                read(&registry, name, "serverset", |member: &ServersetMember| {
                    let endpoints = member
                        .endpoints()
                        .map(|(name, host, port)| format!("{name}={host}:{port}"));
                    format!(
                        "{:?} {}",
                        member.status(),
                        endpoints.collect::<Vec<_>>().join(" ")
                    )
                })
                .await?
            }
            Kind::Curator => {
                let registry = registry.clone().with_layout(Curator::default());
                read(
                    &registry,
                    name,
                    "curator",
                    |payload: &Value| match payload {
                        Value::Null => String::new(),
                        payload => payload.to_string(),
                    },
                )
                .await?
            }
        });
    }
    Ok(services)
}

/// The format of a service's nodes.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Curator,
    Dubbo,
    Serverset,
}

/// Returns the format that the children of a service show.
fn format_of(children: &[String]) -> Kind {
    if children.iter().any(|name| name == "providers") {
        Kind::Dubbo
    } else if children.iter().any(|name| name.starts_with("member_")) {
        Kind::Serverset
    } else {
        Kind::Curator
    }
}

async fn read<L, P>(
    registry: &Registry<L>,
    name: String,
    format: &'static str,
    payload: impl Fn(&P) -> String,
) -> Result<Service, Failure>
where
    L: Layout + ReadFormat<P>,
    P: Send + Sync + 'static,
{
    let list: InstanceList<P> = registry
        .query(&name)
        .await
        .map_err(|error| Failure::operation(chain(&error), None))?;
    let instances = list.instances().map(|instance| Shown {
        id: instance.id().to_owned(),
        address: address(instance),
        is_enabled: instance.is_enabled(),
        payload: payload(instance.payload()),
    });
    let others = list.quarantined().iter().map(|other| {
        let node = other.path().name().unwrap_or_default().to_owned();
        (node, chain(other.reason()))
    });
    Ok(Service {
        name,
        format,
        instances: instances.collect(),
        others: others.collect(),
    })
}

fn address<P>(instance: &Instance<P>) -> String {
    let host = instance.address().unwrap_or_default();
    match (instance.port(), instance.ssl_port()) {
        (Some(port), Some(ssl)) => format!("{host}:{port}, TLS {ssl}"),
        (Some(port), None) => format!("{host}:{port}"),
        (None, Some(ssl)) => format!("{host}, TLS {ssl}"),
        (None, None) => host.to_owned(),
    }
}

fn text(path: &NodePath, services: &[Service]) -> String {
    if services.is_empty() {
        return format!("{} has no services\n", escape::line(path.as_str()));
    }
    let mut rows = Vec::new();
    let mut others = String::new();
    for service in services {
        if service.instances.is_empty() {
            let cells = [&service.name, "no instance", "", "", "", service.format];
            rows.push(cells.map(str::to_owned));
        }
        for shown in &service.instances {
            let state = if shown.is_enabled {
                "enabled"
            } else {
                "disabled"
            };
            let cells = [
                &service.name,
                &shown.id,
                &shown.address,
                state,
                &shown.payload,
                service.format,
            ];
            rows.push(cells.map(str::to_owned));
        }
        for (node, reason) in &service.others {
            let line = format!("not an instance: {}/{node}: {reason}", service.name);
            others = format!("{others}{}\n", escape::line(&line));
        }
    }
    let table = columns(
        [
            "SERVICE", "INSTANCE", "ADDRESS", "STATE", "PAYLOAD", "FORMAT",
        ],
        &rows,
    );
    format!("{table}{others}")
}

fn document(path: &NodePath, services: &[Service]) -> Value {
    let services = services.iter().map(|service| {
        let instances = service.instances.iter().map(|shown| {
            json!({
                "id": shown.id,
                "address": shown.address,
                "is_enabled": shown.is_enabled,
                "payload": shown.payload,
            })
        });
        let others = service
            .others
            .iter()
            .map(|(node, reason)| json!({"node": node, "reason": reason}));
        json!({
            "name": service.name,
            "format": service.format,
            "instances": instances.collect::<Vec<_>>(),
            "not_instances": others.collect::<Vec<_>>(),
        })
    });
    json!({"path": path.as_str(), "services": services.collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_children_of_a_service_show_its_format() {
        for (children, kind) in [
            (&[][..], Kind::Curator),
            (&["0d8e3dcc-2f4a-4f0e-9c3f-3f0c7a1b9f11"], Kind::Curator),
            (&["member_0000000001"], Kind::Serverset),
            (&["configurators", "providers"], Kind::Dubbo),
        ] {
            let children: Vec<_> = children.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(format_of(&children), kind, "{children:?}");
        }
    }
}
