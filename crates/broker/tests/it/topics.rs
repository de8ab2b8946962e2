//! Topics: their exchange, the queues of subscriptions, and what becomes of both.

use crate::client::{Client, Kind, block_on, short, start};
use broker::Broker;
use meta::{Command, Name, VhostLimits};
use session::{
    Attachment, ChannelId, Control, LinkId, LinkOp, LinkSource, MethodTag, Op, RefusalScope,
    Request, Subscribe, Subscription, SubscriptionKind, Table, Topic, TopicOp,
};
use std::sync::Arc;
use testing::MemoryDisk;

const OWN: SubscriptionKind = SubscriptionKind::Own;
const DURABLE: SubscriptionKind = SubscriptionKind::Durable;
const SHARED: SubscriptionKind = SubscriptionKind::SharedDurable;

fn node() -> (Arc<Broker>, Client) {
    let broker = start(&Arc::new(MemoryDisk::new()));
    let client = Client::connect(&broker);
    (broker, client)
}

/// The answers to a request; a refusal is the request's alone.
fn ask(client: &mut Client, op: TopicOp) -> Vec<String> {
    let (channel, origin, refusal) = (ChannelId(1), MethodTag(7), RefusalScope::Request);
    let control = Control { channel, origin, nowait: false, refusal, op: Op::Topic(op) };
    let mut heard = client.submit(&[], vec![Request::Control(Box::new(control))]);
    // Topics and subscriptions that are told have names of their own.
    heard.retain(|line| !line.starts_with("Topic("));
    heard
}

fn consumer(tag: &str) -> Attachment {
    Attachment {
        queue: short(""),
        consumer_tag: short(tag),
        no_ack: true,
        source: Some(LinkSource::default()),
        exclusive: false,
        arguments: Table::new(),
    }
}

/// A subscription to a topic, whose queue is named as its life is.
fn subscribe(topic: &str, kind: SubscriptionKind, selector: &str) -> TopicOp {
    let queue = (kind != OWN).then(|| short("jms.durable.c/s"));
    let selector = Some(selector.to_owned()).filter(|selector| !selector.is_empty());
    let subscription = Subscription { topic: short(topic), kind, selector, no_local: false };
    let consumer = consumer(if kind == OWN { "own" } else { "named" });
    TopicOp::Subscribe(Box::new(Subscribe { subscription, is_temporary: false, queue, consumer }))
}

fn unsubscribe(client: &mut Client, link: u64) {
    let queue = short("jms.durable.c/s");
    ask(client, TopicOp::Unsubscribe { link: LinkId(link), queue });
}

fn queues(broker: &Broker) -> Vec<String> {
    let view = broker.view();
    let all = view.meta.vhost("/").unwrap().queues();
    all.map(|queue| queue.name.as_str().split('-').next().unwrap().to_owned()).collect()
}

#[test]
fn a_subscription_of_its_own_goes_with_its_link() {
    let (broker, mut client) = node();
    assert_eq!(ask(&mut client, subscribe("news", OWN, "")), ["consuming"]);
    let link = client.last_link();
    client.flow(link, 0, 10, "");
    assert_eq!(client.publish_to("jms.topic", "news", &["a"], Kind::Transient), ["deliver a"]);
    assert_eq!(client.publish_to("jms.topic", "sport", &["b"], Kind::Transient), [""; 0]);
    assert_eq!(queues(&broker), ["jms.sub"]);
    let mut other = Client::connect(&broker);
    assert_eq!(ask(&mut other, subscribe("news", OWN, "n = 1")), ["consuming"]);
    client.ask(Op::Link(LinkOp::Detach(LinkId(link))));
    assert_eq!(queues(&broker), ["jms.sub"], "the other's");
}

#[test]
fn a_durable_subscription_stays_until_it_is_ended() {
    let (broker, mut client) = node();
    assert_eq!(ask(&mut client, subscribe("news", DURABLE, "")), ["consuming"]);
    let mut twin = Client::connect(&broker);
    let in_use = "refused ResourceLocked: queue 'jms.durable.c/s' in vhost '/' in exclusive use";
    assert_eq!(ask(&mut twin, subscribe("news", DURABLE, "")), [in_use]);
    let look_up =
        || TopicOp::LookUp { queue: short("jms.durable.c/s"), consumer: consumer("found") };
    assert_eq!(ask(&mut twin, look_up()), [in_use]);
    let other = "refused ResourceLocked: subscription 'jms.durable.c/s' is in use, with another topic \
                 or selector";
    assert_eq!(ask(&mut twin, subscribe("news", DURABLE, "n = 1")), [other]);
    let kind = "refused PreconditionFailed: subscription 'jms.durable.c/s' is not shared";
    assert_eq!(ask(&mut twin, subscribe("news", SHARED, "")), [kind]);
    client.disconnect();
    twin.publish_to("jms.topic", "news", &["a"], Kind::Persistent);
    assert_eq!(twin.ask_ready("jms.durable.c/s"), 1);
    // Another topic makes it another one.
    assert_eq!(ask(&mut twin, subscribe("sport", DURABLE, "")), ["consuming"]);
    let link = twin.last_link();
    assert_eq!(twin.ask_ready("jms.durable.c/s"), 0);
    twin.publish_to("jms.topic", "news", &["a"], Kind::Persistent);
    twin.publish_to("jms.topic", "sport", &["b"], Kind::Persistent);
    assert_eq!(twin.flow(link, 0, 10, ""), ["deliver b"]);
    unsubscribe(&mut twin, link);
    assert_eq!(queues(&broker), [""; 0]);
    let gone = "refused NotFound: no subscription 'jms.durable.c/s' in vhost '/'";
    assert_eq!(ask(&mut twin, look_up()), [gone]);
}

#[test]
fn a_shared_subscription_is_ended_by_the_last_of_its_consumers() {
    let (broker, mut client) = node();
    let mut other = Client::connect(&broker);
    for client in [&mut client, &mut other] {
        assert_eq!(ask(client, subscribe("work", SHARED, "n = 1")), ["consuming"]);
    }
    let link = client.last_link();
    unsubscribe(&mut client, link);
    assert_eq!(queues(&broker).len(), 1, "somebody consumes");
    let link = other.last_link();
    unsubscribe(&mut other, link);
    assert_eq!(queues(&broker), [""; 0]);
}

#[test]
fn a_topic_that_was_made_takes_its_subscriptions_along() {
    let (broker, mut client) = node();
    let mut other = Client::connect(&broker);
    let made = link_of(&ask(&mut client, TopicOp::Make));
    let name = broker.view().meta.vhost("/").unwrap().queues().next().unwrap().name.clone();
    // A topic needs no subscribers, only itself.
    assert_eq!(other.publish_to("jms.topic", &name, &["lost"], Kind::Mandatory), [""; 0]);
    let subscribe = || {
        let Topic { name, is_temporary } = topic(&name);
        let subscription = Subscription { topic: name, kind: OWN, selector: None, no_local: false };
        let (queue, consumer) = (None, consumer("own"));
        TopicOp::Subscribe(Box::new(Subscribe { subscription, is_temporary, queue, consumer }))
    };
    assert_eq!(ask(&mut client, subscribe()), ["consuming"]);
    let refused = ask(&mut other, subscribe());
    assert!(refused[0].starts_with("refused ResourceLocked"), "{refused:?}");
    let published = ask(&mut other, TopicOp::Publish(topic(&name)));
    assert!(published[0].starts_with("PublisherAttached"), "{published:?}");
    let link = client.last_link();
    client.flow(link, 0, 10, "");
    other.publish_to("jms.topic", &name, &["a"], Kind::Transient);
    assert_eq!(client.heard(), ["deliver a"]);
    // What stands for the topic keeps nothing.
    other.publish(&name, &["b"], Kind::Transient);
    let stands = broker.view().queue("/", &name).unwrap();
    assert_eq!(stands.local_stat().n_ready, 0);
    assert_eq!(client.ask(Op::Link(LinkOp::Detach(made))), ["consumer lost"]);
    assert_eq!(queues(&broker), [""; 0]);
    // Nobody is there for what an attached publisher sends.
    let returned = other.publish_to("jms.topic", &name, &["c"], Kind::Mandatory);
    assert_eq!(returned, ["returned c"]);
    let gone = ask(&mut other, TopicOp::Publish(topic(&name)));
    assert!(gone[0].starts_with("refused NotFound: no temporary topic"), "{gone:?}");
    // Another's queue is no topic.
    other.declare("q", true);
    let gone = ask(&mut client, TopicOp::Publish(topic("q")));
    assert!(gone[0].starts_with("refused NotFound: no temporary topic"), "{gone:?}");
}

/// The link of a publisher that is attached.
fn link_of(told: &[String]) -> LinkId {
    let number = told.last().unwrap().split("LinkId(").nth(1).unwrap();
    LinkId(number.split(')').next().unwrap().parse().unwrap())
}

#[test]
fn a_subscription_without_its_binding_is_bound_again() {
    // As a crash between both changes of definitions leaves it.
    let (_broker, mut client) = node();
    client.declare("jms.durable.c/s", true);
    ask(&mut client, TopicOp::MakeExchange);
    let look_up = TopicOp::LookUp { queue: short("jms.durable.c/s"), consumer: consumer("found") };
    let none = "refused NotFound: no subscription 'jms.durable.c/s' in vhost '/'";
    assert_eq!(ask(&mut client, look_up), [none]);
    assert_eq!(ask(&mut client, subscribe("news", DURABLE, "")), ["consuming"]);
    let link = client.last_link();
    client.flow(link, 0, 10, "");
    assert_eq!(client.publish_to("jms.topic", "news", &["a"], Kind::Transient), ["deliver a"]);
}

fn topic(name: &str) -> Topic {
    Topic { name: short(name), is_temporary: true }
}

#[test]
fn topics_need_the_rights_that_their_parts_do() {
    let (broker, mut client) = node();
    let refused = |configure: &str, write: &str, read: &str, op: TopicOp| {
        let (user, vhost) = (Name::from("guest"), Name::from("/"));
        let [configure, write, read] = [configure, write, read].map(str::to_owned);
        let command = Command::SetPermissions { user, vhost, configure, write, read };
        block_on(broker.apply_definition(command)).unwrap();
        let told = ask(&mut Client::connect(&broker), op);
        let left = queues(&broker);
        assert!(left.is_empty(), "{left:?}");
        told[0].clone()
    };
    let publish = || TopicOp::Publish(Topic { name: short("news"), is_temporary: false });
    let durable = || subscribe("news", DURABLE, "");
    let exchange = "exchange 'jms.topic' in vhost '/' refused for user 'guest'";
    let no = |what: &str| format!("refused AccessRefused: {what} access to {exchange}");
    assert_eq!(refused("^jms.durable", ".*", ".*", publish()), no("configure"));
    ask(&mut client, TopicOp::MakeExchange);
    assert!(broker.view().meta.exchange("/", "jms.topic").is_none(), "it may not");
    refused(".*", ".*", "", durable());
    assert!(broker.view().meta.exchange("/", "jms.topic").is_some());
    // It is there, and needs nobody who may make it.
    assert_eq!(refused("", "", ".*", publish()), no("write"));
    assert_eq!(refused(".*", ".*", "jms.durable", durable()), no("read"));
    let own = refused(".*", ".*", "jms.topic", subscribe("news", OWN, ""));
    assert!(own.starts_with("refused AccessRefused: read access to queue 'jms.sub-"), "{own}");
}

#[test]
fn a_subscription_that_is_refused_leaves_nothing() {
    let (broker, mut client) = node();
    for kind in [OWN, DURABLE] {
        let refused = ask(&mut client, subscribe("news", kind, "n ="));
        assert!(refused[0].starts_with("refused PreconditionFailed"), "{refused:?}");
        let dear = format!("n = 1{}", " OR n = 1".repeat(2_000));
        let refused = ask(&mut client, subscribe("news", kind, &dear));
        assert!(refused[0].starts_with("refused PreconditionFailed"), "{:?}", &refused[0][..40]);
        assert_eq!(queues(&broker), [""; 0]);
    }
    let limits = VhostLimits { max_queues: Some(0), ..VhostLimits::default() };
    let command = Command::SetVhostLimits { vhost: "/".into(), limits };
    block_on(broker.apply_definition(command)).unwrap();
    for op in [subscribe("news", OWN, ""), subscribe("news", SHARED, ""), TopicOp::Make] {
        let refused = ask(&mut client, op);
        assert!(refused[0].starts_with("refused QueueLimit"), "{refused:?}");
    }
    client.declare_exchange("other", "fanout", &[]);
    assert_eq!(queues(&broker), [""; 0]);
}

#[test]
fn an_exchange_of_another_type_is_not_taken_for_that_of_topics() {
    let (_broker, mut client) = node();
    client.declare_exchange("jms.topic", "topic", &[]);
    let refused = ask(&mut client, subscribe("news", OWN, ""));
    let text = "exchange 'jms.topic' in vhost '/' is not of type 'x-jms-topic'";
    assert_eq!(refused, [format!("refused PreconditionFailed: {text}")]);
}
