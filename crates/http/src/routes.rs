//! The routes: one table, which makes the router, `Allow`, the pages that list the API, and a test that calls
//! each line. A request's way: its template here, its handler in `objects`.

mod openapi;

use crate::call::{Call, Outcome};
use crate::caller::Needs;
use crate::login;
use crate::objects::{
    access, bindings, clients, definitions, exchanges, health, messages, node, policies, queues,
    streams, vhosts,
};
use axum::http::Method;
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
    /// By changing or asking something that takes its time.
    Change(for<'c> fn(&'c Call) -> Work<'c>),
    /// By who asks.
    LogIn,
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

/// The table: by group, one line for each method of an address. `change` marks handlers that change
/// something, or ask what takes its time.
macro_rules! routes {
    (@run change $module:ident $handler:ident) => {
        Run::Change(|call| Box::pin($module::$handler(call)))
    };
    (@run log_in $module:ident $handler:ident) => {
        Run::LogIn
    };
    (@run read $module:ident $handler:ident) => {
        Run::Read($module::$handler)
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
    PUT "/cluster-name" Administrator change node::put_cluster_name, "Name the cluster";
    GET "/nodes" Monitoring read node::list, "The nodes";
    GET "/nodes/{node}" Monitoring read node::get, "One node";
    GET "/nodes/{node}/memory" Monitoring read node::memory, "Memory by its use, bytes";
    GET "/nodes/{node}/memory/relative" Monitoring read node::memory_relative, "Memory by its use, percent";
    GET "/nodes/{node}/memory/ets" Monitoring read node::memory_ets, "Tables of Erlang, of which there are none";
    GET "/nodes/{node}/memory/ets/relative" Monitoring read node::memory_ets, "Tables of Erlang, of which there are none";
    GET "/nodes/{node}/memory/ets/{filter}" Monitoring read node::memory_ets, "Tables of Erlang, of which there are none";
    GET "/nodes/{node}/memory/ets/{filter}/relative" Monitoring read node::memory_ets, "Tables of Erlang, of which there are none";
    GET "/extensions" Management read node::extensions, "Extensions of the management pages";
    GET "/feature-flags" Administrator change node::feature_flags, "Feature flags";
    PUT "/feature-flags/{name}/enable" Administrator change node::enable_feature_flag, "Enable a feature flag";
    GET "/deprecated-features" Administrator change node::deprecated_features, "Deprecated features";
    GET "/deprecated-features/used" Administrator change node::used_deprecated_features, "Deprecated features in use";
    GET "/whoami" Management read access::whoami, "Who asks";
    POST "/login" Nothing log_in login::begin, "Log in by a form, for a cookie";
    DELETE "/login" Management change login::end, "Log out";
    DELETE "/reset" Administrator change node::nothing, "Forget statistics";
    DELETE "/reset/{node}" Administrator change node::nothing, "Forget statistics of a node";
    POST "/rebalance/queues" Administrator change queues::rebalance, "Spread leaders over the nodes";
    GET "/auth/attempts/{node}" Monitoring read node::auth_attempts, "Attempts to log in";
    DELETE "/auth/attempts/{node}" Monitoring change node::forget_auth_attempts, "Forget attempts to log in";
    GET "/auth/attempts/{node}/source" Monitoring read node::empty, "None: attempts are not counted by address";
    DELETE "/auth/attempts/{node}/source" Monitoring change node::nothing, "Nothing to forget";
    GET "/auth/hash_password/{password}" Administrator change node::hash_password, "The salted hash of a password";
    GET "/config/effective" Administrator read node::effective_config, "The settings in force";
    GET "/openapi.json" Management read openapi::answer, "This table, for programs";
    GET "/version" Management read node::version, "Version of RabbitMQ that this is";
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
    PUT "/parameters/{component}/{vhost}/{name}" Policymaker change policies::put_parameter, "Set a parameter";
    DELETE "/parameters/{component}/{vhost}/{name}" Policymaker change policies::delete_parameter, "Clear a parameter";
    GET "/global-parameters" Policymaker read policies::list_global, "Global parameters";
    GET "/global-parameters/{name}" Policymaker read policies::get_global, "One global parameter";
    PUT "/global-parameters/{name}" Administrator change policies::put_global, "Set a global parameter";
    DELETE "/global-parameters/{name}" Administrator change policies::delete_global, "Clear a global parameter";
    "policies":
    GET "/policies" Vhost read policies::list, "Policies";
    GET "/policies/{vhost}" Vhost read policies::list, "Policies of a virtual host";
    GET "/policies/{vhost}/{name}" Vhost read policies::get, "One policy";
    PUT "/policies/{vhost}/{name}" Policymaker change policies::put, "Set a policy";
    DELETE "/policies/{vhost}/{name}" Policymaker change policies::delete, "Clear a policy";
    GET "/operator-policies" Vhost read policies::list_operator, "Operator policies";
    GET "/operator-policies/{vhost}" Vhost read policies::list_operator, "Operator policies of a virtual host";
    GET "/operator-policies/{vhost}/{name}" Vhost read policies::get_operator, "One operator policy";
    PUT "/operator-policies/{vhost}/{name}" Administrator change policies::put_operator, "Set an operator policy";
    DELETE "/operator-policies/{vhost}/{name}" Administrator change policies::delete_operator, "Clear an operator policy";
    "limits":
    GET "/vhost-limits" Management read vhosts::list_limits, "Limits of virtual hosts";
    GET "/vhost-limits/{vhost}" Vhost read vhosts::list_limits, "Limits of a virtual host";
    PUT "/vhost-limits/{vhost}/{name}" Administrator change vhosts::put_limit, "Set a limit of a virtual host";
    DELETE "/vhost-limits/{vhost}/{name}" Administrator change vhosts::delete_limit, "Clear a limit of a virtual host";
    GET "/user-limits" Management read vhosts::list_user_limits, "Limits of users";
    GET "/user-limits/{user}" Management read vhosts::list_user_limits, "Limits of a user";
    PUT "/user-limits/{user}/{name}" Administrator change vhosts::put_user_limit, "Set a limit of a user";
    DELETE "/user-limits/{user}/{name}" Administrator change vhosts::delete_user_limit, "Clear a limit of a user";
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
    GET "/vhosts/{vhost}/connections" Vhost read clients::list_in_vhost, "Connections to a virtual host";
    GET "/vhosts/{vhost}/channels" Vhost read clients::channels_in_vhost, "Channels in a virtual host";
    "exchanges":
    GET "/exchanges" Management read exchanges::list, "Exchanges";
    GET "/exchanges/{vhost}" Vhost read exchanges::list, "Exchanges of a virtual host";
    GET "/exchanges/{vhost}/{name}" Vhost read exchanges::get, "One exchange";
    PUT "/exchanges/{vhost}/{name}" Vhost change exchanges::declare, "Declare an exchange";
    DELETE "/exchanges/{vhost}/{name}" Vhost change exchanges::delete, "Delete an exchange; `if-unused`";
    POST "/exchanges/{vhost}/{name}/publish" Vhost change messages::publish, "Publish a message";
    GET "/exchanges/{vhost}/{name}/bindings/source" Vhost read bindings::from_exchange, "Bindings from an exchange";
    GET "/exchanges/{vhost}/{name}/bindings/destination" Vhost read bindings::to_exchange, "Bindings to an exchange";
    "queues":
    GET "/queues" Management read queues::list, "Queues";
    GET "/queues/detailed" Management read queues::list_detailed, "Queues with everything that one of them shows";
    GET "/queues/{vhost}" Vhost read queues::list, "Queues of a virtual host";
    GET "/queues/{vhost}/{name}" Vhost read queues::get, "One queue";
    PUT "/queues/{vhost}/{name}" Vhost change queues::declare, "Declare a queue";
    DELETE "/queues/{vhost}/{name}" Vhost change queues::delete, "Delete a queue; `if-empty`, `if-unused`";
    GET "/queues/{vhost}/{name}/bindings" Vhost read bindings::of_queue, "Bindings to a queue";
    DELETE "/queues/{vhost}/{name}/contents" Vhost change queues::purge, "Purge a queue";
    POST "/queues/{vhost}/{name}/get" Vhost change messages::get, "Fetch messages of a queue";
    POST "/queues/{vhost}/{name}/actions" Vhost change queues::act, "actions on a queue";
    POST "/queues/quorum/{vhost}/{name}/replicas/add" Administrator change queues::add_replica, "Add a member";
    DELETE "/queues/quorum/{vhost}/{name}/replicas/delete" Administrator change queues::delete_replica, "Delete a member";
    POST "/queues/quorum/replicas/on/{node}/grow" Administrator change queues::grow, "Add members on a node";
    DELETE "/queues/quorum/replicas/on/{node}/shrink" Administrator change queues::shrink, "Delete the members on a node";
    GET "/queues/quorum/{vhost}/{name}/status" Vhost read queues::quorum_status, "Members of a quorum queue";
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
    DELETE "/vhosts/{vhost}" Administrator change vhosts::delete, "Delete a virtual host";
    GET "/vhosts/{vhost}/deletion/protection" Administrator read vhosts::protection, "Whether it is protected from deletion";
    POST "/vhosts/{vhost}/deletion/protection" Administrator change vhosts::protect, "Protect it from deletion";
    DELETE "/vhosts/{vhost}/deletion/protection" Administrator change vhosts::unprotect, "Protect it no longer";
    POST "/vhosts/{vhost}/start/{node}" Administrator change vhosts::start, "Start a virtual host";
    "access":
    GET "/vhosts/{vhost}/permissions" Administrator read access::list_permissions, "Permissions in a virtual host";
    GET "/vhosts/{vhost}/topic-permissions" Administrator read access::list_topic_permissions, "Topic permissions in a virtual host";
    POST "/users/bulk-delete" Administrator change access::delete_many, "Delete users";
    GET "/users/without-permissions" Administrator read access::without_permissions, "Users without any permission";
    GET "/users" Administrator read access::list, "Users";
    GET "/users/{user}" Administrator read access::get, "One user";
    PUT "/users/{user}" Administrator change access::put, "Make or change a user";
    DELETE "/users/{user}" Administrator change access::delete, "Delete a user";
    GET "/users/{user}/permissions" Administrator read access::list_permissions, "Permissions of a user";
    GET "/users/{user}/topic-permissions" Administrator read access::list_topic_permissions, "Topic permissions of a user";
    GET "/users/{user}/queues" Administrator read access::user_queues, "Queues that a user may read";
    GET "/permissions" Administrator read access::list_permissions, "Permissions";
    GET "/permissions/{vhost}/{user}" Administrator read access::get_permissions, "Permissions of a user in a virtual host";
    PUT "/permissions/{vhost}/{user}" Administrator change access::put_permissions, "Set permissions";
    DELETE "/permissions/{vhost}/{user}" Administrator change access::delete_permissions, "Clear permissions";
    GET "/topic-permissions" Administrator read access::list_topic_permissions, "Topic permissions";
    GET "/topic-permissions/{vhost}/{user}" Administrator read access::list_topic_permissions, "Topic permissions of a user in a virtual host";
    PUT "/topic-permissions/{vhost}/{user}" Administrator change access::put_topic_permissions, "Set topic permissions";
    DELETE "/topic-permissions/{vhost}/{user}" Administrator change access::delete_topic_permissions, "Clear topic permissions";
    GET "/topic-permissions/{vhost}/{user}/{exchange}" Administrator read access::list_topic_permissions, "Topic permissions at an exchange";
    PUT "/topic-permissions/{vhost}/{user}/{exchange}" Administrator change access::put_topic_permissions, "Set topic permissions at an exchange";
    DELETE "/topic-permissions/{vhost}/{user}/{exchange}" Administrator change access::delete_topic_permissions, "Clear topic permissions at an exchange";
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
    GET "/health/checks/node-is-quorum-critical" Management read health::passes, "No queue loses its majority with this node";
    GET "/health/checks/is-in-service" Management read health::in_service, "Fails in maintenance";
    GET "/health/checks/below-node-connection-limit" Management read health::below_connection_limit, "Fails at the limit of connections";
    GET "/health/checks/ready-to-serve-clients" Management read health::ready_to_serve, "Fails while clients cannot connect";
    GET "/health/checks/reached-target-cluster-size" Management read health::passes, "All nodes are there";
    "federation":
    GET "/federation-links" Monitoring read node::empty, "None: federation is not there yet";
    GET "/federation-links/state/down" Monitoring read node::empty, "None: federation is not there yet";
    GET "/federation-links/{vhost}" Monitoring read node::empty, "None";
    GET "/federation-links/{vhost}/state/down" Monitoring read node::empty, "None";
    DELETE "/federation-links/vhost/{vhost}/{id}/{node}/restart" Monitoring change node::none_to_change, "None to restart";
    "shovels":
    GET "/shovels" Monitoring read node::empty, "None: shovels are not there yet";
    GET "/shovels/{vhost}" Monitoring read node::empty, "None";
    GET "/shovels/vhost/{vhost}/{name}" Monitoring read node::none, "None";
    DELETE "/shovels/vhost/{vhost}/{name}" Monitoring change node::none_to_change, "None to delete";
    DELETE "/shovels/vhost/{vhost}/{name}/restart" Monitoring change node::none_to_change, "None to restart";
    "streams":
    GET "/stream/connections" Management read clients::list_of_streams, "Connections of the stream protocol";
    GET "/stream/connections/{vhost}" Vhost read clients::list_of_streams, "Stream connections to a virtual host";
    GET "/stream/connections/{vhost}/{name}" Vhost read clients::get, "One stream connection";
    DELETE "/stream/connections/{vhost}/{name}" Vhost change clients::close, "Close a stream connection";
    GET "/stream/connections/{vhost}/{name}/publishers" Vhost change streams::publishers, "Publishers of a connection";
    GET "/stream/connections/{vhost}/{name}/consumers" Vhost change streams::consumers, "Consumers of a connection";
    PUT "/stream/super-streams/{vhost}/{name}" Vhost change streams::put_super_stream, "Make a super stream";
    GET "/stream/consumers" Management change streams::consumers, "Consumers of streams";
    GET "/stream/consumers/{vhost}" Vhost change streams::consumers, "Consumers of the streams of a virtual host";
    GET "/stream/publishers" Management change streams::publishers, "Publishers of streams";
    GET "/stream/publishers/{vhost}" Vhost change streams::publishers, "Publishers of the streams of a virtual host";
    GET "/stream/publishers/{vhost}/{queue}" Vhost change streams::publishers, "Publishers of a stream";
    GET "/stream/{vhost}/{queue}/tracking" Vhost change streams::tracking, "What a stream tracks";
    "top":
    GET "/top/{node}" Administrator read node::empty, "processes of Erlang, of which there are none";
    GET "/top/ets/{node}" Administrator read node::empty, "processes of Erlang, of which there are none";
    GET "/process/{pid}" Administrator read node::none, "a process of Erlang";
    "tracing":
    GET "/traces" Administrator read node::empty, "None: traces go to `amq.rabbitmq.trace`";
    GET "/traces/node/{node}" Administrator read node::empty, "None: traces go to `amq.rabbitmq.trace`";
    GET "/traces/{vhost}" Administrator read node::empty, "None: traces go to `amq.rabbitmq.trace`";
    GET "/traces/node/{node}/{vhost}" Administrator read node::empty, "None: traces go to `amq.rabbitmq.trace`";
    GET "/trace-files" Administrator read node::empty, "None: traces go to `amq.rabbitmq.trace`";
    GET "/trace-files/node/{node}" Administrator read node::empty, "None: traces go to `amq.rabbitmq.trace`";
    GET "/traces/{vhost}/{name}" Administrator read node::none, "None";
    PUT "/traces/{vhost}/{name}" Administrator change node::no_traces, "Refused: traces go to `amq.rabbitmq.trace`";
    DELETE "/traces/{vhost}/{name}" Administrator change node::none_to_change, "None to stop";
    GET "/traces/node/{node}/{vhost}/{name}" Administrator read node::none, "None";
    PUT "/traces/node/{node}/{vhost}/{name}" Administrator change node::no_traces, "Refused: traces go to `amq.rabbitmq.trace`";
    DELETE "/traces/node/{node}/{vhost}/{name}" Administrator change node::none_to_change, "None to stop";
    GET "/trace-files/{name}" Administrator read node::none, "None";
    DELETE "/trace-files/{name}" Administrator change node::none_to_change, "None to delete";
    GET "/trace-files/node/{node}/{name}" Administrator read node::none, "None";
    DELETE "/trace-files/node/{node}/{name}" Administrator change node::none_to_change, "None to delete";
}

#[cfg(test)]
mod tests;
