/// Names a consumer within one queue. Keys are used again after a consumer is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConsumerKey(pub u32);
