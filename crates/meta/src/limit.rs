//! When a limit is reached, whoever set it.

/// The limit, if `n` is all it allows. COMPAT: a negative limit is none.
pub fn limit_reached<L>(limit: Option<L>, n: impl FnOnce() -> usize) -> Option<L>
where
    L: Copy + TryInto<usize>,
{
    let limit = limit?;
    let most = limit.try_into().ok()?;
    (n() >= most).then_some(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_reached_with_the_last_it_allows() {
        assert_eq!(limit_reached(Some(3_u64), || 3), Some(3));
        assert_eq!(limit_reached(Some(3_i64), || 2), None);
        assert_eq!(limit_reached(Some(0_i64), || 0), Some(0));
        assert_eq!(limit_reached(Some(-1_i64), || unreachable!("it is none")), None);
        assert_eq!(limit_reached(None::<u64>, || unreachable!("there is none")), None);
    }
}
