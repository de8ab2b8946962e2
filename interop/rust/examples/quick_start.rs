use futures_lite::StreamExt as _;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
    QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Connection, ConnectionProperties};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("AMQP_URL");
    let url = url.as_deref().unwrap_or("amqp://guest:guest@localhost:5672");
    let connection = Connection::connect(url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    channel.queue_declare("hello".into(), durable, FieldTable::default()).await?;

    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let persistent = BasicProperties::default().with_delivery_mode(2);
    let options = BasicPublishOptions::default();
    let confirm =
        channel.basic_publish("".into(), "hello".into(), options, b"Hello, hare!", persistent).await?;
    confirm.await?; // the broker has the message on disk

    channel.basic_qos(100, BasicQosOptions::default()).await?;
    let options = BasicConsumeOptions::default();
    let mut consumer =
        channel.basic_consume("hello".into(), "".into(), options, FieldTable::default()).await?;
    if let Some(delivery) = consumer.next().await.transpose()? {
        println!("{}", String::from_utf8_lossy(&delivery.data));
        delivery.ack(BasicAckOptions::default()).await?;
    }
    connection.close(200, "".into()).await?;
    Ok(())
}
