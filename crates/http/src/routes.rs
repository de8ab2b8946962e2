//! The routes: one table, which makes the router, `Allow`, the pages that list the API, and a test that calls
//! each line. A request's way: its template here, its handler in `objects`.

mod openapi;
mod page;
mod run;

pub(crate) use page::page;

use crate::admin;
use crate::admin::definitions::Define;
use crate::call::{Call, Outcome};
use crate::caller::Needs;
use crate::live;
use crate::login;
use crate::messages::{browse, import, redrive, remove, search, tail};
use crate::objects::{
    access, bindings, bulk, clients, definitions, exchanges, explain, health, jobs, messages, node,
    policies, queues, sessions, streams, traces, undo, vhosts, why,
};
use crate::peers::Sharing;
use crate::refusal::Refusal;
use crate::settings::Restriction;
use axum::body::Body;
use axum::http::Method;
use axum::response::Response;
use run::{Ask, Later};
use std::pin::Pin;

/// Row of the table of routes.
pub(crate) struct Route {
    pub(crate) method: Method,
    /// The address below `/api`.
    pub(crate) template: &'static str,
    pub(crate) group: Group,
    pub(crate) needs: Needs,
    pub(crate) run: Run,
    pub(crate) cost: Cost,
    pub(crate) finds: Option<Find>,
    /// Whether the body is a document of definitions, which is read object by object.
    pub(crate) is_document: bool,
    pub(crate) restriction: Option<Restriction>,
    pub(crate) sharing: Sharing,
    pub(crate) summary: &'static str,
}

/// Refuses an address whose object is not there. COMPAT: users may not delete such an object, and a `PUT`
/// creates it.
pub(crate) type Find = fn(&Call) -> Result<(), Refusal>;

stdx::named! {
    /// Groups of routes, as pages list them.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Group {
        Core = "core",
        Definitions = "definitions",
        Parameters = "parameters",
        Policies = "policies",
        Limits = "limits",
        Clients = "clients",
        Exchanges = "exchanges",
        Queues = "queues",
        Bulk = "bulk",
        Jobs = "jobs",
        Undo = "undo",
        Bindings = "bindings",
        Vhosts = "vhosts",
        Access = "access",
        Health = "health",
        Federation = "federation",
        Shovels = "shovels",
        Streams = "streams",
        Top = "top",
        Tracing = "tracing",
        Explain = "explain",
        Leveret = "leveret",
    }
}

/// How a request is answered.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// Answers from what is there, beside the threads that serve sockets.
    Read(fn(&Call) -> Outcome),
    /// Answers a health check, whole whichever columns are asked for.
    Check(fn(&Call) -> Outcome),
    /// Changes something, which is logged.
    Change(for<'c> fn(&'c Call) -> Work<'c>),
    /// Logs in the caller with a cookie.
    LogIn,
    /// Changes something, which is not logged.
    Quiet(for<'c> fn(&'c Call) -> Work<'c>),
    /// Answers over and over, as the answer changes.
    Follow(fn(Call) -> Result<Response, Refusal>),
    /// Works through a long body while it comes in.
    Upload(for<'c> fn(&'c Call, Body) -> Work<'c>),
    /// Changes definitions.
    Define(Define),
    /// Answers what the node says or does at once.
    Ask(Ask),
    /// Answers what the node says or does after a while.
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

impl Route {
    /// Whether anybody may read the route's answers, without a login.
    pub(crate) fn is_open(&self) -> bool {
        self.needs == Needs::Nothing && self.method == Method::GET
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

/// The table: by group, one line for each method of an address, with the kind of its handler, marks where the
/// row differs from others of its kind, and with `if` the check whether its object is there.
macro_rules! routes {
    (@run read $module:ident $handler:ident) => { Run::Read($module::$handler) };
    (@run check $module:ident $handler:ident) => { Run::Check($module::$handler) };
    (@run log_in $module:ident $handler:ident) => { Run::LogIn };
    (@run change $module:ident $handler:ident) => { Run::Change(|call| Box::pin($module::$handler(call))) };
    (@run quiet $module:ident $handler:ident) => { Run::Quiet(|call| Box::pin($module::$handler(call))) };
    (@run follow $module:ident $handler:ident) => { Run::Follow($module::$handler) };
    (@run upload $module:ident $handler:ident) => {
        Run::Upload(|call, body| Box::pin($module::$handler(call, body)))
    };
    (@run define $module:ident $handler:ident) => { Run::Define(admin::$module::$handler) };
    (@run ask $module:ident $handler:ident) => { Run::Ask(admin::$module::$handler) };
    (@run later $module:ident $handler:ident) => {
        Run::Later(|management, request| Box::pin(admin::$module::$handler(management, request)))
    };
    (@cost GET Nothing read) => { Cost::Constant };
    (@cost $method:ident $needs:ident read) => { Cost::Read };
    (@cost GET $needs:ident ask) => { Cost::Read };
    (@cost GET $needs:ident later) => { Cost::Read };
    (@cost $method:ident $needs:ident ask) => { Cost::Long };
    (@cost $method:ident $needs:ident upload) => { Cost::Upload };
    (@cost $method:ident $needs:ident follow) => { Cost::Live };
    (@cost $method:ident $needs:ident $kind:ident) => { Cost::Constant };
    (@mark $route:ident long) => { $route.cost = Cost::Long };
    (@mark $route:ident sliced) => { $route.cost = Cost::Sliced };
    (@mark $route:ident job) => { $route.cost = Cost::Job };
    (@mark $route:ident document) => { $route.is_document = true };
    (@mark $route:ident list) => { $route.sharing = Sharing::List };
    (@mark $route:ident object) => { $route.sharing = Sharing::Object };
    (@mark $route:ident sum) => { $route.sharing = Sharing::Sum };
    (@mark $route:ident operator_policies) => { $route.restriction = Some(Restriction::OperatorPolicies) };
    (@mark $route:ident members) => { $route.restriction = Some(Restriction::QuorumMembers) };
    ($([$group:ident] $(
        $method:ident $template:literal $needs:ident $kind:ident$(($($mark:ident),+))?
        $module:ident::$handler:ident $(if $of:ident::$found:ident)?, $summary:literal;
    )*)*) => {
        /// All routes.
        pub(crate) static ROUTES: &[Route] = &[$($({
            #[allow(unused_mut, reason = "most rows have no marks")]
            let mut route = Route {
                method: Method::$method,
                template: $template,
                group: Group::$group,
                needs: Needs::$needs,
                run: routes!(@run $kind $module $handler),
                cost: routes!(@cost $method $needs $kind),
                finds: None,
                is_document: false,
                restriction: None,
                sharing: Sharing::Own,
                summary: $summary,
            };
            $($(routes!(@mark route $mark);)+)?
            $(route.finds = Some(|call| $of::$found(call).map(drop));)?
            route
        },)*)*];
    };
}

routes! {
    [Core]
    GET "/overview" Management read(sum) node::overview, "Overview";
    GET "/cluster-name" Management read node::get_cluster_name, "Cluster name";
    PUT "/cluster-name" Administrator define definitions::set_cluster_name, "Set the cluster name";
    GET "/nodes" Monitoring read(list) node::list, "The nodes";
    GET "/nodes/{node}" Monitoring read(object) node::get, "One node";
    GET "/nodes/{node}/memory" Monitoring read(object) node::memory, "Memory use by category, bytes";
    GET "/nodes/{node}/memory/relative" Monitoring read(object) node::memory_relative, "Memory use by category, percent";
    GET "/nodes/{node}/memory/ets" Monitoring read node::memory_ets, "Erlang tables; there are none";
    GET "/nodes/{node}/memory/ets/relative" Monitoring read node::memory_ets, "Erlang tables; there are none";
    GET "/nodes/{node}/memory/ets/{filter}" Monitoring read node::memory_ets, "Erlang tables; there are none";
    GET "/nodes/{node}/memory/ets/{filter}/relative" Monitoring read node::memory_ets, "Erlang tables; there are none";
    GET "/extensions" Management read node::extensions, "Management UI extensions";
    GET "/feature-flags" Management read node::feature_flags, "Feature flags";
    PUT "/feature-flags/{name}/enable" Administrator change node::enable_feature_flag, "Enable a feature flag";
    GET "/deprecated-features" Management ask deprecated::list, "Deprecated features";
    GET "/deprecated-features/used" Management ask deprecated::list_used, "Deprecated features in use";
    GET "/whoami" Management read access::whoami, "The current user; with `permissions`, and the permissions";
    POST "/login" Nothing log_in login::begin, "Log in with a form, for a session cookie";
    DELETE "/login" Management change login::end, "Log out";
    DELETE "/reset" Administrator change node::nothing, "Reset statistics";
    DELETE "/reset/{node}" Administrator change node::nothing_at, "Reset a node's statistics";
    POST "/rebalance/queues" Administrator ask quorum::rebalance, "Spread queue leaders evenly over the nodes";
    GET "/auth/attempts/{node}" Monitoring read node::auth_attempts, "Login attempts";
    DELETE "/auth/attempts/{node}" Monitoring change node::forget_auth_attempts, "Reset login attempts";
    GET "/auth/attempts/{node}/source" Monitoring read node::auth_attempts_by_source, "Login attempts by address and user, with `track_auth_attempt_source`";
    DELETE "/auth/attempts/{node}/source" Monitoring change node::forget_auth_attempts, "Reset login attempts";
    GET "/auth/hash_password/{password}" Administrator change node::hash_password, "Salted hash of a password";
    GET "/config/effective" Administrator read node::effective_config, "Effective configuration";
    GET "/openapi.json" Management read openapi::answer, "This table as OpenAPI";
    GET "/live" Management follow live::stream, "Follow the responses of other routes (`topics`, each below `/api`) as events";
    GET "/version" Nothing read node::version, "RabbitMQ version the node is compatible with";
    [Definitions]
    GET "/definitions" Administrator read definitions::export, "All definitions as a document";
    POST "/definitions" Administrator change(long, document) definitions::import, "Import a document of definitions";
    GET "/all-configuration" Administrator read definitions::export, "All definitions as a document";
    POST "/all-configuration" Administrator change(long, document) definitions::import, "Import a document of definitions";
    GET "/definitions/{vhost}" Administrator read definitions::export, "Definitions of a virtual host";
    POST "/definitions/{vhost}" Administrator change(long, document) definitions::import, "Import definitions into a virtual host";
    [Parameters]
    GET "/parameters" Policymaker read policies::list_parameters, "Parameters";
    GET "/parameters/{component}" Policymaker read policies::list_parameters, "Parameters of a component";
    GET "/parameters/{component}/{vhost}" Policymaker read policies::list_parameters, "Parameters of a component in a virtual host";
    GET "/parameters/{component}/{vhost}/{name}" Policymaker read policies::get_parameter, "One parameter";
    PUT "/parameters/{component}/{vhost}/{name}" Policymaker define definitions::set_parameter if policies::get_parameter, "Set a parameter";
    DELETE "/parameters/{component}/{vhost}/{name}" Policymaker define definitions::clear_parameter if policies::get_parameter, "Clear a parameter";
    GET "/global-parameters" Policymaker read policies::list_global, "Global parameters";
    GET "/global-parameters/{name}" Policymaker read policies::get_global, "One global parameter";
    PUT "/global-parameters/{name}" Policymaker define definitions::set_global_parameter if policies::get_global, "Set a global parameter";
    DELETE "/global-parameters/{name}" Policymaker define definitions::clear_global_parameter if policies::get_global, "Clear a global parameter";
    [Policies]
    GET "/policies" Vhost read policies::list, "Policies";
    GET "/policies/{vhost}" Vhost read policies::list, "Policies of a virtual host";
    GET "/policies/{vhost}/{name}" Policymaker read policies::get, "One policy";
    PUT "/policies/{vhost}/{name}" Policymaker change(long) policies::set if policies::get, "Set a policy; with `expected`, if it changes so many objects";
    DELETE "/policies/{vhost}/{name}" Policymaker define(long) definitions::clear_policy if policies::get, "Clear a policy";
    GET "/operator-policies" Vhost read policies::list_operator, "Operator policies";
    GET "/operator-policies/{vhost}" Vhost read policies::list_operator, "Operator policies of a virtual host";
    GET "/operator-policies/{vhost}/{name}" Administrator read policies::get_operator, "One operator policy";
    PUT "/operator-policies/{vhost}/{name}" Administrator change(long, operator_policies) policies::set_operator if policies::get_operator, "Set an operator policy; `expected`";
    DELETE "/operator-policies/{vhost}/{name}" Administrator define(long, operator_policies) definitions::clear_operator_policy if policies::get_operator, "Clear an operator policy";
    [Limits]
    GET "/vhost-limits" Management read vhosts::list_limits, "Limits of virtual hosts";
    GET "/vhost-limits/{vhost}" Vhost read vhosts::list_limits, "Limits of a virtual host";
    PUT "/vhost-limits/{vhost}/{name}" Administrator define definitions::put_vhost_limit, "Set a limit of a virtual host";
    DELETE "/vhost-limits/{vhost}/{name}" Administrator define definitions::delete_vhost_limit, "Clear a limit of a virtual host";
    GET "/user-limits" Management read vhosts::list_user_limits, "Limits of users";
    GET "/user-limits/{user}" Management read vhosts::list_user_limits, "Limits of a user";
    PUT "/user-limits/{user}/{name}" Administrator define definitions::put_user_limit, "Set a limit of a user";
    DELETE "/user-limits/{user}/{name}" Administrator define definitions::delete_user_limit, "Clear a limit of a user";
    [Clients]
    GET "/connections" Management read(list) clients::list, "Connections";
    GET "/connections/{name}" Management read(object) clients::get, "One connection";
    DELETE "/connections/{name}" Management change(long) clients::close, "Close a connection; `X-Reason` tells the client why";
    GET "/connections/username/{user}" Management read(list) clients::list_of_user, "Connections of a user";
    DELETE "/connections/username/{user}" Management change(sliced) clients::close_of_user, "Close all connections of a user";
    GET "/connections/{name}/channels" Management read(object) clients::channels_of_connection, "Channels of a connection";
    GET "/connections/{name}/sessions" Management read(object) sessions::of_connection, "AMQP 1.0 sessions of a connection, with their links";
    GET "/leveret/sessions" Management read(list) sessions::list, "AMQP 1.0 sessions";
    GET "/leveret/links" Management read(list) sessions::list_links, "Links of AMQP 1.0 sessions";
    GET "/channels" Management read(list) clients::list_channels, "Channels";
    GET "/channels/{name}" Management read(object) clients::get_channel, "One channel";
    GET "/consumers" Management read(list) clients::consumers, "Consumers";
    GET "/consumers/{vhost}" Vhost read(list) clients::consumers, "Consumers in a virtual host";
    DELETE "/leveret/consumers/{vhost}/{queue}/{tag}" Management change(long) clients::cancel_consumer, "Cancel the consumers of a queue with a tag, on all channels or `channel`; clients are notified and keep their unacknowledged messages";
    GET "/vhosts/{vhost}/connections" Vhost read(list) clients::list_in_vhost, "Connections of a virtual host";
    GET "/vhosts/{vhost}/channels" Vhost read(list) clients::channels_in_vhost, "Channels in a virtual host";
    [Exchanges]
    GET "/exchanges" Management read exchanges::list, "Exchanges";
    GET "/exchanges/{vhost}" Vhost read exchanges::list, "Exchanges of a virtual host";
    GET "/exchanges/{vhost}/{name}" Vhost read exchanges::get, "One exchange";
    PUT "/exchanges/{vhost}/{name}" Vhost change exchanges::declare if exchanges::check, "Declare an exchange";
    DELETE "/exchanges/{vhost}/{name}" Vhost change exchanges::delete if exchanges::check, "Delete an exchange; `if-unused`";
    POST "/exchanges/{vhost}/{name}/import" Vhost upload import::to_exchange, "Publish messages in NDJSON; `routing_key` for all of them";
    GET "/exchanges/{vhost}/{name}/tail" Vhost read(job) tail::of_exchange, "Follow the messages published to an exchange, as events; `filter`, `limit`, `headers_only`, `payload_bytes`";
    POST "/exchanges/{vhost}/{name}/publish" Vhost quiet messages::publish, "Publish a message";
    GET "/exchanges/{vhost}/{name}/bindings/source" Vhost read bindings::from_exchange, "Bindings from an exchange";
    GET "/exchanges/{vhost}/{name}/bindings/destination" Vhost read bindings::to_exchange, "Bindings to an exchange";
    [Queues]
    GET "/queues" Management read(list) queues::list, "Queues";
    GET "/queues/detailed" Management read(list) queues::list_detailed, "Queues with all details";
    GET "/queues/{vhost}" Vhost read(list) queues::list, "Queues of a virtual host";
    GET "/queues/{vhost}/{name}" Vhost read(object) queues::get, "One queue";
    PUT "/queues/{vhost}/{name}" Vhost change queues::declare if queues::check, "Declare a queue";
    DELETE "/queues/{vhost}/{name}" Vhost change(long) queues::delete if queues::check, "Delete a queue; `if-empty`, `if-unused`, `dry_run`, `expected`";
    GET "/queues/{vhost}/{name}/bindings" Vhost read bindings::of_queue, "Bindings to a queue";
    DELETE "/queues/{vhost}/{name}/contents" Vhost change(long) queues::purge, "Purge a queue; `dry_run`, `expected`";
    POST "/queues/{vhost}/{name}/import" Vhost upload import::to_queue, "Publish messages in NDJSON to a queue";
    POST "/queues/{vhost}/{name}/get" Vhost quiet(long) messages::get, "Fetch messages of a queue";
    POST "/queues/{vhost}/{name}/browse" Vhost read browse::page, "Browse messages without consuming them; `from`, `limit`, `which`, `headers_only`, `payload_bytes`, `filter`";
    GET "/queues/{vhost}/{name}/search" Vhost read(job) search::stream, "Search messages, as events; `scan_max`, `timeout_ms`, and the fields of browsing";
    POST "/queues/{vhost}/{name}/search" Vhost read(job) search::stream, "The same, with a body";
    GET "/queues/{vhost}/{name}/tail" Vhost read(job) tail::of_queue, "Follow the messages that arrive in a queue, as events; `filter`, `limit`, `headers_only`, `payload_bytes`";
    GET "/queues/{vhost}/{name}/export" Vhost read(job) search::export, "Export messages as NDJSON; `which`, `filter`, `limit`";
    POST "/queues/{vhost}/{name}/redrive" Vhost change(job) redrive::begin, "Move messages, in a job: `select`, `to`, `limit`, `rate`, `clear_deaths`, `dry_run`";
    POST "/queues/{vhost}/{name}/remove" Vhost change(job) remove::messages, "Remove messages: `select`, `limit`, `dry_run`, `expected`";
    POST "/queues/{vhost}/{name}/export" Vhost read(job) search::export, "The same, with a body";
    POST "/queues/{vhost}/{name}/actions" Administrator change queues::act, "actions on a queue";
    POST "/queues/quorum/{vhost}/{name}/replicas/add" Administrator ask(members) quorum::add_member, "Add a member";
    DELETE "/queues/quorum/{vhost}/{name}/replicas/delete" Administrator ask(members) quorum::delete_member, "Delete a member";
    POST "/queues/quorum/replicas/on/{node}/grow" Administrator change(long, members) queues::grow, "Add members on a node";
    DELETE "/queues/quorum/replicas/on/{node}/shrink" Administrator ask(members) quorum::shrink, "Delete the members on a node";
    GET "/queues/quorum/{vhost}/{name}/status" Vhost read queues::quorum_status, "Members of a quorum queue";
    [Bulk]
    POST "/bulk/queues/{vhost}/{action}" Vhost change(sliced) bulk::queues, "Purge (`purge`) or delete (`delete`) the queues that match; without `expected`, list them; `pattern`, `type`, `if_empty`, `if_unused`";
    POST "/bulk/connections" Management change(sliced) bulk::connections, "Close the connections that match; without `expected`, list them; `pattern`, `by`, `explanation`";
    [Jobs]
    GET "/jobs" Management read jobs::list, "Background jobs, newest first";
    GET "/jobs/{id}" Management read jobs::get, "One job with its state and progress";
    PUT "/jobs/{id}" Management quiet jobs::steer, "Pause or resume a job: `state`";
    DELETE "/jobs/{id}" Management quiet jobs::cancel, "Cancel a job, without reverting its finished part";
    [Undo]
    GET "/undo" Management read undo::list, "Purges, deletions and removals that can be undone, newest first";
    GET "/undo/{id}" Management read undo::get, "One of them";
    POST "/undo/{id}" Management change(job) undo::bring_back, "Undo it, in a job";
    DELETE "/undo/{id}" Management change(long) undo::forget, "Delete its undo data";
    [Bindings]
    GET "/bindings" Management read bindings::list, "Bindings";
    GET "/bindings/{vhost}" Vhost read bindings::list, "Bindings of a virtual host";
    GET "/bindings/{vhost}/e/{source}/{kind}/{destination}" Vhost read bindings::between, "Bindings between two";
    POST "/bindings/{vhost}/e/{source}/{kind}/{destination}" Vhost change bindings::add, "Create a binding; `Location` names it";
    GET "/bindings/{vhost}/e/{source}/{kind}/{destination}/{props}" Vhost read bindings::get, "One binding";
    DELETE "/bindings/{vhost}/e/{source}/{kind}/{destination}/{props}" Vhost change bindings::delete, "Delete a binding";
    [Vhosts]
    GET "/vhosts" Management read vhosts::list, "Virtual hosts";
    GET "/vhosts/{vhost}" Vhost read vhosts::get, "One virtual host";
    PUT "/vhosts/{vhost}" Administrator change(long) vhosts::put if vhosts::protection, "Create or change a virtual host";
    DELETE "/vhosts/{vhost}" Administrator define(long) definitions::delete_vhost if vhosts::protection, "Delete a virtual host";
    GET "/vhosts/{vhost}/deletion/protection" Administrator read vhosts::protection, "Deletion protection of a virtual host";
    POST "/vhosts/{vhost}/deletion/protection" Administrator define definitions::protect_vhost, "Enable deletion protection";
    DELETE "/vhosts/{vhost}/deletion/protection" Administrator define definitions::unprotect_vhost if vhosts::protection, "Disable deletion protection";
    POST "/vhosts/{vhost}/start/{node}" Administrator ask operations::restart_vhost, "Start a virtual host";
    [Access]
    GET "/vhosts/{vhost}/permissions" Administrator read access::list_permissions, "Permissions in a virtual host";
    GET "/vhosts/{vhost}/topic-permissions" Administrator read access::list_topic_permissions, "Topic permissions in a virtual host";
    POST "/users/bulk-delete" Administrator define(long) definitions::delete_users, "Delete users";
    GET "/users/without-permissions" Administrator read access::without_permissions, "Users without any permission";
    GET "/users" Administrator read access::list, "Users";
    GET "/users/{user}" Administrator read access::get, "One user";
    PUT "/users/{user}" Administrator define definitions::put_user if access::get, "Create or change a user";
    DELETE "/users/{user}" Administrator define definitions::delete_user if access::get, "Delete a user";
    GET "/users/{user}/permissions" Administrator read access::list_permissions, "Permissions of a user";
    GET "/users/{user}/topic-permissions" Administrator read access::list_topic_permissions, "Topic permissions of a user";
    GET "/users/{user}/queues" Administrator read access::user_queues, "Queues a user may read";
    GET "/permissions" Administrator read access::list_permissions, "Permissions";
    GET "/permissions/{vhost}/{user}" Administrator read access::get_permissions, "Permissions of a user in a virtual host";
    PUT "/permissions/{vhost}/{user}" Administrator define definitions::set_permissions if access::get_permissions, "Set permissions";
    DELETE "/permissions/{vhost}/{user}" Administrator define definitions::clear_permissions if access::get_permissions, "Clear permissions";
    GET "/topic-permissions" Administrator read access::list_topic_permissions, "Topic permissions";
    GET "/topic-permissions/{vhost}/{user}" Administrator read access::list_topic_permissions, "Topic permissions of a user in a virtual host";
    PUT "/topic-permissions/{vhost}/{user}" Administrator define definitions::set_topic_permissions if access::check_topic_permissions, "Set topic permissions";
    DELETE "/topic-permissions/{vhost}/{user}" Administrator define definitions::clear_topic_permissions if access::check_topic_permissions, "Clear topic permissions";
    GET "/topic-permissions/{vhost}/{user}/{exchange}" Administrator read access::list_topic_permissions, "Topic permissions at an exchange";
    PUT "/topic-permissions/{vhost}/{user}/{exchange}" Administrator define definitions::set_topic_permissions if access::check_topic_permissions, "Set topic permissions at an exchange";
    DELETE "/topic-permissions/{vhost}/{user}/{exchange}" Administrator define definitions::clear_topic_permissions if access::check_topic_permissions, "Clear topic permissions at an exchange";
    [Health]
    GET "/aliveness-test/{vhost}" Vhost check node::aliveness, "whether a virtual host is there";
    GET "/healthchecks/node" Management check health::alarms, "alarms";
    GET "/healthchecks/node/{node}" Management check health::alarms, "alarms";
    GET "/health/checks/alarms" Management check health::alarms, "Fails while there is an alarm";
    GET "/health/checks/local-alarms" Management check health::alarms, "Fails while there is an alarm on this node";
    GET "/health/checks/metadata-store/initialized" Management check health::passes, "Definitions are there";
    GET "/health/checks/metadata-store/initialized/with-data" Management check health::passes, "Definitions are there";
    GET "/health/checks/certificate-expiration/{within}/{unit}" Management check health::certificates, "Fails if a certificate expires soon";
    GET "/health/checks/port-listener/{port}" Management check health::port_listener, "Health check: a listener on a port";
    GET "/health/checks/protocol-listener/{protocols}" Management check health::protocol_listener, "Health check: a listener for a protocol";
    GET "/health/checks/virtual-hosts" Management check health::passes, "Health check: virtual hosts are running";
    GET "/health/checks/quorum-queues-without-elected-leaders/all-vhosts" Management check health::without_leaders, "Health check: quorum queues have leaders";
    GET "/health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}" Management check health::without_leaders, "Health check: quorum queues have leaders";
    GET "/health/checks/quorum-queues-without-elected-leaders/all-vhosts/pattern/{pattern}" Management check health::without_leaders, "Health check: quorum queues have leaders";
    GET "/health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}/pattern/{pattern}" Management check health::without_leaders, "Health check: quorum queues have leaders";
    GET "/health/checks/node-is-quorum-critical" Management check health::quorum_critical, "Health check: definitions and queues keep their quorum without this node";
    GET "/health/checks/is-in-service" Nothing check health::in_service, "Health check: the node is in service, not in maintenance mode";
    GET "/health/checks/below-node-connection-limit" Nothing check health::below_connection_limit, "Health check: below the connection limit";
    GET "/health/checks/ready-to-serve-clients" Nothing check health::ready_to_serve, "Health check: the node is ready to serve clients";
    GET "/health/checks/reached-target-cluster-size" Nothing check health::passes, "Health check: all cluster nodes are running";
    [Federation]
    GET "/federation-links" Monitoring read node::empty, "Empty list: federation is not supported yet";
    GET "/federation-links/state/down" Monitoring read node::empty, "Empty list: federation is not supported yet";
    GET "/federation-links/{vhost}" Monitoring read node::empty_in_vhost, "None";
    GET "/federation-links/{vhost}/state/down" Monitoring read node::empty_in_vhost, "None";
    DELETE "/federation-links/vhost/{vhost}/{id}/{node}/restart" Monitoring change node::none_to_change, "None to restart";
    [Shovels]
    GET "/shovels" Monitoring read node::empty, "Empty list: shovels are not supported yet";
    GET "/shovels/{vhost}" Monitoring read node::empty_in_vhost, "None";
    GET "/shovels/vhost/{vhost}/{name}" Monitoring read node::none, "None";
    DELETE "/shovels/vhost/{vhost}/{name}" Monitoring change node::none_to_change, "None to delete";
    DELETE "/shovels/vhost/{vhost}/{name}/restart" Monitoring change node::none_to_change, "None to restart";
    [Streams]
    GET "/stream/connections" Management read(list) clients::list_of_streams, "Connections of the stream protocol";
    GET "/stream/connections/{vhost}" Vhost read(list) clients::list_of_streams, "Stream connections of a virtual host";
    GET "/stream/connections/{vhost}/{name}" Vhost read(object) clients::get, "One stream connection";
    DELETE "/stream/connections/{vhost}/{name}" Vhost change(long) clients::close, "Close a stream connection";
    GET "/stream/connections/{vhost}/{name}/publishers" Vhost read(object) streams::publishers, "Publishers of a connection";
    GET "/stream/connections/{vhost}/{name}/consumers" Vhost read(object) streams::consumers, "Consumers of a connection";
    PUT "/stream/super-streams/{vhost}/{name}" KnownVhost change(long) streams::put_super_stream, "Create a super stream";
    GET "/stream/consumers" Management read(list) streams::consumers, "Consumers of streams";
    GET "/stream/consumers/{vhost}" Vhost read(list) streams::consumers, "Consumers of the streams of a virtual host";
    GET "/stream/publishers" Management read(list) streams::publishers, "Publishers of streams";
    GET "/stream/publishers/{vhost}" Vhost read(list) streams::publishers, "Publishers of the streams of a virtual host";
    GET "/stream/publishers/{vhost}/{queue}" Vhost read(list) streams::publishers, "Publishers of a stream";
    GET "/stream/{vhost}/{name}/tracking" Vhost read streams::tracking, "Stored offsets and publisher sequences of a stream";
    [Top]
    GET "/top/{node}" Administrator read node::empty, "Erlang processes; there are none";
    GET "/top/ets/{node}" Administrator read node::empty, "Erlang processes; there are none";
    GET "/process/{pid}" Administrator read node::none, "an Erlang process";
    [Tracing]
    GET "/traces" Administrator read traces::list, "Traces to files";
    GET "/traces/node/{node}" Administrator read traces::list, "Traces to files";
    GET "/traces/{vhost}" Administrator read traces::list, "Traces of a virtual host";
    GET "/traces/node/{node}/{vhost}" Administrator read traces::list, "Traces of a virtual host";
    GET "/trace-files" Administrator read traces::list_files, "Trace files";
    GET "/trace-files/node/{node}" Administrator read traces::list_files, "Trace files";
    GET "/traces/{vhost}/{name}" Administrator read traces::get, "One trace";
    PUT "/traces/{vhost}/{name}" Administrator change traces::start, "Start a trace; `format` (`json` or `text`), `pattern`, `max_payload_bytes`, `tracer_connection_username`, `tracer_connection_password`";
    DELETE "/traces/{vhost}/{name}" Administrator change traces::stop, "Stop a trace; its file is kept";
    GET "/traces/node/{node}/{vhost}/{name}" Administrator read traces::get, "One trace";
    PUT "/traces/node/{node}/{vhost}/{name}" Administrator change traces::start, "Start a trace";
    DELETE "/traces/node/{node}/{vhost}/{name}" Administrator change traces::stop, "Stop a trace; its file is kept";
    GET "/trace-files/{name}" Administrator read traces::get_file, "Contents of a trace file";
    DELETE "/trace-files/{name}" Administrator change traces::delete_file, "Delete a trace file";
    GET "/trace-files/node/{node}/{name}" Administrator read traces::get_file, "Contents of a trace file";
    DELETE "/trace-files/node/{node}/{name}" Administrator change traces::delete_file, "Delete a trace file";
    [Explain]
    GET "/explain/queue/{vhost}/{name}" Vhost read explain::queue, "Effective settings of a queue and their origins; policies that match, and why";
    POST "/explain/policy/{vhost}/{name}" Policymaker read explain::policy, "Preview the changes of a policy, without setting it";
    POST "/explain/operator-policy/{vhost}/{name}" Administrator read explain::operator_policy, "Preview the changes of an operator policy, without setting it";
    POST "/explain/publish/{vhost}/{name}" Vhost read explain::publish, "Preview the routing of a message, without publishing it; `routing_key`, `properties`, `user`, `sections` of AMQP 1.0";
    GET "/explain/why/{vhost}/{name}" Vhost read why::queue, "Why messages wait in a queue";
    POST "/explain/definitions" Administrator read(document) definitions::explain, "Preview an import of definitions";
    POST "/explain/definitions/{vhost}" Administrator read(document) definitions::explain, "Preview an import of definitions into a virtual host";
    GET "/explain/permission/{vhost}/{user}" Administrator read explain::permission, "Explain a permission of a user; `kind`, `name`, `operation`, `routing_key`";
    [Leveret]
    GET "/leveret/policies/{vhost}/matching/{name}" Administrator read policies::matching, "Policies that match a queue, or with `object_type` an exchange";
    GET "/leveret/parameters/{vhost}" Administrator read policies::list_parameters, "Parameters of a virtual host";
    POST "/leveret/users/{user}" Administrator define definitions::add_user, "Create a user, unless it exists; `password`, `pre_hashed_password`";
    PUT "/leveret/users/{user}/password" Administrator define definitions::change_password, "Set a password; `pre_hashed_password`";
    DELETE "/leveret/users/{user}/password" Administrator define definitions::clear_password, "Remove a password";
    PUT "/leveret/users/{user}/tags" Administrator define definitions::set_user_tags, "Replace tags";
    PUT "/leveret/users/{user}/limits" Administrator define definitions::set_user_limits, "Set limits; `definition`";
    PUT "/leveret/users/{user}/permissions" Administrator define(long) definitions::set_permissions_globally, "Set permissions in all virtual hosts";
    POST "/leveret/users/{user}/authentication" Administrator quiet access::authenticate, "Check a password";
    POST "/leveret/vhosts/{vhost}" Administrator define definitions::add_vhost, "Create a virtual host, unless it exists";
    PUT "/leveret/vhosts/{vhost}/metadata" Administrator define definitions::update_vhost, "Change a virtual host's metadata";
    PUT "/leveret/vhosts/{vhost}/limits" Administrator define definitions::set_vhost_limits, "Set limits; `definition`";
    DELETE "/leveret/vhosts/{vhost}/limits" Administrator define definitions::clear_vhost_limits, "Remove all limits";
    PUT "/leveret/vhosts/{vhost}/tracing" Administrator ask operations::trace_on, "Enable tracing in a virtual host, of all or of `user`";
    DELETE "/leveret/vhosts/{vhost}/tracing" Administrator ask operations::trace_off, "Disable tracing in a virtual host";
    DELETE "/leveret/connections" Administrator ask operations::close_connections, "Close the connections of `vhost`, or all, at most `limit`; `explanation`";
    PUT "/leveret/queues/{vhost}/{name}/leader/{node}" Administrator ask quorum::transfer_leadership, "Transfer a quorum queue's leadership";
    POST "/leveret/queues/{vhost}/{name}/checkpoint" Administrator ask quorum::reclaim_memory, "Take a snapshot of a quorum queue";
    GET "/leveret/queues/{vhost}/{name}/messages/{position}" Administrator later quorum::peek, "The message at a position of a quorum queue";
    POST "/leveret/queues/checkpoint" Administrator ask quorum::force_checkpoint, "Take checkpoints of matching quorum queues";
    POST "/leveret/queues/growth" Administrator ask quorum::grow_to_count, "Add members to matching quorum queues";
    GET "/leveret/exchanges/{vhost}/{exchange}/delayed" Administrator later delayed::list, "Delayed messages of an exchange; `limit`";
    PUT "/leveret/exchanges/{vhost}/{exchange}/delayed" Administrator later(job) delayed::reschedule, "Reschedule delayed messages that match `filter`: `delay_ms` from now, or now";
    PUT "/leveret/exchanges/{vhost}/{exchange}/delayed/{id}" Administrator later(long) delayed::reschedule, "Reschedule a delayed message: `delay_ms` from now, or now";
    DELETE "/leveret/exchanges/{vhost}/{exchange}/delayed/{id}" Administrator later delayed::cancel, "Discard a delayed message";
    PUT "/leveret/queues/{vhost}/{queue}/delayed" Administrator later(job) delayed::reschedule, "Reschedule retries of a quorum queue that match `filter`: `delay_ms` from now, or now";
    PUT "/leveret/queues/{vhost}/{queue}/delayed/{id}" Administrator later(long) delayed::reschedule, "Reschedule the retry at a position: `delay_ms` from now, or now";
    GET "/leveret/stream-coordinator" Administrator ask streams::coordinator, "Status of the stream coordinator";
    GET "/leveret/stream-groups/{vhost}" Administrator ask streams::groups, "Single active consumer groups of streams";
    GET "/leveret/streams/{vhost}/{stream}/groups/{reference}" Administrator ask streams::group_consumers, "Consumers of a single active consumer group";
    POST "/leveret/streams/{vhost}/{stream}/groups/{reference}" Administrator ask streams::activate_consumer, "Elect a group's active consumer again";
    DELETE "/leveret/streams/{vhost}/{stream}/offsets/{reference}" Administrator ask streams::reset_offset, "Reset a stored offset";
    GET "/leveret/streams/{vhost}/{name}" Administrator ask streams::status, "Status of a stream";
    GET "/leveret/streams/{vhost}/{name}/tracking" Administrator ask streams::tracking, "Stored offsets and publisher sequences of a stream";
    GET "/leveret/streams/{vhost}/{name}/messages" Administrator later tail::messages, "Messages of a stream; `offset` or `next`, `count`, `id`";
    POST "/leveret/streams/{vhost}/{name}/restart" Administrator ask streams::restart, "Restart a stream; its clients reconnect";
    POST "/leveret/streams/{vhost}/{name}/accept-loss" Administrator later(long) streams::accept_loss, "Accept a stream's data loss and open it";
    POST "/leveret/streams/{vhost}/{name}/scrub" Administrator later(job) streams::scrub, "Verify a stream's checksums";
    POST "/leveret/streams/{vhost}/{name}/replicas/{node}" Administrator ask streams::add_replica, "Add a member";
    DELETE "/leveret/streams/{vhost}/{name}/replicas/{node}" Administrator ask streams::delete_replica, "Delete a member";
    DELETE "/leveret/super-streams/{vhost}/{name}" Administrator later(long) streams::delete_super_stream, "Delete a super stream";
    POST "/leveret/samples" Administrator quiet(long) node::sample, "Sample the statistics now";
    GET "/leveret/state" Administrator ask node::state, "Whether the node has started";
    GET "/leveret/status" Administrator ask node::status, "Status of the node";
    GET "/leveret/cluster" Administrator ask node::cluster_status, "Status of the cluster";
    GET "/leveret/cluster/members" Administrator ask node::members, "Members of the cluster";
    GET "/leveret/cluster/formation" Administrator ask node::formation, "Size of the cluster and discovered peers";
    GET "/leveret/environment" Administrator ask node::environment, "Effective configuration";
    GET "/leveret/os-env" Administrator ask node::os_env, "The node's environment variables";
    GET "/leveret/metadata-store" Administrator ask node::metadata_store, "Status of the metadata store";
    GET "/leveret/alarms" Administrator ask node::list_alarms, "Active alarms, with the largest users";
    GET "/leveret/listeners" Administrator ask node::listeners, "Listeners";
    PUT "/leveret/cluster/{member}" Administrator later(job) operations::join_cluster, "Join the cluster of a node, and start again without what this node had; `force` although durable queues hold messages";
    DELETE "/leveret/cluster" Administrator later(job) operations::reset, "Leave the cluster, and start again without what this node had; `force` tells the others nothing";
    POST "/leveret/cluster/force-boot" Administrator ask operations::discard_others, "Start again as the only member of a cluster whose other members are lost";
    DELETE "/leveret/cluster/{member}" Administrator later(job) operations::forget_node, "Remove another node from the cluster";
    DELETE "/leveret/listeners" Administrator ask operations::suspend_listeners, "Suspend client listeners";
    POST "/leveret/listeners" Administrator ask operations::resume_listeners, "Resume client listeners";
    PUT "/leveret/maintenance" Administrator ask operations::drain, "Start maintenance mode";
    DELETE "/leveret/maintenance" Administrator ask operations::revive, "End maintenance mode";
    PUT "/leveret/limits/memory" Administrator ask resource_limits::set_memory_high, "Set the memory limit above which publishers are blocked: `bytes` or `of_memory`";
    PUT "/leveret/limits/disk" Administrator ask resource_limits::set_disk_free, "Set the free disk space below which publishers are blocked";
    GET "/leveret/events" Administrator ask events::events, "The last events; `count`, `after`, `before`, `name` as the key of a topic binding, `text` in the headers";
    GET "/leveret/log" Administrator ask logs::lines, "The last lines of the log; `lines`, `after`, `before`, `level`, `text`";
    PUT "/leveret/log/level/{level}" Administrator ask logs::set_level, "Set the log level";
    POST "/leveret/log/rotation" Administrator ask logs::reopen, "Reopen the log file";
    POST "/leveret/stop" Administrator ask operations::stop, "Stop the node";
    GET "/leveret/tls/certificates" Administrator ask certificates::list, "Certificates in use";
    POST "/leveret/tls/certificates" Administrator ask certificates::reload, "Reload certificates";
    GET "/leveret/tls/failures" Administrator ask certificates::list_failures, "Failed TLS handshakes by reason";
    GET "/leveret/tls/cipher-suites" Administrator ask certificates::cipher_suites, "Cipher suites";
    GET "/leveret/tls/versions" Administrator ask certificates::versions, "TLS versions";
}

#[cfg(test)]
mod tests;
