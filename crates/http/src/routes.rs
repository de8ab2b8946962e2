//! The routes: one table, which makes the router, `Allow`, the pages that list the API, and a test that calls
//! each line. A request's way: its template here, its handler in `objects`.

mod openapi;
mod page;
mod run;

pub(crate) use page::page;

use crate::call::{Call, Outcome};
use crate::caller::Needs;
use crate::live;
use crate::login;
use crate::messages::{browse, import, redrive, remove, search, tail};
use crate::objects::{
    access, bindings, bulk, clients, definitions, exchanges, explain, health, jobs, messages, node,
    policies, queues, streams, traces, undo, vhosts, why,
};
use crate::refusal::Refusal;
use axum::body::Body;
use axum::http::Method;
use axum::response::Response;
use mgmt::Define;
use run::{Ask, Later};
use std::pin::Pin;

/// One line of the table.
pub(crate) struct Route {
    pub(crate) method: Method,
    /// The address below `/api`.
    pub(crate) template: &'static str,
    pub(crate) group: &'static str,
    pub(crate) needs: Needs,
    pub(crate) run: Run,
    pub(crate) summary: &'static str,
}

/// How a request is answered.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// From what is there, beside the threads that serve sockets.
    Read(fn(&Call) -> Outcome),
    /// By changing something, which the log tells.
    Change(for<'c> fn(&'c Call) -> Work<'c>),
    /// By who asks.
    LogIn,
    /// The same, but that the log does not tell.
    Quiet(for<'c> fn(&'c Call) -> Work<'c>),
    /// Over and over, as it changes.
    Follow(fn(Call) -> Result<Response, Refusal>),
    /// By what a long body says, while it comes in.
    Upload(for<'c> fn(&'c Call, Body) -> Work<'c>),
    /// By a change of definitions.
    Define(Define),
    /// By the node.
    Ask(Ask),
    /// By the node, after a while.
    Later(Later),
}

stdx::named! {
    /// The most that a request can cost a node, by which it is decided where it is done. A long body makes
    /// any change long. Tools and pages know them by these names (docs/security.md).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Cost {
        /// Next to nothing, whatever there is, on the threads that serve sockets.
        Constant = "constant",
        /// A look at all there is, beside those threads, in turn.
        Read = "read",
        /// A change of much, or a long text, beside them, in turn.
        Long = "long",
        /// A change of very many things, one by one, each slice in turn.
        Sliced = "slices",
        /// A look through messages, or work that goes on after the request: few at a time for each user.
        Job = "job",
        /// A body that comes in for long: few at a time for each user.
        Upload = "upload",
        /// An answer that goes out for long: few at a time for each user.
        Live = "live",
    }
}

/// Changes that look at much, take very many messages away, or wait for the disk.
const LONG: [&str; 22] = [
    "DELETE /connections/{name}",
    "DELETE /leveret/consumers/{vhost}/{queue}/{tag}",
    "DELETE /leveret/super-streams/{vhost}/{name}",
    "DELETE /operator-policies/{vhost}/{name}",
    "DELETE /policies/{vhost}/{name}",
    "DELETE /queues/{vhost}/{name}",
    "DELETE /queues/{vhost}/{name}/contents",
    "DELETE /stream/connections/{vhost}/{name}",
    "DELETE /undo/{id}",
    "DELETE /vhosts/{vhost}",
    "POST /leveret/samples",
    "POST /leveret/streams/{vhost}/{name}/accept-loss",
    "POST /queues/quorum/replicas/on/{node}/grow",
    "POST /queues/{vhost}/{name}/get",
    "POST /users/bulk-delete",
    "PUT /leveret/exchanges/{vhost}/{exchange}/delayed/{id}",
    "PUT /leveret/queues/{vhost}/{queue}/delayed/{id}",
    "PUT /leveret/users/{user}/permissions",
    "PUT /operator-policies/{vhost}/{name}",
    "PUT /policies/{vhost}/{name}",
    "PUT /stream/super-streams/{vhost}/{name}",
    "PUT /vhosts/{vhost}",
];

/// Those that look through messages one by one, or go on after the request.
const JOBS: [&str; 6] = [
    "POST /leveret/streams/{vhost}/{name}/scrub",
    "POST /queues/{vhost}/{name}/redrive",
    "POST /queues/{vhost}/{name}/remove",
    "POST /undo/{id}",
    "PUT /leveret/exchanges/{vhost}/{exchange}/delayed",
    "PUT /leveret/queues/{vhost}/{queue}/delayed",
];

impl Route {
    /// The most that a request by it can cost.
    pub(crate) fn cost(&self) -> Cost {
        let is_look = ["/search", "/export", "/tail"].iter().any(|it| self.template.ends_with(it));
        let is_user = self.template.ends_with("/username/{user}");
        match self.run {
            Run::Upload(_) => Cost::Upload,
            Run::Follow(_) => Cost::Live,
            Run::Read(_) if self.group == "health" || self.is_open() => Cost::Constant,
            Run::Read(_) if is_look => Cost::Job,
            Run::Read(_) => Cost::Read,
            Run::Ask(_) | Run::Later(_) if self.method == Method::GET => Cost::Read,
            Run::Ask(_) => Cost::Long,
            Run::Change(_) | Run::Quiet(_) if self.is_document() => Cost::Long,
            Run::Change(_) | Run::Quiet(_) if self.group == "bulk" || is_user => Cost::Sliced,
            Run::LogIn | Run::Later(_) | Run::Define(_) | Run::Change(_) | Run::Quiet(_) => {
                let is_in = |list: &[&str]| list.iter().any(|it| self.is_named(it));
                match () {
                    () if is_in(&JOBS) => Cost::Job,
                    () if is_in(&LONG) => Cost::Long,
                    () => Cost::Constant,
                }
            }
        }
    }

    /// Whether anybody may read it, without a login.
    pub(crate) fn is_open(&self) -> bool {
        self.needs == Needs::Nothing && self.method == Method::GET
    }

    fn is_named(&self, name: &str) -> bool {
        name.split_once(' ') == Some((self.method.as_str(), self.template))
    }

    /// Whether its body is a document of definitions, which is read object by object.
    pub(crate) fn is_document(&self) -> bool {
        let is_about =
            self.template.contains("/definitions") || self.template == "/all-configuration";
        self.method == Method::POST && is_about
    }
}

/// The course of a change.
pub(crate) type Work<'c> = Pin<Box<dyn Future<Output = Outcome> + Send + 'c>>;

/// The lines of the table with the same address, together.
pub(crate) fn templates() -> Vec<Vec<&'static Route>> {
    let mut templates: Vec<Vec<&'static Route>> = Vec::new();
    for route in ROUTES {
        let same = templates
            .iter_mut()
            .find(|routes| routes.first().is_some_and(|first| first.template == route.template));
        match same {
            Some(routes) => routes.push(route),
            None => templates.push(vec![route]),
        }
    }
    templates
}

/// The table: by group, one line for each method of an address, with the kind of its handler.
macro_rules! routes {
    (@run read $module:ident $handler:ident) => { Run::Read($module::$handler) };
    (@run log_in $module:ident $handler:ident) => { Run::LogIn };
    (@run change $module:ident $handler:ident) => { Run::Change(|call| Box::pin($module::$handler(call))) };
    (@run quiet $module:ident $handler:ident) => { Run::Quiet(|call| Box::pin($module::$handler(call))) };
    (@run follow $module:ident $handler:ident) => { Run::Follow($module::$handler) };
    (@run upload $module:ident $handler:ident) => {
        Run::Upload(|call, body| Box::pin($module::$handler(call, body)))
    };
    (@run define $module:ident $handler:ident) => { Run::Define(mgmt::$module::$handler) };
    (@run ask $module:ident $handler:ident) => { Run::Ask(mgmt::$module::$handler) };
    (@run later $module:ident $handler:ident) => {
        Run::Later(|management, request| Box::pin(mgmt::$module::$handler(management, request)))
    };
    ($($group:literal: $(
        $method:ident $template:literal $needs:ident $kind:ident $module:ident::$handler:ident, $summary:literal;
    )*)*) => {
        /// All routes.
        pub(crate) static ROUTES: &[Route] = &[$($(
            Route {
                method: Method::$method,
                template: $template,
                group: $group,
                needs: Needs::$needs,
                run: routes!(@run $kind $module $handler),
                summary: $summary,
            },
        )*)*];
    };
}

routes! {
    "core":
    GET "/overview" Management read node::overview, "The node at a glance";
    GET "/cluster-name" Management read node::get_cluster_name, "Name of the cluster";
    PUT "/cluster-name" Administrator define definitions::set_cluster_name, "Name the cluster";
    GET "/nodes" Monitoring read node::list, "The nodes";
    GET "/nodes/{node}" Monitoring read node::get, "One node";
    GET "/nodes/{node}/memory" Monitoring read node::memory, "Memory by its use, bytes";
    GET "/nodes/{node}/memory/relative" Monitoring read node::memory_relative, "Memory by its use, percent";
    GET "/nodes/{node}/memory/ets" Monitoring read node::memory_ets, "Tables of Erlang, of which there are none";
    GET "/nodes/{node}/memory/ets/relative" Monitoring read node::memory_ets, "Tables of Erlang, of which there are none";
    GET "/nodes/{node}/memory/ets/{filter}" Monitoring read node::memory_ets, "Tables of Erlang, of which there are none";
    GET "/nodes/{node}/memory/ets/{filter}/relative" Monitoring read node::memory_ets, "Tables of Erlang, of which there are none";
    GET "/extensions" Management read node::extensions, "Extensions of the management pages";
    GET "/feature-flags" Management read node::feature_flags, "Feature flags";
    PUT "/feature-flags/{name}/enable" Administrator change node::enable_feature_flag, "Enable a feature flag";
    GET "/deprecated-features" Management ask deprecated::list, "Deprecated features";
    GET "/deprecated-features/used" Management ask deprecated::list_used, "Deprecated features in use";
    GET "/whoami" Management read access::whoami, "Who asks";
    POST "/login" Nothing log_in login::begin, "Log in by a form, for a cookie";
    DELETE "/login" Management change login::end, "Log out";
    DELETE "/reset" Administrator change node::nothing, "Forget statistics";
    DELETE "/reset/{node}" Administrator change node::nothing_at, "Forget statistics of a node";
    POST "/rebalance/queues" Administrator ask quorum::rebalance, "Spread leaders over the nodes";
    GET "/auth/attempts/{node}" Monitoring read node::auth_attempts, "Attempts to log in";
    DELETE "/auth/attempts/{node}" Monitoring change node::forget_auth_attempts, "Forget attempts to log in";
    GET "/auth/attempts/{node}/source" Monitoring read node::auth_attempts_by_source, "Attempts to log in by address and user, with `track_auth_attempt_source`";
    DELETE "/auth/attempts/{node}/source" Monitoring change node::forget_auth_attempts, "Forget attempts to log in";
    GET "/auth/hash_password/{password}" Administrator change node::hash_password, "The salted hash of a password";
    GET "/config/effective" Administrator read node::effective_config, "The settings in force";
    GET "/openapi.json" Management read openapi::answer, "This table, for programs";
    GET "/live" Management follow live::stream, "Answers of other addresses (`topics`, each below `/api`) as events, whenever they change";
    GET "/version" Nothing read node::version, "Version of RabbitMQ that this is";
    "definitions":
    GET "/definitions" Administrator read definitions::export, "All definitions as a document";
    POST "/definitions" Administrator change definitions::import, "Import a document of definitions";
    GET "/all-configuration" Administrator read definitions::export, "All definitions as a document";
    POST "/all-configuration" Administrator change definitions::import, "Import a document of definitions";
    GET "/definitions/{vhost}" Administrator read definitions::export, "Definitions of a virtual host";
    POST "/definitions/{vhost}" Administrator change definitions::import, "Import definitions into a virtual host";
    "parameters":
    GET "/parameters" Policymaker read policies::list_parameters, "Parameters";
    GET "/parameters/{component}" Policymaker read policies::list_parameters, "Parameters of a component";
    GET "/parameters/{component}/{vhost}" Policymaker read policies::list_parameters, "Parameters of a component in a virtual host";
    GET "/parameters/{component}/{vhost}/{name}" Policymaker read policies::get_parameter, "One parameter";
    PUT "/parameters/{component}/{vhost}/{name}" Policymaker define definitions::set_parameter, "Set a parameter";
    DELETE "/parameters/{component}/{vhost}/{name}" Policymaker define definitions::clear_parameter, "Clear a parameter";
    GET "/global-parameters" Policymaker read policies::list_global, "Global parameters";
    GET "/global-parameters/{name}" Policymaker read policies::get_global, "One global parameter";
    PUT "/global-parameters/{name}" Policymaker define definitions::set_global_parameter, "Set a global parameter";
    DELETE "/global-parameters/{name}" Policymaker define definitions::clear_global_parameter, "Clear a global parameter";
    "policies":
    GET "/policies" Vhost read policies::list, "Policies";
    GET "/policies/{vhost}" Vhost read policies::list, "Policies of a virtual host";
    GET "/policies/{vhost}/{name}" Policymaker read policies::get, "One policy";
    PUT "/policies/{vhost}/{name}" Policymaker change policies::set, "Set a policy; with `expected`, if it changes so many objects";
    DELETE "/policies/{vhost}/{name}" Policymaker define definitions::clear_policy, "Clear a policy";
    GET "/operator-policies" Vhost read policies::list_operator, "Operator policies";
    GET "/operator-policies/{vhost}" Vhost read policies::list_operator, "Operator policies of a virtual host";
    GET "/operator-policies/{vhost}/{name}" Administrator read policies::get_operator, "One operator policy";
    PUT "/operator-policies/{vhost}/{name}" Administrator change policies::set_operator, "Set an operator policy; `expected`";
    DELETE "/operator-policies/{vhost}/{name}" Administrator define definitions::clear_operator_policy, "Clear an operator policy";
    "limits":
    GET "/vhost-limits" Management read vhosts::list_limits, "Limits of virtual hosts";
    GET "/vhost-limits/{vhost}" Vhost read vhosts::list_limits, "Limits of a virtual host";
    PUT "/vhost-limits/{vhost}/{name}" Administrator define definitions::put_vhost_limit, "Set a limit of a virtual host";
    DELETE "/vhost-limits/{vhost}/{name}" Administrator define definitions::delete_vhost_limit, "Clear a limit of a virtual host";
    GET "/user-limits" Management read vhosts::list_user_limits, "Limits of users";
    GET "/user-limits/{user}" Management read vhosts::list_user_limits, "Limits of a user";
    PUT "/user-limits/{user}/{name}" Administrator define definitions::put_user_limit, "Set a limit of a user";
    DELETE "/user-limits/{user}/{name}" Administrator define definitions::delete_user_limit, "Clear a limit of a user";
    "clients":
    GET "/connections" Management read clients::list, "Connections";
    GET "/connections/{name}" Management read clients::get, "One connection";
    DELETE "/connections/{name}" Management change clients::close, "Close a connection; `X-Reason` tells the client why";
    GET "/connections/username/{user}" Management read clients::list_of_user, "Connections of a user";
    DELETE "/connections/username/{user}" Management change clients::close_of_user, "Close all connections of a user";
    GET "/connections/{name}/channels" Management read clients::channels_of_connection, "Channels of a connection";
    GET "/connections/{name}/sessions" Management read clients::sessions, "Sessions of a connection of AMQP 1.0";
    GET "/channels" Management read clients::list_channels, "Channels";
    GET "/channels/{name}" Management read clients::get_channel, "One channel";
    GET "/consumers" Management read clients::consumers, "Consumers";
    GET "/consumers/{vhost}" Vhost read clients::consumers, "Consumers in a virtual host";
    DELETE "/leveret/consumers/{vhost}/{queue}/{tag}" Management change clients::cancel_consumer, "Cancel the consumers of a queue with a tag, or the one of `channel`; clients are told, and keep what they hold";
    GET "/vhosts/{vhost}/connections" Vhost read clients::list_in_vhost, "Connections to a virtual host";
    GET "/vhosts/{vhost}/channels" Vhost read clients::channels_in_vhost, "Channels in a virtual host";
    "exchanges":
    GET "/exchanges" Management read exchanges::list, "Exchanges";
    GET "/exchanges/{vhost}" Vhost read exchanges::list, "Exchanges of a virtual host";
    GET "/exchanges/{vhost}/{name}" Vhost read exchanges::get, "One exchange";
    PUT "/exchanges/{vhost}/{name}" Vhost change exchanges::declare, "Declare an exchange";
    DELETE "/exchanges/{vhost}/{name}" Vhost change exchanges::delete, "Delete an exchange; `if-unused`";
    POST "/exchanges/{vhost}/{name}/import" Vhost upload import::to_exchange, "Publish messages in NDJSON; `routing_key` for all of them";
    GET "/exchanges/{vhost}/{name}/tail" Vhost read tail::of_exchange, "Messages as they come to an exchange, as events; `filter`, `limit`, `headers_only`, `payload_bytes`";
    POST "/exchanges/{vhost}/{name}/publish" Vhost quiet messages::publish, "Publish a message";
    GET "/exchanges/{vhost}/{name}/bindings/source" Vhost read bindings::from_exchange, "Bindings from an exchange";
    GET "/exchanges/{vhost}/{name}/bindings/destination" Vhost read bindings::to_exchange, "Bindings to an exchange";
    "queues":
    GET "/queues" Management read queues::list, "Queues";
    GET "/queues/detailed" Management read queues::list_detailed, "Queues with everything that one of them shows";
    GET "/queues/{vhost}" Vhost read queues::list, "Queues of a virtual host";
    GET "/queues/{vhost}/{name}" Vhost read queues::get, "One queue";
    PUT "/queues/{vhost}/{name}" Vhost change queues::declare, "Declare a queue";
    DELETE "/queues/{vhost}/{name}" Vhost change queues::delete, "Delete a queue; `if-empty`, `if-unused`, `dry_run`, `expected`";
    GET "/queues/{vhost}/{name}/bindings" Vhost read bindings::of_queue, "Bindings to a queue";
    DELETE "/queues/{vhost}/{name}/contents" Vhost change queues::purge, "Purge a queue; `dry_run`, `expected`";
    POST "/queues/{vhost}/{name}/import" Vhost upload import::to_queue, "Publish messages in NDJSON to a queue";
    POST "/queues/{vhost}/{name}/get" Vhost quiet messages::get, "Fetch messages of a queue";
    POST "/queues/{vhost}/{name}/browse" Vhost read browse::page, "A page of messages, which is not felt by anybody; `from`, `limit`, `which`, `headers_only`, `payload_bytes`, `filter`";
    GET "/queues/{vhost}/{name}/search" Vhost read search::stream, "Messages as they are found, as events; `scan_max`, `timeout_ms`, and as a page";
    POST "/queues/{vhost}/{name}/search" Vhost read search::stream, "The same, with a body";
    GET "/queues/{vhost}/{name}/tail" Vhost read tail::of_queue, "Messages as they come to a queue, as events; `filter`, `limit`, `headers_only`, `payload_bytes`";
    GET "/queues/{vhost}/{name}/export" Vhost read search::export, "All messages, an object a line; `which`, `filter`, `limit`";
    POST "/queues/{vhost}/{name}/redrive" Vhost change redrive::begin, "Send messages on, a job: `select`, `to`, `limit`, `rate`, `clear_deaths`, `dry_run`";
    POST "/queues/{vhost}/{name}/remove" Vhost change remove::messages, "Remove messages: `select`, `limit`, `dry_run`, `expected`";
    POST "/queues/{vhost}/{name}/export" Vhost read search::export, "The same, with a body";
    POST "/queues/{vhost}/{name}/actions" Administrator change queues::act, "actions on a queue";
    POST "/queues/quorum/{vhost}/{name}/replicas/add" Administrator ask quorum::add_member, "Add a member";
    DELETE "/queues/quorum/{vhost}/{name}/replicas/delete" Administrator ask quorum::delete_member, "Delete a member";
    POST "/queues/quorum/replicas/on/{node}/grow" Administrator change queues::grow, "Add members on a node";
    DELETE "/queues/quorum/replicas/on/{node}/shrink" Administrator ask quorum::shrink, "Delete the members on a node";
    GET "/queues/quorum/{vhost}/{name}/status" Vhost read queues::quorum_status, "Members of a quorum queue";
    "bulk":
    POST "/bulk/queues/{vhost}/{action}" Vhost change bulk::queues, "Purge (`purge`) or delete (`delete`) the queues that match, or tell which without `expected`; `pattern`, `type`, `if_empty`, `if_unused`";
    POST "/bulk/connections" Management change bulk::connections, "Close the connections that match, or tell which without `expected`; `pattern`, `by`, `explanation`";
    "jobs":
    GET "/jobs" Management read jobs::list, "Work that goes on after its request, the last first";
    GET "/jobs/{id}" Management read jobs::get, "One job: its state, and how far it is";
    PUT "/jobs/{id}" Management quiet jobs::steer, "Pause it, or have it go on: `state`";
    DELETE "/jobs/{id}" Management quiet jobs::cancel, "End it; what it has done stays so";
    "undo":
    GET "/undo" Management read undo::list, "What was purged, deleted and removed and can be brought back, the last first";
    GET "/undo/{id}" Management read undo::get, "One of them";
    POST "/undo/{id}" Management change undo::bring_back, "Bring it back, a job";
    DELETE "/undo/{id}" Management change undo::forget, "Forget it";
    "bindings":
    GET "/bindings" Management read bindings::list, "Bindings";
    GET "/bindings/{vhost}" Vhost read bindings::list, "Bindings of a virtual host";
    GET "/bindings/{vhost}/e/{source}/{kind}/{destination}" Vhost read bindings::between, "Bindings between two";
    POST "/bindings/{vhost}/e/{source}/{kind}/{destination}" Vhost change bindings::add, "Bind; `Location` names the binding";
    GET "/bindings/{vhost}/e/{source}/{kind}/{destination}/{props}" Vhost read bindings::get, "One binding";
    DELETE "/bindings/{vhost}/e/{source}/{kind}/{destination}/{props}" Vhost change bindings::delete, "Unbind";
    "vhosts":
    GET "/vhosts" Management read vhosts::list, "Virtual hosts";
    GET "/vhosts/{vhost}" Vhost read vhosts::get, "One virtual host";
    PUT "/vhosts/{vhost}" Administrator change vhosts::put, "Make or change a virtual host";
    DELETE "/vhosts/{vhost}" Administrator define definitions::delete_vhost, "Delete a virtual host";
    GET "/vhosts/{vhost}/deletion/protection" Administrator read vhosts::protection, "Whether it is protected from deletion";
    POST "/vhosts/{vhost}/deletion/protection" Administrator define definitions::protect_vhost, "Protect it from deletion";
    DELETE "/vhosts/{vhost}/deletion/protection" Administrator define definitions::unprotect_vhost, "Protect it no longer";
    POST "/vhosts/{vhost}/start/{node}" Administrator ask operations::restart_vhost, "Start a virtual host";
    "access":
    GET "/vhosts/{vhost}/permissions" Administrator read access::list_permissions, "Permissions in a virtual host";
    GET "/vhosts/{vhost}/topic-permissions" Administrator read access::list_topic_permissions, "Topic permissions in a virtual host";
    POST "/users/bulk-delete" Administrator define definitions::delete_users, "Delete users";
    GET "/users/without-permissions" Administrator read access::without_permissions, "Users without any permission";
    GET "/users" Administrator read access::list, "Users";
    GET "/users/{user}" Administrator read access::get, "One user";
    PUT "/users/{user}" Administrator define definitions::put_user, "Make or change a user";
    DELETE "/users/{user}" Administrator define definitions::delete_user, "Delete a user";
    GET "/users/{user}/permissions" Administrator read access::list_permissions, "Permissions of a user";
    GET "/users/{user}/topic-permissions" Administrator read access::list_topic_permissions, "Topic permissions of a user";
    GET "/users/{user}/queues" Administrator read access::user_queues, "Queues that a user may read";
    GET "/permissions" Administrator read access::list_permissions, "Permissions";
    GET "/permissions/{vhost}/{user}" Administrator read access::get_permissions, "Permissions of a user in a virtual host";
    PUT "/permissions/{vhost}/{user}" Administrator define definitions::set_permissions, "Set permissions";
    DELETE "/permissions/{vhost}/{user}" Administrator define definitions::clear_permissions, "Clear permissions";
    GET "/topic-permissions" Administrator read access::list_topic_permissions, "Topic permissions";
    GET "/topic-permissions/{vhost}/{user}" Administrator read access::list_topic_permissions, "Topic permissions of a user in a virtual host";
    PUT "/topic-permissions/{vhost}/{user}" Administrator define definitions::set_topic_permissions, "Set topic permissions";
    DELETE "/topic-permissions/{vhost}/{user}" Administrator define definitions::clear_topic_permissions, "Clear topic permissions";
    GET "/topic-permissions/{vhost}/{user}/{exchange}" Administrator read access::list_topic_permissions, "Topic permissions at an exchange";
    PUT "/topic-permissions/{vhost}/{user}/{exchange}" Administrator define definitions::set_topic_permissions, "Set topic permissions at an exchange";
    DELETE "/topic-permissions/{vhost}/{user}/{exchange}" Administrator define definitions::clear_topic_permissions, "Clear topic permissions at an exchange";
    "health":
    GET "/aliveness-test/{vhost}" Vhost change node::aliveness, "whether a virtual host is there";
    GET "/healthchecks/node" Management read health::alarms, "alarms";
    GET "/healthchecks/node/{node}" Management read health::alarms, "alarms";
    GET "/health/checks/alarms" Management read health::alarms, "Fails while there is an alarm";
    GET "/health/checks/local-alarms" Management read health::alarms, "Fails while there is an alarm on this node";
    GET "/health/checks/metadata-store/initialized" Management read health::passes, "Definitions are there";
    GET "/health/checks/metadata-store/initialized/with-data" Management read health::passes, "Definitions are there";
    GET "/health/checks/certificate-expiration/{within}/{unit}" Management read health::certificates, "Fails if a certificate expires soon";
    GET "/health/checks/port-listener/{port}" Management read health::port_listener, "Fails if nobody listens on a port";
    GET "/health/checks/protocol-listener/{protocols}" Management read health::protocol_listener, "Fails if a protocol is not listened for";
    GET "/health/checks/virtual-hosts" Management read health::passes, "Virtual hosts run";
    GET "/health/checks/quorum-queues-without-elected-leaders/all-vhosts" Management read health::without_leaders, "Quorum queues have leaders";
    GET "/health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}" Management read health::without_leaders, "Quorum queues have leaders";
    GET "/health/checks/quorum-queues-without-elected-leaders/all-vhosts/pattern/{pattern}" Management read health::without_leaders, "Quorum queues have leaders";
    GET "/health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}/pattern/{pattern}" Management read health::without_leaders, "Quorum queues have leaders";
    GET "/health/checks/node-is-quorum-critical" Management read health::single_node, "No queue loses its majority with this node";
    GET "/health/checks/is-in-service" Nothing read health::in_service, "Fails in maintenance";
    GET "/health/checks/below-node-connection-limit" Nothing read health::below_connection_limit, "Fails at the limit of connections";
    GET "/health/checks/ready-to-serve-clients" Nothing read health::ready_to_serve, "Fails while clients cannot connect";
    GET "/health/checks/reached-target-cluster-size" Nothing read health::passes, "All nodes are there";
    "federation":
    GET "/federation-links" Monitoring read node::empty, "None: federation is not there yet";
    GET "/federation-links/state/down" Monitoring read node::empty, "None: federation is not there yet";
    GET "/federation-links/{vhost}" Monitoring read node::empty_in_vhost, "None";
    GET "/federation-links/{vhost}/state/down" Monitoring read node::empty_in_vhost, "None";
    DELETE "/federation-links/vhost/{vhost}/{id}/{node}/restart" Monitoring change node::none_to_change, "None to restart";
    "shovels":
    GET "/shovels" Monitoring read node::empty, "None: shovels are not there yet";
    GET "/shovels/{vhost}" Monitoring read node::empty_in_vhost, "None";
    GET "/shovels/vhost/{vhost}/{name}" Monitoring read node::none, "None";
    DELETE "/shovels/vhost/{vhost}/{name}" Monitoring change node::none_to_change, "None to delete";
    DELETE "/shovels/vhost/{vhost}/{name}/restart" Monitoring change node::none_to_change, "None to restart";
    "streams":
    GET "/stream/connections" Management read clients::list_of_streams, "Connections of the stream protocol";
    GET "/stream/connections/{vhost}" Vhost read clients::list_of_streams, "Stream connections to a virtual host";
    GET "/stream/connections/{vhost}/{name}" Vhost read clients::get, "One stream connection";
    DELETE "/stream/connections/{vhost}/{name}" Vhost change clients::close, "Close a stream connection";
    GET "/stream/connections/{vhost}/{name}/publishers" Vhost read streams::publishers, "Publishers of a connection";
    GET "/stream/connections/{vhost}/{name}/consumers" Vhost read streams::consumers, "Consumers of a connection";
    PUT "/stream/super-streams/{vhost}/{name}" Vhost change streams::put_super_stream, "Make a super stream";
    GET "/stream/consumers" Management read streams::consumers, "Consumers of streams";
    GET "/stream/consumers/{vhost}" Vhost read streams::consumers, "Consumers of the streams of a virtual host";
    GET "/stream/publishers" Management read streams::publishers, "Publishers of streams";
    GET "/stream/publishers/{vhost}" Vhost read streams::publishers, "Publishers of the streams of a virtual host";
    GET "/stream/publishers/{vhost}/{queue}" Vhost read streams::publishers, "Publishers of a stream";
    GET "/stream/{vhost}/{name}/tracking" Vhost read streams::tracking, "What a stream tracks";
    "top":
    GET "/top/{node}" Administrator read node::empty, "processes of Erlang, of which there are none";
    GET "/top/ets/{node}" Administrator read node::empty, "processes of Erlang, of which there are none";
    GET "/process/{pid}" Administrator read node::none, "a process of Erlang";
    "tracing":
    GET "/traces" Administrator read traces::list, "Traces that are written to files";
    GET "/traces/node/{node}" Administrator read traces::list, "Traces that are written to files";
    GET "/traces/{vhost}" Administrator read traces::list, "Those of a virtual host";
    GET "/traces/node/{node}/{vhost}" Administrator read traces::list, "Those of a virtual host";
    GET "/trace-files" Administrator read traces::list_files, "Files with traces";
    GET "/trace-files/node/{node}" Administrator read traces::list_files, "Files with traces";
    GET "/traces/{vhost}/{name}" Administrator read traces::get, "One trace";
    PUT "/traces/{vhost}/{name}" Administrator change traces::start, "Begin a trace; `format` (`json` or `text`), `pattern`, `max_payload_bytes`, `tracer_connection_username`, `tracer_connection_password`";
    DELETE "/traces/{vhost}/{name}" Administrator change traces::stop, "End a trace; its file stays";
    GET "/traces/node/{node}/{vhost}/{name}" Administrator read traces::get, "One trace";
    PUT "/traces/node/{node}/{vhost}/{name}" Administrator change traces::start, "Begin a trace";
    DELETE "/traces/node/{node}/{vhost}/{name}" Administrator change traces::stop, "End a trace; its file stays";
    GET "/trace-files/{name}" Administrator read traces::get_file, "The text of a file";
    DELETE "/trace-files/{name}" Administrator change traces::delete_file, "Delete a file";
    GET "/trace-files/node/{node}/{name}" Administrator read traces::get_file, "The text of a file";
    DELETE "/trace-files/node/{node}/{name}" Administrator change traces::delete_file, "Delete a file";
    "explain":
    GET "/explain/queue/{vhost}/{name}" Vhost read explain::queue, "Settings of a queue and where each comes from; policies and why each applies or does not";
    POST "/explain/policy/{vhost}/{name}" Policymaker read explain::policy, "What a policy would change, which is not set by this";
    POST "/explain/operator-policy/{vhost}/{name}" Administrator read explain::operator_policy, "What an operator policy would change, which is not set by this";
    POST "/explain/publish/{vhost}/{name}" Vhost read explain::publish, "The way of a message to an exchange, which is not published by this; `routing_key`, `properties`, `user`";
    GET "/explain/why/{vhost}/{name}" Vhost read why::queue, "Why messages stay in a queue";
    POST "/explain/definitions" Administrator read definitions::explain, "What an import of a document would change, of which nothing is imported by this";
    POST "/explain/definitions/{vhost}" Administrator read definitions::explain, "The same into a virtual host";
    GET "/explain/permission/{vhost}/{user}" Administrator read explain::permission, "Whether a user may do something, and by which pattern; `kind`, `name`, `operation`, `routing_key`";
    "leveret":
    GET "/leveret/policies/{vhost}/matching/{name}" Administrator read policies::matching, "Policies that match a queue, or with `object_type` an exchange";
    GET "/leveret/parameters/{vhost}" Administrator read policies::list_parameters, "Parameters of a virtual host";
    POST "/leveret/users/{user}" Administrator define definitions::add_user, "Make a user who is not there yet; `password`, `pre_hashed_password`";
    PUT "/leveret/users/{user}/password" Administrator define definitions::change_password, "Set a password; `pre_hashed_password`";
    DELETE "/leveret/users/{user}/password" Administrator define definitions::clear_password, "Take a password away";
    PUT "/leveret/users/{user}/tags" Administrator define definitions::set_user_tags, "Replace tags";
    PUT "/leveret/users/{user}/limits" Administrator define definitions::set_user_limits, "Set limits; `definition`";
    PUT "/leveret/users/{user}/permissions" Administrator define definitions::set_permissions_globally, "Set permissions in all virtual hosts";
    POST "/leveret/users/{user}/authentication" Administrator quiet access::authenticate, "Try a password";
    POST "/leveret/vhosts/{vhost}" Administrator define definitions::add_vhost, "Make a virtual host, unless it is there";
    PUT "/leveret/vhosts/{vhost}/metadata" Administrator define definitions::update_vhost, "Change a virtual host's description, tags and the like";
    PUT "/leveret/vhosts/{vhost}/limits" Administrator define definitions::set_vhost_limits, "Set limits; `definition`";
    DELETE "/leveret/vhosts/{vhost}/limits" Administrator define definitions::clear_vhost_limits, "Remove all limits";
    PUT "/leveret/vhosts/{vhost}/tracing" Administrator ask operations::trace_on, "Trace what goes through a virtual host, or what `user` does there";
    DELETE "/leveret/vhosts/{vhost}/tracing" Administrator ask operations::trace_off, "Trace no longer";
    DELETE "/leveret/connections" Administrator ask operations::close_connections, "Close the connections to `vhost`, at most `limit`, or all; `explanation`";
    PUT "/leveret/queues/{vhost}/{name}/leader/{node}" Administrator ask quorum::transfer_leadership, "Hand over a quorum queue";
    POST "/leveret/queues/{vhost}/{name}/checkpoint" Administrator ask quorum::reclaim_memory, "Write a quorum queue's state down";
    GET "/leveret/queues/{vhost}/{name}/messages/{position}" Administrator later quorum::peek, "The message at a position of a quorum queue";
    POST "/leveret/queues/checkpoint" Administrator ask quorum::force_checkpoint, "Write the state of matching quorum queues down";
    POST "/leveret/queues/growth" Administrator ask quorum::grow_to_count, "Add members to matching quorum queues";
    GET "/leveret/exchanges/{vhost}/{exchange}/delayed" Administrator later delayed::list, "Messages that an exchange delays; `limit`";
    PUT "/leveret/exchanges/{vhost}/{exchange}/delayed" Administrator later delayed::reschedule, "Have those that match `filter` go on after `delay_ms` from now, at once without it";
    PUT "/leveret/exchanges/{vhost}/{exchange}/delayed/{id}" Administrator later delayed::reschedule, "Have one of them go on after `delay_ms` from now, at once without it";
    DELETE "/leveret/exchanges/{vhost}/{exchange}/delayed/{id}" Administrator later delayed::cancel, "Drop one of them";
    PUT "/leveret/queues/{vhost}/{queue}/delayed" Administrator later delayed::reschedule, "Have messages of a quorum queue that wait to be tried again and match `filter` go on after `delay_ms` from now, at once without it";
    PUT "/leveret/queues/{vhost}/{queue}/delayed/{id}" Administrator later delayed::reschedule, "Have the one at a position go on after `delay_ms` from now, at once without it";
    GET "/leveret/stream-coordinator" Administrator ask streams::coordinator, "How what decides about streams is";
    GET "/leveret/stream-groups/{vhost}" Administrator ask streams::groups, "Groups of consumers of streams";
    GET "/leveret/streams/{vhost}/{stream}/groups/{reference}" Administrator ask streams::group_consumers, "Consumers of a group";
    POST "/leveret/streams/{vhost}/{stream}/groups/{reference}" Administrator ask streams::activate_consumer, "Choose the active consumer of a group again";
    DELETE "/leveret/streams/{vhost}/{stream}/offsets/{reference}" Administrator ask streams::reset_offset, "Forget a stored offset";
    GET "/leveret/streams/{vhost}/{name}" Administrator ask streams::status, "How a stream is";
    GET "/leveret/streams/{vhost}/{name}/tracking" Administrator ask streams::tracking, "What a stream tracks";
    GET "/leveret/streams/{vhost}/{name}/messages" Administrator later tail::messages, "Messages of a stream; `offset` or `next`, `count`, `id`";
    POST "/leveret/streams/{vhost}/{name}/restart" Administrator ask streams::restart, "Have clients look for a stream again";
    POST "/leveret/streams/{vhost}/{name}/accept-loss" Administrator later streams::accept_loss, "Open a stream without what is missing of it";
    POST "/leveret/streams/{vhost}/{name}/scrub" Administrator later streams::scrub, "Compare a stream with its checksums";
    POST "/leveret/streams/{vhost}/{name}/replicas/{node}" Administrator ask streams::add_replica, "Add a member";
    DELETE "/leveret/streams/{vhost}/{name}/replicas/{node}" Administrator ask streams::delete_replica, "Delete a member";
    DELETE "/leveret/super-streams/{vhost}/{name}" Administrator later streams::delete_super_stream, "Delete a super stream";
    POST "/leveret/samples" Administrator quiet node::sample, "Look at the figures for rates now, where nobody does so every few seconds";
    GET "/leveret/state" Administrator ask node::state, "Whether the node has started";
    GET "/leveret/status" Administrator ask node::status, "How the node is";
    GET "/leveret/cluster" Administrator ask node::cluster_status, "How its cluster is";
    GET "/leveret/environment" Administrator ask node::environment, "The settings in force";
    GET "/leveret/os-env" Administrator ask node::os_env, "Variables of the environment that the node was started with";
    GET "/leveret/metadata-store" Administrator ask node::metadata_store, "How the store of definitions is";
    GET "/leveret/alarms" Administrator ask node::list_alarms, "Alarms in effect, with who is heaviest";
    GET "/leveret/listeners" Administrator ask node::listeners, "What the node listens on";
    DELETE "/leveret/listeners" Administrator ask operations::suspend_listeners, "Let no more clients connect";
    POST "/leveret/listeners" Administrator ask operations::resume_listeners, "Let clients connect again";
    PUT "/leveret/maintenance" Administrator ask operations::drain, "Put the node into maintenance";
    DELETE "/leveret/maintenance" Administrator ask operations::revive, "End maintenance";
    PUT "/leveret/limits/memory" Administrator ask operations::set_memory_high, "Have publishers wait above so much memory: `bytes` or `of_memory`";
    PUT "/leveret/limits/disk" Administrator ask operations::set_disk_free, "Have publishers wait below so much free disk";
    GET "/leveret/events" Administrator ask operations::last_events, "The last events; `count`, `after`, `before`, `name` as the key of a topic binding, `text` in the headers";
    GET "/leveret/log" Administrator ask operations::last_log_lines, "The last lines of the log; `lines`, `after`, `before`, `level`, `text`";
    PUT "/leveret/log/level/{level}" Administrator ask operations::set_log_level, "Set the least level that is logged";
    POST "/leveret/log/rotation" Administrator ask operations::rotate_logs, "Open the log file anew";
    POST "/leveret/stop" Administrator ask operations::stop, "Stop the node";
    GET "/leveret/tls/certificates" Administrator ask certificates::list, "Certificates in use";
    POST "/leveret/tls/certificates" Administrator ask certificates::reload, "Read certificates again";
    GET "/leveret/tls/failures" Administrator ask certificates::list_failures, "Handshakes that failed, by reason";
    GET "/leveret/tls/cipher-suites" Administrator ask certificates::cipher_suites, "Cipher suites";
    GET "/leveret/tls/versions" Administrator ask certificates::versions, "Versions of TLS";
}

#[cfg(test)]
mod tests;
