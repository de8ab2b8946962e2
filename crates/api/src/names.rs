//! Names that operators give things by.

stdx::named! {
    /// The units of a period of time, such as that in which certificates expire.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum PeriodUnit {
        /// Days.
        Days = "days",
        /// Weeks.
        Weeks = "weeks",
        /// Months. COMPAT: RabbitMQ's have 30 days.
        Months = "months",
        /// Years. COMPAT: RabbitMQ's have 365 days.
        Years = "years",
    }
}

impl PeriodUnit {
    /// The days of the unit.
    #[must_use]
    pub const fn days(self) -> u32 {
        match self {
            Self::Days => 1,
            Self::Weeks => 7,
            Self::Months => 30,
            Self::Years => 365,
        }
    }
}

/// The name that listeners have for a protocol, by any name that people give it.
#[must_use]
pub fn protocol_name(given: &str) -> String {
    let given = given.to_ascii_lowercase();
    let plain: String = given.chars().filter(char::is_ascii_alphanumeric).collect();
    let known = match plain.as_str() {
        "amqp" | "amqp091" | "amqp10" if !given.contains('/') => "amqp",
        "amqps" | "amqpssl" | "amqptls" | "amqp091ssl" => "amqp/ssl",
        "mqtt" | "mqtt31" | "mqtt311" | "mqtt5" | "mqtt50" => "mqtt",
        "mqtts" | "mqttssl" | "mqtttls" => "mqtt/ssl",
        "stomp" | "stomp10" | "stomp11" | "stomp12" => "stomp",
        "stomps" | "stompssl" | "stomptls" => "stomp/ssl",
        "http" | "http1" | "http11" | "httpapi" | "management" | "managementui" | "ui" => "http",
        _ => return given,
    };
    known.to_owned()
}
