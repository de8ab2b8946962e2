//! Performatives of SASL's layer (part 5, 5.3.3).

use crate::composite::{any_composite, composites, read_descriptor};
use crate::error::DecodeError;
use crate::field::{SaslCode, Symbol, Symbols};
use crate::frame::{FrameType, put_frame};
use crate::reader::ValueCursor;
use crate::value::DEPTH_MAX;

composites! { 'a;
    /// The server offers these mechanisms.
    SaslMechanisms<'a> 0x40 "amqp:sasl-mechanisms:list" { sasl_server_mechanisms: Symbols<'a>, }

    /// The client has chosen a mechanism.
    SaslInit<'a> 0x41 "amqp:sasl-init:list" {
        mechanism: Symbol<'a>,
        initial_response: Option<&'a [u8]>,
        hostname: Option<&'a str>,
    }

    /// The server asks for more.
    SaslChallenge<'a> 0x42 "amqp:sasl-challenge:list" { challenge: &'a [u8], }

    /// The client answers.
    SaslResponse<'a> 0x43 "amqp:sasl-response:list" { response: &'a [u8], }

    /// The outcome of the login.
    SaslOutcome<'a> 0x44 "amqp:sasl-outcome:list" {
        code: SaslCode,
        additional_data: Option<&'a [u8]>,
    }
}

any_composite! {
    /// The content of a frame of SASL's layer.
    SaslPerformative<'a> {
        /// The server's mechanisms.
        Mechanisms(SaslMechanisms<'a>),
        /// The client's choice.
        Init(SaslInit<'a>),
        /// The server's question.
        Challenge(SaslChallenge<'a>),
        /// The client's answer.
        Response(SaslResponse<'a>),
        /// The outcome.
        Outcome(SaslOutcome<'a>),
    }
}

impl<'a> SaslPerformative<'a> {
    /// The content of a frame's body. Nothing may follow it.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = ValueCursor(body);
        let descriptor = read_descriptor(&mut cursor)?;
        let performative = Self::read_of(descriptor, &mut cursor, DEPTH_MAX)
            .ok_or(DecodeError::UnknownPerformative)??;
        if cursor.is_empty() { Ok(performative) } else { Err(DecodeError::Count) }
    }

    /// Appends a frame with this content.
    pub fn encode_frame(&self, out: &mut Vec<u8>) {
        put_frame(out, FrameType::Sasl, 0, |out| self.encode(out));
    }
}
