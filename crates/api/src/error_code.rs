//! Codes of errors.

stdx::named! {
    /// The codes of errors that operators of this machine are told, which programs decide by.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ErrorCode {
        /// The request lacks something, or is not understood.
        BadRequest = "bad_request",
        /// The operator means a node of another name; the text is this node's.
        OtherNode = "other_node",
        /// A user of that name exists.
        UserExists = "user_exists",
        /// The user does not exist.
        NoSuchUser = "no_such_user",
        /// The virtual host does not exist.
        NoSuchVhost = "no_such_vhost",
        /// The virtual host is protected from deletion.
        VhostProtected = "vhost_protected",
        /// The queue or connection does not exist.
        NotFound = "not_found",
        /// The parameter, policy or limit does not exist.
        ParameterNotFound = "parameter_not_found",
        /// A queue has messages.
        NotEmpty = "not_empty",
        /// Something is in use.
        InUse = "in_use",
        /// A queue is exclusive to a connection.
        Locked = "locked",
        /// A value that this version does not offer.
        Unsupported = "unsupported",
        /// A limit allows no more of these objects.
        Limit = "limit",
        /// Name and password do not belong together.
        Refused = "refused",
        /// A login is refused whatever the password is.
        LoginRefused = "login_refused",
        /// A value that is not allowed.
        Invalid = "invalid",
        /// The queue, or the message at a position of it, that is looked at does not exist.
        TargetNotFound = "target_not_found",
        /// The member is a queue's last.
        LastMember = "invalid",
        /// The queue's type has no members.
        NotReplicated = "invalid",
        /// The node has members and does not run.
        NodeNotRunning = "invalid",
        /// The node that has a queue is down.
        HomeDown = "home_down",
        /// The request ended before its work was done: its client has disconnected, or the node is stopping.
        Ended = "ended",
        /// The fault is the node's.
        Internal = "internal_error",
    }
}
