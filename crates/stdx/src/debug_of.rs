//! The `Debug` of types of which not all can be shown, or none should be.

/// A type's `Debug` with some fields:
///
/// ```
/// struct Door { number: u32, #[expect(dead_code)] secret: u32 }
/// stdx::debug_of!(|it: Door| number = it.number);
/// assert_eq!(format!("{:?}", Door { number: 7, secret: 4 }), "Door { number: 7, .. }");
/// ```
#[macro_export]
macro_rules! debug_of {
    (|$it:ident: $type:ident| $($field:ident = $value:expr),*) => {
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let $it = self;
                f.debug_struct(stringify!($type))
                    $(.field(stringify!($field), &$value))*
                    .finish_non_exhaustive()
            }
        }
    };
}
